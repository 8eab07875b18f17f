"""The log of decisions under a leader that does not know its high watermark yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.whole_log import WholeLog
from kafkaraw.protocol.messages.fetch import PartitionData
from tests.spark.writing.query import Query, forget_clients


@pytest.fixture
def query() -> Iterator[Query]:
    with EmbeddedBroker() as broker:
        yield Query(broker.bootstrap_servers)
        forget_clients()


def test_a_query_goes_on_while_a_new_leader_does_not_know_its_high_watermark(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0)
    query.run(1)
    with query.decisions() as decisions:
        last = decisions.look(query.id).last
    assert last is not None
    forget_clients()
    fetch, behind = WholeLog._once, [True, True]

    async def fetched(log: WholeLog, offset: int, last_epoch: int, wait_ms: int, deadline: Deadline) -> PartitionData:
        found = await fetch(log, offset, last_epoch, wait_ms, deadline)
        if not behind:
            return found
        behind.pop()
        return dataclasses.replace(found, high_watermark=offset, records=b"")

    monkeypatch.setattr(WholeLog, "_once", fetched)
    query.run(2)
    assert query.read() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
