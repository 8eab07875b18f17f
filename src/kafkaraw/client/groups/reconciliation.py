"""Reconciles a consumer with its assignment: commits, calls the rebalance listener, and assigns partitions, in steps.

All of it happens inside calls of the application: the call that finds a pending change works through the steps, and
when its time is up the next call goes on. A listener callback is called once, even if it raises; its error is raised
when all steps are done, because the group does not wait. A task that closes the consumer goes on with the steps, too;
no step begins before the previous one has ended. Start at `Reconciliation.run`.
Source: ConsumerRebalanceListenerInvoker; AbstractMembershipManager.revokeAndAssign.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeAlias

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.commit_queue import Positions
from kafkaraw.client.groups.listeners import Callback, Callbacks, ListenerCall, Listeners
from kafkaraw.client.groups.progress import Progress
from kafkaraw.core.group.events import AssignmentChange
from kafkaraw.errors import KafkaError, RetriableError
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

Assign: TypeAlias = Callable[[Iterable[TopicPartition], Positions], None]
"""Reads exactly these partitions from now on; new ones from these positions."""
FetchOffsets: TypeAlias = Callable[[Iterable[TopicPartition]], Coroutine[object, None, Positions]]
"""Returns the committed offsets of partitions."""


class Reconciliation:
    """The steps of one change of the assignment.

    Args:
        change: the change.
        listeners: the application's rebalance listener.
        callbacks: calls it.
        progress: the consumer's commits.
        assign: assigns partitions to the fetcher.
        fetch_offsets: fetches committed offsets.
    """

    def __init__(
        self,
        change: AssignmentChange,
        listeners: Listeners,
        callbacks: Callbacks,
        progress: Progress,
        assign: Assign,
        fetch_offsets: FetchOffsets,
    ) -> None:
        self._callbacks = callbacks
        self._assign = assign
        self._fetch_offsets = fetch_offsets
        self._error: Exception | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_late = False
        self._starts: Positions = {}
        self._steps: deque[Callable[[Deadline], Coroutine[None, None, bool]]] = deque()
        kept = change.after - (change.assigned or frozenset())
        if change.lost:
            self._add_call(listeners.on_lost or listeners.on_revoked, change.lost)
            self._add_assign(kept)
        if change.revoked:
            self._add_work(progress.commit_processed)
            self._add_call(listeners.on_revoked, change.revoked)
            self._add_work(progress.commits_end, lambda: progress.is_committing)
            self._add_assign(kept)
        if change.assigned is not None:
            assigned = sorted(change.assigned)
            if assigned:
                self._add_work(lambda: self._find_starts(assigned))
            self._add_assign(change.after)
            self._add_call(listeners.on_assigned, assigned)

    async def run(self, deadline: Deadline) -> bool:
        """Go on with the steps; return whether all are done.

        Raises:
            CallUser: a callback has to be called on the thread of the application.
            KafkaError: the committed offsets cannot be fetched, and trying again at once does not help.
        """
        while self._steps:
            step = self._steps[0]
            if not await step(deadline):
                return False
            if self._steps and self._steps[0] is step:  # a task that closes the consumer goes on with it, too
                self._steps.popleft()
        return True

    async def finish(self, deadline: Deadline) -> None:
        """Go on to the end: once the time is up, only call the listener, and skip all waiting.

        Raises:
            CallUser: a callback has to be called on the thread of the application; then call again.
        """
        try:
            if await self.run(deadline):
                return
        except KafkaError as error:
            log.warning("a rebalance is cut short: %s", error)
        self._is_late = True
        if self._work is not None:
            self._work.cancel()
            self._work = None
        if not await self._callbacks.wait_for_others(deadline):
            log.warning("a callback of a rebalance has not ended after %g s; not waiting any more", deadline.timeout)
        await self.run(deadline)

    def cancel(self) -> None:
        """Drop the remaining steps: the consumer is closed."""
        self._steps.clear()
        if self._work is not None:
            self._work.cancel()

    def failed(self, error: Exception) -> None:
        """A callback raised this."""
        self._error = self._error or error

    def take_error(self) -> Exception | None:
        """Return what a callback raised, once."""
        error, self._error = self._error, None
        return error

    # -- the steps

    def _add_assign(self, partitions: Iterable[TopicPartition]) -> None:
        async def step(_: Deadline) -> bool:
            self._assign(partitions, self._starts)
            return True

        self._steps.append(step)

    def _add_call(self, callback: Callback | None, partitions: Iterable[TopicPartition]) -> None:
        if callback is None:
            return
        call: ListenerCall | None = None

        async def step(deadline: Deadline) -> bool:
            nonlocal call
            if call is not None and not call.is_lost:
                return await self._callbacks.wait_for_others(deadline) or self._is_late
            call = self._callbacks.call(callback, sorted(partitions), self.failed)
            await self._callbacks.make(call)
            return True

        self._steps.append(step)

    def _add_work(
        self, work: Callable[[], Coroutine[object, None, None]], is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        async def step(deadline: Deadline) -> bool:
            if self._is_late:
                return True
            if self._work is None:
                if not is_needed():
                    return True
                self._work = asyncio.get_running_loop().create_task(work(), name="reconciliation")
            mine = self._work
            done, _ = await asyncio.wait({mine}, timeout=deadline.remaining)
            if not done:
                return False
            if self._work is mine:
                self._work = None
                mine.result()
            return True

        self._steps.append(step)

    async def _find_starts(self, partitions: list[TopicPartition]) -> None:
        while True:
            try:
                self._starts = await self._fetch_offsets(partitions)
            except RetriableError as error:
                log.warning("committed offsets are not known yet, asking again: %s", error)
                continue
            return
