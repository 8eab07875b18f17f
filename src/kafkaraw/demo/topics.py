"""The topics of the flights demo: their names, and what they are created with.

On a cluster that is used for other things too, topics of these names may exist already; counting their records would
spoil the balance sheet. So a run never touches a topic that it has not made: it takes the plain names when all are
free, else the first free prefix. No I/O here: `run.py` asks the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kafkaraw.demo.schema import REFERENCE_TABLES
from kafkaraw.errors import UsageError

FLIGHTS_PARTITIONS = 3

# The records carry times of 2013: with Kafka's usual week of retention a broker would delete them at once.
_FOR_EVER = {"retention.ms": "-1"}
_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic to create."""

    name: str
    partitions: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the topics of one run, all with the same prefix."""

    prefix: str = ""

    @property
    def flights(self) -> str:
        """The flights, and some malformed records."""
        return f"{self.prefix}flights"

    @property
    def delays_by_hour(self) -> str:
        """What the flow of that name writes; compacted."""
        return f"{self.prefix}delays-by-hour"

    @property
    def dead_letters(self) -> str:
        """The records that are no flights."""
        return f"{self.prefix}flights.dead-letters"

    @property
    def replays(self) -> str:
        """The dead letters that are read again."""
        return f"{self.prefix}flights.replays"

    @property
    def airlines(self) -> str:
        """The full names of the carriers."""
        return self.reference("airlines")

    def reference(self, table: str) -> str:
        """The topic of a reference table."""
        return f"{self.prefix}{table}"

    def plans(self) -> list[TopicPlan]:
        """Every topic of the run."""
        return [
            TopicPlan(self.flights, FLIGHTS_PARTITIONS, _FOR_EVER),
            TopicPlan(self.delays_by_hour, FLIGHTS_PARTITIONS, _COMPACTED),
            TopicPlan(self.dead_letters, 1, _FOR_EVER),
            TopicPlan(self.replays, 1, _FOR_EVER),
            *(TopicPlan(self.reference(table.name), 1, _FOR_EVER) for table in REFERENCE_TABLES),
        ]

    def taken(self, existing: Collection[str]) -> list[str]:
        """Those of the names that exist already."""
        return [plan.name for plan in self.plans() if plan.name in existing]


def choose_topics(existing: Collection[str], prefix: str | None) -> Topics:
    """Names that are free.

    Args:
        existing: the topics that the cluster has.
        prefix: what the user asked for; None leaves the choice to this function.

    Raises:
        UsageError: the user's prefix is taken.
    """
    if prefix is None:
        return next(topics for topics in _candidates() if not topics.taken(existing))
    topics = Topics(prefix)
    if taken := topics.taken(existing):
        raise UsageError(
            f"topics exist already: {', '.join(taken)}. The demo writes to new topics only: choose another "
            "--topic-prefix, or leave it out"
        )
    return topics


def _candidates() -> Iterator[Topics]:
    yield Topics()
    run = 2
    while True:
        yield Topics(f"demo-{run}.")
        run += 1
