"""Conversations with the share coordinator, to be had with two brokers; see `group_questions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from kafkaraw.protocol.messages.delete_share_group_state import PartitionData as Deleted
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kafkaraw.protocol.messages.initialize_share_group_state import PartitionData as Initialized
from kafkaraw.protocol.messages.read_share_group_state import PartitionData as Read
from kafkaraw.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kafkaraw.protocol.messages.read_share_group_state_summary import PartitionData as Summarized
from kafkaraw.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kafkaraw.protocol.messages.write_share_group_state import PartitionData as Written
from kafkaraw.protocol.messages.write_share_group_state import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.interop.group_questions import READY_SECONDS, Table

SHARE: Final = 2


def initialize(table: Table, partition: int = 0, epoch: int = 1, start: int = -1) -> InitializeShareGroupStateRequest:
    asked = Initialized(partition=partition, state_epoch=epoch, start_offset=start)
    topic = InitializeStateData(topic_id=table.topic_id, partitions=[asked])
    return InitializeShareGroupStateRequest(group_id=table.group_id, topics=[topic])


def write(
    table: Table, *batches: tuple[int, int, int, int], start: int = -1, epoch: int = 1, leader: int = 0, count: int = -1
) -> WriteShareGroupStateRequest:
    asked = Written(
        partition=0,
        state_epoch=epoch,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=count,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=delivered)
            for first, last, state, delivered in batches
        ],
    )
    topic = WriteStateData(topic_id=table.topic_id, partitions=[asked])
    return WriteShareGroupStateRequest(group_id=table.group_id, topics=[topic])


def read(table: Table, leader: int = 0, partition: int = 0) -> ReadShareGroupStateRequest:
    asked = Read(partition=partition, leader_epoch=leader)
    return ReadShareGroupStateRequest(
        group_id=table.group_id, topics=[ReadStateData(topic_id=table.topic_id, partitions=[asked])]
    )


def summary(table: Table, partition: int = 0) -> ReadShareGroupStateSummaryRequest:
    asked = Summarized(partition=partition, leader_epoch=0)
    return ReadShareGroupStateSummaryRequest(
        group_id=table.group_id, topics=[ReadStateSummaryData(topic_id=table.topic_id, partitions=[asked])]
    )


def delete(table: Table) -> DeleteShareGroupStateRequest:
    topic = DeleteStateData(topic_id=table.topic_id, partitions=[Deleted(partition=0)])
    return DeleteShareGroupStateRequest(group_id=table.group_id, topics=[topic])


def ready(table: Table) -> None:
    """Wait until the share coordinator of the first partition answers."""
    client = table.client()
    key = f"{table.group_id}:{table.topic_id}:0"
    deadline = time.monotonic() + READY_SECONDS
    while True:
        found = client.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 6).coordinators[0]
        if not found.error_code and not client.ask(summary(table), 1).results[0].partitions[0].error_code:
            return
        assert time.monotonic() < deadline, "the share coordinator is not ready"
        time.sleep(0.1)


def _life(table: Table) -> Iterator[Any]:
    """A state is initialized, written, read and deleted."""
    ready(table)
    client = table.client()
    yield client.ask(summary(table), 1)
    yield client.ask(read(table), 0)
    yield client.ask(write(table, (0, 9, 0, 1)), 1)
    yield client.ask(initialize(table), 0)
    yield client.ask(read(table), 0)
    yield client.ask(summary(table), 1)
    yield client.ask(write(table, (0, 9, 0, 1), (10, 19, 2, 1), start=0, count=10), 1)
    yield client.ask(write(table, (5, 9, 2, 2), (3, 3, 4, 2), (20, 29, 0, 1), start=3), 1)
    yield client.ask(read(table, leader=-1), 0)
    yield client.ask(summary(table), 1)
    yield client.ask(summary(table), 0)
    yield client.ask(delete(table), 0)
    yield client.ask(delete(table), 0)
    yield client.ask(read(table), 0)


def _fenced(table: Table) -> Iterator[Any]:
    """Earlier leaders and states are fenced."""
    ready(table)
    client = table.client()
    yield client.ask(initialize(table, epoch=3), 0)
    yield client.ask(read(table, leader=4), 0)
    yield client.ask(read(table, leader=3), 0)
    yield client.ask(write(table, (0, 0, 2, 1), epoch=3, leader=3), 1)
    yield client.ask(write(table, (0, 0, 2, 1), epoch=2, leader=4), 1)
    yield client.ask(initialize(table, epoch=2), 0)
    yield client.ask(initialize(table, epoch=4, start=7), 0)
    yield client.ask(summary(table), 1)
    yield client.ask(read(table, leader=3), 0)


def _invalid(table: Table) -> Iterator[Any]:
    """Partitions that do not exist, and a group without a name."""
    ready(table)
    client = table.client()
    yield client.ask(initialize(table, partition=7), 0)
    yield client.ask(initialize(table, partition=-1), 0)
    yield client.ask(summary(table, partition=-1), 1)
    yield client.ask(summary(table, partition=7), 1)
    yield client.ask(read(table, partition=-1), 0)
    table.group_id = ""
    yield client.ask(initialize(table), 0)
    yield client.ask(read(table), 0)
    table.group_id = "g"
    for key in ("g", f"g:{table.topic_id}:x", f"g:{table.topic_id}:0"):
        answer = client.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 6)
        yield answer.coordinators[0].error_code


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    "share_state_life": _life,
    "share_state_fenced": _fenced,
    "share_state_invalid": _invalid,
}
