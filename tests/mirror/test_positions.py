"""A flow continues at its positions, and never leaves out records of the source silently."""

from __future__ import annotations

import pytest

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import replace
from kafkaraw.mirror.interfaces import OnLoss, StartAt
from kafkaraw.mirror.positions import (
    FlowTakenOverError,
    PartitionFacts,
    Position,
    RecordsLostError,
    RunIds,
    SourceReplacedError,
    SourceTruncatedError,
    Start,
    TargetTruncatedError,
    start_of,
)
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

SOURCE, TARGET = TopicPartition("orders", 1), TopicPartition("a.orders", 1)
ONE, OTHER = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
POSITION = Position(50, 3, ONE, ONE, "run")
FACTS = PartitionFacts(SOURCE, TARGET, ONE, ONE, POSITION, first_offset=10, end_offset=90, target_end_offset=40)


def start(facts: PartitionFacts, on_loss: OnLoss = OnLoss.FAIL, start_at: StartAt | None = None) -> Start:
    return start_of(facts, on_loss=on_loss, start_at=start_at)


def test_position_is_read_as_it_was_written() -> None:
    assert Position.parse(50, 3, POSITION.metadata) == POSITION
    assert Position.parse(50, 3, (after := POSITION._replace(target_end=40)).metadata) == after
    assert Position.parse(50, -1, "of another tool, =x source=?") == Position(50, -1, ZERO_UUID, ZERO_UUID)


def test_position_is_continued_with_its_leader_epoch() -> None:
    assert start(FACTS) == Start(50, 3)
    assert start(replace(FACTS, position=Position(90, 3, ONE, ONE))) == Start(90, 3)
    assert start(replace(FACTS, source_id=ZERO_UUID)) == Start(50, 3), "brokers before 2.8 have no ids"


def test_partition_without_position_begins_at_its_first_offset() -> None:
    new = replace(FACTS, position=None, target_end_offset=0)
    assert start(new) == Start(10)
    assert start(new, start_at=StartAt.EARLIEST) == Start(10)
    assert start(new, start_at=StartAt.LATEST) == Start(90)
    with pytest.raises(UsageError, match="up to offset 39, and the mirror has no position"):
        start(replace(new, target_end_offset=40))


@pytest.mark.parametrize(("start_at", "offset"), [(StartAt.EARLIEST, 10), (StartAt.LATEST, 90)])
def test_begin_behind_records_of_a_copy_without_position_is_reported(start_at: StartAt, offset: int) -> None:
    found = start(replace(FACTS, position=None), start_at=start_at)
    assert found.offset == offset
    assert f"from offset {offset} of orders-1" in found.notice


@pytest.mark.parametrize(
    ("facts", "kind", "offset"),
    [
        (replace(FACTS, first_offset=60), RecordsLostError, 60),
        (replace(FACTS, end_offset=40), SourceTruncatedError, 40),
        (replace(FACTS, source_id=OTHER), SourceReplacedError, 10),
    ],
    ids=["retention", "truncation", "replacement"],
)
def test_loss_is_an_error_or_a_notice(facts: PartitionFacts, kind: type[KafkaError], offset: int) -> None:
    with pytest.raises(kind, match=r"on\.loss=continue"):
        start(facts)
    found = start(facts, OnLoss.CONTINUE)
    assert found.offset == offset
    assert "orders" in found.notice


@pytest.mark.parametrize("on_loss", OnLoss)
def test_copy_that_has_lost_records_is_an_error(on_loss: OnLoss) -> None:
    assert start(replace(FACTS, position=POSITION._replace(target_end=40))) == Start(50, 3)
    with pytest.raises(TargetTruncatedError, match="ends at offset 40, and has had records up to offset 40"):
        start(replace(FACTS, position=POSITION._replace(target_end=41)), on_loss)


def test_gap_is_exact() -> None:
    with pytest.raises(RecordsLostError) as raised:
        start(replace(FACTS, first_offset=60))
    assert (raised.value.partition, raised.value.first_offset, raised.value.last_offset) == (SOURCE, 50, 59)


def test_copy_that_was_created_again_is_copied_anew() -> None:
    found = start(replace(FACTS, target_id=OTHER))
    assert found.offset == 10
    assert "created again" in found.notice


def test_position_of_another_process_is_noticed() -> None:
    runs = RunIds("own")
    runs.check({SOURCE: POSITION}, "a->b")
    runs.check({SOURCE: POSITION, TARGET: Position(1, 0, ONE, ONE, "own")}, "a->b")
    runs.check({SOURCE: Position(60, 0, ONE, ONE, "own")}, "a->b")
    with pytest.raises(FlowTakenOverError, match="another process"):
        runs.check({SOURCE: Position(70, 0, ONE, ONE, "third")}, "a->b")
    with pytest.raises(FlowTakenOverError, match="orders-1"):
        runs.check({SOURCE: Position(51, 3, ONE, ONE, "run")}, "a->b")
