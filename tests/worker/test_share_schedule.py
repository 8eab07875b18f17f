"""The schedule of a share group: slots, waits, locks, and one answer for each record."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kafkaraw.core.share.acknowledgements import AcknowledgeType, AcquiredRange, RecordsInHand
from kafkaraw.errors import InternalError
from kafkaraw.worker.schedule import Schedule, State, WorkItem
from kafkaraw.worker.share_schedule import ShareSchedule
from tests.worker.support import ORDERS, item

LOCK_S = 10.0


def a_schedule(concurrency: int = 2, *, can_renew: bool = True) -> ShareSchedule:
    schedule = ShareSchedule(concurrency, 100)
    schedule.lock_s, schedule.can_renew = LOCK_S, can_renew
    return schedule


def delivered(schedule: ShareSchedule, first: int, count: int, until_s: float = LOCK_S) -> tuple[list, RecordsInHand]:
    in_hand = RecordsInHand(ORDERS, [AcquiredRange(first, first + count - 1, 1)])
    in_hand.found(range(first, first + count))
    items = [item(offset, None) for offset in range(first, first + count)]
    schedule.deliver(items, in_hand, until_s)
    return items, in_hand


def sent(in_hand: RecordsInHand) -> dict[int, int]:
    """Take what is to be sent, by offset."""
    found: dict[int, int] = {}
    for first, last, types in in_hand.take():
        offsets = range(first, last + 1)
        found |= dict(zip(offsets, types if len(types) > 1 else types * len(offsets), strict=True))
    return found


def answer(schedule: ShareSchedule, in_hand: RecordsInHand, offsets: list[int], *, is_stored: bool) -> list[WorkItem]:
    """The broker answers, as the client passes it on."""
    in_hand.renewal_ended(offsets, is_renewed=is_stored)
    return schedule.answered(ORDERS, offsets, is_stored=is_stored)


def test_as_many_records_are_wanted_as_handlers_are_free():
    schedule = a_schedule(3)
    assert schedule.wanted(0) == 3
    items, _ = delivered(schedule, 0, 2)
    assert schedule.wanted(0) == 1
    schedule.start(0)
    schedule.release_later(items[0], 5)
    assert schedule.wanted(0) == 2
    schedule.is_stopping = True
    assert schedule.wanted(0) == 0


def test_each_end_has_its_answer():
    schedule = a_schedule(4)
    items, in_hand = delivered(schedule, 0, 4)
    schedule.start(0)
    items[1].is_dead = True
    schedule.end(items[0], State.DONE)
    schedule.end(items[1], State.DONE)
    schedule.end(items[2], State.FAILED)
    schedule.release_later(items[3], 5)
    kind = AcknowledgeType
    assert sent(in_hand) == {0: kind.ACCEPT, 1: kind.REJECT, 2: kind.RELEASE}
    assert (schedule.release_due(4.9), schedule.release_due(4.9999)) == (0, 1)  # a clock may be early
    assert sent(in_hand) == {3: kind.RELEASE}
    assert (schedule.held, schedule.accepted, schedule.rejected, schedule.released) == (0, 1, 1, 2)


def test_an_answer_waits_for_that_to_a_renewal():
    schedule = a_schedule()
    (first, second), in_hand = delivered(schedule, 0, 2)
    schedule.start(0)
    assert schedule.renew(4.9) == 0
    assert schedule.renew(5) == 2
    assert sent(in_hand) == {0: AcknowledgeType.RENEW, 1: AcknowledgeType.RENEW}
    schedule.end(first, State.DONE)
    assert sent(in_hand) == {}
    assert answer(schedule, in_hand, [0, 1], is_stored=True) == []
    assert sent(in_hand) == {0: AcknowledgeType.ACCEPT}
    assert schedule.renew(9.9) == 0  # the lock of the other record lasts until 15
    assert schedule.renew(10) == 1
    assert second.state is State.RUNNING


def test_an_answer_replaces_a_renewal_that_is_not_sent():
    schedule = a_schedule()
    (first,), in_hand = delivered(schedule, 0, 1)
    schedule.start(0)
    schedule.renew(5)
    schedule.end(first, State.DONE)
    assert sent(in_hand) == {0: AcknowledgeType.ACCEPT}


def test_a_refused_renewal_drops_the_record_in_work_and_a_refused_answer_is_late():
    schedule = a_schedule()
    (first, second), in_hand = delivered(schedule, 0, 2)
    schedule.start(0)
    schedule.renew(5)
    sent(in_hand)
    schedule.end(second, State.DONE)
    assert answer(schedule, in_hand, [0, 1], is_stored=False) == [first]
    assert (first.state, schedule.held, schedule.late) == (State.DROPPED, 0, 1)
    schedule.end(first, State.DONE)
    assert sent(in_hand) == {}


def test_locks_that_cannot_be_renewed_are_announced_once_and_waits_end_before_them():
    schedule = a_schedule(can_renew=False)
    (first, second), in_hand = delivered(schedule, 0, 2)
    schedule.start(0)
    schedule.release_later(second, 60)
    assert schedule.renew(9) == 0
    assert schedule.release_at_s() == 7.5
    schedule.release_due(7.5)
    assert sent(in_hand) == {1: AcknowledgeType.RELEASE}
    assert (schedule.ending(7.5), schedule.ending(8)) == ([first], [])


def test_a_record_that_comes_back_while_its_handler_runs_gets_the_new_lock():
    schedule = a_schedule()
    (first,), before = delivered(schedule, 0, 1)
    schedule.start(0)
    (again,), after = delivered(schedule, 0, 1, 20.0)
    assert schedule.start(0) == []
    schedule.end(first, State.DONE)
    assert (sent(before), sent(after)) == ({}, {0: AcknowledgeType.ACCEPT})
    assert again.state is State.QUEUED


def test_a_stopping_worker_releases_what_has_not_started():
    schedule = a_schedule(1)
    (first, second, third), in_hand = delivered(schedule, 0, 3)
    schedule.start(0)
    schedule.release_later(first, 60)
    schedule.start(0)
    schedule.is_stopping = True
    schedule.release_due(0)
    assert sent(in_hand) == {0: AcknowledgeType.RELEASE, 2: AcknowledgeType.RELEASE}
    assert (second.state, third.state) == (State.RUNNING, State.DROPPED)


def test_a_consumer_group_releases_no_records():
    with pytest.raises(InternalError, match="share groups"):
        Schedule(1).release_later(item(0), 1)


def test_in_any_order_of_events_each_lock_has_one_answer_and_slots_are_not_exceeded():
    for seed in range(8):
        rng = random.Random(seed)
        schedule, now_s, offset = a_schedule(3), 0.0, 0
        hands: list[RecordsInHand] = []
        working: list[WorkItem] = []
        asked: list[tuple[RecordsInHand, dict[int, int]]] = []
        answers: Counter[int] = Counter()
        lost: set[int] = set()
        for step in range(300):
            now_s += rng.random() * 3
            schedule.is_stopping = step > 250
            wanted = schedule.wanted(now_s)
            if wanted and rng.random() < 0.5:
                _, in_hand = delivered(schedule, offset, count := rng.randint(1, wanted), now_s + LOCK_S)
                hands.append(in_hand)
                offset += count
            schedule.release_due(now_s)
            schedule.renew(now_s)
            working += schedule.start(now_s)
            assert schedule.running == sum(each.has_slot for each in working) <= 3
            if working and (rng.random() < 0.6 or schedule.is_stopping):
                each = working.pop(rng.randrange(len(working)))
                each.is_dead = rng.random() < 0.2
                if rng.random() < 0.3:
                    schedule.release_later(each, now_s + rng.choice([0, 5, 30]))
                else:
                    schedule.end(each, rng.choice([State.DONE, State.DONE, State.FAILED]))
            for in_hand in hands:
                if found := sent(in_hand):
                    answers.update(key for key, kind in found.items() if kind != AcknowledgeType.RENEW)
                    asked.append((in_hand, found))
            while asked and rng.random() < 0.5:
                in_hand, found = asked.pop(0)
                is_stored = rng.random() < 0.9
                if not is_stored:
                    lost |= found.keys()
                answer(schedule, in_hand, list(found), is_stored=is_stored)
        for in_hand, found in asked:
            answer(schedule, in_hand, list(found), is_stored=True)
        for in_hand in hands:
            answers.update(sent(in_hand).keys())
        assert schedule.held == 0, f"seed {seed}"
        assert max(answers.values()) == 1, f"seed {seed}"
        assert set(range(offset)) - lost <= answers.keys(), f"seed {seed}"
