"""The authorizer's properties are Kafka's, and none of them is passed over."""

from __future__ import annotations

import pytest

from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.errors import ConfigError


def test_there_is_no_authorizer_unless_it_is_asked_for():
    assert BrokerConfig.parse({}).access is None


def test_super_users_are_separated_by_semicolons():
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": " User:ada; User:CN=bob,O=x ;"}
    access = BrokerConfig.parse(properties).access
    assert access is not None
    assert access.super_users == {"User:ada", "User:CN=bob,O=x"}
    assert not access.allow_everyone_if_no_acl_found


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "must be one of:"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "ada"}, "'ada' is not TYPE:NAME"),
        ({"super.users": "User:ada"}, "mean nothing without an authorizer"),
        ({"allow.everyone.if.no.acl.found": "true"}, "mean nothing without an authorizer"),
    ],
)
def test_what_would_protect_less_than_it_seems_is_refused(properties, message):
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.parse(properties)
