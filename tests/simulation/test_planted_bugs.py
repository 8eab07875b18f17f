"""The simulation proves itself: each planted bug must be found by the audit, within the seeds of a normal run."""

from __future__ import annotations

import pytest

from kafkaraw.testing.audit import Invariant
from tests.simulation.plants import PLANTS, find
from tests.spark.plants import PLANTS as SPARK_PLANTS

SLOW = {
    "producer_keeps_the_memory_of_what_it_gave_up",
    "producer_keeps_its_epoch_after_a_gap",
}
"""Found in lives that these bugs make long."""


@pytest.mark.parametrize("name", [pytest.param(it, marks=pytest.mark.soak) if it in SLOW else it for it in PLANTS])
def test_a_planted_bug_is_found(name: str):
    seeds, invariants = find(name, hint=True)
    print(f"{name}: {seeds} seeds: {', '.join(sorted(invariants))}")
    assert invariants & PLANTS[name].invariants, f"after {seeds} seeds only {invariants or 'nothing'} was found"


def test_each_invariant_is_what_some_planted_bug_is_found_by():
    plants = [*PLANTS.values(), *SPARK_PLANTS.values()]
    assert set(Invariant) == set().union(*(plant.invariants for plant in plants))
