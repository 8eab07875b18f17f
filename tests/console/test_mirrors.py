"""The pages of mirrors, with a real mirror between two brokers: lag, heartbeats, checkpoints, translated offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.console_mirrors import ConfiguredMirror, found_mirrors
from kafkaraw.mirror.checkpoints import Checkpoint, Heartbeat
from tests.cli.test_mirror_groups import FEW, ORDERS, Mirror
from tests.console.running import HOSTILE_TEXTS, running


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """Two clusters, orders with a group, copied once; then five orders more."""
    with EmbeddedBroker(properties=FEW) as east, EmbeddedBroker(properties=FEW) as west:
        path = tmp_path_factory.mktemp("mirror") / "mirror.properties"
        found = Mirror(east.bootstrap_servers, west.bootstrap_servers, path)
        found.configure()
        with Admin(bootstrap_servers=found.east) as admin:
            admin.create_topics([NewTopic("orders", partitions=2)])
        found.fill()
        found.commit(found.east, {ORDERS[0]: 10, ORDERS[1]: 4})
        found.copy()
        beat = Heartbeat(
            "east", "west", time.time_ns() // 1_000_000
        )  # whether the mirror copied one is a matter of time
        with Admin(bootstrap_servers=found.west) as admin, Producer(bootstrap_servers=found.west) as producer:
            if "east.heartbeats" not in {topic.name for topic in admin.list_topics()}:
                admin.create_topics([NewTopic("east.heartbeats", 1)])
            producer.send("east.heartbeats", beat.value, beat.key, partition=0)
        with Producer(bootstrap_servers=found.east) as producer:
            for number in range(5):
                producer.send("orders", b"later %d" % number, partition=0)
        yield found


@pytest.fixture(scope="module")
def client(mirror: Mirror) -> Iterator[httpx.Client]:
    of = {"mirrors": {"shop": ConfiguredMirror(mirror.path)}, "found_mirrors": found_mirrors}
    with running(mirror.west, of=of) as console:
        yield console


def test_lag_and_heartbeat_of_a_flow_are_shown(client: httpx.Client, mirror: Mirror) -> None:
    page = client.get("/c/test/mirrors").text
    status = mirror.rows("status", "--partitions")
    lags = {(each["topic"], each["partition"]): each["lag"] for each in status[0]["partitions"]}
    assert lags["orders", 0] == 5
    assert "<td>orders</td>" in page and "<td>east.orders</td>" in page
    assert '<td class="num">5</td>' in page
    assert "east-&gt;west" in page and "ago" in page


def test_what_a_mirror_has_written_is_found_without_its_configuration(mirror: Mirror) -> None:
    with running(mirror.west, of={"found_mirrors": found_mirrors}) as console:
        page = console.get("/c/test/mirrors").text
        assert "--mirror mirror.properties" in page
        assert "east-&gt;west" in page and "Positions" in page
        assert "<td>billing</td>" in page and ">east.orders<" in page
        assert "0 checkpoints" in console.get("/c/test/mirrors", params={"q": "none of them"}).text


def test_the_offsets_of_a_group_are_translated_as_the_command_does(client: httpx.Client, mirror: Mirror) -> None:
    query = {"mirror": "shop", "flow": "east->west", "group": "billing"}
    page = client.get("/c/test/mirrors/translate", params=query).text
    for row in mirror.rows("translate", "billing"):
        assert (
            f'<td class="num">{row["offset"]}</td><td>{row["to_topic"]}</td><td class="num">{row["new_offset"]}</td>'
            in page
        )
    assert "A failover would commit 2 offsets in west" in page
    assert f"kafkaraw mirror failover billing -m {mirror.path}" in page
    assert mirror.committed(mirror.west) == {}
    back = client.get("/c/test/mirrors/translate", params={**query, "back": "1"}).text
    assert "Group billing has no offset in west" in back


def test_a_group_that_is_unknown_and_a_mirror_that_is_unknown_are_said(client: httpx.Client) -> None:
    query = {"mirror": "shop", "group": HOSTILE_TEXTS[0]}
    page = client.get("/c/test/mirrors/translate", params=query)
    assert page.status_code == 200 and "has no offset in east" in page.text and HOSTILE_TEXTS[0] not in page.text
    assert client.get("/c/test/mirrors/translate", params={"mirror": "other"}).status_code == 404
    assert client.get("/c/test/mirrors/translate", params={"mirror": "shop", "flow": "a->b"}).status_code == 404


def test_a_cluster_that_is_away_is_said(mirror: Mirror, tmp_path: Path, servers: str) -> None:
    away = Mirror("127.0.0.1:1", mirror.west, tmp_path / "mirror.properties")
    away.configure("east.default.api.timeout.ms = 1000\n")
    with running(
        servers, of={"mirrors": {"away": ConfiguredMirror(away.path)}, "found_mirrors": found_mirrors}
    ) as console:
        page = console.get("/c/test/mirrors")
    assert page.status_code == 200 and 'class="box bad"' in page.text


def test_hostile_and_damaged_records_of_mirrors_are_text(servers: str) -> None:
    script = HOSTILE_TEXTS[0]
    beat = Heartbeat(script, "west", 1_700_000_000_000)
    point = Checkpoint(script, TopicPartition("x.orders", 0), 7, 3, "")
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(each, 1) for each in ("x.heartbeats", "x.checkpoints.internal")])
        producer.send("x.heartbeats", beat.value, beat.key, partition=0)
        producer.send("x.heartbeats", b"?", b"damaged", partition=0)
        producer.send("x.checkpoints.internal", point.value, point.key, partition=0)
        producer.send("x.checkpoints.internal", b"?", b"damaged", partition=0)
        producer.flush()
    with running(servers, of={"found_mirrors": found_mirrors}) as console:
        page = console.get("/c/test/mirrors").text
    assert script not in page and page.count("&lt;script&gt;") == 2
    assert "2023-11-14" in page and "1 checkpoint<" in page
