"""The schedule: order within a lane, slots, what may be committed, and revoked partitions."""

from __future__ import annotations

import random

import pytest

from kafkaraw.core.fetch.offsets import OffsetAndMetadata
from kafkaraw.errors import InternalError
from kafkaraw.records import TopicPartition
from kafkaraw.worker.schedule import Schedule, State, WorkItem
from kafkaraw.worker.settings import Ordering
from tests.worker.support import ORDERS, item


def assigned(concurrency: int = 10, *, keeps_finished: bool = False) -> Schedule:
    schedule = Schedule(concurrency, keeps_finished=keeps_finished)
    schedule.assign([ORDERS])
    return schedule


def offsets(items: list[WorkItem]) -> list[int]:
    return [each.record.offset for each in items]


def planned(schedule: Schedule) -> dict[TopicPartition, int]:
    return {tp: at.offset for tp, at in schedule.commit_plan().offsets.items()}


def test_records_of_a_key_start_one_after_the_other_and_other_keys_meanwhile() -> None:
    schedule = assigned()
    items = [item(0, b"a"), item(1, b"a"), item(2, b"b")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(3))
    assert offsets(schedule.start(0)) == [0, 2]
    schedule.end(items[0], State.DONE)
    assert offsets(schedule.start(0)) == [1]


def test_records_without_a_key_have_no_order() -> None:
    schedule = assigned()
    schedule.deliver(ORDERS, [item(0, None), item(1, None)], OffsetAndMetadata(2))
    assert offsets(schedule.start(0)) == [0, 1]


@pytest.mark.parametrize(("ordering", "started"), [(Ordering.PARTITION, [0]), (Ordering.UNORDERED, [0, 1, 2])])
def test_the_ordering_decides_which_records_start_together(ordering: Ordering, started: list[int]) -> None:
    schedule = assigned()
    schedule.deliver(ORDERS, [item(each, b"k", ordering=ordering) for each in range(3)], OffsetAndMetadata(3))
    assert offsets(schedule.start(0)) == started


def test_no_more_handlers_run_than_there_are_slots_and_sending_leaves_the_slot() -> None:
    schedule = assigned(concurrency=1)
    items = [item(0, b"a"), item(1, b"b")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(2))
    assert offsets(schedule.start(0)) == [0]
    assert schedule.start(0) == []
    schedule.sending(items[0])
    assert offsets(schedule.start(0)) == [1]


def test_a_committed_offset_never_passes_an_unfinished_record() -> None:
    schedule = assigned()
    items = [item(0, b"a"), item(1, b"b"), item(5, b"c")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(9))
    schedule.start(0)
    schedule.end(items[1], State.DONE)
    assert planned(schedule) == {ORDERS: 0}
    schedule.end(items[0], State.DONE)
    assert planned(schedule) == {ORDERS: 5}
    schedule.end(items[2], State.DONE)
    assert planned(schedule) == {ORDERS: 9}, "behind offsets without records, when all records are done"
    schedule.committed(schedule.commit_plan())
    assert planned(schedule) == {}


def test_a_committed_offset_has_the_leader_epoch_of_the_record_before_it() -> None:
    schedule = assigned()
    schedule.deliver(ORDERS, [], OffsetAndMetadata(0, leader_epoch=1))
    items = [item(0, b"a", leader_epoch=1), item(1, b"b", leader_epoch=2), item(2, b"c", leader_epoch=4)]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(5, leader_epoch=7))
    schedule.start(0)
    found = [schedule.commit_plan().offsets[ORDERS]]
    for each in items:
        schedule.end(each, State.DONE)
        found.append(schedule.commit_plan().offsets[ORDERS])
    schedule.deliver(ORDERS, [item(5, b"a", leader_epoch=8)], OffsetAndMetadata(6, leader_epoch=8))
    found.append(schedule.commit_plan().offsets[ORDERS])
    assert [(at.offset, at.leader_epoch) for at in found] == [(0, 1), (1, 1), (2, 2), (5, 7), (5, 7)]


def test_a_record_that_has_failed_is_not_committed_and_blocks_its_key() -> None:
    schedule = assigned()
    items = [item(0, b"a"), item(1, b"a"), item(2, b"b")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(3))
    schedule.start(0)
    schedule.end(items[0], State.FAILED)
    schedule.end(items[2], State.DONE)
    assert schedule.start(0) == []
    assert planned(schedule) == {ORDERS: 0}


def test_a_retry_in_place_keeps_the_lane_leaves_the_slot_and_waits() -> None:
    schedule = assigned(concurrency=1)
    items = [item(0, b"a"), item(1, b"a"), item(2, b"b")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(3))
    schedule.start(0)
    schedule.retry(items[0], 5)
    assert offsets(schedule.start(1)) == [2]
    schedule.end(items[2], State.DONE)
    assert schedule.start(4.9) == []
    assert schedule.deadline_s() == 5
    assert offsets(schedule.start(5)) == [0]


def test_revocation_drops_queued_records_and_commits_those_that_finish() -> None:
    schedule = assigned(concurrency=1)
    items = [item(0, b"a"), item(1, b"b")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(2))
    schedule.start(0)
    assert schedule.freeze([ORDERS]) == [items[0]]
    schedule.deliver(ORDERS, [item(2, b"c")], OffsetAndMetadata(3))
    schedule.end(items[0], State.DONE)
    assert schedule.start(0) == []
    assert planned(schedule) == {ORDERS: 1}
    assert schedule.release([ORDERS]) == []
    assert planned(schedule) == {}


def test_a_retry_in_place_of_a_partition_that_is_being_revoked_is_dropped() -> None:
    schedule = assigned()
    only = item(0)
    schedule.deliver(ORDERS, [only], OffsetAndMetadata(1))
    schedule.start(0)
    schedule.freeze([ORDERS])
    schedule.retry(only, 0)
    assert only.state is State.DROPPED
    assert schedule.start(1) == []
    assert planned(schedule) == {ORDERS: 0}


def test_a_handler_that_outlives_its_assignment_keeps_later_records_of_its_key_waiting() -> None:
    schedule = assigned()
    before = item(0, b"a")
    schedule.deliver(ORDERS, [before], OffsetAndMetadata(1))
    schedule.start(0)
    assert schedule.release([ORDERS]) == [before]
    schedule.assign([ORDERS])
    again = [item(0, b"a"), item(1, b"b")]
    schedule.deliver(ORDERS, again, OffsetAndMetadata(2))
    assert offsets(schedule.start(0)) == [1]
    assert schedule.running == 2
    schedule.end(before, State.DONE)
    assert planned(schedule) == {ORDERS: 0}, "the result of the lost assignment does not count"
    assert schedule.start(0) == [again[0]]


def test_finished_records_stay_with_their_results_until_they_are_committed() -> None:
    schedule = assigned(keeps_finished=True)
    items = [item(0, b"a"), item(1, b"b"), item(2, b"c")]
    schedule.deliver(ORDERS, items, OffsetAndMetadata(3))
    schedule.start(0)
    schedule.end(items[1], State.DONE)
    assert schedule.commit_plan().items == []
    schedule.end(items[0], State.DONE)
    plan = schedule.commit_plan()
    assert (planned(schedule), plan.items) == ({ORDERS: 2}, items[:2])
    assert schedule.held(ORDERS) == 3
    schedule.end(items[2], State.DONE)
    schedule.committed(plan)
    assert schedule.commit_plan().items == [items[2]]


def test_nothing_starts_when_the_worker_stops() -> None:
    schedule = assigned()
    schedule.deliver(ORDERS, [item(0)], OffsetAndMetadata(1))
    schedule.is_stopping = True
    assert schedule.start(0) == []
    assert schedule.deadline_s() is None


def test_an_impossible_transition_is_a_fault() -> None:
    done = item(0)
    done.move(State.RUNNING)
    done.move(State.DONE)
    with pytest.raises(InternalError, match=r"orders-0 at offset 0: done -> running"):
        done.move(State.RUNNING)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_keep_the_order_and_commit_only_finished_records(seed: int) -> None:
    """A model: per partition, the finished offsets of the present assignment, and the keys that run."""
    rng = random.Random(seed)
    partitions = [TopicPartition("orders", number) for number in range(3)]
    schedule = Schedule(rng.choice([1, 2, 5]))
    ends = dict.fromkeys(partitions, 0)
    committed = dict.fromkeys(partitions, 0)
    finished: dict[TopicPartition, set[int]] = {}
    running: list[WorkItem] = []
    last: dict[tuple[TopicPartition, bytes], int] = {}
    keys = {(tp, offset): b"%d" % rng.randrange(4) for tp in partitions for offset in range(1000)}
    for step in range(600):
        event = rng.random()
        tp = rng.choice(partitions)
        if event < 0.05 and tp not in finished:
            schedule.assign([tp])
            finished[tp], ends[tp] = set(), committed[tp]
            last = {lane: offset for lane, offset in last.items() if lane[0] != tp}
        elif event < 0.08 and tp in finished:
            schedule.freeze([tp])
            if rng.random() < 0.5:
                commit(schedule, committed, finished)
            schedule.release([tp])
            del finished[tp]
        elif event < 0.35 and tp in finished:
            count = rng.randrange(1, 6)
            found = [item(offset, keys[tp, offset], tp) for offset in range(ends[tp], ends[tp] + count)]
            ends[tp] += count
            schedule.deliver(tp, found, OffsetAndMetadata(ends[tp]))
        elif event < 0.9 and running:
            chosen = running.pop(rng.randrange(len(running)))
            dropped = chosen.state is State.DROPPED
            if rng.random() < 0.2:
                schedule.retry(chosen, step + rng.randrange(20))
                continue
            if rng.random() < 0.5:
                schedule.sending(chosen)
            schedule.end(chosen, State.DONE)
            if not dropped:
                finished[chosen.partition].add(chosen.record.offset)
        else:
            commit(schedule, committed, finished)
        for started in schedule.start(step):
            lane = (started.partition, started.record.key)
            assert not [each for each in running if (each.partition, each.record.key) == lane], "two of a key at a time"
            assert last.get(lane, -1) <= started.record.offset, "a record of a key started before an earlier one"
            last[lane] = started.record.offset
            running.append(started)
        assert schedule.running == len(running)


def commit(schedule: Schedule, committed: dict, finished: dict) -> None:
    plan = schedule.commit_plan()
    for tp, at in plan.offsets.items():
        assert set(range(committed[tp], at.offset)) <= finished[tp], "an unfinished record was committed"
        committed[tp] = max(committed[tp], at.offset)
    schedule.committed(plan)
