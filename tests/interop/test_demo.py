"""The flights demo on Apache Kafka: the same program, another broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.blocking import Admin, Producer
from kafkaraw.demo.flights import data_folder
from kafkaraw.demo.readback import read_topic
from kafkaraw.errors import UsageError
from tests.interop.apache_kafka import ApacheKafka

TIMEOUT = 30.0
DEMO_SECONDS_MAX = 300.0


@pytest.fixture
def flights_installed() -> None:
    pytest.importorskip("pyspark")
    try:
        data_folder()
    except UsageError as error:
        pytest.skip(str(error))


def test_the_demo_balances_on_apache_kafka_and_leaves_topics_of_the_same_names_alone(
    flights_installed: None, apache_kafka: ApacheKafka
):
    servers = apache_kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        if "flights" not in {topic.name for topic in admin.list_topics(timeout=TIMEOUT)}:
            admin.create_topics([NewTopic("flights", 1)], timeout=TIMEOUT)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("flights", b"not of the demo").result(TIMEOUT)
    before = [record.value for record in read_topic(servers, "flights")]
    command = [sys.executable, "-m", "kafkaraw", "demo", "flights", "--limit", "2000", "--bootstrap-server", servers]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEMO_SECONDS_MAX)
    assert (done.returncode, done.stderr) == (0, "")
    assert "left alone" in done.stdout
    assert "The sheet balances" in done.stdout
    assert [record.value for record in read_topic(servers, "flights")] == before
