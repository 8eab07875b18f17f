"""The properties of the authorizer, with Kafka's names.

Source: org.apache.kafka.metadata.authorizer.StandardAuthorizer.configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import Setting, Value, flag, text
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

ACL_SETTINGS: Final = (
    Setting(
        "authorizer.class.name",
        "",
        "authorizer class; empty permits every operation",
        choices=("", STANDARD_AUTHORIZER),
    ),
    Setting("super.users", "", "principals that may do everything, such as User:ada;User:bob"),
    Setting("allow.everyone.if.no.acl.found", False, "permit an operation if no ACL exists for the resource"),
)


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The settings of the authorizer.

    Attributes:
        super_users: principals that may do everything.
        allow_everyone_if_no_acl_found: the decision for a resource without ACLs.
    """

    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool


def parse_access(values: Mapping[str, Value]) -> AccessSettings | None:
    """Check the properties; None when there is no authorizer.

    Raises:
        ConfigError: a super user is not TYPE:NAME, or a property is set that has no effect without an authorizer.
    """
    super_users = frozenset(name.strip() for name in text(values, "super.users").split(";") if name.strip())
    for name in super_users:
        if ":" not in name:
            raise ConfigError(f"super.users: {name!r} is not TYPE:NAME, such as User:{name}; separate several by ;")
    allow_everyone = flag(values, "allow.everyone.if.no.acl.found")
    if text(values, "authorizer.class.name"):
        return AccessSettings(super_users, allow_everyone)
    if super_users or allow_everyone:
        raise ConfigError(
            "super.users and allow.everyone.if.no.acl.found mean nothing without an authorizer: set "
            f"authorizer.class.name={STANDARD_AUTHORIZER}, or remove them"
        )
    return None
