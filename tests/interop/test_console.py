"""`kafkaraw console` on Apache Kafka and on the embedded broker: the same pages of the same cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import httpx
import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.mirror.checkpoints import Heartbeat
from tests.interop.both_brokers import Broker
from tests.waiting import wait_until

TIMEOUT_S = 30
PAGES = (
    *("", "topics", "topics/seen", "topics/seen/messages", "groups", "group?id=looking", "permissions", "sql"),
    *("pipelines", "mirrors", "wire", "faults"),
)


@pytest.fixture(scope="module")
def filled_brokers(both_brokers: tuple[Broker, Broker]) -> tuple[Broker, Broker]:
    for broker in both_brokers:
        with Admin(bootstrap_servers=broker.servers) as admin, Producer(bootstrap_servers=broker.servers) as producer:
            admin.create_topics([NewTopic("seen", 2, 1), NewTopic("east.heartbeats", 1, 1)])
            for number in range(10):
                producer.send("seen", b'{"number": %d}' % number, key=b"key %d" % number, partition=number % 2)
            beat = Heartbeat("east", "west", 1_700_000_000_000)
            producer.send("east.heartbeats", beat.value, beat.key)
            producer.flush(TIMEOUT_S)
            with Consumer(bootstrap_servers=broker.servers, group_id="looking") as consumer:
                consumer.commit({TopicPartition("seen", 0): 2, TopicPartition("seen", 1): 5})
    return both_brokers


def read_through(client: httpx.Client) -> None:
    """Read a record through the tap of a console, until the page of the wire has the client."""
    address = re.search(r"bootstrap\.servers=([^<]+)<", client.get("wire").text)
    assert address is not None
    settings = {"auto_offset_reset": "earliest", "client_id": "behind the tap"}
    with Consumer(bootstrap_servers=address[1], **settings) as consumer:
        consumer.assign([TopicPartition("seen", 0)])
        assert wait_until(lambda: bool(consumer.poll(0.2)), TIMEOUT_S)
        assert wait_until(lambda: ">Fetch<" in client.get("wire").text, TIMEOUT_S)


def test_pages_show_what_is_in_the_cluster(filled_brokers: tuple[Broker, Broker]) -> None:
    for broker in filled_brokers:
        command = [sys.executable, "-m", "kafkaraw", "console", "-b", broker.servers, "--port", "0"]
        command += ["--tap", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                url = next(line for line in process.stdout if line.startswith("url=")).removeprefix("url=").strip()
                with httpx.Client(base_url=f"{url}c/cluster/", trust_env=False, timeout=TIMEOUT_S) as client:
                    read_through(client)
                    texts = {page: client.get(page) for page in PAGES}
            finally:
                process.send_signal(signal.SIGTERM)
        assert {page: text.status_code for page, text in texts.items()} == dict.fromkeys(PAGES, 200), broker.name
        assert "1 broker answers" in texts[""].text, broker.name
        assert "seen" in texts["topics"].text, broker.name
        assert "key 9" in texts["topics/seen/messages"].text, broker.name
        assert "looking" in texts["groups"].text, broker.name
        assert "behind the tap" in texts["wire"].text and ">Fetch<" in texts["wire"].text, broker.name
        assert "east-&gt;west" in texts["mirrors"].text, broker.name
