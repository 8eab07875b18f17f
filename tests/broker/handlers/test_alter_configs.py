"""IncrementalAlterConfigs and AlterConfigs: what changes, what is refused in Kafka's words, and what takes effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.protocol.config_codes import AlterOperation, ConfigResourceType, ConfigSource
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_configs import AlterableConfig as OldConfig
from kafkaraw.protocol.messages.alter_configs import AlterConfigsRequest
from kafkaraw.protocol.messages.alter_configs import AlterConfigsResource as OldResource
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.records import TopicPartition
from tests.broker.handlers.test_describe_configs import describe, entry
from tests.broker.support import ask, make_state

SET, DELETE, APPEND, SUBTRACT = AlterOperation
TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
LOGGER, METRICS, GROUP = ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP

Operation = tuple[str, int, str | None]
Outcome = tuple[int, str | None]


def state_with_topic(**properties: object) -> BrokerState:
    state = make_state(**properties)
    state.create_topic(Plan("t", ((0,), (0,)), {}))
    return state


def alter(state: BrokerState, kind: int, name: str, *operations: Operation, validate_only: bool = False) -> Outcome:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = ask(state, IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)).responses
    return answer.error_code, answer.error_message


def replace_all(state: BrokerState, kind: int, name: str, configs: dict[str, str | None]) -> Outcome:
    rows = [OldConfig(name=key, value=value) for key, value in configs.items()]
    resource = OldResource(resource_type=kind, resource_name=name, configs=rows)
    (answer,) = ask(state, AlterConfigsRequest(resources=[resource], validate_only=False)).responses
    return answer.error_code, answer.error_message


def test_a_topics_setting_takes_effect_and_is_kept_over_a_restart():
    storage = MemoryStorage()
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,),), {}))
    assert alter(state, TOPIC, "t", ("max.message.bytes", SET, "100"), ("segment.bytes", SET, "2097152")) == (0, None)
    partition = state.partition(TopicPartition("t", 0))
    assert partition is not None
    assert (partition.config.max_message_bytes, partition.log.settings.segment_bytes) == (100, 2097152)
    state.close()
    again = make_state(storage)
    assert entry(again, TOPIC, "t", "max.message.bytes").value == "100"


def test_a_deleted_setting_follows_the_broker_again():
    state = state_with_topic()
    alter(state, TOPIC, "t", ("retention.ms", SET, "5"))
    assert alter(state, TOPIC, "t", ("retention.ms", DELETE, None)) == (0, None)
    assert entry(state, TOPIC, "t", "retention.ms").config_source == ConfigSource.DEFAULT


def test_members_are_added_to_a_list_and_taken_from_it():
    state = state_with_topic()
    alter(state, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert entry(state, TOPIC, "t", "cleanup.policy").value == "delete,compact"
    alter(state, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert entry(state, TOPIC, "t", "cleanup.policy").value == "compact"


def test_validating_changes_nothing():
    state = state_with_topic()
    assert alter(state, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert entry(state, TOPIC, "t", "retention.ms").value == "604800000"


def test_one_wrong_setting_leaves_the_whole_resource_as_it_was():
    state = state_with_topic()
    code, _ = alter(state, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.bytes", SET, "1"))
    assert code == ErrorCode.INVALID_CONFIG
    assert entry(state, TOPIC, "t", "retention.ms").value == "604800000"


@pytest.mark.parametrize(
    ("kind", "name", "operations", "code", "message"),
    [
        (TOPIC, "t", [("nosuch", SET, "1")], 40, "Unknown topic config name: nosuch"),
        (TOPIC, "t", [("nosuch", DELETE, None)], 0, None),
        (TOPIC, "t", [("compression.type", APPEND, "gzip")], 40,
         "Can't APPEND to key compression.type because its type is not LIST."),
        (TOPIC, "t", [("retention.ms", SET, None), ("flush.ms", SET, None)], 42,
         "Null value not supported for : retention.ms, flush.ms"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42,
         "Error due to duplicate config keys"),
        (TOPIC, "t", [("retention.ms", 9, "1")], -1, None),
        (TOPIC, "nope", [("retention.ms", SET, "1")], 3, "The topic 'nope' does not exist."),
        (TOPIC, "nope", [("retention.ms", SET, "x")], 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (TOPIC, "", [("retention.ms", SET, "1")], 42, "Default topic resources are not allowed."),
        (TOPIC, "t", [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")], 40,
         "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)"),
        (BROKER, "0", [("log.retention.ms", SET, "x")], 42,
         "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        (BROKER, "0", [("num.partitions", SET, "2")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "0", [("nosuch", APPEND, "1")], 40, "Unknown config name: nosuch"),
        (BROKER, "0", [("log.cleaner.threads", APPEND, "1")], 40,
         "Config value append is not allowed for config key: log.cleaner.threads"),
        (BROKER, "0", [("ssl.keystore.location", SET, "/x")], 42,
         "These security configs can be dynamically updated only per-listener using the listener prefix: "
         "[ssl.keystore.location]"),
        (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], 42,
         "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"),
        (BROKER, "0", [("log.cleaner.threads", SET, "x")], 42,
         "Invalid value x for configuration log.cleaner.threads: Not a number of type INT"),
        (BROKER, "0", [("log.retention.ms", 9, "1")], 42, "Unknown operations type 9"),
        (BROKER, "9", [("log.retention.ms", SET, "1")], 42, "Unexpected broker id, expected 0, but received 9"),
        (BROKER, "x", [("log.retention.ms", SET, "1")], 42, "Node id must be an integer, but it is: x"),
        (LOGGER, "0", [("nosuch", SET, "INFO")], 40, "Logger nosuch does not exist!"),
        (LOGGER, "0", [("root", SET, "LOUD")], 40,
         "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, "
         "ERROR, FATAL, INFO, TRACE, WARN"),
        (LOGGER, "0", [("root", DELETE, None)], 42, "Removing the log level of the root logger is not allowed"),
        (LOGGER, "0", [("root", APPEND, "INFO")], 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "9", [("root", SET, "INFO")], 42, "Unexpected node id. Expected 0, but received 9"),
        (METRICS, "m", [("interval.ms", SET, "1")], 42,
         "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        (METRICS, "m", [("match", SET, "client_id=a[")], 40, "Illegal client matching pattern: client_id=a["),
        (METRICS, "", [("interval.ms", SET, "1000")], 42, "Subscription name can't be empty"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], 40,
         "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "9000000")], 40,
         "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
        (GROUP, "g", [("nosuch", SET, "1")], 40, "Unknown group config name: nosuch"),
        (GROUP, "g", [("share.isolation.level", SET, "none")], 40,
         "Invalid value none for configuration share.isolation.level: String must be one of: read_committed, "
         "read_uncommitted"),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42, "Default group resources are not allowed."),
        (99, "z", [("a", SET, "1")], 42, "Unknown resource type 99"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_in_kafkas_words(
    kind: int, name: str, operations: list[Operation], code: int, message: str | None
):
    assert alter(state_with_topic(), kind, name, *operations) == (code, message)


def test_a_resource_named_twice_is_refused_both_times():
    state = state_with_topic()
    config = AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    twice = [AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])] * 2
    answer = ask(state, IncrementalAlterConfigsRequest(resources=twice, validate_only=False))
    assert [one.error_message for one in answer.responses] == ["Each resource must appear at most once."] * 2
    assert entry(state, TOPIC, "t", "retention.ms").value == "604800000"


def test_a_per_broker_config_overrides_the_cluster_default():
    state = state_with_topic()
    alter(state, BROKER, "", ("message.max.bytes", SET, "1000"))
    assert entry(state, TOPIC, "t", "max.message.bytes").value == "1000"
    alter(state, BROKER, "0", ("message.max.bytes", SET, "2000"))
    found = entry(state, BROKER, "0", "message.max.bytes")
    assert [(synonym.value, synonym.source) for synonym in found.synonyms] == [
        ("2000", ConfigSource.DYNAMIC_BROKER),
        ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("1048588", ConfigSource.DEFAULT),
    ]
    partition = state.partition(TopicPartition("t", 1))
    assert partition is not None and partition.config.max_message_bytes == 2000
    assert [config.value for config in describe(state, BROKER, "").configs] == ["1000"]


def test_what_was_set_for_brokers_groups_and_metrics_is_kept_over_a_restart():
    storage = MemoryStorage()
    state = make_state(storage)
    assert alter(state, BROKER, "0", ("max.connections", SET, "7")) == (0, None)
    assert alter(state, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == (0, None)
    assert alter(state, METRICS, "m", ("metrics", SET, "org."), ("match", SET, "client_id=a.*")) == (0, None)
    state.close()
    again = make_state(storage)
    assert again.config.connection_limits.total == 7
    assert entry(again, GROUP, "g", "consumer.session.timeout.ms").config_source == ConfigSource.GROUP
    assert entry(again, METRICS, "m", "match").value == "client_id=a.*"


@pytest.mark.parametrize("name", ["sasl.enabled.mechanisms", "listener.name.plaintext.ssl.keystore.location"])
def test_a_change_of_listeners_is_refused_rather_than_passed_over(name: str):
    code, message = alter(state_with_topic(), BROKER, "0", (name, SET, "PLAIN"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message == f"This broker cannot change its listeners while it runs: [{name}]"


def test_what_is_about_kerberos_is_kept_though_no_listener_has_it():
    state = state_with_topic()
    assert alter(state, BROKER, "0", ("sasl.kerberos.min.time.before.relogin", SET, "58000")) == (0, None)
    assert entry(state, BROKER, "0", "sasl.kerberos.min.time.before.relogin").value == "58000"


def test_a_setting_that_could_not_be_written_down_is_not_set(monkeypatch: pytest.MonkeyPatch):
    storage = MemoryStorage()
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,),), {}))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write_text", full)
    assert alter(state, TOPIC, "t", ("retention.ms", SET, "5"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(state, BROKER, "0", ("max.connections", SET, "5"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert entry(state, TOPIC, "t", "retention.ms").value == "604800000"
    assert state.config.connection_limits.total > 5


@pytest.fixture
def broker_logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("kafkaraw.broker")
    before = found.level
    yield found
    found.setLevel(before)


def test_the_level_of_a_logger_changes_and_goes_back(broker_logger: logging.Logger):
    state = state_with_topic()
    assert alter(state, LOGGER, "0", (broker_logger.name, SET, "ERROR"), validate_only=True) == (0, None)
    assert broker_logger.level == logging.NOTSET
    assert alter(state, LOGGER, "0", (broker_logger.name, SET, "ERROR")) == (0, None)
    assert broker_logger.level == logging.ERROR
    assert entry(state, LOGGER, "0", broker_logger.name).value == "ERROR"
    alter(state, LOGGER, "0", (broker_logger.name, DELETE, None))
    assert broker_logger.level == logging.NOTSET


def test_the_older_api_gives_exactly_the_settings_named():
    state = state_with_topic()
    alter(state, TOPIC, "t", ("retention.ms", SET, "5"), ("flush.messages", SET, "7"))
    assert replace_all(state, TOPIC, "t", {"retention.ms": "6"}) == (0, None)
    assert entry(state, TOPIC, "t", "retention.ms").value == "6"
    assert entry(state, TOPIC, "t", "flush.messages").config_source == ConfigSource.DEFAULT


@pytest.mark.parametrize(
    ("kind", "name", "configs", "outcome"),
    [
        (TOPIC, "t", {"retention.ms": None}, (42, "Null value not supported for : retention.ms")),
        (TOPIC, "nope", {"retention.ms": "1"}, (3, "The topic 'nope' does not exist.")),
        (BROKER, "0", {"num.partitions": "1"}, (42, "Cannot update these configs dynamically: [num.partitions]")),
        (LOGGER, "0", {"root": "INFO"}, (42, "Unknown resource type 8")),
    ],
)
def test_the_older_api_refuses_in_the_same_words(
    kind: int, name: str, configs: dict[str, str | None], outcome: Outcome
):
    assert replace_all(state_with_topic(), kind, name, configs) == outcome
