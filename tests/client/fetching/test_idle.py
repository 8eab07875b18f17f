"""A consumer with nothing to do does nothing: no rebalance, no more requests than it must make, no CPU."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from tests.client.groups.test_group import PARTITIONS, TOPIC, member, settle
from tests.client.virtual_cluster import VirtualCluster, on_cluster

HEARTBEATS = ("HeartbeatRequest", "ConsumerGroupHeartbeatRequest")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("minutes", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_an_idle_member_sends_heartbeats_and_long_polls_and_nothing_else(protocol: str, minutes: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, group_protocol=protocol) as consumer:
            await settle(consumer)
            await consumer.poll(6)
            before, rebalances = len(cluster.requests()), consumer.metrics()["group"]["rebalance_total"]
            for _ in range(minutes):
                assert await consumer.poll(60) == {}
            sent = Counter(type(request).__name__ for request in cluster.requests()[before:])
            fetches = sent.pop("FetchRequest")
            beats = sum(sent.pop(name, 0) for name in HEARTBEATS)
            refreshes = sent.pop("MetadataRequest", 0)
            assert 115 * minutes <= fetches <= 121 * minutes  # each held back for fetch_max_wait_ms
            assert 11 * minutes <= beats <= 21 * minutes  # every 3 seconds, or every 5 as the broker says
            assert refreshes <= 1 + minutes / 3  # metadata_max_age_ms is 5 minutes, and a connection may be made anew
            assert not sent
            told = consumer.metrics()["group"]
            assert (told["rebalance_total"], told["membership_lost_total"]) == (rebalances, 0)
            assert consumer.assignment() and told["last_heartbeat_seconds_ago"] < 6

    on_cluster(test, group_initial_rebalance_delay_ms=0)


IDLE = """
import sys, time
from kafkaraw import Consumer

servers, protocol, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with Consumer(bootstrap_servers=servers, group_id="idle-" + protocol, group_protocol=protocol) as consumer:
    consumer.subscribe(["idle"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.poll(2)
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() < wall + seconds:
        consumer.poll(10)
    print((time.process_time() - cpu) / (time.monotonic() - wall))
"""


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_minute_of_idleness_takes_no_cpu_to_speak_of(protocol: str) -> None:
    with EmbeddedBroker(process=True, properties={"group.initial.rebalance.delay.ms": "0"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("idle", partitions=4)])
        command = [sys.executable, "-c", IDLE, broker.bootstrap_servers, protocol, "60"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.01  # of one core
