"""The simulation proves itself: each planted bug must be found by the audit, within the seeds of a normal run."""

from __future__ import annotations

import pytest

from tests.simulation.plants import PLANTS, find


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str):
    seeds, invariants = find(name)
    print(f"{name}: {seeds} seeds: {', '.join(sorted(invariants))}")
    assert invariants & PLANTS[name].invariants, f"after {seeds} seeds only {invariants or 'nothing'} was found"
