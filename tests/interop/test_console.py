"""`kafkaraw console` on Apache Kafka and on the embedded broker: the same pages of the same cluster, and changes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest

from kafkaraw import Admin, Consumer, NewTopic, OffsetSpec, Producer, TopicPartition
from kafkaraw.console.settings import Pipeline
from kafkaraw.mirror.checkpoints import Heartbeat
from kafkaraw.pipelines.dead_letters.store import EVERY, Filter
from tests.console.running import post, running
from tests.console.test_dead_letters import values_in
from tests.interop.both_brokers import Broker
from tests.pipelines.letters import Topics, letter
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


def test_a_topic_is_created_changed_filled_emptied_and_deleted(both_brokers: tuple[Broker, Broker]) -> None:
    for broker in both_brokers:
        with running(broker.servers, allow_writes=True) as client, Admin(bootstrap_servers=broker.servers) as admin:

            def done(path: str, client: httpx.Client = client, **fields: str) -> httpx.Response:
                answer = post(client, f"/c/test/{path}", **fields)
                assert answer.status_code == 303, answer.text
                return answer

            done("topics", name="made", partitions="1", replication_factor="1", configs="retention.ms=100000\n")
            assert "made" in client.get("/c/test/topics").text
            assert post(client, "/c/test/topics", name="made").status_code == 502
            done("topics/made/config", setting="retention.ms", value="200000")
            assert ">200000<" in client.get("/c/test/topics/made").text
            assert post(client, "/c/test/topics/made/config", setting="nothing", value="1").status_code == 502
            done("topics/made/config", setting="retention.ms", reset="1")
            assert ">200000<" not in client.get("/c/test/topics/made").text
            done("topics/made/partitions", count="3")
            sent = done("topics/made/send", value='{"a": 1}', key="k", headers="a=b", partition="2")
            shown = client.get(sent.headers["location"])
            assert shown.status_code == 200 and "&#34;a&#34;: 1" in shown.text, broker.name
            assert "1 records" in client.get("/c/test/topics/made/empty").text
            done("topics/made/empty", confirm="made")
            place = TopicPartition("made", 2)
            assert admin.list_offsets({place: OffsetSpec.EARLIEST})[place].offset == 1
            done("topics/made/delete", confirm="made")
            assert "made" not in [topic.name for topic in admin.list_topics()]
            assert client.get("/c/test/topics/made").status_code == 404


def test_a_group_is_reset_to_the_plan_that_was_shown(filled_brokers: tuple[Broker, Broker]) -> None:
    for broker in filled_brokers:
        places = {TopicPartition("seen", 0): 4, TopicPartition("seen", 1): 5}
        with running(broker.servers, allow_writes=True) as client, Admin(bootstrap_servers=broker.servers) as admin:

            def offsets(admin: Admin = admin) -> dict[TopicPartition, int]:
                return {key: each.offset for key, each in admin.list_group_offsets(["again"])["again"].items()}

            admin.alter_group_offsets("again", places)
            for query, new in (
                ({"to": "earliest"}, (0, 0)),
                ({"to": "latest"}, (5, 5)),
                ({"to": "shift", "shift": "-3"}, (1, 2)),
                ({"to": "offset", "offset": "2"}, (2, 2)),
                ({"to": "time", "time": "2000-01-01"}, (0, 0)),
            ):
                page = client.get("/c/test/group/reset", params={"id": "again", **query}).text
                assert f"seen 0 {new[0]}\nseen 1 {new[1]}" in page, (broker.name, query)
                assert offsets() == places, "a dry run"
            plan = "seen 0 1\nseen 1 2"
            assert post(client, "/c/test/group/reset", id="again", plan=plan, confirm="seen").status_code == 400
            assert post(client, "/c/test/group/reset", id="again", plan=plan, confirm="again").status_code == 303
            assert offsets() == {TopicPartition("seen", 0): 1, TopicPartition("seen", 1): 2}
            assert "7 records are left" in client.get("/c/test/group", params={"id": "again"}).text
            assert post(client, "/c/test/group/delete", id="again", confirm="again").status_code == 303
            assert "again" not in [group.group_id for group in admin.list_groups()]


def test_a_group_with_members_keeps_its_offsets(filled_brokers: tuple[Broker, Broker]) -> None:
    for broker in filled_brokers:
        with (
            running(broker.servers, allow_writes=True) as client,
            Consumer(bootstrap_servers=broker.servers, group_id="busy", auto_offset_reset="earliest") as consumer,
        ):
            consumer.subscribe(["seen"])
            assert consumer.poll(TIMEOUT_S)
            consumer.commit()
            page = client.get("/c/test/group/reset", params={"id": "busy", "to": "earliest"})
            assert "stop them first" in page.text, broker.name
            answer = post(client, "/c/test/group/reset", id="busy", plan="seen 0 0", confirm="busy")
            assert answer.status_code == 400 and "has members" in answer.text


def test_a_dead_letter_is_replayed_once(both_brokers: tuple[Broker, Broker]) -> None:
    for broker in both_brokers:
        with Producer(bootstrap_servers=broker.servers) as producer:
            topics = Topics(SimpleNamespace(servers=broker.servers, producer=producer))
            topics.add(letter(0), letter(1))
            pipeline = Pipeline(topics.store, lambda places: EVERY if places is None else Filter(places=places))
            with running(broker.servers, of={"pipelines": {topics.name: pipeline}}, allow_writes=True) as client:
                assert client.get("/c/test/dead-letters").text.count("Replay…") == 2
                query = {"pipeline": topics.name, "action": "replay", "at": "0:1"}
                plan = client.get("/c/test/dead-letters/confirm", params=query).text
                assert "1 dead letters would be written again" in plan
                assert values_in(broker.servers, topics.replays) == [], "a dry run"
                for _ in range(2):
                    done = post(client, "/c/test/dead-letters/confirm", **query, confirm=topics.name)
                    assert done.status_code == 303, done.text
                assert values_in(broker.servers, topics.replays) == [b"1"], broker.name
