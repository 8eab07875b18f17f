"""Two drivers, attempts that nobody waits for, and two slots in many orders: each row is committed exactly once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.spark.writing.decision import Decision
from kafkaraw.spark.writing.decisions import Decisions, Found
from kafkaraw.spark.writing.exactly_once import _Task
from kafkaraw.spark.writing.outcomes import Outcome
from tests.rotation import rotating
from tests.spark.writing.interleaving import ALL, PROGRAMS, Schedule, interruptions, run, steps
from tests.spark.writing.query import Query, forget_clients

SEEDS = range(10)
SEEDS_SOAK = range(1_000, 2_500)


@pytest.fixture(scope="module", params=[2, 0], ids=["second generation", "first generation"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    with EmbeddedBroker(properties={"transaction.version": request.param}) as broker:
        yield broker.bootstrap_servers
        forget_clients()


def first_violation(schedules: Iterable[Schedule], servers: str) -> str:
    """What is wrong in the first schedule that goes wrong."""
    with steps():
        for schedule in schedules:
            wrong = run(schedule, Query(servers, **{"kafka.retry.backoff.ms": "5"}))
            if wrong:
                return wrong
    return ""


def test_each_row_is_committed_exactly_once_in_drawn_schedules(servers: str) -> None:
    begin = int(os.environ.get("KAFKARAW_INTERLEAVINGS", "0"))
    assert first_violation((Schedule.drawn(begin + seed) for seed in SEEDS), servers) == ""


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_each_row_is_committed_exactly_once_in_many_schedules(servers: str) -> None:
    assert first_violation(map(Schedule.drawn, SEEDS_SOAK), servers) == ""


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("other", sorted(PROGRAMS))
def test_each_row_is_committed_exactly_once_wherever_one_process_interrupts_another(servers: str, other: str) -> None:
    names = ("driver of 0", other)
    schedules = (
        Schedule(names, ((1, at), (0, until), (1, ALL), *rest))
        for at in range(1, 16)
        for until in (*range(1, 16), ALL)
        for rest in ((), ((0, ALL),))
    )
    assert first_violation(schedules, servers) == ""


# -- the faults that the protocol was made for: the search finds them when what prevents them is switched off


def fenced_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """What a coordinator refuses to commit counts as aborted, as if no later batch could have taken the ids over."""

    def aborted(
        self: Decisions, query_id: str, batch_id: int, transactions: Mapping[int, PreparedTransaction]
    ) -> dict[int, Outcome]:
        return dict.fromkeys(transactions, Outcome.ABORTED)

    patch.setattr(Decisions, "outcomes", aborted)


def stalled_attempts_do_not_look_again(patch: pytest.MonkeyPatch) -> None:
    """A task that was held before it takes over its id goes on as if nothing had been decided meanwhile."""
    patch.setattr(_Task, "_confirmed", lambda self, written, found, offset: written)
    fenced_is_aborted(patch)  # else the marker shows what the look would have shown


def drivers_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Decisions are written by whoever wants to, and land whenever they do."""

    def write(self: Decisions, decision: Decision, base: Found, prefix: str) -> None:
        producer = self._new_producer(f"{prefix}-{decision.query_id}-{id(decision)}-decider")
        producer.init_transactions()
        with producer.transaction():
            tickets = [producer.send(self.topic, value, key, partition=0) for key, value in decision.to_records()]
        producer.close()
        self._wait_for(decision.query_id, tickets[-1].result().offset)

    patch.setattr(Decisions, "take_over", lambda self, prefix, query_id: None)
    patch.setattr(Decisions, "_write", write)


STALLED = ("attempt of 0.0", "driver of 0")
LOST_LOG = ("driver of 0 that begins 1",)
ZOMBIE = ("driver of 0", "driver of 0")


@pytest.mark.parametrize(
    ("plant", "programs"),
    rotating(
        [
            (stalled_attempts_do_not_look_again, STALLED),
            (fenced_is_aborted, LOST_LOG),
            (drivers_are_not_fenced, ZOMBIE),
        ],
        1,
    ),
)
def test_the_search_finds_planted_bugs(
    servers: str,
    plant: Callable[[pytest.MonkeyPatch], None],
    programs: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    wrong = first_violation(interruptions(programs), servers)
    assert "expected" in wrong, wrong
