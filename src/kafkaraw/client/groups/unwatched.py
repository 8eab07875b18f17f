"""Commits that nobody waits for: one under way, and one that waits, into which all go that are wanted meanwhile.

Whoever commits after each record wants more of them than a coordinator can take; what they want in the end is the last
position, and to hear of each. Commits that are waited for keep their places in the line between them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeAlias

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.intents import Intent, Positions
from kafkaraw.client.groups.line import Line, Place
from kafkaraw.errors import ClosedError, CommitFailed, KafkaError
from kafkaraw.light_classes import dataclass, field

log = logging.getLogger(__name__)

Done: TypeAlias = Callable[[Positions, KafkaError | None], None]
"""Called when a commit that nobody waited for has ended: with its positions, and the error, if any."""
Store: TypeAlias = Callable[[Intent, Place, Deadline], Coroutine[object, None, None]]
"""Stores positions once it is their turn; raises `KafkaError`."""
Missed: TypeAlias = Callable[[Intent], CommitFailed | None]
"""What there is to say of the partitions that were given up since; None when there are none."""


@dataclass(slots=True)
class _Bundle:
    """Commits that are carried out as one.

    Attributes:
        place: in the line.
        intent: what is to be stored.
        deadline: of the latest one.
        calls: those of which somebody wants to hear.
        unheard: how many others there are.
    """

    place: Place
    intent: Intent
    deadline: Deadline
    calls: list[tuple[Done, Intent]] = field(default_factory=list)
    unheard: int = 0

    def note(self, intent: Intent, done: Done | None) -> None:
        if done is None:
            self.unheard += 1
        else:
            self.calls.append((done, intent))


class Unwatched:
    """Commits of one consumer that nobody waits for.

    Args:
        line: in which all of its commits stand.
        store: carries one out.
        missed: says which partitions were given up.
    """

    def __init__(self, line: Line, store: Store, missed: Missed) -> None:
        self._line = line
        self._store = store
        self._missed = missed
        self._last: _Bundle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: deque[tuple[Done, Positions, KafkaError | None]] = deque()

    def add(self, intent: Intent, done: Done | None, deadline: Deadline) -> None:
        """Store these, too; with what waits already, when nothing else stands behind that."""
        bundle = self._last
        if bundle is None or not self._line.is_last(bundle.place):
            bundle = self._last = _Bundle(self._line.take_place(), intent, deadline)
            self._tasks.add(task := asyncio.get_running_loop().create_task(self._run(bundle), name="commit"))
            task.add_done_callback(partial(self._has_ended, bundle))
        else:
            bundle.intent, bundle.deadline = bundle.intent.then(intent), deadline
        bundle.note(intent, done)

    async def _run(self, bundle: _Bundle) -> None:
        await bundle.place.wait()  # no longer than the deadlines of those before
        self._close(bundle)
        problem: KafkaError | None = None
        try:
            await self._store(bundle.intent, bundle.place, bundle.deadline)
        except KafkaError as error:
            problem = error
        self._tell(bundle, problem)

    def _close(self, bundle: _Bundle) -> None:
        """Nothing more goes into it."""
        if self._last is bundle:
            self._last = None

    def _tell(self, bundle: _Bundle, problem: KafkaError | None) -> None:
        told = problem or self._missed(bundle.intent)
        if told is not None and bundle.unheard:
            what = "a commit" if bundle.unheard == 1 else f"{bundle.unheard} commits"
            log.warning("%s that nobody waits for failed: %s", what, told)
        for done, intent in bundle.calls:
            self._ended.append((done, intent.offsets, self._missed(intent) or problem))

    def _has_ended(self, bundle: _Bundle, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._close(bundle)
        bundle.place.leave()
        if task.cancelled():  # perhaps before it began
            self._tell(bundle, ClosedError("the consumer was closed before these positions were stored"))

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """What is under way."""
        return set(self._tasks)

    def tell(self) -> None:
        """Call back who wants to hear of commits that have ended; what one raises, this raises, and the rest waits."""
        while self._ended:
            done, offsets, problem = self._ended.popleft()
            done(offsets, problem)

    def tell_last(self) -> Exception | None:
        """Call everybody back who has not heard yet; the first thing that one of them raised."""
        first: Exception | None = None
        while self._ended:
            try:
                self.tell()
            except Exception as error:  # noqa: BLE001 - a callback of the user's may raise anything
                first = first or error
        return first
