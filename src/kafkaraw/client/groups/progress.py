"""The commits of one consumer, by the caller or automatic, in the order in which they were requested.

`SubscriptionState` has the processed and the committed offsets. A record counts as processed when the caller, after
receiving it, asks for more. A commit fails if one of its partitions is revoked meanwhile, so that it cannot overwrite a
committed offset of the new owner. Start at `commit` and `commit_if_due`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.commit_queue import (
    AsyncCommits,
    CommitQueue,
    Done,
    Ownership,
    PendingCommit,
    Positions,
    QueueSlot,
)
from kafkaraw.client.groups.commits import Commits, Identity, Refused, Settled
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.errors import CommitFailedError, KafkaError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log: logging.Logger = logging.getLogger(__name__)


class Progress:
    """The commits of one consumer of a group.

    Args:
        config: the consumer's settings.
        commits: sends the requests to the coordinator.
        reading: what the consumer reads.
        identity: returns the group and the member that commits.
        refused: called when the coordinator refuses a commit because of the member that sent it.
        settled: waits for the end of a rebalance that needs no call of the application.
        metrics: counts commits.

    Attributes:
        async_commits: commits that the application does not wait for.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        commits: Commits,
        reading: Reading,
        identity: Identity,
        refused: Refused,
        settled: Settled,
        metrics: GroupMetrics,
    ) -> None:
        self._config = config
        self._commits = commits
        self._reading = reading
        self._subscriptions = reading.subscriptions
        self._identity = identity
        self._refused = refused
        self._settled = settled
        self._metrics = metrics
        self._queue = CommitQueue()
        self._ownership = Ownership()
        self._due_s: float | None = None
        self._automatic: asyncio.Task[None] | None = None
        self.async_commits: AsyncCommits = AsyncCommits(self._queue, self._commit_still_owned, self._revoked_error)

    # -- positions

    def to_commit(self) -> Positions:
        """Return the offsets that a commit without arguments commits."""
        subscriptions = self._subscriptions
        return subscriptions.positions() if self._config.enable_auto_offset_store else subscriptions.processed()

    def forget(self, kept: Iterable[TopicPartition]) -> None:
        """Forget all partitions but these, which this consumer still owns."""
        keep = set(kept)
        self._ownership.keep(keep)
        self._subscriptions.retain(keep)

    # -- committing

    async def commit(self, offsets: Positions, deadline: Deadline) -> None:
        """Commit offsets, after earlier commits have ended; see `Commits.commit` for the errors."""
        await self._commit(self._ownership.pending(offsets), self._queue.enqueue(), deadline)

    def commit_nowait(self, offsets: Positions, done: Done | None, deadline: Deadline) -> None:
        """Begin a commit; a later call of the application calls `done` with the outcome."""
        self.async_commits.add(self._ownership.pending(offsets), done, deadline)

    async def _commit_still_owned(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline) -> None:
        await self._commit(pending.without(self._ownership.revoked_since(pending)), slot, deadline)

    async def _commit(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline) -> None:
        try:
            await deadline.wait(slot.wait(), "committing: waiting for earlier commits")
            await self._settled(deadline)
            began_s = self._metrics.begin()
            who = partial(self._owner, pending)
            self._subscriptions.commit_began(pending.offsets)
            await self._commits.commit(pending.offsets, who, deadline, self._refused, self._settled)
            if pending.offsets:
                self._metrics.committed(began_s)
                self._subscriptions.commit_succeeded(pending.offsets)
                if self._reading.interception is not None:
                    self._reading.interception.committed(pending.offsets)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        finally:
            slot.release()

    def _owner(self, pending: PendingCommit) -> GroupMetadata:
        """Return the member that commits; raises if one of the partitions was revoked since the commit was queued."""
        revoked = self._revoked_error(pending)
        if revoked is not None:
            raise revoked
        return self._identity()

    def _revoked_error(self, pending: PendingCommit) -> CommitFailedError | None:
        gone = self._ownership.revoked_since(pending)
        if not gone:
            return None
        what = "nothing was" if len(gone) == len(pending.offsets) else "not all positions were"
        names = ", ".join(f"{topic}-{number}" for topic, number in gone)
        return CommitFailedError(
            f"{what} committed for group {self._config.group_id!r}: {names} was revoked before that, "
            f"and other members may own it"
        )

    @property
    def is_committing(self) -> bool:
        """Whether a `commit_nowait` is in flight."""
        return bool(self.async_commits.tasks)

    async def commits_end(self, deadline: Deadline | None = None) -> None:
        """Wait for the commits of `commit_nowait`, at most until the deadline."""
        if tasks := self.async_commits.tasks:
            await asyncio.wait(tasks, timeout=None if deadline is None else deadline.remaining)

    async def stored(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets from the coordinator."""
        who = self._member_or_nobody if self._config.group_protocol == "consumer" else None
        found = await self._commits.committed(partitions, deadline, who)
        self._subscriptions.offsets_read(found)
        return found

    def _member_or_nobody(self) -> GroupMetadata:
        try:
            return self._identity()
        except CommitFailedError:
            return GroupMetadata(self._config.group_id or "")

    # -- automatically

    def note_processed(self, *, in_doubt: bool = False) -> None:
        """The caller asks for more; see `SubscriptionState.caller_returned`."""
        self._subscriptions.caller_returned(in_doubt=in_doubt)

    def store(self, offsets: Positions) -> None:
        """Store these offsets as processed; see `Consumer.store_offsets`."""
        self._subscriptions.store(offsets)

    @property
    def is_due(self) -> bool:
        """Whether an automatic commit is due."""
        if not self._config.commits_itself or (self._automatic is not None and not self._automatic.done()):
            return False
        return self._due_s is not None and asyncio.get_running_loop().time() >= self._due_s

    def commit_if_due(self) -> None:
        """Begin an automatic commit if it is due and records were processed since the last one."""
        if self._due_s is not None and not self.is_due:
            return
        begins, now_s = self._due_s is None, asyncio.get_running_loop().time()
        self._due_s = now_s + self._config.auto_commit_interval_ms / 1000
        if begins or not self._config.commits_itself:
            return
        offsets = self._subscriptions.uncommitted()
        if offsets:
            slot = self._queue.enqueue()
            work = self._commit_quietly(self._ownership.pending(offsets), slot)
            self._automatic = asyncio.get_running_loop().create_task(work, name="auto commit")
            self._automatic.add_done_callback(lambda _: slot.release())

    async def commit_processed(self, deadline: Deadline | None = None) -> None:
        """Commit the processed offsets, if this consumer commits automatically; a failure is logged.

        Commits of earlier `commit_nowait` calls end first: after a revocation they would fail.

        Args:
            deadline: for both together; None is `default_api_timeout_ms` for the commit.
        """
        await self.commits_end(deadline)
        if self._config.commits_itself:
            pending = self._ownership.pending(self._subscriptions.uncommitted())
            await self._commit_quietly(pending, self._queue.enqueue(), deadline)

    async def _commit_quietly(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline | None = None) -> None:
        try:
            await self._commit(pending, slot, deadline or Deadline(self._config.default_api_timeout_ms / 1000))
        except KafkaError as error:
            log.warning("automatic commit of group %r failed: %s", self._config.group_id, error)

    async def close(self, deadline: Deadline) -> None:
        """Wait for the commits in flight, at most until the deadline; then cancel them."""
        tasks = {*self.async_commits.tasks, *([self._automatic] if self._automatic else [])}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline.remaining)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
