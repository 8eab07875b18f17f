"""Metrics of clients (KIP-714): our broker's answers are Apache Kafka's, and other clients push their metrics to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, ConfigResource, Consumer, Producer
from kafkaraw.broker import ClientMetric, EmbeddedBroker
from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.interop.apache_kafka import ApacheKafka, why_missing
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


# -- our clients push ----------------------------------------------------------------------------------------------


def test_our_producer_pushes_its_metrics(broker: EmbeddedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, client_id="ours") as producer:
        producer.send("flights", b"value").result(WAIT_S)
        metric = pushed(broker, lambda metric: metric.name.endswith("record.send.total") and metric.value == 1)
        assert metric.client["client_instance_id"] == str(producer.client_instance_id())
    assert (metric.client["client_id"], metric.client["client_software_name"]) == ("ours", "kafkaraw")


def test_apache_kafka_without_a_receiver_takes_no_metrics_and_is_not_asked(brokers: tuple[str, str]) -> None:
    with Producer(bootstrap_servers=brokers[0], client_id=CLIENT_ID) as producer:
        producer.partitions_for("flights", WAIT_S)
        with pytest.raises(UnsupportedVersionError, match="takes no metrics of clients"):
            producer.client_instance_id()


RECEIVER = Path(__file__).with_name("MetricsReceiver.java")
PREFIX = "org.apache.kafka."


def lines_of(kafka: ApacheKafka) -> list[list[str]]:
    """What the receiver has printed: client id, instance id, terminating, name, kind, value, time in ms, attributes."""
    text = (kafka.data_dir / "kafka.log").read_text(errors="replace")
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith("PUSHED\t")]


def names_of(lines: list[list[str]], client_id: str) -> dict[str, str]:
    """The kinds of the metrics of a client, by name; histograms and metrics of the JVM's threads aside."""
    return {line[3].removeprefix(PREFIX): line[4] for line in lines if line[0] == client_id}


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_apache_kafka_receives_our_metrics_by_javas_names_and_kinds(tools: SharedTools) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(properties={"metric.reporters": "MetricsReceiver"}, plugin=RECEIVER) as kafka:
        servers = kafka.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            configs = {"interval.ms": "500", "metrics": "*"}
            admin.alter_configs({ConfigResource.client_metrics("all"): configs})
        to = ("--bootstrap-server", servers, "--topic", "flights")
        client_id = ("--command-property", "client.id=java-producer")
        tools.run("org.apache.kafka.tools.ConsoleProducer", *to, *client_id, given="one\ntwo\n")
        ours = {"group_id": "g", "client_rack": "r", "client_id": "our-consumer", "auto_offset_reset": "earliest"}
        with (
            Producer(bootstrap_servers=servers, client_id="our-producer") as producer,
            Consumer(bootstrap_servers=servers, **ours) as consumer,
        ):
            producer.send("flights", b"three").result(WAIT_S)
            instance_id = str(producer.client_instance_id(WAIT_S))
            consumer.subscribe(["flights"])
            deadline = time.monotonic() + WAIT_S
            received = 0
            while received < 3 or "consumer.poll.idle.ratio.avg" not in names_of(lines_of(kafka), "our-consumer"):
                received += sum(len(list(batch)) for batch in consumer.poll(0.2).values())
                assert time.monotonic() < deadline, names_of(lines_of(kafka), "our-consumer")
            member_id = consumer.group_metadata().member_id
        lines = lines_of(kafka)
    java, own = names_of(lines, "java-producer"), names_of(lines, "our-producer")
    assert own, lines
    assert {name: (kind, java.get(name)) for name, kind in own.items() if java.get(name) != kind} == {}
    sent = [line for line in lines if line[0] == "our-producer" and line[3] == f"{PREFIX}producer.record.send.total"]
    assert sum(float(line[5]) for line in sent) == 1
    assert {line[1] for line in sent} == {instance_id}
    assert [line[2] for line in sent][-1] == "true"  # the last push, at close
    lags = [line[7] for line in lines if line[3] == f"{PREFIX}consumer.fetch.manager.records.lag"]
    assert f"client_rack=r, group_id=g, group_member_id={member_id}, partition=0, topic=flights" in lags[-1]
