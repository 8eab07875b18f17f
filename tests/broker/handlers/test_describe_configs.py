"""DescribeConfigs: every setting of a resource, its type, where its value comes from, what stands behind it."""

from __future__ import annotations

import pytest

from kafkaraw.broker.configs.kafka_configs import BROKER_CONFIGS
from kafkaraw.broker.configs.topic_config import TOPIC_SETTINGS
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.protocol.config_codes import ConfigResourceType, ConfigSource, ConfigType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.support import ask, make_state


def describe(
    state: BrokerState, kind: int, name: str, *keys: str, version: int | None = None, details: bool = True
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=details, include_documentation=details and version is None
    )
    (result,) = ask(state, request, version).results
    return result


def entry(state: BrokerState, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (found,) = describe(state, kind, name, key).configs
    return found


def layers(found: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]


TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def test_a_topic_has_every_setting_with_type_and_documentation():
    state = make_state()
    state.create_topic(Plan("t", ((0,),), {}))
    found = {config.name: config for config in describe(state, TOPIC, "t").configs}
    assert set(found) == set(TOPIC_SETTINGS)
    assert all(config.documentation and config.config_type for config in found.values())
    assert found["retention.ms"].config_type == ConfigType.LONG
    assert found["segment.bytes"].config_type == ConfigType.INT
    assert found["cleanup.policy"].config_type == ConfigType.LIST
    assert found["min.cleanable.dirty.ratio"].value == "0.5"


def test_a_topic_config_overrides_broker_config_and_default():
    state = make_state(message_max_bytes=5000)
    state.create_topic(Plan("t", ((0,),), {"max.message.bytes": "6000"}))
    state.create_topic(Plan("u", ((0,),), {}))
    own = entry(state, TOPIC, "t", "max.message.bytes")
    assert (own.value, own.config_source) == ("6000", ConfigSource.DYNAMIC_TOPIC)
    assert layers(own) == [
        ("max.message.bytes", "6000", ConfigSource.DYNAMIC_TOPIC),
        ("message.max.bytes", "5000", ConfigSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]
    other = entry(state, TOPIC, "u", "max.message.bytes")
    assert (other.value, other.config_source) == ("5000", ConfigSource.STATIC_BROKER)


def test_a_setting_that_follows_a_coarser_one_shows_the_value_in_force():
    state = make_state(log_retention_hours=2)
    state.create_topic(Plan("t", ((0,),), {}))
    found = entry(state, TOPIC, "t", "retention.ms")
    assert (found.value, found.config_source, layers(found)) == ("7200000", ConfigSource.DEFAULT, [])


def test_a_broker_has_every_configuration_of_kafka():
    state = make_state()
    found = {config.name: config for config in describe(state, BROKER, "0").configs}
    assert set(found) == set(BROKER_CONFIGS)
    assert all(config.documentation for config in found.values())
    assert found["num.partitions"].read_only and not found["log.retention.ms"].read_only
    assert found["node.id"].config_source == ConfigSource.STATIC_BROKER


def test_sensitive_and_unknown_values_are_never_returned():
    state = make_state(ssl_key_password="hush", super_users="User:ANONYMOUS", authorizer_class_name=AUTHORIZER)
    for key, kind in (("ssl.key.password", ConfigType.PASSWORD), ("super.users", ConfigType.UNKNOWN)):
        found = entry(state, BROKER, "0", key)
        assert (found.value, found.is_sensitive, found.config_type) == (None, True, kind)
        assert {value for _, value, _ in layers(found)} == {None}
    assert "hush" not in str(describe(state, BROKER, "0"))


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_a_group_follows_the_brokers_configuration():
    state = make_state()
    found = entry(state, ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms")
    assert (found.value, found.config_source) == ("45000", ConfigSource.DEFAULT)
    assert layers(found) == [("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT)]


def test_nothing_is_set_for_all_brokers_at_first_and_a_subscription_has_its_defaults():
    state = make_state()
    assert describe(state, BROKER, "").configs == []
    metrics = describe(state, ConfigResourceType.CLIENT_METRICS, "m").configs
    assert {config.name: config.value for config in metrics} == {"interval.ms": "300000", "match": "", "metrics": ""}


def test_loggers_have_the_level_in_force():
    found = describe(make_state(), ConfigResourceType.BROKER_LOGGER, "0")
    assert {config.config_source for config in found.configs} == {ConfigSource.DYNAMIC_BROKER_LOGGER}
    assert {"root", "kafkaraw.broker"} <= {config.name for config in found.configs}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_is_answered(version: int):
    state = make_state()
    state.create_topic(Plan("t", ((0,),), {"retention.ms": "5"}))
    found = describe(state, TOPIC, "t", "retention.ms", version=version)
    assert [(config.value, config.config_source) for config in found.configs] == [("5", ConfigSource.DYNAMIC_TOPIC)]


def test_synonyms_and_documentation_come_only_when_asked_for():
    (found,) = describe(make_state(), BROKER, "0", "num.partitions", details=False).configs
    assert (found.synonyms, found.documentation) == ([], None)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "7", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 or empty string, but received 7"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (8, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (8, "7", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 7"),
        (16, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (32, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_what_does_not_exist_is_said_as_kafka_says_it(kind: int, name: str, code: ErrorCode, message: str):
    found = describe(make_state(), kind, name)
    assert (found.error_code, found.error_message, found.configs) == (code, message, [])


def test_an_unknown_kind_of_resource_spoils_the_request():
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="0", configuration_keys=None) for kind in (4, 99)
    ]
    answer = ask(make_state(), DescribeConfigsRequest(resources=resources))
    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST] * 2
