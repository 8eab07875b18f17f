"""Reads and writes of the state of a share partition: one after the other, and writes that wait together."""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.broker.shares.coordinator import Outcome, Write
from kafkaraw.broker.shares.partitions import StateOperations
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.core.share.share_partition import Settings, SharePartition
from kafkaraw.core.share.state_batches import StateBatch
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

KEY, OTHER = ShareKey("g", Uuid(bytes(16)), 0), ShareKey("g", Uuid(bytes(16)), 1)
ACCEPTED = 2


class Coordinator:
    """Notes what it is asked to do."""

    def __init__(self) -> None:
        self.asked: list[tuple[ShareKey, Write | None]] = []

    def read(self, key: ShareKey, leader_epoch: int, done: object) -> None:
        self.asked.append((key, None))

    def write(self, key: ShareKey, write: Write, done: object) -> None:
        self.asked.append((key, write))


class Node:
    """A way to a coordinator whose answers the test gives."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.answers: list[Callable[[Outcome], None]] = []

    def ask(self, key: ShareKey, operation: Callable, done: Callable[[Outcome], None]) -> None:
        operation(self.coordinator, done)
        self.answers.append(done)


class Given:
    """Operations on a share partition whose machine says where it begins."""

    def __init__(self) -> None:
        self.node = Node()
        self.operations = StateOperations(self.node)
        self.machine = SharePartition(Settings(), 0)
        self.ended: list[tuple[str, ErrorCode]] = []

    def write(self, name: str, offset: int, machine: SharePartition | None = None) -> None:
        own = machine or self.machine

        def make(batches: tuple[StateBatch, ...]) -> Write:
            return Write(0, 0, own.start_offset, 0, batches)

        batch = StateBatch(offset, offset, ACCEPTED, 1)
        self.operations.write(KEY, own, [batch], make, lambda outcome: self.ended.append((name, outcome.code)))

    def read(self, name: str, key: ShareKey = KEY) -> None:
        self.operations.read(key, 0, lambda outcome: self.ended.append((name, outcome.code)))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.node.answers.pop(0)(Outcome(code))


def test_a_read_waits_for_the_write_before_it():
    given = Given()
    given.write("write", 0)
    given.read("read")
    assert len(given.node.coordinator.asked) == 1
    given.answer()
    assert given.ended == [("write", ErrorCode.NONE)]
    assert given.node.coordinator.asked[1] == (KEY, None)
    given.answer()
    assert given.ended[1:] == [("read", ErrorCode.NONE)]


def test_writes_that_wait_are_written_together_with_the_start_offset_of_that_time():
    given = Given()
    for offset in range(3):
        given.write(f"write {offset}", offset)
    given.machine.start_offset = 1
    given.answer()
    _, write = given.node.coordinator.asked[1]
    assert write is not None
    assert (write.start_offset, [batch.first_offset for batch in write.batches]) == (1, [1, 2])
    given.answer(ErrorCode.NOT_COORDINATOR)
    assert given.ended == [
        ("write 0", ErrorCode.NONE),
        ("write 1", ErrorCode.NOT_COORDINATOR),
        ("write 2", ErrorCode.NOT_COORDINATOR),
    ]


def test_writes_of_another_life_of_the_share_partition_are_written_apart():
    given = Given()
    given.write("first", 0)
    given.write("second", 1)
    given.write("of another life", 2, SharePartition(Settings(), 0))
    given.answer()
    given.answer()
    assert len(given.node.coordinator.asked) == 3


def test_share_partitions_do_not_wait_for_each_other():
    given = Given()
    given.write("write", 0)
    given.read("other", OTHER)
    assert [key for key, _ in given.node.coordinator.asked] == [KEY, OTHER]
