"""How far a consumer has come: what was processed, and committing it, by hand or automatically.

A record counts as processed when the user asks for more after it was given to them. Commits of one consumer follow each
other in the order in which they were asked for, and end when a partition is given up meanwhile, so that no committed
position goes back by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.commits import Commits, Identity, Refused, Settled
from kafkaraw.client.groups.line import Line, Place
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.errors import CommitFailed, KafkaError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log = logging.getLogger(__name__)

Positions: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
Done: TypeAlias = Callable[[Positions, KafkaError | None], None]
"""Called when a commit that nobody waited for has ended: with its positions, and the error, if any."""


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
        self._line = Line()
        self._tenures: dict[TopicPartition, object] = {}  # by which a partition that was given up and came back is told
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._processed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._due_s: float | None = None
        self._automatic: asyncio.Task[None] | None = None
        self._unwatched: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[Done, Positions, KafkaError | None]] = []

    # -- positions

    def positions(self) -> Positions:
        """Where the next record comes from, of all assigned partitions for which that is known."""
        starts = self._reading.starts()
        return {of: OffsetAndMetadata(at.offset, leader_epoch=at.leader_epoch) for of, at in starts.items()}

    def forget(self, kept: Iterable[TopicPartition]) -> None:
        """Only these partitions are this consumer's now."""
        keep = set(kept)
        self._tenures = {partition: self._tenures.get(partition, object()) for partition in keep}
        self._stored = {partition: at for partition, at in self._stored.items() if partition in keep}
        self._processed = {partition: at for partition, at in self._processed.items() if partition in keep}

    # -- committing

    async def commit(self, offsets: Positions, deadline: Deadline) -> None:
        """Store positions, after those that were to be stored before; see `Commits.commit` for the errors."""
        await self._commit(offsets, self._owner_of(offsets), self._line.take_place(), deadline)

    def _owner_of(self, offsets: Positions) -> Identity:
        """Who commits these: this consumer, as long as it does not give any of them up.

        A commit may have to wait, for others or for a coordinator. Then the group can have moved on, and this consumer
        with it: under its new generation what it wanted before would be stored over what the next owner has stored.
        """
        tenures = {partition: self._tenures[partition] for partition in offsets if partition in self._tenures}

        def identity() -> GroupMetadata:
            gone = sorted(partition for partition, had in tenures.items() if self._tenures.get(partition) is not had)
            if gone:
                names = ", ".join(f"{topic}-{number}" for topic, number in gone)
                raise CommitFailed(
                    f"nothing was committed for group {self._config.group_id!r}: the consumer had to give up {names} "
                    f"before that, and others may have them"
                )
            return self._identity()

        return identity

    async def _commit(self, offsets: Positions, identity: Identity, place: Place, deadline: Deadline) -> None:
        try:
            await deadline.wait(place.wait(), "committing: waiting for earlier commits")
            await self._settled(deadline)
            began_s = self._metrics.begin()
            await self._commits.commit(offsets, identity, deadline, self._refused, self._settled)
            if offsets:
                self._metrics.committed(began_s)
                self._stored.update(offsets)
                if self._reading.interception is not None:
                    self._reading.interception.committed(offsets)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        finally:
            place.leave()

    def commit_nowait(self, offsets: Positions, done: Done | None, deadline: Deadline) -> None:
        """Begin to store positions; the user hears of the end in a later call."""
        identity, place = self._owner_of(offsets), self._line.take_place()

        async def run() -> None:
            problem: KafkaError | None = None
            try:
                await self._commit(offsets, identity, place, deadline)
            except KafkaError as error:
                problem = error
                if done is None:
                    log.warning("a commit that nobody waits for failed: %s", error)
            if done is not None:
                self._ended.append((done, offsets, problem))

        self._unwatched.add(task := asyncio.get_running_loop().create_task(run(), name="commit"))
        task.add_done_callback(self._unwatched.discard)
        task.add_done_callback(lambda _: place.leave())  # also when it was cancelled before it began

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way that nobody waits for."""
        return bool(self._unwatched)

    async def commits_end(self) -> None:
        """Let those commits end."""
        if self._unwatched:
            await asyncio.wait(set(self._unwatched))

    def take_ended(self) -> list[tuple[Done, Positions, KafkaError | None]]:
        """Commits that have ended and of which the user is to be told."""
        ended, self._ended = self._ended, []
        return ended

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

    def note_processed(self) -> None:
        """The user has come back: whatever they were given is processed."""
        self._processed = dict(self.positions())

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
            place = self._line.take_place()
            work = self._commit_quietly(news, self._owner_of(news), place)
            self._automatic = asyncio.get_running_loop().create_task(work, name="auto commit")
            self._automatic.add_done_callback(lambda _: place.leave())

    async def commit_processed(self) -> None:
        """Store what was processed, if this consumer does so without being asked; a failure is logged.

        What the user has asked for before, and does not wait for, ends first: afterwards it might come too late.
        """
        await self.commits_end()
        if self._config.commits_itself:
            news = self._news()
            await self._commit_quietly(news, self._owner_of(news), self._line.take_place())

    async def _commit_quietly(self, offsets: Positions, identity: Identity, place: Place) -> None:
        try:
            await self._commit(offsets, identity, place, Deadline(self._config.default_api_timeout_ms / 1000))
        except KafkaError as error:
            log.warning("automatic commit of group %r failed: %s", self._config.group_id, error)

    def _news(self) -> Positions:
        return {partition: at for partition, at in self._processed.items() if self._stored.get(partition) != at}

    async def close(self, deadline: Deadline) -> None:
        """Let commits that are under way end, as far as there is time."""
        tasks = {*self._unwatched, *([self._automatic] if self._automatic else [])}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline.remaining)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
