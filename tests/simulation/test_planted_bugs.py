"""The simulation proves itself: each bug planted here must be found by the audit, within the seeds of a normal run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaraw.broker.partition import Appended, Partition
from kafkaraw.broker.producers import ProducerTable
from kafkaraw.core.producer.partition import PartitionQueue
from kafkaraw.records import Batch
from kafkaraw.testing.virtual import run_virtual
from tests.simulation.audit import audit
from tests.simulation.test_client_and_broker import SEEDS, life


def broker_acknowledges_without_appending(monkeypatch):
    appends = iter(range(1_000_000))
    write = Partition._write

    def forget_some(self, batch, now_ms):
        if next(appends) % 10 == 9:
            return Appended(self.high_watermark)
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
        return Appended(appended.base_offset + 1, appended.log_append_time_ms)

    monkeypatch.setattr(Partition, "_write", off_by_one)


@pytest.mark.parametrize(
    ("plant", "invariants"),
    [
        (broker_acknowledges_without_appending, {"lost write", "inconsistent offsets"}),
        (broker_does_not_recognise_repeats, {"duplicate"}),
        (producer_numbers_anew_what_it_sends_again, {"duplicate"}),
        (producer_lines_up_what_came_back_the_wrong_way, {"send skip", "duplicate"}),
        (consumer_steps_over_a_record, {"lost write", "poll skip"}),
        (broker_names_the_wrong_offset, {"inconsistent offsets"}),
    ],
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], invariants: set[str], monkeypatch):
    plant(monkeypatch)
    for seed in range(SEEDS):
        violations = audit(run_virtual(life, seed)[0])
        if violations:
            assert {violation.partition(":")[0] for violation in violations} & invariants, violations
            return
    pytest.fail(f"not found in {SEEDS} seeds")
