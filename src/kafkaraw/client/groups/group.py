"""The group of one consumer: its committed offsets, and its membership if the consumer subscribes.

Carries out the consumer's calls that concern groups, so that `consumer.py` stays a list of public methods. A consumer
with manually assigned partitions uses the committed offsets only. Start at `turn`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkaraw.client.arguments import partitions_of, positions_of
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.group_settings import member_settings
from kafkaraw.client.groups.commit_queue import Done, Positions
from kafkaraw.client.groups.commits import Commits
from kafkaraw.client.groups.listeners import CallUser, Listeners
from kafkaraw.client.groups.membership import Membership
from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.core.group.classic import ClassicMember
from kafkaraw.core.group.consumer import ConsumerMember
from kafkaraw.core.group.member import GroupMember
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import KafkaError, RetriableError, UsageError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.reading import Reading

log: logging.Logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


class Group:
    """The group of one consumer.

    Args:
        engine: the client's connections and metadata.
        config: the consumer's settings, with a `group_id`.
        reading: reads the assigned partitions.
    """

    def __init__(self, engine: Engine, config: ConsumerConfig, reading: Reading) -> None:
        assert config.group_id is not None
        self._engine = engine
        self._config = config
        self._reading = reading
        self._unplaced: set[TopicPartition] = set()
        self._placing: asyncio.Task[Positions] | None = None
        self._closing = asyncio.Lock()
        self._reader: asyncio.Task[object] | None = None  # the task that polled last
        coordinator = Coordinator(engine, CoordinatorKind.GROUP, config.group_id)
        self._metrics = GroupMetrics()
        self.membership: Membership = Membership(
            engine, config, _member(engine, config), coordinator, reading, self._metrics
        )
        commits = Commits(engine, config.group_id, coordinator)
        membership = self.membership
        who = (membership.identity, membership.refused, membership.settled)
        self.progress: Progress = Progress(config, commits, reading, *who, self._metrics)
        membership.progress = self.progress
        reading.turn = self.turn

    # -- subscription and assignment

    def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listeners: Listeners
    ) -> None:
        """Subscribe to topics or to a pattern.

        Raises:
            UsageError: partitions are assigned manually, or the topics or the pattern are invalid.
        """
        listeners.check()
        if not self.membership.is_active and self._reading.subscriptions.assignment:
            raise UsageError("subscribe: partitions are assigned by hand; call assign([]) first")
        self.membership.subscribe(topics, pattern, listeners)
        self._reading.wake()

    def check_assigned_by_hand(self) -> None:
        """Refuse manual assignment while there is a subscription.

        Raises:
            UsageError: the consumer has subscribed.
        """
        if self.membership.is_active:
            raise UsageError("assign: this consumer has subscribed, and its group assigns; call unsubscribe() first")

    def assigned_by_hand(self, added: Iterable[TopicPartition]) -> None:
        """Start these partitions at their committed offsets, unless `seek` is called first."""
        self._unplaced |= set(added)
        self._unplaced &= set(self._reading.subscriptions.assignment)

    def sought(self, partitions: Iterable[TopicPartition]) -> None:
        """The application has set the positions of these partitions."""
        self._unplaced -= set(partitions)

    async def unsubscribe(self, deadline: Deadline) -> None:
        """Commit what was processed, revoke all partitions, and leave; also end a manual assignment."""
        self.progress.note_processed(in_doubt=self._may_be_busy)
        if self.membership.is_active:
            await self.membership.leave(deadline, "the consumer has unsubscribed")
        elif self._reading.subscriptions.assignment:
            await self.progress.commit_processed(deadline)
            self._reading.assign(())
            self._unplaced.clear()

    # -- inside calls of the application

    async def turn(self, deadline: Deadline) -> bool:
        """Do what has to be done inside a call to poll; return whether records may be returned.

        Raises:
            KafkaError: the error of the member, or of a look-up.
            CallUser: a callback has to be called on the thread of the application.
        """
        self._reading.allow_reading()
        self._reader = asyncio.current_task()
        self.progress.note_processed()
        self.progress.async_commits.run_callbacks()
        if self.membership.is_active:
            if not await self._turn_of_member(deadline):
                return False
        elif not self._reading.subscriptions.assignment:
            raise UsageError("nothing is assigned to this consumer: call subscribe() or assign() first")
        elif not await self.place(deadline):
            return False
        self.progress.commit_if_due()
        return True

    async def _turn_of_member(self, deadline: Deadline) -> bool:
        done = False
        try:
            done = await self.membership.turn(deadline)
        finally:
            if not done:
                # The next call must begin here: records of the last batch may belong to partitions that are being
                # revoked, and returned now they would come after the commit.
                self._reading.cursor.must_enter_loop = True
        return done

    async def place(self, deadline: Deadline) -> bool:
        """Set the positions of manually assigned partitions to their committed offsets; return whether that is done.

        Raises:
            KafkaError: the offsets cannot be fetched, for another reason than an outage of brokers reached before.
        """
        while self._unplaced:
            if self._placing is None:
                deadline_s = self._engine.deadline(None)
                self._placing = asyncio.get_running_loop().create_task(
                    self._stored(frozenset(self._unplaced), deadline_s), name="fetching committed offsets"
                )
            task = self._placing
            done, _ = await asyncio.wait({task}, timeout=deadline.remaining)
            if not done:
                return False
            if self._placing is not task:
                continue  # another call has waited for the same task, and was first
            self._placing = None
            try:
                starts = task.result()
            except RetriableError as error:
                if not self._reading.fetcher.was_reached:
                    raise
                log.warning("committed offsets are not known yet, asking again: %s", error)
                continue
            for partition in self._unplaced & starts.keys():
                self._reading.seek(partition, starts[partition].offset, starts[partition].leader_epoch)
            self._unplaced -= starts.keys()
        return True

    async def _stored(self, partitions: frozenset[TopicPartition], deadline: Deadline) -> Positions:
        found = await self.progress.stored(partitions, deadline)
        self._unplaced -= partitions - found.keys()
        return found

    # -- committed offsets

    async def commit(self, offsets: Offsets | None, deadline: Deadline) -> None:
        """Commit; see `Consumer.commit`."""
        try:
            await self.progress.commit(self._positions(offsets, "commit"), deadline)
        except KafkaError:
            self.progress.async_commits.run_callbacks()
            raise
        self.progress.async_commits.run_callbacks()  # those of earlier commits, which have ended: commits have an order

    def commit_nowait(self, offsets: Offsets | None, callback: Done | None) -> None:
        """Begin a commit; see `Consumer.commit_nowait`."""
        if callback is not None and not callable(callback):
            raise UsageError(
                f"commit_nowait: callback {callback!r} must be a function that takes the offsets and an error or None"
            )
        self.progress.commit_nowait(self._positions(offsets, "commit_nowait"), callback, self._engine.deadline(None))

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return committed offsets; see `Consumer.committed`."""
        wanted = partitions_of(partitions, "committed")
        found = await self.progress.stored(wanted, deadline)
        return {partition: found.get(partition) for partition in wanted}

    def metrics(self) -> dict[str, float | dict[str, int]]:
        """Return the metrics of rebalances, heartbeats and commits."""
        return self._metrics.as_dict(self.membership.member)

    def group_metadata(self) -> GroupMetadata:
        """Return member id and generation; see `Consumer.group_metadata`."""
        return self.membership.group_metadata()

    def _positions(self, offsets: Offsets | None, call: str) -> Positions:
        if offsets is None:
            return self.progress.to_commit()
        return positions_of(offsets, call)

    def store_offsets(self, offsets: Offsets) -> None:
        """Mark offsets as processed; see `Consumer.store_offsets`."""
        if self._config.enable_auto_offset_store:
            raise UsageError("store_offsets: set enable_auto_offset_store=False, or what was given is stored by itself")
        positions = positions_of(offsets, "store_offsets")
        for partition in positions:
            self._reading.subscriptions.partition(partition)
        self.progress.store(positions)

    # -- the end

    async def close(self, deadline: Deadline, *, in_doubt: bool = False) -> bool:
        """Commit what was processed, and leave; after another task that closes, as far as there is time.

        Args:
            deadline: of all steps together.
            in_doubt: the last batch may not be processed: an error ends the consumer, or another thread has the batch.

        Returns:
            whether the consumer is closed: False in a callback for which another task, which closes, waits.

        Raises:
            CallUser: a callback has to be called on the thread of the application; then call again.
            Exception: what a callback raised; the consumer is closed nevertheless.
        """
        if self._closing.locked() and self.membership.callbacks.is_inside:
            return False
        is_first = await _comes_first(self._closing, deadline)
        try:
            await self._close(deadline, in_doubt=in_doubt)
        finally:
            if is_first:
                self._closing.release()
        return True

    @property
    def _may_be_busy(self) -> bool:
        """Whether another task may still process its last batch, or has failed at it.

        A caller that polls in a new task for each call, as `asyncio.wait_for` does on Python 3.11, cannot be seen, and
        counts as done. The blocking face knows by its threads.
        """
        reader = self._reader
        if reader is None or reader is asyncio.current_task() or self.membership.callbacks.on_callers_thread:
            return False
        return not reader.done() or reader.cancelled() or _failed(reader)

    async def _close(self, deadline: Deadline, *, in_doubt: bool) -> None:
        self.progress.note_processed(in_doubt=in_doubt or self._may_be_busy)
        problem: BaseException | None = None
        if self.membership.is_active:
            try:
                await self.membership.leave(deadline, "the consumer is closed")
            except CallUser:
                raise
            except Exception as error:  # noqa: BLE001 - a callback of the user's may raise anything
                problem = error
        elif self._engine.is_started:
            await self.progress.commit_processed(deadline)
        await self.membership.callbacks.wait_for_others(deadline)
        await self.progress.close(deadline)
        problem = problem or self.progress.async_commits.run_all_callbacks()
        if self._placing is not None:
            self._placing.cancel()
        await self.membership.close()
        if problem is not None:
            raise problem


def _failed(reader: asyncio.Task[object]) -> bool:
    error = reader.exception()  # asyncio does not warn of it any more
    if error is not None:
        log.warning("the task that polled last has failed, so its last batch is not committed: %r", error)
    return error is not None


async def _comes_first(lock: asyncio.Lock, deadline: Deadline) -> bool:
    """Take the lock; return False if the time was up before."""
    try:
        async with asyncio.timeout(deadline.remaining):
            await lock.acquire()
    except TimeoutError:
        return False
    return True


def _member(engine: Engine, config: ConsumerConfig) -> GroupMember:
    """Return the state machine of the configured protocol."""
    backoff, rng = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms), engine.runtime.rng
    settings = member_settings(config)
    if config.group_protocol == "classic":
        return ClassicMember(settings, backoff, rng)
    member_id = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")
    return ConsumerMember(settings, backoff, rng, member_id, engine.cluster.name_of)
