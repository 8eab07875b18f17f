"""How far a consumer has come: what was processed, and committing it, by hand or automatically.

A record counts as processed when the user asks for more after it was given to them. Commits of one consumer follow each
other in the order in which they were asked for, and end when a partition is given up meanwhile, so that no committed
position goes back by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
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
from kafkaraw.errors import CommitFailed, KafkaError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log = logging.getLogger(__name__)


class Progress:
    """The progress of one consumer of a group.

    Args:
        config: the consumer's settings.
        commits: asks the coordinator.
        reading: knows the positions.
        identity: who commits.
        refused: hears when a commit is refused because of who made it.
        settled: waits for the end of a rebalance that needs no user.
        metrics: counts.

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
        self._identity = identity
        self._refused = refused
        self._settled = settled
        self._metrics = metrics
        self._queue = CommitQueue()
        self._ownership = Ownership()
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._unconfirmed: set[TopicPartition] = set()  # a commit of theirs may have been carried out, or may still be
        self._processed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._was_in_doubt = True  # when the last processed positions were noted
        self._due_s: float | None = None
        self._automatic: asyncio.Task[None] | None = None
        self.async_commits = AsyncCommits(self._queue, self._commit_still_owned, self._revoked_error)

    # -- positions

    def positions(
        self, before: Mapping[TopicPartition, int] | None = None, only: Collection[TopicPartition] | None = None
    ) -> Positions:
        """Where the next record comes from, of all assigned partitions where that is known; see `Reading.starts`."""
        starts = self._reading.starts(before, only)
        return {of: OffsetAndMetadata(at.offset, leader_epoch=at.leader_epoch) for of, at in starts.items()}

    def to_commit(self) -> Positions:
        """What a commit without offsets stores."""
        return self.positions() if self._config.enable_auto_offset_store else dict(self._processed)

    def forget(self, kept: Iterable[TopicPartition]) -> None:
        """Only these partitions are this consumer's now."""
        keep = set(kept)
        self._ownership.keep(keep)
        self._stored = {partition: at for partition, at in self._stored.items() if partition in keep}
        self._processed = {partition: at for partition, at in self._processed.items() if partition in keep}
        self._unconfirmed &= keep

    # -- committing

    async def commit(self, offsets: Positions, deadline: Deadline) -> None:
        """Store positions, after those that were to be stored before; see `Commits.commit` for the errors."""
        await self._commit(self._ownership.pending(offsets), self._queue.enqueue(), deadline)

    def commit_nowait(self, offsets: Positions, done: Done | None, deadline: Deadline) -> None:
        """Begin to store positions; the user hears of the end in a later call."""
        self.async_commits.add(self._ownership.pending(offsets), done, deadline)

    async def _commit_still_owned(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline) -> None:
        await self._commit(pending.without(self._ownership.revoked_since(pending)), slot, deadline)

    async def _commit(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline) -> None:
        try:
            await deadline.wait(slot.wait(), "committing: waiting for earlier commits")
            await self._settled(deadline)
            began_s = self._metrics.begin()
            who = partial(self._owner, pending)
            self._unconfirmed.update(pending.offsets)
            await self._commits.commit(pending.offsets, who, deadline, self._refused, self._settled)
            if pending.offsets:
                self._metrics.committed(began_s)
                self._unconfirmed.difference_update(pending.offsets)
                self._stored.update(pending.offsets)
                if self._reading.interception is not None:
                    self._reading.interception.committed(pending.offsets)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        finally:
            slot.release()

    def _owner(self, pending: PendingCommit) -> GroupMetadata:
        """Who commits these: this consumer, as long as it has not given any of them up."""
        revoked = self._revoked_error(pending)
        if revoked is not None:
            raise revoked
        return self._identity()

    def _revoked_error(self, pending: PendingCommit) -> CommitFailed | None:
        gone = self._ownership.revoked_since(pending)
        if not gone:
            return None
        what = "nothing was" if len(gone) == len(pending.offsets) else "not all positions were"
        names = ", ".join(f"{topic}-{number}" for topic, number in gone)
        return CommitFailed(
            f"{what} committed for group {self._config.group_id!r}: {names} was revoked before that, "
            f"and other members may own it"
        )

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way that nobody waits for."""
        return bool(self.async_commits.tasks)

    async def commits_end(self, deadline: Deadline | None = None) -> None:
        """Let those commits end, as far as there is time."""
        if tasks := self.async_commits.tasks:
            await asyncio.wait(tasks, timeout=None if deadline is None else deadline.remaining)

    async def stored(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions as the coordinator has them."""
        who = self._member_or_nobody if self._config.group_protocol == "consumer" else None
        found = await self._commits.committed(partitions, deadline, who)
        self._stored.update(found)
        return found

    def _member_or_nobody(self) -> GroupMetadata:
        try:
            return self._identity()
        except CommitFailed:
            return GroupMetadata(self._config.group_id or "")

    # -- automatically

    def note_processed(self, *, in_doubt: bool = False) -> None:
        """The user has come back: all that they were given is processed; in doubt, all but what was given last."""
        cursor, moved = self._reading.cursor, self._reading.moved()
        if not in_doubt:
            cursor.settle()
        if not self._config.enable_auto_offset_store:
            return  # what is processed is what the user has stored
        if in_doubt or self._was_in_doubt:
            self._processed = dict(self.positions(cursor.unsettled))
        else:  # with each call of the user: it costs what has moved, however many partitions are read
            known = self.positions(only=moved)
            for gone in moved.keys() - known.keys():
                self._processed.pop(gone, None)
            self._processed.update(known)
        self._was_in_doubt = in_doubt

    def store(self, offsets: Positions) -> None:
        """Take these as processed; see `Consumer.store_offsets`."""
        self._processed.update(offsets)

    @property
    def is_due(self) -> bool:
        """Whether it is time to store what was processed."""
        if not self._config.commits_itself or (self._automatic is not None and not self._automatic.done()):
            return False
        return self._due_s is not None and asyncio.get_running_loop().time() >= self._due_s

    def commit_if_due(self) -> None:
        """Begin to store what was processed, when it is time and there is news."""
        if self._due_s is not None and not self.is_due:
            return
        begins, now_s = self._due_s is None, asyncio.get_running_loop().time()
        self._due_s = now_s + self._config.auto_commit_interval_ms / 1000
        if begins or not self._config.commits_itself:
            return
        news = self._news()
        if news:
            slot = self._queue.enqueue()
            work = self._commit_quietly(self._ownership.pending(news), slot)
            self._automatic = asyncio.get_running_loop().create_task(work, name="auto commit")
            self._automatic.add_done_callback(lambda _: slot.release())

    async def commit_processed(self, deadline: Deadline | None = None) -> None:
        """Store what was processed, if this consumer does so without being asked; a failure is logged.

        What the user has asked for before, and does not wait for, ends first: afterwards it might come too late.

        Args:
            deadline: of all of it; None is `default_api_timeout_ms` for the commit.
        """
        await self.commits_end(deadline)
        if self._config.commits_itself:
            await self._commit_quietly(self._ownership.pending(self._news()), self._queue.enqueue(), deadline)

    async def _commit_quietly(self, pending: PendingCommit, slot: QueueSlot, deadline: Deadline | None = None) -> None:
        try:
            await self._commit(pending, slot, deadline or Deadline(self._config.default_api_timeout_ms / 1000))
        except KafkaError as error:
            log.warning("automatic commit of group %r failed: %s", self._config.group_id, error)

    def _news(self) -> Positions:
        """What was processed and is not stored, or not for certain: a commit without an answer may have taken effect.

        That is committed again, also when the user has gone back since: else the later position would stay.
        """
        return {
            partition: at
            for partition, at in self._processed.items()
            if partition in self._unconfirmed or self._stored.get(partition) != at
        }

    async def close(self, deadline: Deadline) -> None:
        """Let commits that are under way end, as far as there is time."""
        tasks = {*self.async_commits.tasks, *([self._automatic] if self._automatic else [])}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline.remaining)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
