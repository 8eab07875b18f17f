"""The auditors of the Spark source and sink prove themselves: each planted bug is found, and nothing without one."""

from __future__ import annotations

import pytest

from tests.spark.plants import PLANTS


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = PLANTS[name]
    assert plant.scenario() == []
    plant.plant(monkeypatch)
    found = {violation.invariant for violation in plant.scenario()}
    assert found & plant.invariants, f"only {found or 'nothing'} was found"
