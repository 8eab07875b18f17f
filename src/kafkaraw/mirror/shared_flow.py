"""`SharedFlow`: copy topics as `Flow` does, but have several processes copy, each a share of the partitions.

Theory of operation. The driver runs rounds. Before a round it looks for new topics, fences the tasks of the round
before, commits its claim, and divides the partitions; after it, it takes the reports of the tasks. A `ShareRunner`,
such as that of Spark, runs the tasks somewhere. A task that fails, or whose report is lost, is run again in the next
round, from its positions in the target. Offsets that were committed and not reported are found by the offset service,
which reads them in both topics.

A failure of the driver that may pass ends the session, and the next one begins like a new process; see
`sessions.py`. Start at `SharedFlow.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import KafkaError, RetriableError
from kafkaraw.light_classes import replace
from kafkaraw.mirror.claims import Claim
from kafkaraw.mirror.clients import positions_consumer_of
from kafkaraw.mirror.commit_schedule import POSITIONS_KEPT_S
from kafkaraw.mirror.copy_session import CLOSE_S, FlowPart
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, FlowSettings, OnCopied, TopicPlan
from kafkaraw.mirror.positions import PositionMissingError, RunIds, random_run_id
from kafkaraw.mirror.refusals import Refusal, Refusals
from kafkaraw.mirror.sessions import Sessions, is_lasting, is_passing
from kafkaraw.mirror.shares import Share, ShareProblem, ShareReport, topics_of_shares
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

ROUND_S: Final = 10.0
"""How long a round lasts, by default."""
_IDLE_S: Final = 1.0
"""How soon a driver without partitions looks whether it is to stop."""
_TOTALS: Final = ("record-count", "byte-count")


class ShareRunner(Protocol):
    """Runs tasks somewhere."""

    def tasks_count(self) -> int:
        """Return how many tasks can run at once."""

    async def run(self, shares: Sequence[Share]) -> Sequence[ShareReport]:
        """Run a task for each share, each at most once, and return their reports.

        Raises:
            KafkaError: the tasks could not be run, or their reports are lost.
        """


class ShareError(KafkaError):
    """A task has failed; the message names it, its partitions, and where it ran.

    Attributes:
        problem: what it has reported.
    """

    def __init__(self, problem: ShareProblem) -> None:
        super().__init__(problem.text)
        self.problem: ShareProblem = problem


class SharedFlow:
    """Copies topics of a source cluster to a target cluster by several processes.

    Args:
        settings: of the flow, with `claim`.
        plan: which topics.
        on_copied: called with what was committed, after each round.
        runner: runs the tasks.
        ready: no round begins before it is set.
        on_opened: called after each round without a failure, and while there is nothing to copy.
        round_s: how long a round lasts.
        source_runtime: network, clock and randomness of clients of the source; the real ones when None.
        target_runtime: of clients of the target.

    Attributes:
        settings: as given.
        rounds_count: how many rounds have ended.
    """

    def __init__(  # noqa: PLR0913 - given in one place only
        self,
        settings: FlowSettings,
        plan: TopicPlan,
        on_copied: OnCopied,
        runner: ShareRunner,
        *,
        ready: asyncio.Event | None = None,
        on_opened: Callable[[], None] = lambda: None,
        round_s: float = ROUND_S,
        source_runtime: Runtime | None = None,
        target_runtime: Runtime | None = None,
    ) -> None:
        self.settings: FlowSettings = settings
        self.rounds_count: int = 0
        self._plan = plan
        self._on_copied = on_copied
        self._runner = runner
        self._ready = ready
        self._on_opened = on_opened
        self._round_s = round_s
        self._runtimes = (source_runtime, target_runtime)
        self._stop = asyncio.Event()
        rng = (target_runtime or system_runtime()).rng
        self._runs = RunIds(random_run_id(rng))
        self._refusals = Refusals(rng)
        self._metrics: dict[TopicPartition, dict[str, float]] = {}
        self._renewed_at_s = float("-inf")
        self._sessions = Sessions(settings.name, self._stop, rng, log, lasts=_lasts, passes=_passes)

    def metrics(self) -> dict[TopicPartition, dict[str, float]]:
        """Return the metrics by partition of the source: totals of all rounds, and the rest of the last one."""
        return self._metrics

    def stop(self) -> None:
        """Have `run` return after the current round."""
        self._stop.set()

    async def run(self) -> None:
        """Copy until `stop` is called.

        Raises:
            KafkaError: a failure that does not pass; the message says what to do.
        """
        if self._ready is not None:
            await self._ready.wait()
        await self._sessions.run(self._run_session)

    async def _run_session(self) -> None:
        """Own the flow, and run rounds until the first failure."""
        reader: dict[str, Any] = {**self.settings.source, "group_id": None, "allow_auto_create_topics": False}
        source = AsyncConsumer(runtime=self._runtimes[0], **reader)
        target = positions_consumer_of(self.settings, self._runtimes[1])
        claim = Claim(self.settings, self._runs, target, self._runtimes[1])
        try:
            await claim.open(again=self._sessions.has_opened)
            rounds = _Topics(self.settings, self._plan, source)
            while not self._stop.is_set():
                await rounds.refresh_if_due()
                shares = topics_of_shares(rounds.topics, rounds.partitions, max(1, self._runner.tasks_count()))
                if shares:
                    await self._run_round(claim, shares)
                    self._on_opened()
                else:
                    self._sessions.has_opened = True
                    self._on_opened()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_IDLE_S):
                            await self._stop.wait()
        finally:
            for each in (claim, source, target):
                with contextlib.suppress(KafkaError, TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await each.close()

    async def _run_round(self, claim: Claim, topics: Sequence[tuple[CopiedTopic, ...]]) -> None:
        identities = await claim.take(len(topics))
        await claim.check(
            {
                TopicPartition(topic.source, number): TopicPartition(topic.target, number)
                for share in topics
                for topic in share
                for number in topic.partitions or ()
            }
        )
        self._sessions.has_opened = True
        now_s = asyncio.get_running_loop().time()
        renews = now_s >= self._renewed_at_s + POSITIONS_KEPT_S
        shares = [
            Share(
                replace(self.settings, worker=worker),
                share,
                FlowPart(self._runs.own, identity, renews, self._left_out_of(share, now_s)),
                self._round_s,
            )
            for worker, (share, identity) in enumerate(zip(topics, identities, strict=True), start=1)
        ]
        reports = await self._runner.run(shares)
        if renews and all(report.problem is None for report in reports):
            self._renewed_at_s = now_s
        self._take(reports)

    def _left_out_of(self, share: Iterable[CopiedTopic], now_s: float) -> tuple[Refusal, ...]:
        """Return the refused partitions of a share that are not tried again in this round."""
        left_out = self._refusals.left_out(now_s)
        partitions = {TopicPartition(topic.source, number) for topic in share for number in topic.partitions or ()}
        return tuple(self._refusals.stopped[of].refusal for of in sorted(partitions.intersection(left_out)))

    def _take(self, reports: Iterable[ShareReport]) -> None:
        """Tell what was copied, then raise the failure that lasts, or the first one."""
        self.rounds_count += 1
        problems: list[ShareProblem] = []
        for report in reports:
            self._add_metrics(report.metrics)
            for refusal in report.refusals:
                metrics = self._metrics.setdefault(refusal.source, {})
                metrics |= {"refusals-count": metrics.get("refusals-count", 0) + 1, "is-stopped": 1}
                if self._refusals.add(refusal, asyncio.get_running_loop().time()):
                    log.error(
                        "mirror %s: %s; this partition is not copied until that has changed, the others are",
                        self.settings.name,
                        refusal.text,
                    )
            if report.copied:
                self._sessions.progress += 1
                self._note_continued(report.copied)
                self._on_copied(report.copied)
            if report.problem is None:
                self._sessions.progress += 1
            else:
                problems.append(report.problem)
        if problems:
            problems.sort(key=lambda each: not each.is_lasting)
            for problem in problems[1:]:
                log.warning("mirror %s: %s", self.settings.name, problem.text)
            raise PositionMissingError(problems[0].text) if problems[0].lacks_position else ShareError(problems[0])

    def _note_continued(self, copied: Iterable[CopiedBatch]) -> None:
        for batch in copied:
            if self._refusals.moved(batch.source, batch.source_offsets.stop):
                self._metrics.setdefault(batch.source, {})["is-stopped"] = 0
                log.warning("mirror %s: %s is copied again", self.settings.name, name_of(batch.source))

    def _add_metrics(self, found: Mapping[TopicPartition, Mapping[str, float]]) -> None:
        for of, metrics in found.items():
            before = self._metrics.get(of, {})
            totals = {name: before.get(name, 0) + metrics.get(name, 0) for name in _TOTALS}
            refused = {"refusals-count": before.get("refusals-count", 0), "is-stopped": before.get("is-stopped", 0)}
            self._metrics[of] = {**before, **metrics, **totals, **refused}


class _Topics:
    """What is copied: topics and the partitions of the source, looked up at intervals.

    Args:
        settings: of the flow.
        plan: which topics.
        source: a consumer of the source.

    Attributes:
        topics: as planned.
        partitions: those of the source, by topic.
    """

    def __init__(self, settings: FlowSettings, plan: TopicPlan, source: AsyncConsumer) -> None:
        self.topics: Sequence[CopiedTopic] = ()
        self.partitions: Mapping[str, Sequence[TopicPartition]] = {}
        self._settings = settings
        self._plan = plan
        self._source = source
        self._due_at_s: float | None = None

    async def refresh_if_due(self) -> None:
        """Look for new topics and partitions.

        Raises:
            KafkaError: a cluster does not answer, the first time; later ones are logged.
        """
        now_s = asyncio.get_running_loop().time()
        if self._due_at_s is not None and now_s < self._due_at_s:
            return
        try:
            topics = await self._plan.refresh()
            self.partitions = await self._source.list_topics()
            self.topics = topics
        except RetriableError as error:
            if self._due_at_s is None:
                raise
            log.warning("mirror %s: cannot look for new topics: %s", self._settings.name, error)
        self._due_at_s = now_s + self._settings.refresh_topics_interval_s


def _lasts(error: KafkaError) -> bool:
    return error.problem.is_lasting if isinstance(error, ShareError) else is_lasting(error)


def _passes(error: KafkaError) -> bool:
    return error.problem.passes if isinstance(error, ShareError) else is_passing(error)
