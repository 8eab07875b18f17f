"""`Flow`: copy topics of one cluster to another one, until it is stopped.

Theory of operation. A flow runs in sessions (`copy_session.py`), each of which copies from the positions in the target
on. A failure that may pass (a broker that is not reachable, a transaction that has to be aborted, a leader that has
moved its log) ends the session, and the next one begins as after a restart of the process: there is no other state than
the positions. A cluster that refuses a partition (a record that is too large for the copy, a missing permission for its
topic) ends the session, too; the next ones leave this partition out, until it is tried again: `refusals.py`. A failure
that does not pass ends the flow: missing permissions for the group, records that the source has lost.

A process that begins with a flow fences an earlier one, and commits the positions as its own. The earlier one cannot
tell this from a transaction that was open for too long, so it begins a new session, too; before it takes over the id
again, it finds positions of another run, and ends (`FlowTakenOverError`). If there are none yet, it fences the other
process in turn, which begins a new session as well: the one that commits first continues.

Start at `Flow.run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import KafkaError
from kafkaraw.mirror.copy_session import CopySession, FlowPart
from kafkaraw.mirror.interfaces import CopiedBatch, FlowSettings, OnCopied, TopicPlan
from kafkaraw.mirror.metrics import FlowMetrics
from kafkaraw.mirror.positions import Position, RunIds, random_run_id
from kafkaraw.mirror.refusals import Refusal, Refusals, StoppedPartition
from kafkaraw.mirror.sessions import Sessions
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

REFUSALS_LOGGED: Final = 10
"""At most, of one session."""
_NEVER_S: Final = 1e12


class Flow:
    """Copies topics of a source cluster to a target cluster.

    Args:
        settings: of the flow.
        plan: which topics.
        on_copied: called with what the target has acknowledged and, with transactions, committed.
        ready: no batch is copied before it is set; the flow connects meanwhile. None waits for nothing.
        on_opened: called when a session begins to copy, after `on_copied` with the partitions that begin anew.
        source_runtime: network, clock and randomness of clients of the source; the real ones when None.
        target_runtime: of clients of the target.
        part: of a process that copies a share of the flow: it runs one session, and raises its failure.

    Attributes:
        settings: as given.
        sessions_count: how many sessions have begun.
    """

    def __init__(
        self,
        settings: FlowSettings,
        plan: TopicPlan,
        on_copied: OnCopied = lambda _: None,
        *,
        ready: asyncio.Event | None = None,
        on_opened: Callable[[], None] = lambda: None,
        source_runtime: Runtime | None = None,
        target_runtime: Runtime | None = None,
        part: FlowPart | None = None,
    ) -> None:
        self.settings: FlowSettings = settings
        self.sessions_count: int = 0
        self._on_opened = on_opened
        self._plan = plan
        self._on_copied = on_copied
        self._ready = ready
        self._runtimes = (source_runtime, target_runtime)
        self._metrics = FlowMetrics()
        self._session: CopySession | None = None
        self._known: dict[TopicPartition, Position] = {}
        self._stop = asyncio.Event()
        rng = (target_runtime or system_runtime()).rng
        self._part = part
        self._runs = RunIds(random_run_id(rng) if part is None else part.run_id)
        self._refusals = Refusals(rng)
        for refusal in () if part is None else part.refusals:
            self._refusals.add(refusal, _NEVER_S)  # the driver decides when they are tried again
        self._sessions = Sessions(settings.name, self._stop, rng, log)

    def metrics(self) -> dict[TopicPartition, dict[str, float]]:
        """Return the metrics by partition of the source, with MirrorMaker's names; see `metrics.MEANINGS`.

        On the flow's loop.
        """
        return self._metrics.as_dict(asyncio.get_running_loop().time())

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """The positions that were committed last, by partition of the source."""
        return self._known if self._session is None else {**self._known, **self._session.committed}

    @property
    def stopped(self) -> Mapping[TopicPartition, StoppedPartition]:
        """Partitions of the source that are not copied now because a cluster refuses them, and why."""
        return self._refusals.stopped

    def stop(self) -> None:
        """Have `run` commit what was sent, and return."""
        self._stop.set()

    async def run(self) -> None:
        """Copy until `stop` is called.

        Raises:
            KafkaError: a failure that does not pass; the message says what to do. With `part`, any failure.
        """
        if self._part is not None:
            await self._run_session()
            return
        await self._sessions.run(self._run_session_or_leave_out)

    async def _run_session_or_leave_out(self) -> None:
        try:
            await self._run_session()
        except RefusedError as error:
            self._leave_out(error.refusals)

    async def _run_session(self) -> None:
        self.sessions_count += 1
        self._known = self.positions
        session = CopySession(
            self.settings,
            self._plan,
            (self._runs, self._refusals),
            self._metrics,
            self._runtimes,
            self._committed,
            self._known,
            self._part,
        )
        self._session = session
        try:
            await session.open()
            self._sessions.has_opened = True
            if self._ready is not None:
                await self._ready.wait()
            session.tell_begun()
            self._on_opened()
            await session.copy(self._stop)
            await session.close()
        except KafkaError as error:
            try:
                refusals = await session.refusals_of(error)
            finally:
                await session.discard()
            if refusals:
                raise RefusedError(refusals) from error
            raise
        except BaseException:
            await session.discard()
            raise

    def _committed(self, copied: Sequence[CopiedBatch]) -> None:
        self._sessions.progress += 1
        for of in tuple(self._refusals.stopped):
            if of in self.positions and self._refusals.moved(of, self.positions[of].offset):
                self._metrics.of(of, asyncio.get_running_loop().time()).is_stopped = False
                log.warning("mirror %s: %s is copied again", self.settings.name, name_of(of))
        if copied:
            self._on_copied(copied)

    def _leave_out(self, refusals: Sequence[Refusal]) -> None:
        """Have the next sessions leave out partitions, and log why."""
        now_s = asyncio.get_running_loop().time()
        new = [each for each in refusals if self._refusals.add(each, now_s)]
        for each in refusals:
            metrics = self._metrics.of(each.source, now_s)
            metrics.refusals_count, metrics.is_stopped = metrics.refusals_count + 1, True
        for each in new[:REFUSALS_LOGGED]:
            log.error(
                "mirror %s: %s; this partition is not copied until that has changed, the others are",
                self.settings.name,
                each.text,
            )
        if len(new) > REFUSALS_LOGGED:
            log.error("mirror %s: so are %d more partitions", self.settings.name, len(new) - REFUSALS_LOGGED)


class RefusedError(KafkaError):
    """Ends a session: partitions are refused.

    Attributes:
        refusals: which ones, and why.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(refusals[0].text)
        self.refusals: Sequence[Refusal] = refusals
