"""Metrics of clients (KIP-714): our broker's answers are Apache Kafka's, and other clients push their metrics to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import Admin, ConfigResource
from kafkaraw.broker import ClientMetric, EmbeddedBroker
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.java_tools import SharedTools, shared_tools, why_no_java_client
from tests.interop.raw_client import RawClient

SUBSCRIPTION = f"answers-{uuid.uuid4().hex[:12]}"
CLIENT_ID = f"raw-{SUBSCRIPTION}"
ONE_UUID = Uuid(bytes(15) + b"\x01")
CLIENT_METRICS = 16
LONG_MS = 200_000
WAIT_S = 30.0
CONFIGS = [
    *(("interval.ms", value) for value in ("100", "3600000", "99", "3600001", "-1", "x", "", " 200 ", "1e3")),
    *(("metrics", value) for value in ("*", "", "org.apache.kafka.", "a, b", ",", "a,,b", "a,a", " ")),
    *(
        ("match", value)
        for value in (
            "client_id=.*",
            "client_id = .* , client_software_name=Java",
            "client_instance_id=x,client_source_address=x,client_source_port=1,client_software_version=[0-9.]+",
            "client_id",
            "client_id=",
            "=x",
            "client_id=a=b",
            "client_id=a=",
            "principal=x",
            "client_id=[",
            "client_id=a,",
            "client_id=a,client_id=b",
            "client_id=a,client_id=a",
            "",
        )
    ),
    ("no.such", "1"),
]


def alter(name: str, *configs: tuple[str, str], validate_only: bool = True) -> IncrementalAlterConfigsRequest:
    changes = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def get(instance_id: Uuid = ZERO_UUID) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)


@pytest.fixture(scope="module")
def brokers(apache_kafka: ApacheKafka) -> Iterator[tuple[str, str]]:
    with EmbeddedBroker(properties={"node.id": 1}) as ours:
        both = (apache_kafka.bootstrap_servers, ours.bootstrap_servers)
        configs = {
            "interval.ms": str(LONG_MS),
            "metrics": "org.apache.kafka.b.,org.apache.kafka.a.",
            "match": f"client_id={CLIENT_ID},client_software_name=unknown,client_source_address=127.0.0.1",
        }
        for servers in both:
            with Admin(bootstrap_servers=servers) as admin:
                admin.alter_configs({ConfigResource.client_metrics(SUBSCRIPTION): configs})
        yield both
        with Admin(bootstrap_servers=both[0]) as admin:
            admin.alter_configs({ConfigResource.client_metrics(SUBSCRIPTION): dict.fromkeys(configs)})


def test_configurations_of_subscriptions_are_checked_as_by_apache_kafka(brokers: tuple[str, str]) -> None:
    answers = []
    for servers in brokers:
        with RawClient(servers) as client:
            said = {config: client.ask(alter("any", config), 1).responses[0] for config in CONFIGS}
            said["", ""] = client.ask(alter("", ("interval.ms", "100")), 1).responses[0]
            answers.append({config: answer.error_code for config, answer in said.items()})
    theirs, ours = answers
    assert {config: (code, ours[config]) for config, code in theirs.items() if code != ours[config]} == {}


def talk(servers: str) -> list[object]:
    """Ask for the subscription and push, in and out of turn, with good and bad values."""
    said: list[object] = []
    with RawClient(servers, client_id=CLIENT_ID) as client:
        deadline = time.monotonic() + WAIT_S
        while True:  # Apache Kafka's node learns of the subscription after the answer
            asked = client.ask(get(), 0)
            if asked.requested_metrics or time.monotonic() > deadline:
                break

        def push(instance_id: Uuid = asked.client_instance_id, number: int = 0, **how: object) -> None:
            fields = {
                "client_instance_id": instance_id,
                "subscription_id": asked.subscription_id + number,
                "terminating": False,
                "compression_type": 0,
                "metrics": b"",
            }
            said.append((number, how, client.ask(PushTelemetryRequest(**fields | how), 0).error_code))

        said.append(
            (
                asked.error_code,
                asked.client_instance_id != ZERO_UUID,
                sorted(asked.requested_metrics),
                asked.accepted_compression_types,
                asked.push_interval_ms,
                asked.telemetry_max_bytes,
                asked.delta_temporality,
            )
        )
        again = client.ask(get(asked.client_instance_id), 0)
        said.append(again)
        push(ZERO_UUID)
        push(ONE_UUID)
        push(compression_type=9)
        said.append(client.ask(get(asked.client_instance_id), 0).error_code)  # at once, after this error
        push(number=1)
        said.append(client.ask(get(asked.client_instance_id), 0).error_code)
        push(terminating=True, metrics=b"x" * (asked.telemetry_max_bytes + 1))
        push(terminating=True)
        push()
        said.append(client.ask(get(asked.client_instance_id), 0).error_code)
    with RawClient(servers, client_id="another") as client:
        other = client.ask(get(ONE_UUID), 0)
        said.append((other.error_code, other.client_instance_id, other.requested_metrics, other.push_interval_ms))
    return said


def test_answers_about_telemetry_are_those_of_apache_kafka(brokers: tuple[str, str]) -> None:
    theirs, ours = (talk(servers) for servers in brokers)
    assert ours == theirs


# -- other clients push --------------------------------------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = {"interval.ms": "100", "metrics": "org.apache.kafka."}
        admin.alter_configs({ConfigResource.client_metrics("all"): configs})
        yield broker


def pushed(broker: EmbeddedBroker, is_so: Callable[[ClientMetric], bool]) -> ClientMetric:
    deadline = time.monotonic() + WAIT_S
    while True:
        for metric in broker.client_metrics():
            if is_so(metric):
                return metric
        assert time.monotonic() < deadline, sorted({metric.name for metric in broker.client_metrics()})
        time.sleep(0.02)  # a client with a thread of its own: there is nothing to wait on


def test_librdkafka_pushes_its_metrics(broker: EmbeddedBroker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "rdkafka-1"})
    producer.produce("flights", b"value")
    producer.flush(WAIT_S)
    metric = pushed(broker, lambda metric: metric.name.endswith("record.queue.time.avg") and metric.value > 0)
    assert (metric.client["client_id"], metric.client["client_source_address"]) == ("rdkafka-1", "127.0.0.1")
    assert metric.client["client_software_name"] in ("librdkafka", "confluent-kafka-python")


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    return shared_tools()


@pytest.mark.timeout(300)
def test_javas_producer_pushes_its_metrics(broker: EmbeddedBroker, tools: SharedTools) -> None:
    to = ("--bootstrap-server", broker.bootstrap_servers)
    tools.run("org.apache.kafka.tools.ConsoleProducer", *to, "--topic", "flights", given="one\ntwo\n")
    metric = pushed(broker, lambda metric: metric.name.endswith("record.send.total") and metric.value == 2)
    assert metric.is_counter
    assert metric.client["client_software_name"] == "apache-kafka-java"
