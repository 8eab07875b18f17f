"""Markers are sent until all are written, by whoever is in office; who refuses them knows better."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.broker.transactions.markers import RETRY_S, MarkerSender
from kafkaraw.broker.transactions.states import Transaction, TransactionState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import ControlType, TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ENDING = Transaction(
    "id", producer_id=7, producer_epoch=3, state=TransactionState.PREPARE_COMMIT, partitions=frozenset({A, B})
)


class Leader:
    """Leads every partition, and answers each marker with the next code that it was told for its partition."""

    def __init__(self, codes: dict[TopicPartition, list[ErrorCode]]) -> None:
        self.codes = codes
        self.asked: list[tuple[TopicPartition, ControlType, ProducerIdAndEpoch, int]] = []
        self.office = True

    def send(self, other: object, message: Callable[[], None]) -> None:
        message()

    def append_marker(
        self,
        where: TopicPartition,
        kind: ControlType,
        who: ProducerIdAndEpoch,
        epoch: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        self.asked.append((where, kind, who, epoch))
        done(self.codes[where].pop(0) if self.codes.get(where) else ErrorCode.NONE)

    def sender(self) -> MarkerSender:
        controller = SimpleNamespace(
            catalog=SimpleNamespace(state_of=lambda _: SimpleNamespace(leader=0)), transactions_of=lambda _: self
        )
        return MarkerSender(self, controller, 5, lambda: self.office)  # type: ignore[arg-type]


def write(leader: Leader, *, resign_after_s: float | None = None) -> int:
    """Have the markers written; how often that was said to be done."""
    done: list[None] = []

    async def main(_: Simulation) -> None:
        leader.sender().write(ENDING, lambda: done.append(None))
        await asyncio.sleep(resign_after_s or 0)
        leader.office = resign_after_s is None
        await asyncio.sleep(10)

    run_virtual(main, 1)
    return len(done)


def test_each_partition_gets_one_with_the_epochs_of_producer_and_coordinator():
    leader = Leader({})
    assert write(leader) == 1
    assert leader.asked == [(where, ControlType.COMMIT, ProducerIdAndEpoch(7, 3), 5) for where in (A, B)]


def test_what_fails_is_sent_again_until_it_is_written():
    leader = Leader({A: [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]})
    assert write(leader) == 1
    assert [asked[0] for asked in leader.asked] == [A, B, A, A]


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_coordinator_stops_writing_markers(code: ErrorCode):
    leader = Leader({A: [code]})
    assert write(leader) == 0
    assert [asked[0] for asked in leader.asked] == [A, B]


def test_a_coordinator_that_has_resigned_sends_nothing_any_more():
    leader = Leader({A: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100})
    assert write(leader, resign_after_s=2.5 * RETRY_S) == 0
    assert [asked[0] for asked in leader.asked].count(A) == 3
