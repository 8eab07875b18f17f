"""Telling the user about a rebalance, in steps that can be left off and gone on with.

All of it happens inside the user's calls: the call that finds something to tell works through the steps, and when its
time is up the next one goes on. A callback is called once, whatever becomes of it; its error is raised when all steps
are done, because the group does not wait. Whoever closes the consumer goes on with the steps, too, from another task;
no step begins before the one before it has ended. Start at `HandingOver.go_on`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Protocol

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.callbacks import Callbacks, UserCall
from kafkaraw.client.groups.intents import Positions
from kafkaraw.client.listeners import Callback, Listeners
from kafkaraw.core.group.events import AssignmentChange
from kafkaraw.errors import KafkaError, RetriableError
from kafkaraw.records import TopicPartition

log = logging.getLogger(__name__)


class Owner(Protocol):
    """What is done on the way."""

    def read(self, partitions: Iterable[TopicPartition], starts: Positions) -> None:
        """Read exactly these from now on, new ones from these positions."""

    async def commit_processed(self) -> None:
        """Commit what was processed, if that is to be done without being asked."""

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way that the user asked for and does not wait for."""

    async def commits_end(self) -> None:
        """Let those commits end."""

    async def stored_positions(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Where to begin."""


class HandingOver:
    """One handover to the user.

    Args:
        handover: what to tell.
        listeners: whom.
        owner: does what has to be done in between.
        callbacks: makes calls of them.
    """

    def __init__(
        self,
        handover: AssignmentChange,
        listeners: Listeners,
        owner: Owner,
        callbacks: Callbacks,
    ) -> None:
        self._problem: Exception | None = None
        self._owner = owner
        self._callbacks = callbacks
        self._work: asyncio.Task[None] | None = None
        self._hurries = False
        self._starts: Positions = {}
        self._steps: deque[Callable[[Deadline], Coroutine[None, None, bool]]] = deque()
        kept = (handover.after - (handover.assigned or frozenset())) | frozenset()
        if handover.lost:
            self._then_call(listeners.on_lost or listeners.on_revoked, handover.lost)
            self._then_read(kept)
        if handover.revoked:
            self._then_wait(owner.commit_processed)
            self._then_call(listeners.on_revoked, handover.revoked)
            self._then_wait(owner.commits_end, lambda: owner.is_committing)
            self._then_read(kept)
        if handover.assigned is not None:
            assigned = sorted(handover.assigned)
            if assigned:
                self._then_wait(lambda: self._find_starts(assigned))
            self._then_read(handover.after)
            self._then_call(listeners.on_assigned, assigned)

    async def go_on(self, deadline: Deadline) -> bool:
        """Go on with the steps; says whether all are done.

        Raises:
            CallUser: a callback has to be called elsewhere.
            KafkaError: where to begin cannot be found out, and trying again at once does not help.
        """
        while self._steps:
            step = self._steps[0]
            if not await step(deadline):
                return False
            if self._steps and self._steps[0] is step:  # whoever closes goes on with it, too, from another task
                self._steps.popleft()
        return True

    async def finish(self, deadline: Deadline) -> None:
        """Go on to the end: once the time is up, only what the user has to hear is still done.

        Raises:
            CallUser: a callback has to be called elsewhere; then call again.
        """
        try:
            if await self.go_on(deadline):
                return
        except KafkaError as error:
            log.warning("a rebalance is ended before its time: %s", error)
        self._hurries = True
        if self._work is not None:
            self._work.cancel()
            self._work = None
        if not await self._callbacks.others_over(deadline):
            log.warning("a callback of a rebalance has not ended after %g s; not waiting any more", deadline.timeout)
        await self.go_on(deadline)

    def cancel(self) -> None:
        """Give up, as when the consumer is closed."""
        self._steps.clear()
        if self._work is not None:
            self._work.cancel()

    def failed(self, error: Exception) -> None:
        """A callback raised this."""
        self._problem = self._problem or error

    def take_problem(self) -> Exception | None:
        """What a callback raised; given once, to who is first to raise it."""
        problem, self._problem = self._problem, None
        return problem

    # -- inside: making steps

    def _then_read(self, partitions: Iterable[TopicPartition]) -> None:
        async def step(_: Deadline) -> bool:
            self._owner.read(partitions, self._starts)
            return True

        self._steps.append(step)

    def _then_call(self, callback: Callback | None, partitions: Iterable[TopicPartition]) -> None:
        if callback is None:
            return
        call: UserCall | None = None

        async def step(deadline: Deadline) -> bool:
            nonlocal call
            if call is not None and not call.is_lost:
                return await self._callbacks.others_over(deadline) or self._hurries
            call = self._callbacks.call(callback, sorted(partitions), self.failed)
            await self._callbacks.make(call)
            return True

        self._steps.append(step)

    def _then_wait(
        self, work: Callable[[], Coroutine[object, None, None]], is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        async def step(deadline: Deadline) -> bool:
            if self._hurries:
                return True
            if self._work is None:
                if not is_needed():
                    return True
                self._work = asyncio.get_running_loop().create_task(work(), name="handing over")
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
                self._starts = await self._owner.stored_positions(partitions)
            except RetriableError as error:
                log.warning("committed positions are not known yet, asking again: %s", error)
                continue
            return
