"""librdkafka's names of settings: each is a setting of ours, ignored, or refused with what to use instead."""

from __future__ import annotations

import ctypes
import logging
import re
from pathlib import Path

import pytest

from kafkaraw import AsyncConsumer, Consumer, Producer
from kafkaraw.client.config import ConsumerConfig, ProducerConfig, every_setting, parse
from kafkaraw.client.java_names import known_names, settings_from_properties
from kafkaraw.client.librdkafka_names import differing_names, in_our_names, refused_names
from kafkaraw.errors import ConfigError
from tests.cases import Cases

SERVERS = {"bootstrap.servers": "broker:9092"}
LOGIN = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "secret",
}


def settings(kind: type, **given: object) -> dict[str, object]:
    """Our settings, without those of the servers."""
    found = settings_from_properties(kind, SERVERS | {name.replace("__", "."): value for name, value in given.items()})
    return {name: value for name, value in found.items() if name != "bootstrap_servers"}


def test_each_name_is_a_setting_or_ignored() -> None:
    with Cases() as case:
        for name in differing_names():
            with case(name):
                (meant,) = in_our_names({name: "1"}) or [None]
                assert meant is None or meant.replace(".", "_") in every_setting()


def test_every_property_of_librdkafka_is_known(tmp_path: Path) -> None:
    package = Path(pytest.importorskip("confluent_kafka").__file__).parent
    libraries = [*package.parent.glob("confluent_kafka.libs/librdkafka*")]
    if not libraries:
        pytest.skip("this build of confluent-kafka has no librdkafka in its folder")
    library, libc, printed = ctypes.CDLL(str(libraries[0])), ctypes.CDLL(None), tmp_path / "properties"
    libc.fopen.restype = ctypes.c_void_p
    libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    libc.fclose.argtypes = library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = libc.fopen(str(printed).encode(), b"w")
    library.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    names = {*re.findall(r"^([\w.]+) +\| +[CP*] +\|", printed.read_text(), re.MULTILINE)}
    assert len(names) > 150
    assert names - known_names() - {*differing_names()} - {*refused_names()} == set()


def test_configuration_of_a_confluent_consumer_works_as_it_is() -> None:
    conf = SERVERS | LOGIN | {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "smallest"}
    conf |= {"fetch.wait.max.ms": 100, "socket.timeout.ms": 20_000, "session.timeout.ms": 6000, "client.id": None}
    config = parse(ConsumerConfig, settings_from_properties(ConsumerConfig, conf))
    assert (config.security_protocol, config.sasl_mechanism, config.sasl_username) == ("SASL_SSL", "PLAIN", "me")
    assert (config.auto_offset_reset, config.fetch_max_wait_ms, config.enable_auto_commit) == ("earliest", 100, False)
    assert (config.request_timeout_ms, config.session_timeout_ms, config.client_id) == (20_000, 6000, "kafkaraw")
    Consumer.from_properties(conf).close()
    assert type(AsyncConsumer.from_properties(conf)) is AsyncConsumer


def test_configuration_of_a_confluent_producer_works_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    conf = SERVERS | {"linger.ms": 0.5, "queue.buffering.max.kbytes": 1024, "compression.codec": "zstd"}
    conf |= {"queue.buffering.max.messages": 100_000, "max.in.flight": 1_000_000, "message.timeout.ms": 0}
    conf |= {"default.topic.config": {"request.required.acks": 1}, "partitioner": "consistent_random"}
    with caplog.at_level(logging.WARNING):
        config = parse(ProducerConfig, settings_from_properties(ProducerConfig, conf))
    assert caplog.messages == ["without effect on this client: queue.buffering.max.messages"]
    assert (config.linger_ms, config.buffer_memory, config.compression_type, config.acks) == (1, 1_048_576, "zstd", 1)
    assert (config.max_in_flight_requests_per_connection, config.delivery_timeout_ms) == (1000, 7 * 24 * 3600 * 1000)
    assert config.partitioner == "consistent_random"


def test_functions_of_a_dict_are_settings() -> None:
    def to_bytes(key: str) -> bytes:
        return key.encode()

    assert settings(ProducerConfig, key__serializer=to_bytes) == {"key_serializer": to_bytes}
    token = settings(ConsumerConfig, sasl_oauth_token_provider=to_bytes)
    assert token == {"sasl_oauth_token_provider": to_bytes}


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"compression.level": "-1"}, {}),  # librdkafka: the default
        ({"compression_level": "-1"}, {"compression_level": -1}),  # ours: a level of zstd
        ({"connections.max.idle.ms": "0"}, {"connections_max_idle_ms": -1}),
        ({"socket.timeout.ms": "9", "request.timeout.ms": "5"}, {"request_timeout_ms": 9}),
        ({"request.timeout.ms": "5", "socket.timeout.ms": "9"}, {"request_timeout_ms": 9}),
        ({"metadata.max.age.ms": "9000", "topic.metadata.refresh.interval.ms": "300"}, {"metadata_max_age_ms": 300}),
        ({"linger.ms": "5", "queue.buffering.max.ms": "5"}, {"linger_ms": 5}),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl_check_hostname": False}),
        ({"ssl.ca.location": "probe"}, {}),
        ({"enable.ssl.certificate.verification": "true", "enable.partition.eof": "false"}, {}),
    ],
)  # fmt: skip
def test_values_that_mean_something_else_than_in_java(given: dict[str, str], ours: dict[str, object]) -> None:
    assert settings(ProducerConfig, **given) == ours


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"error_cb": print}, "error_cb is not accepted: calls raise errors"),
        ({"stats_cb": print, "on_delivery": print}, r"stats_cb .* metrics\(\) .*; on_delivery .*add_done_callback"),
        ({"enable.partition.eof": True}, r"enable.partition.eof='true' is not accepted: compare position\(\)"),
        ({"enable.ssl.certificate.verification": False}, "ssl_context"),
        ({"queue.buffering.max.ms": "soon"}, "^queue.buffering.max.ms='soon': must be a whole number of milliseconds"),
        ({"linger.ms": 1, "queue.buffering.max.ms": 3}, "linger.ms and queue.buffering.max.ms are two names"),
        ({"compression.codec": "zip"}, "^compression.codec='zip': must be one of"),
        ({"linger.mss": 1}, "unknown property 'linger.mss'; did you mean 'linger.ms'"),
    ],
)
def test_a_name_without_counterpart_says_what_to_use_instead(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Producer.from_properties(SERVERS | given)


def test_no_password_is_shown_with_names_of_librdkafka() -> None:
    with pytest.raises(ConfigError) as refused:
        Producer.from_properties(SERVERS | LOGIN | {"sasl.mechanisms": "NONE"})
    assert "secret" not in str(refused.value)
    assert "sasl.mechanisms='NONE'" in str(refused.value)


def test_other_names_and_their_order_are_unchanged() -> None:
    given = {"client.id": "me", "topic.acks": "1", "linger.ms": "5"}
    assert in_our_names(given) == {"client.id": "me", "acks": "1", "linger.ms": "5"}
    assert in_our_names({"topic.auto.offset.reset": "error"}) == {"auto.offset.reset": "none"}
