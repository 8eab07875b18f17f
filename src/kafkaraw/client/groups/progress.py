"""The commits of one consumer: by the caller or automatic, in the order in which they were asked for.

What was processed and what is committed is in `SubscriptionState`. A record counts as processed when the caller asks
for more after it was given to them. A commit fails if one of its partitions is revoked meanwhile, so that no committed
offset goes back by itself. Start at `commit` and `commit_if_due`.
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
from kafkaraw.client.groups.commits import Commits, Identity, Refused, Settled
from kafkaraw.client.groups.intents import Intent, Positions, Tenures
from kafkaraw.client.groups.line import Line, Place
from kafkaraw.client.groups.unwatched import Done, Unwatched
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.errors import CommitFailedError, KafkaError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log = logging.getLogger(__name__)


class Progress:
    """The commits of one consumer of a group.

    Args:
        config: the consumer's settings.
        commits: asks the coordinator.
        reading: what the consumer reads.
        identity: who commits.
        refused: hears when a commit is refused because of who made it.
        settled: waits for the end of a rebalance that needs no user.
        metrics: counts.

    Attributes:
        unwatched: commits that nobody waits for.
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
        self._line = Line()
        self._tenures = Tenures()
        self._due_s: float | None = None
        self._automatic: asyncio.Task[None] | None = None
        self.unwatched = Unwatched(self._line, self._commit_what_stayed, self._missed)

    # -- positions

    def to_commit(self) -> Positions:
        """Return what a commit without offsets commits."""
        subscriptions = self._subscriptions
        return subscriptions.positions() if self._config.enable_auto_offset_store else subscriptions.processed()

    def forget(self, kept: Iterable[TopicPartition]) -> None:
        """Only these partitions are this consumer's now."""
        keep = set(kept)
        self._tenures.keep(keep)
        self._subscriptions.retain(keep)

    # -- committing

    async def commit(self, offsets: Positions, deadline: Deadline) -> None:
        """Store positions, after those that were to be stored before; see `Commits.commit` for the errors."""
        await self._commit(self._tenures.intend(offsets), self._line.take_place(), deadline)

    def commit_nowait(self, offsets: Positions, done: Done | None, deadline: Deadline) -> None:
        """Begin to store positions; the user hears of the end in a later call."""
        self.unwatched.add(self._tenures.intend(offsets), done, deadline)

    async def _commit_what_stayed(self, intent: Intent, place: Place, deadline: Deadline) -> None:
        await self._commit(intent.without(self._tenures.given_up(intent)), place, deadline)

    async def _commit(self, intent: Intent, place: Place, deadline: Deadline) -> None:
        try:
            await deadline.wait(place.wait(), "committing: waiting for earlier commits")
            await self._settled(deadline)
            began_s = self._metrics.begin()
            who = partial(self._owner, intent)
            self._subscriptions.commit_began(intent.offsets)
            await self._commits.commit(intent.offsets, who, deadline, self._refused, self._settled)
            if intent.offsets:
                self._metrics.committed(began_s)
                self._subscriptions.commit_succeeded(intent.offsets)
                if self._reading.interception is not None:
                    self._reading.interception.committed(intent.offsets)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        finally:
            place.leave()

    def _owner(self, intent: Intent) -> GroupMetadata:
        """Who commits these: this consumer, as long as it has not given any of them up."""
        missed = self._missed(intent)
        if missed is not None:
            raise missed
        return self._identity()

    def _missed(self, intent: Intent) -> CommitFailedError | None:
        gone = self._tenures.given_up(intent)
        if not gone:
            return None
        what = "nothing was" if len(gone) == len(intent.offsets) else "not all positions were"
        names = ", ".join(f"{topic}-{number}" for topic, number in gone)
        return CommitFailedError(
            f"{what} committed for group {self._config.group_id!r}: the consumer had to give up {names} before that, "
            f"and others may have them"
        )

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way that nobody waits for."""
        return bool(self.unwatched.tasks)

    async def commits_end(self, deadline: Deadline | None = None) -> None:
        """Let those commits end, as far as there is time."""
        if tasks := self.unwatched.tasks:
            await asyncio.wait(tasks, timeout=None if deadline is None else deadline.remaining)

    async def stored(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets, as the coordinator has them."""
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
        """Take these as processed; see `Consumer.store_offsets`."""
        self._subscriptions.store(offsets)

    @property
    def is_due(self) -> bool:
        """Whether an automatic commit is due."""
        if not self._config.commits_itself or (self._automatic is not None and not self._automatic.done()):
            return False
        return self._due_s is not None and asyncio.get_running_loop().time() >= self._due_s

    def commit_if_due(self) -> None:
        """Begin an automatic commit, when it is due and something was processed since the last one."""
        if self._due_s is not None and not self.is_due:
            return
        begins, now_s = self._due_s is None, asyncio.get_running_loop().time()
        self._due_s = now_s + self._config.auto_commit_interval_ms / 1000
        if begins or not self._config.commits_itself:
            return
        offsets = self._subscriptions.uncommitted()
        if offsets:
            place = self._line.take_place()
            work = self._commit_quietly(self._tenures.intend(offsets), place)
            self._automatic = asyncio.get_running_loop().create_task(work, name="auto commit")
            self._automatic.add_done_callback(lambda _: place.leave())

    async def commit_processed(self, deadline: Deadline | None = None) -> None:
        """Commit what was processed, if this consumer commits automatically; a failure is logged.

        Commits that the caller has asked for before and does not wait for end first: afterwards it may be too late.

        Args:
            deadline: of all of it; None is `default_api_timeout_ms` for the commit.
        """
        await self.commits_end(deadline)
        if self._config.commits_itself:
            intent = self._tenures.intend(self._subscriptions.uncommitted())
            await self._commit_quietly(intent, self._line.take_place(), deadline)

    async def _commit_quietly(self, intent: Intent, place: Place, deadline: Deadline | None = None) -> None:
        try:
            await self._commit(intent, place, deadline or Deadline(self._config.default_api_timeout_ms / 1000))
        except KafkaError as error:
            log.warning("automatic commit of group %r failed: %s", self._config.group_id, error)

    async def close(self, deadline: Deadline) -> None:
        """Let commits that are under way end, as far as there is time."""
        tasks = {*self.unwatched.tasks, *([self._automatic] if self._automatic else [])}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline.remaining)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
