"""The audit finds each planted bug within the seeds of a normal run; each commit has an eighth of the bugs."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from kafkaraw.testing.audit import Invariant
from tests.rotation import rotating
from tests.simulation.plants import PLANTS, find
from tests.spark.test_planted_bugs import PLANTS as SPARK_PLANTS

SLOW = {
    "cancelled_flush_consumes_failures",
    "flush_skips_a_batch_when_one_ticket_was_read",
    "member_acknowledges_a_revocation_too_early",
    "producer_commits_while_offsets_are_in_doubt",
    "producer_does_not_release_memory_of_failed_batches",
    "producer_keeps_its_epoch_after_a_sequence_gap",
    "producer_reports_maybe_written_records_as_not_written",
    "producer_resends_maybe_written_batches_as_new_requests",
    "recovery_does_not_verify_checksums",
}
"""Bugs whose runs take seconds from any seed, or that one seed of hundreds shows."""


def plants() -> list[ParameterSet]:
    quick = [name for name in PLANTS if name not in SLOW]
    slow = [pytest.param(name, marks=pytest.mark.soak) for name in sorted(SLOW)]
    return [*rotating(quick, -(-len(quick) // 8)), *slow]


@pytest.mark.parametrize("name", plants())
def test_a_planted_bug_is_found(name: str):
    seeds, invariants = find(name, hint=True)
    print(f"{name}: {seeds} seeds: {', '.join(sorted(invariants))}")
    assert invariants & PLANTS[name].invariants, f"after {seeds} seeds only {invariants or 'nothing'} was found"


def test_each_invariant_finds_a_planted_bug():
    plants = [*PLANTS.values(), *SPARK_PLANTS.values()]
    assert set(Invariant) == set().union(*(plant.invariants for plant in plants))
