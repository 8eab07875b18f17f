"""Bugs to plant, one at a time, so that the simulation can show that it finds them.

    python -m tests.simulation.plants [NAME ...]

prints for each how many seeds it took, and by which invariants it was found. A new invariant brings a plant with it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from kafkaraw.broker.partition import Appended, Partition
from kafkaraw.broker.producers import ProducerTable
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.core.producer.partition import PartitionQueue
from kafkaraw.records import Batch, BatchPromise
from kafkaraw.testing.audit import Invariant, audit
from kafkaraw.testing.virtual import run_virtual
from tests.simulation.world import SEEDS, life


def broker_acknowledges_without_appending(monkeypatch):
    appends = iter(range(1_000_000))
    write = Partition._write

    def forget_some(self, batch, now_ms):
        if next(appends) % 10 == 9:
            return Appended(self.log.log_end_offset, self.log.log_end_offset + 1)
        return write(self, batch, now_ms)

    monkeypatch.setattr(Partition, "_write", forget_some)


def broker_does_not_recognise_repeats(monkeypatch):
    monkeypatch.setattr(ProducerTable, "check", lambda self, header: None)


def producer_numbers_anew_what_it_sends_again(monkeypatch):
    send_back = PartitionQueue.send_back

    def renumber(self, shipment, *, starts_over=False):
        send_back(self, shipment, starts_over=True)

    monkeypatch.setattr(PartitionQueue, "send_back", renumber)


def producer_lines_up_what_came_back_the_wrong_way(monkeypatch):
    line_up = PartitionQueue.try_settle_drain

    def reverse(self, resume_ms):
        settled = line_up(self, resume_ms)
        if settled:
            self._start_over()
            self.waiting.reverse()
        return settled

    monkeypatch.setattr(PartitionQueue, "try_settle_drain", reverse)


def consumer_steps_over_a_record(monkeypatch):
    records = Batch.__iter__

    def without_the_last(self):
        everything = list(records(self))
        return iter(everything[:-1] if len(everything) > 3 else everything)

    monkeypatch.setattr(Batch, "__iter__", without_the_last)


def broker_names_the_wrong_offset(monkeypatch):
    write = Partition._write

    def off_by_one(self, batch, now_ms):
        appended = write(self, batch, now_ms)
        return replace(appended, base_offset=appended.base_offset + 1)

    monkeypatch.setattr(Partition, "_write", off_by_one)


def producer_forgets_to_tell(monkeypatch):
    resolve, number = BatchPromise.resolve, iter(range(1_000_000))

    def forget_some(self, *args, **kwargs):
        if next(number) % 20 != 19:
            resolve(self, *args, **kwargs)

    monkeypatch.setattr(BatchPromise, "resolve", forget_some)


def consumer_hands_out_a_batch_twice(monkeypatch):
    poll, last = AsyncConsumer.poll, {}

    async def again(self, *args, **kwargs):
        batches = await poll(self, *args, **kwargs)
        if not batches and last.get(self):
            return last.pop(self)
        last[self] = batches
        return batches

    monkeypatch.setattr(AsyncConsumer, "poll", again)


@dataclass(frozen=True)
class Plant:
    """A bug: how to plant it, and the invariants by which it may be found."""

    plant: Callable[[pytest.MonkeyPatch], None]
    invariants: frozenset[Invariant]


def _plant(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> tuple[str, Plant]:
    return plant.__name__, Plant(plant, frozenset(invariants))


PLANTS = dict(
    (
        _plant(broker_acknowledges_without_appending, Invariant.LOST_WRITE, Invariant.INCONSISTENT_OFFSETS),
        _plant(broker_does_not_recognise_repeats, Invariant.DUPLICATE),
        _plant(producer_numbers_anew_what_it_sends_again, Invariant.DUPLICATE),
        _plant(producer_lines_up_what_came_back_the_wrong_way, Invariant.SEND_SKIP, Invariant.DUPLICATE),
        _plant(producer_forgets_to_tell, Invariant.UNSETTLED),
        _plant(consumer_steps_over_a_record, Invariant.LOST_WRITE, Invariant.POLL_SKIP),
        _plant(consumer_hands_out_a_batch_twice, Invariant.NONMONOTONIC_POLL, Invariant.DUPLICATE),
        _plant(broker_names_the_wrong_offset, Invariant.INCONSISTENT_OFFSETS),
    )
)


def find(name: str, seeds: int = SEEDS) -> tuple[int, set[Invariant]]:
    """Plant a bug and simulate until it is found.

    Returns:
        How many seeds it took, and which invariants were violated; none when it was not found.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        PLANTS[name].plant(monkeypatch)
        for seed in range(seeds):
            violations = audit(run_virtual(life, seed)[0])
            if violations:
                return seed + 1, {violation.invariant for violation in violations}
    return seeds, set()


def main(names: list[str]) -> int:
    """Print a line for each plant; 1 when one was not found."""
    logging.disable()
    missed = 0
    for name in names or PLANTS:
        seeds, invariants = find(name)
        missed += not invariants
        print(f"{name}: {f'{seeds} seeds: ' + ', '.join(sorted(invariants)) if invariants else 'NOT FOUND'}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
