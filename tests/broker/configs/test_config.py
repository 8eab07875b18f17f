"""Properties: Kafka's names, defaults and limits."""

from __future__ import annotations

import logging
import re

import pytest

from kafkaraw.broker.configs.config import BROKER_SETTINGS, BrokerConfig
from kafkaraw.broker.configs.group_settings import MigrationPolicy
from kafkaraw.broker.configs.kafka_properties import IGNORED, REFUSED
from kafkaraw.broker.configs.topic_config import BROKER_PROPERTY, TOPIC_SETTINGS, TopicConfig, check, not_acted_on
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.errors import ConfigError


def test_without_properties_everything_is_as_in_kafka_but_on_this_machine_only():
    config = BrokerConfig.parse()
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config.auto_create_topics_enable
    assert config.num_partitions == 1
    assert config.socket_request_max_bytes == 104_857_600
    assert config.logs.directories == ()
    assert (config.logs.retention_check_interval_ms, config.logs.initial_delay_ms) == (300_000, 30_000)
    assert config.topic_defaults["segment.bytes"] == 1_073_741_824


def test_values_may_be_text_or_of_their_type():
    for value in ("4", 4):
        assert BrokerConfig.parse({"num.partitions": value}).num_partitions == 4
    for value in ("false", False, "FALSE"):
        assert not BrokerConfig.parse({"auto.create.topics.enable": value}).auto_create_topics_enable


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num.partition", "num.partitions"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        ("message.max.byte", "message.max.bytes"),
        ("log.segment.byte", "log.segment.bytes"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str, nearest: str):
    with pytest.raises(ConfigError, match=f"unknown broker property '{name}'; did you mean '{nearest}'"):
        BrokerConfig.parse({name: "1"})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "1.5", "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.segment.bytes", 1000, "Value must be at least 1048576"),
        ("log.message.timestamp.type", "Whenever", "String must be one of: CreateTime, LogAppendTime"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("message.max.bytes", "2147483648", "Not a number of type INT"),
        ("log.cleanup.policy", "compact,shred", "String must be one of: compact, delete"),
        ("node.id", -5, "Value must be at least 0"),
        (
            "group.consumer.migration.policy",
            "both",
            r"String must be one of \(case insensitive\): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
        ),
    ],
)
def test_a_value_outside_its_limits_is_refused(name: str, value: str | int, wanted: str):
    with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {name}: {wanted}"):
        BrokerConfig.parse({name: value})


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"session.timeout.ms": 6_000},
         "session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"session.timeout.ms": 600_000},
         "session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({"max.session.timeout.ms": 10},
         "max.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"heartbeat.interval.ms": 1},
         "heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({"heartbeat.interval.ms": 16_000},
         "heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({"min.heartbeat.interval.ms": 16_000},
         "max.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({"session.timeout.ms": 5_000, "min.session.timeout.ms": 5_000},
         "heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"),
        ({"assignment.interval.ms": 15_001},
         "assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms"),
        ({"min.assignment.interval.ms": 2_000},
         "assignment.interval.ms must be greater than or equal to group.consumer.min.assignment.interval.ms"),
        ({"min.assignment.interval.ms": 20_000},
         "max.assignment.interval.ms must be greater than or equal to group.consumer.min.assignment.interval.ms"),
    ],
)  # fmt: skip
def test_settings_of_groups_that_contradict_each_other_are_refused(properties: dict[str, int], problem: str):
    with pytest.raises(ConfigError, match=re.escape(f"group.consumer.{problem}")):
        BrokerConfig.parse({f"group.consumer.{name}": value for name, value in properties.items()})


def test_a_migration_policy_may_be_written_in_capitals():
    policy = "group.consumer.migration.policy"
    assert BrokerConfig.parse({policy: "BiDirectional"}).groups.limits.migration is MigrationPolicy.BIDIRECTIONAL
    assert BrokerConfig.parse({policy: "UPGRADE"}).groups.limits.migration is MigrationPolicy.UPGRADE


def test_a_group_needs_an_assignor_and_each_counts_once():
    assignors = "group.consumer.assignors"
    assert BrokerConfig.parse({assignors: "range,uniform,range"}).groups.limits.assignors == ("range", "uniform")
    with pytest.raises(ConfigError, match=f"Configuration '{assignors}' must not be empty"):
        BrokerConfig.parse({assignors: ""})


def test_a_kafka_property_without_meaning_here_is_accepted_with_one_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "kafkaraw.broker"):
        BrokerConfig.parse({"num.network.threads": 3, "num.io.threads": 24, "process.roles": "broker,controller"})
    assert len(caplog.records) == 1
    assert "num.io.threads, num.network.threads, process.roles" in caplog.text


@pytest.mark.parametrize("name", ["principal.builder.class", "ssl.engine.factory.class", "sasl.login.class"])
def test_a_property_that_would_weaken_security_in_silence_is_refused(name: str):
    with pytest.raises(ConfigError, match="has none of that"):
        BrokerConfig.parse({name: "x"})


def test_no_name_is_in_two_tables():
    mine = {*BROKER_SETTINGS, *BROKER_PROPERTY.values()}
    assert not mine & IGNORED
    assert not mine & REFUSED
    assert not IGNORED & REFUSED
    assert len(mine | IGNORED | REFUSED) > 300


def test_an_alias_and_its_name_must_not_contradict_each_other():
    assert BrokerConfig.parse({"broker.id": 3}).node_id == 3
    assert BrokerConfig.parse({"broker.id": 3, "node.id": 3}).node_id == 3
    with pytest.raises(ConfigError, match="given twice"):
        BrokerConfig.parse({"broker.id": 3, "node.id": 4})


def test_topics_take_their_defaults_from_the_broker():
    config = BrokerConfig.parse({"message.max.bytes": 5000, "log.retention.hours": 2, "log.roll.ms": 77})
    assert config.topic_defaults["max.message.bytes"] == 5000
    assert config.topic_defaults["retention.ms"] == 2 * 3_600_000
    assert config.topic_defaults["segment.ms"] == 77
    effective = TopicConfig.of({"max.message.bytes": "6000"}, config.topic_defaults)
    assert effective.max_message_bytes == 6000


def test_the_finer_unit_of_a_property_wins():
    given = {"log.retention.ms": 5, "log.retention.minutes": 7, "log.retention.hours": 9}
    assert BrokerConfig.parse(given).topic_defaults["retention.ms"] == 5
    del given["log.retention.ms"]
    assert BrokerConfig.parse(given).topic_defaults["retention.ms"] == 7 * 60_000


def test_a_topic_setting_is_checked_by_name_and_value():
    check({"cleanup.policy": "compact,delete", "retention.ms": "-1", "min.cleanable.dirty.ratio": "0.3"})
    with pytest.raises(ConfigError, match=r"did you mean 'retention\.ms'"):
        check({"retention.m": "1"})
    with pytest.raises(ConfigError, match=r"cleanup\.policy"):
        check({"cleanup.policy": "shred"})
    with pytest.raises(ConfigError, match=r"min\.cleanable\.dirty\.ratio"):
        check({"min.cleanable.dirty.ratio": "1.5"})


def test_settings_without_effect_yet_are_named():
    own = {"local.retention.ms": "1", "max.message.bytes": "1000", "retention.ms": "1"}
    assert not_acted_on(own) == ["local.retention.ms"]


def test_settings_of_the_log_reach_the_topic():
    config = BrokerConfig.parse({"log.retention.minutes": 2, "log.retention.bytes": 77, "log.roll.hours": 3})
    effective = TopicConfig.of({"flush.ms": "50", "segment.jitter.ms": "99999999999"}, config.topic_defaults)
    assert (effective.retention_ms, effective.retention_bytes) == (120_000, 77)
    assert (effective.flush_ms, effective.segment_ms) == (50, 3 * 3_600_000)
    assert effective.segment_jitter_ms == effective.segment_ms, "LogConfig.randomSegmentJitter"
    assert effective.file_delete_delay_ms == 60_000


def test_a_topic_without_flush_ms_follows_the_flush_scheduler():
    assert BrokerConfig.parse({"log.flush.scheduler.interval.ms": 900}).topic_defaults["flush.ms"] == 900
    given = {"log.flush.scheduler.interval.ms": 900, "log.flush.interval.ms": 30}
    assert BrokerConfig.parse(given).topic_defaults["flush.ms"] == 30


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_a_retention_time_of_zero_is_refused_at_the_start(name: str):
    with pytest.raises(ConfigError, match=r"log\.retention\.ms must be unlimited \(-1\) or, equal or greater than 1"):
        BrokerConfig.parse({name: 0})


def test_a_negative_retention_time_in_hours_is_for_ever():
    assert BrokerConfig.parse({"log.retention.hours": -1}).topic_defaults["retention.ms"] == -1
    assert BrokerConfig.parse({"log.retention.minutes": -5}).topic_defaults["retention.ms"] == -1


def test_the_cleaner_needs_a_megabyte_per_thread():
    given = {"log.cleaner.dedupe.buffer.size": 2_097_152, "log.cleaner.threads": 2}
    with pytest.raises(ConfigError, match="at least 1MiB per cleaner thread"):
        BrokerConfig.parse(given)
    assert not BrokerConfig.parse({**given, "log.cleaner.enable": False}).logs.cleaner.is_enabled


@pytest.mark.parametrize(("threads", "is_enabled"), [(0, False), (1, True), (8, True)])
def test_without_cleaner_threads_nothing_is_compacted(threads: int, *, is_enabled: bool):
    assert BrokerConfig.parse({"log.cleaner.threads": threads}).logs.cleaner.is_enabled is is_enabled


def test_every_default_of_a_topic_passes_its_own_check():
    for setting in TOPIC_SETTINGS.values():
        assert setting.parse(setting.default) == setting.default


def test_the_level_is_that_of_the_codec_in_effect():
    defaults = BrokerConfig.parse().topic_defaults
    effective = TopicConfig.of({"compression.type": "zstd", "compression.zstd.level": "7"}, defaults)
    assert (effective.compression_type, effective.compression_level) == ("zstd", 7)
    for codec in ("gzip", "lz4", "zstd"):
        assert TopicConfig.of({"compression.type": codec}, defaults).compression_level is None, "as it always was"
    assert TopicConfig.of({"compression.type": "lz4", "compression.lz4.level": "10"}, defaults).compression_level == 10


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://127.0.0.1:0", Endpoint("PLAINTEXT", "127.0.0.1", 0)),
        ("plaintext://localhost:9092", Endpoint("PLAINTEXT", "localhost", 9092)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, endpoint: Endpoint):
    assert BrokerConfig.parse({"listeners": text}).listeners == (endpoint,)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:9092", "PLAINTEXT://host", "PLAINTEXT://host:70000", "PLAINTEXT://a b:1", ""]
)
def test_a_malformed_listener_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"listeners: .* is not NAME://host:port"):
        BrokerConfig.parse({"listeners": text})


def test_a_listener_with_a_protocol_that_is_missing_here_is_refused():
    with pytest.raises(ConfigError, match="has protocol TELNET; choose one of PLAINTEXT, SSL"):
        BrokerConfig.parse({"listeners": "IN://127.0.0.1:9093", "listener.security.protocol.map": "IN:TELNET"})


def test_listeners_may_have_names_of_their_own_and_be_advertised_elsewhere():
    config = BrokerConfig.parse(
        {
            "listeners": "IN://127.0.0.1:0,OUT://0.0.0.0:0",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
            "advertised.listeners": "OUT://broker.example:29092",
        }
    )
    assert [str(endpoint) for endpoint in config.advertised_listeners] == [
        "IN://127.0.0.1:0",
        "OUT://broker.example:29092",
    ]


def test_an_address_that_no_client_can_use_is_not_advertised():
    with pytest.raises(ConfigError, match=r"set advertised\.listeners to PLAINTEXT://<host>:<port>"):
        BrokerConfig.parse({"listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_two_listeners_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="name of its own"):
        BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"})


def test_an_advertised_listener_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="OUT is not among the listeners"):
        BrokerConfig.parse({"advertised.listeners": "OUT://a:1", "listener.security.protocol.map": "OUT:PLAINTEXT"})


def test_data_directories_are_a_list():
    assert BrokerConfig.parse({"log.dirs": "/a, /b"}).logs.directories == ("/a", "/b")
    assert BrokerConfig.parse({"log.dir": "/a"}).logs.directories == ("/a",)
    with pytest.raises(ConfigError, match=r"log\.dirs: /a is listed twice"):
        BrokerConfig.parse({"log.dirs": "/a,/b,/a"})


def test_cordoned_directories_are_some_of_the_data_directories():
    given = {"log.dirs": "/a,/b"}
    assert BrokerConfig.parse({**given, "cordoned.log.dirs": "/b"}).logs.cordoned == {"/b"}
    assert BrokerConfig.parse({**given, "cordoned.log.dirs": "*"}).logs.cordoned == {"/a", "/b"}
    with pytest.raises(ConfigError, match=r"must be present in log\.dirs: /c is not"):
        BrokerConfig.parse({**given, "cordoned.log.dirs": "/c"})


def test_the_cleaner_and_cordoned_directories_change_while_the_broker_runs():
    config = BrokerConfig.parse({"log.dirs": "/a,/b"})
    changed = config.reconfigured({"log.cleaner.backoff.ms": "7", "cordoned.log.dirs": "/a", "log.retention.ms": "5"})
    assert (changed.logs.cleaner.backoff_ms, changed.logs.cordoned) == (7, {"/a"})
    assert changed.topic_defaults["retention.ms"] == 5
    assert config.reconfigured({}) == config
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs"):
        config.reconfigured({"cordoned.log.dirs": "/c"})


def test_names_that_ordinary_server_properties_have_are_accepted_with_a_warning(caplog: pytest.LogCaptureFixture):
    names = ["sasl.mechanism.inter.broker.protocol", "sasl.oauthbearer.expected.audience"]
    names.append("sasl.oauthbearer.expected.issuer")
    BrokerConfig.parse(dict.fromkeys(names, "PLAIN"))
    assert f"properties that this broker ignores: {', '.join(names)}" in caplog.text
