"""A share partition: acquiring, acknowledging, expired locks, and what a restart keeps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from kafkaraw.core.share.in_flight import InFlight
from kafkaraw.core.share.record_states import AcknowledgeType, AcquireMode
from kafkaraw.core.share.share_partition import (
    Acknowledgement,
    Acquired,
    LogBatch,
    PendingWrite,
    Refused,
    Request,
    Settings,
    SharePartition,
)
from kafkaraw.core.share.state_batches import StateBatch, combined
from kafkaraw.protocol.error_codes import ErrorCode

ACCEPT, RELEASE, REJECT, RENEW = (
    [AcknowledgeType.ACCEPT],
    [AcknowledgeType.RELEASE],
    [AcknowledgeType.REJECT],
    [AcknowledgeType.RENEW],
)


class Log:
    """A log of batches, and one share partition of it with its stored state."""

    def __init__(self, *counts: int, settings: Settings | None = None, start: int = 0) -> None:
        self.settings = settings or Settings()
        self.batches: list[LogBatch] = []
        self.stored: list[StateBatch] = []
        self.stored_start = start
        self.now_ms = 0.0
        for count in counts:
            self.append(count)
        self.share = SharePartition(self.settings, start)

    def append(self, count: int) -> None:
        first = self.batches[-1].last + 1 if self.batches else 0
        self.batches.append(LogBatch(first, first + count - 1))

    def fetch(
        self, member: str = "m", records: int = 500, mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED, size: int = 500
    ):
        at = self.share.next_fetch_offset()
        fetched = [batch for batch in self.batches if batch.last >= at]
        return self.share.acquire(Request(member, mode, size, records), at, fetched, self.now_ms)

    def write(self, pending: PendingWrite, *, succeeded: bool = True) -> None:
        if succeeded:
            self.store(pending.batches)
        self.share.completed(pending, succeeded=succeeded, now_ms=self.now_ms)

    def store(self, batches: list[StateBatch]) -> None:
        self.stored_start = self.share.start_offset
        self.stored = combined([*self.stored, *batches], self.stored_start)

    def acknowledge(self, first: int, last: int, types: list[AcknowledgeType], member: str = "m") -> None:
        self.write(self.share.acknowledge(member, [Acknowledgement(first, last, types)], self.now_ms))

    def expire(self) -> None:
        batches = self.share.expire(self.now_ms)
        if batches:
            self.store(batches)
            self.share.advance()

    def restart(self) -> None:
        self.share = SharePartition(self.settings, self.stored_start, self.stored)


def test_accepted_records_move_the_start_offset() -> None:
    log = Log(5, 5)
    assert log.fetch() == [Acquired(0, 9, 1)]
    log.acknowledge(0, 2, ACCEPT)
    assert log.share.start_offset == 3
    log.acknowledge(5, 9, ACCEPT)
    assert (log.share.start_offset, log.share.complete_count) == (3, 5)
    log.acknowledge(3, 4, REJECT)
    assert (log.share.start_offset, log.share.in_flight, log.share.next_fetch_offset()) == (10, 0, 10)


def test_an_expired_lock_makes_records_available() -> None:
    log = Log(3)
    log.fetch("one")
    assert log.fetch("two") == []
    assert log.share.deadline_ms() == log.settings.lock_duration_ms
    log.now_ms = log.settings.lock_duration_ms
    log.expire()
    assert log.fetch("two") == [Acquired(0, 2, 2)]
    with pytest.raises(Refused) as late:
        log.acknowledge(0, 2, ACCEPT, "one")
    assert late.value.code == ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_lock_lasts_longer() -> None:
    log = Log(3)
    log.fetch()
    log.now_ms = 20_000
    log.acknowledge(0, 2, RENEW)
    log.now_ms = 30_000
    log.expire()
    assert log.fetch("other") == []
    log.now_ms = 50_000
    log.expire()
    assert log.fetch("other") == [Acquired(0, 2, 2)]


def test_a_failed_write_takes_acknowledgements_back() -> None:
    log = Log(4)
    log.fetch()
    pending = log.share.acknowledge("m", [Acknowledgement(0, 3, ACCEPT)], 0)
    with pytest.raises(Refused):
        log.share.acknowledge("m", [Acknowledgement(0, 3, ACCEPT)], 0)
    log.write(pending, succeeded=False)
    assert log.share.start_offset == 0
    log.acknowledge(0, 3, ACCEPT)
    assert log.share.start_offset == 4


def test_all_acknowledgements_of_a_request_apply_or_none() -> None:
    log = Log(4, 4)
    log.fetch(records=4)
    with pytest.raises(Refused):
        log.share.acknowledge("m", [Acknowledgement(0, 1, ACCEPT), Acknowledgement(2, 9, ACCEPT)], 0)
    log.acknowledge(0, 3, ACCEPT)
    assert log.share.start_offset == 4


def test_a_member_that_leaves_releases_its_records() -> None:
    log = Log(4)
    log.fetch("one")
    log.write(log.share.release("one"))
    assert log.fetch("two") == [Acquired(0, 3, 2)]


def test_the_start_of_the_log_gives_records_up() -> None:
    log = Log(5, 5)
    log.fetch("one", records=5)
    log.share.move_start(7)
    assert log.share.next_fetch_offset() == 7
    assert log.fetch("two") == [Acquired(7, 9, 1)]
    log.acknowledge(7, 9, ACCEPT, "two")
    log.write(log.share.release("one"))
    assert log.share.next_fetch_offset() == 10


def test_records_in_flight_are_limited() -> None:
    log = Log(60, 60, 60, settings=Settings(records_in_flight_max=100))
    assert log.fetch() == [Acquired(0, 119, 1)]
    assert not log.share.can_acquire and log.fetch() == []
    log.acknowledge(0, 9, RELEASE)
    assert log.share.can_acquire and log.fetch("two") == [Acquired(0, 9, 2)]


def test_a_restart_keeps_what_was_written() -> None:
    log = Log(5, 5)
    log.fetch()
    log.acknowledge(5, 9, ACCEPT)
    log.restart()
    assert log.fetch() == [Acquired(0, 4, 1)]
    log.acknowledge(0, 4, ACCEPT)
    assert log.share.start_offset == 10


def one_life(seed: int, steps: int = 120) -> None:
    """Members that fetch, acknowledge, die and are late; writes that fail; restarts."""
    rng = random.Random(seed)
    limit = rng.choice([2, 3, 5])
    log = Log(settings=Settings(limit, 1_000, rng.choice([20, 50])))
    accepted: set[int] = set()
    delivered: Counter[int] = Counter()
    held: dict[str, dict[int, float]] = {}
    for _ in range(steps):
        step = rng.choice("ffffaaaarewtlx")
        member = rng.choice(["one", "two", "three"])
        if step == "w" or not log.batches:
            log.append(rng.randrange(1, 9))
        elif step == "f":
            mode = rng.choice(list(AcquireMode))
            for each in log.fetch(member, rng.randrange(1, 12), mode, rng.randrange(1, 9)):
                for offset in range(each.first, each.last + 1):
                    assert offset not in accepted, f"seed {seed}: {offset} was accepted"
                    assert 1 <= each.delivery_count <= limit
                    others = [who for who, own in held.items() if own.get(offset, -1.0) > log.now_ms]
                    assert not others, f"seed {seed}: {offset} is locked for {others}"
                    delivered[offset] += 1
                    held.setdefault(member, {})[offset] = log.now_ms + 1_000
        elif step == "a" and held.get(member):
            first = rng.choice(sorted(held[member]))
            last = first
            while last + 1 in held[member] and rng.random() < 0.7:
                last += 1
            kinds = [rng.choice([ACCEPT, RELEASE, REJECT, RENEW])[0] for _ in range(last - first + 1)]
            types = kinds if rng.random() < 0.5 else kinds[:1]
            try:
                pending = log.share.acknowledge(member, [Acknowledgement(first, last, types)], log.now_ms)
            except Refused:
                continue
            succeeded = rng.random() < 0.9
            log.write(pending, succeeded=succeeded)
            for offset in range(first, last + 1):
                kind = types[0] if len(types) == 1 else types[offset - first]
                if kind is AcknowledgeType.RENEW:
                    held[member][offset] = log.now_ms + 1_000
                elif succeeded:
                    held[member].pop(offset, None)
                    if kind is AcknowledgeType.ACCEPT:
                        accepted.add(offset)
        elif step == "r":
            log.write(log.share.release(member))
            held.pop(member, None)
        elif step == "x":
            log.restart()
            held.clear()
        elif step == "e":
            log.now_ms += rng.choice([300, 1_500])
            log.expire()
    # In the end, a member that accepts everything gets whatever is left, and nothing is lost.
    log.now_ms += 10_000
    log.expire()
    log.restart()
    for _ in range(10_000):
        found = log.fetch("last")
        if not found:
            break
        for each in found:
            assert not accepted & set(range(each.first, each.last + 1))
            delivered.update(range(each.first, each.last + 1))
            log.acknowledge(each.first, each.last, ACCEPT, "last")
    end = log.batches[-1].last + 1 if log.batches else 0
    assert log.share.start_offset == end, f"seed {seed}"
    assert set(delivered) == set(range(end)), f"seed {seed}: lost {set(range(end)) - set(delivered)}"


def test_no_record_is_lost_and_none_that_was_accepted_is_delivered_again() -> None:
    for seed in range(100):
        one_life(seed)


def _skips_a_record(patch: pytest.MonkeyPatch) -> None:
    advance = SharePartition.advance

    def moves_too_far(share: SharePartition) -> None:
        before = share.start_offset
        advance(share)
        if share.start_offset > before and share.in_flight:
            share.start_offset += 1

    patch.setattr(SharePartition, "advance", moves_too_far)


def _delivers_too_often(patch: pytest.MonkeyPatch) -> None:
    released = InFlight.released
    patch.setattr(InFlight, "released", lambda state, wanted, limit: released(state, wanted, limit + 1))


def _forgets_acceptance(patch: pytest.MonkeyPatch) -> None:
    completed = SharePartition.completed

    def takes_back(share: SharePartition, pending: PendingWrite, *, succeeded: bool, now_ms: float) -> None:
        completed(share, pending, succeeded=False, now_ms=now_ms)

    patch.setattr(SharePartition, "completed", takes_back)


def _ends_locks_early(patch: pytest.MonkeyPatch) -> None:
    expire = SharePartition.expire
    patch.setattr(SharePartition, "expire", lambda share, now_ms: expire(share, now_ms + 900))


@pytest.mark.parametrize("plant", [_skips_a_record, _delivers_too_often, _forgets_acceptance, _ends_locks_early])
def test_planted_bugs_are_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(100):
            one_life(seed)


@pytest.mark.soak
def test_many_lives() -> None:
    for seed in range(1_000, 2_000):
        one_life(seed)
