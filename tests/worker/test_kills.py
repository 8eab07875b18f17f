"""Real processes with workers: killed at random moments, and ended by signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.rotation import rotating
from tests.worker.killed import HANG, ORDERS
from tests.worker.kills import SHARE, WorkerProcess, committed, create_topics, run_killed, wait_for

SESSION_MS = 1_000
CLASSIC = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 100}
CONSUMER = {"group_protocol": "consumer"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    properties = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": SESSION_MS,
        "group.consumer.min.session.timeout.ms": SESSION_MS,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
        "offsets.topic.num.partitions": 4,
        "share.coordinator.state.topic.num.partitions": 4,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": 100,
    }
    with EmbeddedBroker(properties=properties) as broker:
        yield broker.bootstrap_servers


def test_no_record_is_lost_or_skipped_when_processes_are_killed(servers: str, tmp_path: Path) -> None:
    run_killed(servers, tmp_path, "billing", kills=1, records=90, seed=1, settings=CLASSIC).check()


def test_no_record_of_a_share_group_is_lost_when_processes_are_killed(servers: str, tmp_path: Path) -> None:
    run_killed(servers, tmp_path, "sharing", kills=1, records=90, seed=1, settings=SHARE).check()


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER, SHARE], ids=["classic", "consumer", "share"])
@pytest.mark.parametrize("seed", range(2, 5))
def test_no_record_is_lost_or_skipped_in_20_kills(servers: str, tmp_path: Path, settings: dict, seed: int) -> None:
    group = f"billing-{'-'.join(settings)}-{seed}"  # the type of a group that has offsets stays
    run_killed(servers, tmp_path, group, kills=20, records=1_000, seed=seed, settings=settings).check()


@pytest.mark.parametrize("handler", rotating(["on_loop", "in_thread", "blocking"], 1))
def test_a_second_signal_ends_the_process_at_once_and_commits_nothing(
    servers: str, tmp_path: Path, handler: str
) -> None:
    create_topics(servers)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(ORDERS, HANG, partition=0)
    settings = {"bootstrap_servers": servers, "group_id": handler, "auto_offset_reset": "earliest", **CLASSIC}
    process = WorkerProcess(tmp_path, "0", {"worker": settings, "longest_s": 0, "seed": 1, "handler": handler})
    wait_for(lambda: process.count() == 1, "the handler was not called")
    process.signal(signal.SIGTERM)
    if handler != "blocking":
        process.wait_for_log("received SIGTERM: the worker stops")
    assert process.signal_until_it_ends(signal.SIGINT) == -signal.SIGINT
    with Consumer(bootstrap_servers=servers, group_id=handler) as consumer:
        assert not committed(consumer).get(0)
