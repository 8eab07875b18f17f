"""Clients and brokers that are closed leave nothing behind: no object, thread, socket, file, task or warning."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from tests.client.cycles import TOPIC
from tests.footprint import IS_LINUX, footprint

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="what a process holds is read from Linux's /proc")

ROOT = Path(__file__).parents[2]

# asyncio keeps up to a hundred timers that were cancelled.
OBJECTS = 200
# What the memory of a process may grow by, all the same: the allocator keeps some of what was given back.
MEMORY_KB = 2 << 10
BROKER_MEMORY_KB = 8 << 10
# Connections whose end the broker has yet to hear of, and the files of topics.
OWN_FILES = 20
# New members have their partitions without waiting for others.
AT_ONCE = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(process=True, properties=AT_ONCE) as running:
        servers = running.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic(TOPIC)])
            producer.send(TOPIC, b"value")
        yield running


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("first", "more"), [(2, 3), pytest.param(100, 1000, marks=pytest.mark.soak)])
def test_clients_that_were_made_used_and_closed_leave_nothing_behind(broker, first, more):
    command = [sys.executable, "-W", "error", "-m", "tests.client.cycles", broker.bootstrap_servers]
    at_first = footprint(broker.process_id)
    done = subprocess.run([*command, str(first), str(more)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    print(*told.items(), sep="\n")
    for kind, (before, after) in told.items():
        assert after["objects"] - before["objects"] < OBJECTS, kind
        assert after["memory_kb"] - before["memory_kb"] < MEMORY_KB, kind
        counts = ("threads", "files", "sockets", "tasks")
        assert [after.get(name) for name in counts] == [before.get(name) for name in counts], kind
    at_last = footprint(broker.process_id)
    assert at_first is not None and at_last is not None
    assert at_last.threads == at_first.threads
    assert at_last.files < at_first.files + OWN_FILES
    assert at_last.memory_kb - at_first.memory_kb < BROKER_MEMORY_KB
