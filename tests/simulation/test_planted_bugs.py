"""The audit finds each planted bug within the seeds of a normal run."""

from __future__ import annotations

import pytest

from kafkaraw.testing.audit import Invariant
from tests.simulation.plants import PLANTS, find
from tests.spark.test_planted_bugs import PLANTS as SPARK_PLANTS

SLOW = {
    "producer_commits_while_offsets_are_in_doubt",
    "producer_does_not_release_memory_of_failed_batches",
    "producer_keeps_its_epoch_after_a_sequence_gap",
    "recovery_does_not_verify_checksums",
}
"""Bugs whose runs take seconds from any seed."""


@pytest.mark.parametrize("name", [pytest.param(it, marks=pytest.mark.soak) if it in SLOW else it for it in PLANTS])
def test_a_planted_bug_is_found(name: str):
    seeds, invariants = find(name, hint=True)
    print(f"{name}: {seeds} seeds: {', '.join(sorted(invariants))}")
    assert invariants & PLANTS[name].invariants, f"after {seeds} seeds only {invariants or 'nothing'} was found"


def test_each_invariant_finds_a_planted_bug():
    plants = [*PLANTS.values(), *SPARK_PLANTS.values()]
    assert set(Invariant) == set().union(*(plant.invariants for plant in plants))
