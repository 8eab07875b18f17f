"""The order of one consumer's commits, and which of their partitions the consumer still owns.

A commit may have to wait, for earlier ones or for the coordinator. Two rules keep a committed offset from going back.
Commits are sent in the order in which the application asked for them (`CommitQueue`); those that it does not wait for
are merged while they wait (`AsyncCommits`), because an application that commits after each record commits more often
than a coordinator can answer. And a commit does not contain partitions that were revoked after it was asked for
(`Ownership`): in a later generation it would overwrite what their next owner has committed.
Source: ConsumerCoordinator.commitOffsetsAsync. Start at `AsyncCommits.add`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.deadline import Deadline
from kafkaraw.errors import ClosedError, CommitFailedError, KafkaError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

Positions: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
Done: TypeAlias = Callable[[Positions, KafkaError | None], None]
"""The callback of `commit_nowait`: called with the offsets, and the error of the commit, if any."""


# ---- which partitions are still owned


@dataclass(frozen=True, eq=False, slots=True)
class PendingCommit:
    """Offsets to commit.

    Attributes:
        offsets: by partition.
        owned_since: for partitions that were assigned when the commit was asked for: a token of that assignment.
    """

    offsets: Positions
    owned_since: Mapping[TopicPartition, object]

    def merge(self, later: PendingCommit) -> PendingCommit:
        """Return both commits as one; the later offset of a partition counts."""
        if later.offsets.keys() >= self.offsets.keys():
            return later
        earlier = self.without(later.offsets.keys())
        return PendingCommit({**earlier.offsets, **later.offsets}, {**earlier.owned_since, **later.owned_since})

    def without(self, partitions: Collection[TopicPartition]) -> PendingCommit:
        """Return the commit without these partitions."""
        if not partitions:
            return self
        return PendingCommit(
            {partition: at for partition, at in self.offsets.items() if partition not in partitions},
            {partition: since for partition, since in self.owned_since.items() if partition not in partitions},
        )


class Ownership:
    """The partitions that a consumer owns: one that was revoked and assigned again differs from one that stayed."""

    def __init__(self) -> None:
        self._owned_since: dict[TopicPartition, object] = {}

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Own exactly these partitions; those that are new, from now on."""
        self._owned_since = {partition: self._owned_since.get(partition, object()) for partition in partitions}

    def pending(self, offsets: Positions) -> PendingCommit:
        """Return a commit that the application asks for now."""
        since = self._owned_since
        return PendingCommit(offsets, {partition: since[partition] for partition in offsets if partition in since})

    def revoked_since(self, commit: PendingCommit) -> list[TopicPartition]:
        """Return the partitions of a commit that were revoked or lost since the application asked for it."""
        now = self._owned_since
        return sorted(partition for partition, since in commit.owned_since.items() if now.get(partition) is not since)


# ---- the order of commits


class CommitQueue:
    """Lets commits through one by one, in the order in which they were queued.

    A lock would let them through in the order in which their tasks began to wait, which may be another one.
    """

    def __init__(self) -> None:
        self._slots: deque[QueueSlot] = deque()

    def enqueue(self) -> QueueSlot:
        """Queue a commit behind all others."""
        self._slots.append(slot := QueueSlot(self))
        self._let_first_through()
        return slot

    def is_last(self, slot: QueueSlot) -> bool:
        """Return whether no commit is queued behind this one."""
        return bool(self._slots) and self._slots[-1] is slot

    def remove(self, slot: QueueSlot) -> None:
        """Remove a commit, which has ended or was cancelled."""
        if slot in self._slots:
            self._slots.remove(slot)
            self._let_first_through()

    def _let_first_through(self) -> None:
        if self._slots:
            self._slots[0].is_first.set()


class QueueSlot:
    """The place of one commit in the queue; must be released in the end, even if `wait` was never called.

    Attributes:
        is_first: set when all earlier commits have been released.
    """

    def __init__(self, queue: CommitQueue) -> None:
        self._queue = queue
        self.is_first: asyncio.Event = asyncio.Event()

    async def wait(self) -> None:
        """Wait until all earlier commits have been released."""
        await self.is_first.wait()

    def release(self) -> None:
        """Let the next commit through; may be called twice."""
        self._queue.remove(self)


# ---- commits that the application does not wait for

SendCommit: TypeAlias = Callable[[PendingCommit, QueueSlot, Deadline], Coroutine[object, None, None]]
"""Commits when the slot is the first one; raises `KafkaError`."""
RevokedError: TypeAlias = Callable[[PendingCommit], CommitFailedError | None]
"""Returns the error of a commit whose partitions were revoked; None if all of them are still owned."""


@dataclass(slots=True)
class _MergedCommit:
    """Calls of `commit_nowait` that are sent as one commit.

    Attributes:
        slot: in the queue.
        commit: what to commit.
        deadline: of the last call.
        calls: the calls with a callback.
        without_callback: how many calls have none.
    """

    slot: QueueSlot
    commit: PendingCommit
    deadline: Deadline
    calls: list[tuple[Done, PendingCommit]] = field(default_factory=list)
    without_callback: int = 0

    def add(self, commit: PendingCommit, done: Done | None) -> None:
        if done is None:
            self.without_callback += 1
        else:
            self.calls.append((done, commit))


class AsyncCommits:
    """Commits of one consumer that the application does not wait for: one in flight, and one into which the next go.

    Args:
        queue: of all commits of the consumer.
        send: sends a commit.
        revoked_error: says which partitions were revoked.
    """

    def __init__(self, queue: CommitQueue, send: SendCommit, revoked_error: RevokedError) -> None:
        self._queue = queue
        self._send = send
        self._revoked_error = revoked_error
        self._open: _MergedCommit | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: deque[tuple[Done, Positions, KafkaError | None]] = deque()

    def add(self, commit: PendingCommit, done: Done | None, deadline: Deadline) -> None:
        """Commit these offsets, together with the commit that waits if no other commit is queued behind that."""
        merged = self._open
        if merged is None or not self._queue.is_last(merged.slot):
            merged = self._open = _MergedCommit(self._queue.enqueue(), commit, deadline)
            self._tasks.add(task := asyncio.get_running_loop().create_task(self._run(merged), name="commit"))
            task.add_done_callback(partial(self._has_ended, merged))
        else:
            merged.commit, merged.deadline = merged.commit.merge(commit), deadline
        merged.add(commit, done)

    async def _run(self, merged: _MergedCommit) -> None:
        await merged.slot.wait()  # at most until the deadlines of the earlier commits
        self._seal(merged)
        problem: KafkaError | None = None
        try:
            await self._send(merged.commit, merged.slot, merged.deadline)
        except KafkaError as error:
            problem = error
        self._report(merged, problem)

    def _seal(self, merged: _MergedCommit) -> None:
        """Merge no more calls into it."""
        if self._open is merged:
            self._open = None

    def _report(self, merged: _MergedCommit, problem: KafkaError | None) -> None:
        error = problem or self._revoked_error(merged.commit)
        if error is not None and merged.without_callback:
            count = merged.without_callback
            log.warning("%s without a callback failed: %s", "a commit" if count == 1 else f"{count} commits", error)
        for done, commit in merged.calls:
            self._ended.append((done, commit.offsets, self._revoked_error(commit) or problem))

    def _has_ended(self, merged: _MergedCommit, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._seal(merged)
        merged.slot.release()
        if task.cancelled():  # perhaps before it began
            self._report(merged, ClosedError("the consumer was closed before these offsets were committed"))

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The commits that have not ended."""
        return set(self._tasks)

    def run_callbacks(self) -> None:
        """Call the callbacks of commits that have ended; if one raises, raise its error and keep the others."""
        while self._ended:
            done, offsets, problem = self._ended.popleft()
            done(offsets, problem)

    def run_all_callbacks(self) -> Exception | None:
        """Call all callbacks that were not called yet; return the first error that one of them raised."""
        first: Exception | None = None
        while self._ended:
            try:
                self.run_callbacks()
            except Exception as error:  # noqa: BLE001 - a callback of the user's may raise anything
                first = first or error
        return first
