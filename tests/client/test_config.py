from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from kafkaraw.client.config import (
    INT32_MAX,
    Address,
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    parse,
)
from kafkaraw.client.producer_settings import LEVELS
from kafkaraw.client.settings import settings_of
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.assignors.interface import Members
from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.records.compression import codec_by_name

SERVERS = {"bootstrap_servers": "localhost:9092"}


def test_defaults_are_those_of_java_but_for_the_batch_size() -> None:
    producer = parse(ProducerConfig, SERVERS)
    assert (producer.acks, producer.enable_idempotence, producer.linger_ms, producer.batch_size) == (
        -1,
        True,
        5,
        262_144,
    )
    consumer = parse(ConsumerConfig, SERVERS)
    assert (consumer.auto_offset_reset, consumer.fetch_max_bytes, consumer.fetch_max_wait_ms) == (
        "latest",
        52_428_800,
        500,
    )


@pytest.mark.parametrize("kind", [ClientConfig, ProducerConfig, ConsumerConfig, AdminConfig])
def test_every_setting_has_a_text_and_every_time_and_size_a_unit(kind: type) -> None:
    settings = settings_of(kind)
    assert set(settings) == {field.name for field in dataclasses.fields(kind)}
    for name, about in settings.items():
        assert about.doc.endswith("."), name
        unit = {"ms": "ms", "seconds": "s"}.get(name.rpartition("_")[2])  # seconds: where Java's name has them
        assert about.unit == unit if unit else about.unit in ("", "bytes"), name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1", [Address("a", 1)]),
        ("a:1, b:2 ,", [Address("a", 1), Address("b", 2)]),
        (["a:1", "b:2", "a:1"], [Address("a", 1), Address("b", 2)]),
        ("[::1]:9092", [Address("::1", 9092)]),
        ("PLAINTEXT://a:1", [Address("a", 1)]),
        ([Address("::1", 2)], [Address("::1", 2)]),
    ],
)
def test_servers_are_read_from_text_and_lists(given: object, expected: list[Address]) -> None:
    assert list(parse(AdminConfig, {"bootstrap_servers": given}).bootstrap_servers) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("localhost", "'localhost' has no port; did you mean 'localhost:9092'?"),
        ("::1", "has no port"),
        ("a:b", "number from 1 to 65535"),
        ("a:0", "number from 1 to 65535"),
        ("a:70000", "number from 1 to 65535"),
        (":9092", "has no host"),
        ("", "names no server"),
        ([], "names no server"),
        (9092, "not int"),
        ([9092], "not"),
    ],
)
def test_a_wrong_server_says_what_is_wrong(given: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(AdminConfig, {"bootstrap_servers": given})
    assert says in str(caught.value)


def test_without_servers_there_is_no_client() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        parse(ConsumerConfig, {})


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (ConsumerConfig, "fetch_max_byte", "did you mean 'fetch_max_bytes'?"),
        (ConsumerConfig, "auto.offset.reset", "did you mean 'auto_offset_reset'?"),
        (ProducerConfig, "lingerms", "did you mean 'linger_ms'?"),
        (ConsumerConfig, "linger_ms", "it is a setting of the producer"),
        (ProducerConfig, "auto_offset_reset", "it is a setting of the consumer"),
        (ConsumerConfig, "xyzzy", "unknown setting 'xyzzy'"),
    ],
)
def test_an_unknown_setting_says_what_exists(kind: type[ClientConfig], name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(kind, SERVERS | {name: 1})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (ProducerConfig, {"linger_ms": -1}, "at least 0 ms"),
        (ProducerConfig, {"batch_size": 2**31}, f"at most {INT32_MAX} bytes"),
        (ProducerConfig, {"linger_ms": "5"}, "whole number of milliseconds, not str"),
        (ProducerConfig, {"linger_ms": True}, "whole number of milliseconds, not bool"),
        (ProducerConfig, {"linger_ms": 0.5}, "whole number of milliseconds, not float"),
        (ProducerConfig, {"compression_type": "gzipp"}, "did you mean 'gzip'?"),
        (ProducerConfig, {"compression_type": "gzip", "compression_level": 10}, "between -1 and 9 for compression_ty"),
        (ProducerConfig, {"compression_type": "lz4", "compression_level": 18}, "between -131072 and 17"),
        (ProducerConfig, {"acks": 2}, "'all'"),
        (ProducerConfig, {"acks": True}, "'all'"),
        (ConsumerConfig, {"auto_offset_reset": "early"}, "did you mean 'earliest'?"),
        (ConsumerConfig, {"check_crcs": 1}, "True or False"),
        (ConsumerConfig, {"isolation_level": "snapshot"}, "must be one of 'read_uncommitted'"),
        (ProducerConfig, {"transactional_id": ""}, "must not be empty"),
        (ProducerConfig, {"transactional_id": "a", "acks": 1}, "must be 'all' for transactional_id"),
        (ProducerConfig, {"transactional_id": "a", "enable_idempotence": False}, "must be True for transactional_id"),
        (ConsumerConfig, {"client_id": None}, "text, not NoneType"),
        (ClientConfig, {"sasl_oauthbearer_extensions": "x"}, "name=value"),
        (ClientConfig, {"sasl_oauthbearer_extensions": {"auth": "x"}}, "the token itself"),
        (ClientConfig, {"sasl_oauthbearer_extensions": {"x_y": "x"}}, "letters of ASCII"),
        (ClientConfig, {"sasl_oauthbearer_extensions": {"x": "\x01"}}, "printable"),
    ],
)
def test_a_value_that_does_not_fit_says_why(kind: type[ClientConfig], settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(kind, SERVERS | settings)
    assert says in str(caught.value)
    assert next(iter(settings)) in str(caught.value)


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ProducerConfig, SERVERS | {"linger_ms": -1, "batch_sice": 3})
    assert "linger_ms=-1" in str(caught.value)
    assert "'batch_size'" in str(caught.value)


@pytest.mark.parametrize(("given", "kept"), [("all", -1), (-1, -1), ("-1", -1), (0, 0), ("0", 0), (1, 1), ("1", 1)])
def test_acks_are_kept_as_a_number(given: object, kept: int) -> None:
    assert parse(ProducerConfig, SERVERS | {"acks": given}).acks == kept


def test_text_is_converted_only_when_asked_for() -> None:
    text = SERVERS | {"check_crcs": "false", "fetch_min_bytes": "3", "max_poll_records": "10"}
    config = parse(ConsumerConfig, text, from_text=True)
    assert (config.check_crcs, config.fetch_min_bytes, config.max_poll_records) == (False, 3, 10)
    with pytest.raises(ConfigError, match="whole number"):
        parse(ConsumerConfig, SERVERS | {"fetch_min_bytes": "many"}, from_text=True)
    with pytest.raises(ConfigError):
        parse(ConsumerConfig, text)


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}], ids=lambda s: next(iter(s))
)
def test_idempotence_gives_way_unless_it_was_asked_for(settings: dict[str, object]) -> None:
    assert not parse(ProducerConfig, SERVERS | settings).enable_idempotence
    with pytest.raises(ConfigError, match=next(iter(settings))):
        parse(ProducerConfig, SERVERS | settings | {"enable_idempotence": True})


def test_the_delivery_timeout_covers_linger_and_one_request() -> None:
    assert parse(ProducerConfig, SERVERS | {"request_timeout_ms": 200_000}).delivery_timeout_ms == 200_005
    with pytest.raises(ConfigError, match="at least linger_ms"):
        parse(ProducerConfig, SERVERS | {"request_timeout_ms": 200_000, "delivery_timeout_ms": 1000})


def test_a_backoff_that_shrinks_is_refused() -> None:
    with pytest.raises(ConfigError, match="retry_backoff_max_ms"):
        parse(AdminConfig, SERVERS | {"retry_backoff_ms": 5000})


class Unfinished(Assignor):
    name = "unfinished"


class Nameless(Assignor):
    def assign(self, topics: Topics, members: Members) -> Mapping[str, Sequence[TopicPartition]]:
        return {}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"group_instance_id": "one"}, "no effect without a group_id"),
        ({"enable_auto_commit": True}, "no effect without a group_id"),
        ({"enable_auto_offset_store": False}, "no effect without a group_id"),
        ({"group_id": ""}, "must not be empty"),
        ({"group_id": "g", "group_instance_id": ""}, "must not be empty"),
        ({"group_id": "g", "session_timeout_ms": 3_000}, "heartbeat_interval_ms=3000 must be less than"),
        ({"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 9_000}, "where the broker decides"),
        ({"group_id": "g", "group_remote_assignor": "range"}, "group_protocol='consumer'"),
        ({"group_id": "g", "partition_assignment_strategy": "ranger"}, "did you mean 'range'?"),
        ({"group_id": "g", "partition_assignment_strategy": []}, "must name at least one"),
        ({"group_id": "g", "partition_assignment_strategy": [7]}, "neither a name nor a class"),
        ({"group_id": "g", "partition_assignment_strategy": ["range", "range"]}, "two assignors have the name 'range'"),
        ({"group_id": "g", "partition_assignment_strategy": Nameless}, "Nameless.name is None"),
        ({"group_id": "g", "partition_assignment_strategy": Unfinished}, "Unfinished has no method assign()"),
        ({"group_id": "g", "group_protocol": "clasic"}, "did you mean 'classic'?"),
    ],
)
def test_a_members_settings_must_go_together(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ConsumerConfig, SERVERS | settings)
    assert says in str(caught.value)


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec, both in LEVELS.items() for level in both])
def test_every_level_that_is_accepted_can_be_compressed_with(codec: str, level: int):
    parse(ProducerConfig, SERVERS | {"compression_type": codec, "compression_level": level})
    data = b"flights " * 100
    packed = codec_by_name(codec).compress(data, level)
    assert codec_by_name(codec).decompress(packed, 10_000) == data
