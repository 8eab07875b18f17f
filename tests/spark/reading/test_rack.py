"""A task reads from a replica in the rack that the environment of its executor names (KIP-392)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.spark.options.client import Settings
from kafkaraw.spark.reading import task
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.worker import RACK_VARIABLE, ClientPool
from tests.broker.handlers.test_fetch_from_followers import nodes_that_give

SCHEMA = pa.schema([("value", pa.binary())])
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def given(monkeypatch) -> list[int]:
    """The nodes that gave records, in order."""
    monkeypatch.setattr(task, "_consumers", ClientPool(task._make_consumer))
    return nodes_that_give(monkeypatch)


def test_task_fetches_from_the_follower_in_the_rack_of_its_executor(given, monkeypatch):
    properties = {"default.replication.factor": 2, "replica.selector.class": SELECTOR}
    with EmbeddedCluster(2, racks=["a", "b"], properties=properties) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("flights", 1)])
            producer.send("flights", b"1", partition=0).result(30)
        leader = cluster.leader_of("flights", 0)
        follower = 1 - leader
        given.clear()  # what the follower has replicated

        def read(**client: str) -> list[int]:
            settings = ReadSettings(Settings({"bootstrap_servers": servers, **client}), True, 30_000)
            batches = list(read_ranges([OffsetRange("flights", 0, 0, 1)], SCHEMA, settings))
            assert pa.Table.from_batches(batches).to_pydict() == {"value": [b"1"]}
            found = [*given]
            given.clear()
            return found

        try:
            assert read() == [leader]
            monkeypatch.setenv(RACK_VARIABLE, "ab"[follower])
            task._consumers.close()
            assert read() == [follower]
            assert read(client_rack="ab"[leader]) == [leader]  # the option kafka.client.rack overrides it
        finally:
            task._consumers.close()
