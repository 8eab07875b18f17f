"""Client and broker, as they are, in one process on virtual time: what must hold whatever breaks, for every seed."""

from __future__ import annotations

import pytest

from kafkaraw.testing.audit import audit
from kafkaraw.testing.virtual import run_virtual
from tests.simulation.world import SEEDS, life

SOAK_SEEDS = 500


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_fault_loses_doubles_or_reorders_records(seed):
    history, world, _ = run_virtual(life, seed)
    assert audit(history) == [], f"seed {seed}; faults: {world.faults}"
    assert history.acknowledged, "nothing was written, so nothing was tested"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS, SOAK_SEEDS))
def test_no_fault_loses_doubles_or_reorders_records_for_many_more_seeds(seed):
    history, world, _ = run_virtual(life, seed)
    assert audit(history) == [], f"seed {seed}; faults: {world.faults}"
    assert history.acknowledged, "nothing was written, so nothing was tested"


@pytest.mark.parametrize("seed", range(10))
def test_without_idempotence_what_is_acknowledged_is_still_there(seed):
    history, world, _ = run_virtual(lambda simulation: life(simulation, acks=1), seed)
    assert audit(history, idempotent=False) == [], f"seed {seed}; faults: {world.faults}"


def test_the_same_seed_gives_the_same_bytes():
    first, second = run_virtual(life, 7), run_virtual(life, 7)
    assert first[2] == second[2]
    assert first[0].acknowledged == second[0].acknowledged
    assert first[1].faults == second[1].faults


def test_another_seed_gives_another_history():
    assert run_virtual(life, 1)[2] != run_virtual(life, 2)[2]
