"""`AsyncConsumer`: read partitions of topics from positions of one's own choosing.

The face only: what its methods promise. Fetching and waiting are in `reading`, decisions in `core/fetch`. Start at
`poll`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, Final, Never, ParamSpec, Self, TypeVar

from kafkaraw.client.arguments import (
    partition_of,
    partitions_of,
    position_of,
    refuse_positional,
    timestamps_of,
    topic_of,
)
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.arrow import ARROW_BYTES, check_columns, to_arrow
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, look_up
from kafkaraw.client.fetching.reading import Reading
from kafkaraw.client.groups.callbacks import CallUser
from kafkaraw.client.listeners import Callback, Listeners
from kafkaraw.client.metrics import consumer_metrics
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.fetch.cursor import by_partition
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kafkaraw.errors import ConcurrentUseError, UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, Record, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.groups.commit_queue import Done
    from kafkaraw.client.groups.group import Group
    from kafkaraw.client.java_names import Properties

CLOSE_S: Final = 30.0
"""How long closing may take when the call does not say."""

P = ParamSpec("P")
T = TypeVar("T")


def _interruptible(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[AsyncConsumer, P], Coroutine[object, None, T]]:
    """Have `wakeup` end a method that may wait."""

    @wraps(method)
    async def call(self: AsyncConsumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await reading_of(self).wakeups.interruptible(method(self, *args, **kwargs))

    return call


class AsyncConsumer:
    """Reads records from partitions that are assigned to it.

    The connection is made on first use. One task reads at a time: a call that waits for records raises
    `ConcurrentUseError` while another task is in one. Meanwhile other tasks may call all the rest, on the same event
    loop. With automatic commits, what one task was given counts as processed when another one asks for more.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ConsumerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._config = parse(ConsumerConfig, settings)
        self._engine = Engine.on(self._config, runtime)
        self._reading = Reading(self._engine, self._config)
        self._group: Group | None = None
        if self._config.group_id is not None:
            from kafkaraw.client.groups.group import Group  # only for members: a quarter of a consumer's modules

            self._group = Group(self._engine, self._config, self._reading)
        self._reader: asyncio.Task[object] | None = None  # whose call waits for records
        self._reader_left = asyncio.Event()

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        """Make one with a Java client's configuration, a `.properties` file or names and values; `settings` go first.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; says what to use instead.
        """
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, ConsumerConfig, properties, runtime, settings)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(closing_deadline(None), in_doubt=error is not None)
        except Exception as problem:
            if error is None:
                raise
            error.add_note(f"while closing the consumer: {problem}")

    # -- what to read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on.

        Partitions that were assigned before keep their positions; new ones begin where the group has committed, if
        there is a `group_id`, else where `auto_offset_reset` says, unless `seek` says otherwise.

        Args:
            partitions: `TopicPartition`s; an empty list stops reading.

        Raises:
            UsageError: an entry is not a topic and a partition, or there is a subscription.
        """
        checked = partitions_of(partitions, "assign")
        self._reading.check_usable()
        added = set(checked) - set(self._reading.subscriptions.assignment)
        if self._group is not None:
            self._group.check_assigned_by_hand()
        self._reading.assign(checked)
        if self._group is not None:
            self._group.assigned_by_hand(added)
        self._engine.use_topics({topic_partition.topic for topic_partition in checked})

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, too; those that are assigned stay as they are.

        Args:
            partitions: `TopicPartition`s; they begin as with `assign`.

        Raises:
            UsageError: as `assign`.
        """
        self.assign([*self.assignment(), *partitions_of(partitions, "incremental_assign")])

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; the others stay as they are. Nothing is committed.

        Args:
            partitions: assigned ones.

        Raises:
            UsageError: one is not assigned (then none is taken away), or there is a subscription.
        """
        gone = set(partitions_of(partitions, "incremental_unassign"))
        for partition in gone:
            self._reading.subscriptions.partition(partition)
        self.assign([partition for partition in self.assignment() if partition not in gone])

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, in order."""
        return list(self._reading.subscriptions.assignment)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Share the partitions of topics with the other members of the group.

        Membership begins with the next call that reads, and is kept by heartbeats that depend on nothing else. The
        callbacks are called inside of such calls, with a list of partitions; they may be `async`, and may commit and
        seek. Subscribing again changes what is wanted. See the how-to "Consume in a group".

        Args:
            topics: names; those that do not exist are read when they do.
            pattern: instead of topics: a regular expression that matches the whole name; Kafka's own topics are left
                out. With `group_protocol="consumer"` text is for the broker (RE2).
            on_assigned: called after partitions were assigned, before anything of them is read.
            on_revoked: called before partitions are taken away.
            on_lost: called when they may belong to others already; `on_revoked` is called instead when it is None.

        Raises:
            UsageError: there is no `group_id`, partitions are assigned by hand, or what is wanted makes no sense.
        """
        self._reading.check_usable()
        self._in_group("subscribe").subscribe(topics, pattern, Listeners(on_assigned, on_revoked, on_lost))

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """End the subscription: commit if that is automatic, tell `on_revoked`, and leave the group.

        Partitions that were assigned by hand are dropped, too.

        Args:
            timeout: seconds for the commit and for leaving; None is `default_api_timeout_ms`.
        """
        self._reading.check_usable()
        if self._group is not None:
            await self._group.unsubscribe(self._engine.deadline(timeout))
        else:
            self._reading.assign(())

    def subscription(self) -> list[str]:
        """The topics that are subscribed to, in order; those that match a pattern, as far as it is applied here."""
        return [] if self._group is None else self._group.membership.subscription

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on reading at an offset.

        Args:
            partition: an assigned one.
            offset: of the next record to give; whether it exists turns out when it is fetched. As `committed` and
                `next_offsets` give it, with a leader epoch, it is noticed, too, if the log was cut before it.

        Raises:
            UsageError: the partition is not assigned, or the offset is negative.
        """
        chosen = partition_of(partition, "seek")
        at = position_of(offset, f"seek {chosen.topic}-{chosen.partition}", "see seek_to_beginning() and seek_to_end()")
        self._reading.seek(chosen, at.offset, at.leader_epoch)
        self._sought([chosen])

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on at the first record that the brokers still have.

        Args:
            partitions: assigned ones; all of them when None.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on behind the last record there is when the position is looked up, which the next call that waits does.

        Args:
            partitions: assigned ones; all of them when None.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give nothing of these partitions until `resume`; what was fetched of them stays, so nothing is fetched twice.

        Args:
            partitions: assigned ones.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._reading.check_usable()
        self._reading.subscriptions.pause(partitions_of(partitions, "pause"))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with partitions that were paused.

        Args:
            partitions: assigned ones.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._reading.check_usable()
        self._reading.resume(partitions_of(partitions, "resume"))

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused, in order."""
        return sorted(self._reading.subscriptions.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end of a partition, as the last answer told it.

        The end is the last stable offset with `isolation_level="read_committed"`. Offsets without records count, too.

        Args:
            partition: an assigned one.

        Returns:
            None before the first answer.

        Raises:
            UsageError: the partition is not assigned.
        """
        return self._reading.lag(partition_of(partition, "lag"))

    @_interruptible
    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be given.

        Args:
            partition: an assigned one.
            timeout: seconds, should the offset have to be looked up; None is `default_api_timeout_ms`.

        Raises:
            UsageError: the partition is not assigned, or has no position.
            KafkaTimeoutError: the offset is not known in time.
        """
        chosen = partition_of(partition, "position")
        deadline = self._engine.deadline(timeout)
        if self._group is not None:
            await self._group.place(deadline)
        return await self._reading.position(chosen, deadline)

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each assigned partition goes on, with the leader epoch before it, as far as that is known.

        That is what `commit()` stores, and what belongs into a transaction (`send_offsets_to_transaction`): behind all
        that was given, and behind what has no records, as markers of transactions (KIP-1094).
        """
        self._reading.check_usable()
        return self._reading.subscriptions.positions()

    # -- reading

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> dict[TopicPartition, Batch]:
        """Wait for records, and give what there is.

        The next fetch is under way when this returns. Records are decoded when the batch is looked at.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            max_records: most records in all batches together; None is `max_poll_records`.

        Returns:
            one batch for each partition that has records; empty when none came in time.

        Raises:
            KafkaError: what cannot be mended by trying again, or has not been for `default_api_timeout_ms`: no broker
                can be reached, a topic does not exist, the position is gone and `auto_offset_reset` is "none".
            CorruptBatchError: the header of a batch is damaged. A batch with damaged records is returned, and raises
                when its records are read; the next call goes on behind it.
        """
        limit = self._reading.limit(max_records)
        at_once = self._reading.take_at_once(by_partition, limit)
        if at_once:
            return at_once
        return await self._read("poll", self._reading.take(by_partition, limit, timeout))

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:
        """Give batches as they come, one partition at a time.

        Args:
            timeout: stop when nothing comes for so many seconds; None goes on until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not self._reading.is_over:
            batch = self._reading.cursor.next_batch()
            if batch is not None:
                yield batch
            elif not await self._more("batches", timeout) and timeout is not None:
                return

    def __aiter__(self) -> AsyncConsumer:
        """Iterate over records, until the consumer is closed; may be left and gone on with at any record."""
        return self

    async def __anext__(self) -> Record:
        while True:
            if self._reading.is_over:
                raise StopAsyncIteration
            record = self._reading.cursor.next_record()
            if record is not None:
                return record
            await self._more("iteration", None)

    async def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch:
        """Wait for records, and give what there is as Arrow columns; no record objects are made.

        So neither deserializers nor an interceptor's `on_consume` see them: key and value are what was sent. A call
        decompresses about 16 MiB, or one batch of the producer's if that has more; the next call goes on behind that.

        Args:
            max_records: most rows; None is `max_poll_records`.
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            columns: which columns, in order; None is all.

        Returns:
            topic dictionary<int32, string>, partition int32, offset int64, timestamp timestamp[ms, UTC],
            timestamp_type int8, key and value binary, headers list<struct<key: string, value: binary>> (null when a
            record has none). No rows when none came in time.

        Raises:
            UsageError: an unknown column.
            CorruptBatchError: a batch is damaged. All records before it were returned by earlier calls; the next call
                goes on behind it. The same for `BatchTooLargeError`.
            KafkaError: as `poll`.
        """
        names = check_columns(columns)
        limit = self._reading.limit(max_records)
        work = self._reading.take(partial(to_arrow, columns=names), limit, timeout, ARROW_BYTES)
        return await self._read("poll_arrow", work)

    # -- asking

    def wakeup(self) -> None:
        """Have the call that waits raise `WakeupError`, or else the next one that could wait.

        Calls that could wait are those that read, `commit`, and those that ask brokers. Nothing is lost: records that a
        call has not returned are given by the next one, and the position stays behind the last record that was given.
        A commit that is interrupted may have been carried out or not. For any thread, and for signal handlers. As
        Java's `KafkaConsumer.wakeup`.
        """
        self._reading.wakeup()

    @_interruptible
    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic, ready for `assign`.

        Args:
            topic: its name.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker gave an answer.
        """
        self._reading.check_usable()
        topic_of(topic, "partitions_for")
        deadline = self._engine.deadline(timeout)
        await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], deadline.remaining)
        return self._engine.cluster.partitions_of(topic) or []

    @_interruptible
    async def list_topics(self, timeout: float | None = None) -> dict[str, list[TopicPartition]]:
        """The partitions of every topic that this consumer may see, Kafka's internal ones included, by name.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker gave an answer.
        """
        self._reading.check_usable()
        await self._engine.refresh(None, timeout=timeout)
        cluster = self._engine.cluster
        return {topic: cluster.partitions_of(topic) or [] for topic in sorted(cluster.topics)}

    def topic_id(self, topic: str) -> Uuid:
        """The id of a topic as this consumer knows it: another one when the topic was deleted and made again.

        After a poll it is that of the topic which the records come from, or of one made later under the same name.

        Args:
            topic: its name.

        Returns:
            zero when the topic is not known (yet), and from brokers before 2.8.
        """
        return self._engine.cluster.topic_id_of(topic_of(topic, "topic_id"))

    @_interruptible
    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that the brokers still have, by partition; they need not be assigned.

        Args:
            partitions: any.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some cannot be found out.
        """
        return await self._offsets(
            dict.fromkeys(partitions_of(partitions, "beginning_offsets"), EARLIEST_TIMESTAMP), timeout
        )

    @_interruptible
    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record to be written will have, by partition; they need not be assigned.

        Args:
            partitions: any.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some cannot be found out.
        """
        return await self._offsets(dict.fromkeys(partitions_of(partitions, "end_offsets"), LATEST_TIMESTAMP), timeout)

    @_interruptible
    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, by partition.

        Args:
            timestamps: milliseconds since 1970 UTC, by partition.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            offset and timestamp of the record; None when all records are older.

        Raises:
            UsageError: a negative timestamp.
            KafkaError: some cannot be found out.
        """
        wanted = timestamps_of(timestamps, "offsets_for_times")
        self._reading.check_usable()
        deadline = self._engine.deadline(timeout)
        found = await look_up(self._engine, wanted, deadline=deadline, committed_only=self._reading.committed_only)
        return {partition: offset if offset.offset >= 0 else None for partition, offset in found.items()}

    def metrics(self) -> Metrics:
        """What this client has counted so far: about fetching, about its group, and about each broker.

        Returns:
            by node id as text, see `AsyncProducer.metrics`; under "consumer" what was fetched, and how far behind the
            consumer is; under "group", if it has a `group_id`, rebalances, heartbeats and commits. Names are Java's.
        """
        group = {}
        if self._group is not None:
            from kafkaraw.client.metrics.group_metrics import GROUP  # the group has loaded it

            group = {GROUP: self._group.metrics()}
        return {consumer_metrics.GROUP: self._reading.metrics(), **group, **self._engine.metrics.as_dict()}

    # -- positions that the group keeps

    @_interruptible
    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Store positions in the group, and wait until they are stored.

        Callbacks of earlier `commit_nowait` are called before it returns.

        Args:
            offsets: the next offset to read, by partition, or with a text of your own; None is the position of every
                assigned partition: behind all that was given by earlier calls; with `enable_auto_offset_store=False`,
                what `store_offsets` was given.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            CommitFailedError: this consumer is no member any more: what it had may belong to others. Nothing was
                stored.
            RebalanceInProgressError: call `poll()` first, so that the rebalance can end.
            UsageError: there is no `group_id`, or an offset is negative.
            KafkaTimeoutError: the group's coordinator could not be asked in time; it may have stored them or not.
        """
        self._reading.check_usable()
        await self._in_group("commit").commit(offsets, self._engine.deadline(timeout))

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Done | None = None,
    ) -> None:
        """Begin to store positions, after those of earlier commits; nobody waits.

        While one such commit is under way, those that follow become one: of a partition the last position is stored.

        Args:
            offsets: as for `commit`.
            callback: called in a later call that reads or commits, or in `close()`, with the positions and the error or
                None; must not block. Without one a failure is logged.

        Raises:
            UsageError: there is no `group_id`, or an offset is negative.
        """
        self._reading.check_usable()
        self._in_group("commit_nowait").commit_nowait(offsets, callback)

    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Note what was processed, for the next automatic commit, or for `commit()` without offsets.

        For `enable_auto_offset_store=False`: with it only what is stored here is committed, whatever was given. So an
        automatic commit cannot include records that are still being processed. As librdkafka's `store_offsets`.

        Args:
            offsets: the next offset to read, by partition: the last processed one and 1. The last call counts.

        Raises:
            UsageError: there is no `group_id`, the setting is true, a partition is not assigned, or an offset negative.
        """
        self._reading.check_usable()
        self._in_group("store_offsets").store_offsets(offsets)

    @_interruptible
    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Positions that the group has stored; None where there is none. They need not be assigned.

        Args:
            partitions: any.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: there is no `group_id`.
            KafkaTimeoutError: not known in time, as while a transaction that may change one stays open.
        """
        self._reading.check_usable()
        return await self._in_group("committed").committed(partitions, self._engine.deadline(timeout))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group, for a producer's `send_offsets_to_transaction`.

        Raises:
            UsageError: there is no `group_id`.
        """
        return self._in_group("group_metadata").group_metadata()

    async def close(self, timeout: float | None = None) -> None:
        """Commit if that is automatic, leave the group, and close all connections. May be called twice.

        A call that waits gets a `ClosedError`. A callback of a rebalance that runs in another task or thread comes to
        its end first, and so does another `close`. What another task or thread was given by its last call, and may be
        busy with, is not counted as processed, so whoever goes on is given it again.

        Args:
            timeout: seconds for all of it: callbacks, the commit, leaving, and the last bytes; None is 30.

        Raises:
            Exception: what a callback of the group raised; all is closed nevertheless.
        """
        await self._close(closing_deadline(timeout), in_doubt=False)

    # -- inside

    async def _close(self, deadline: Deadline, *, in_doubt: bool) -> None:
        problem: Exception | None = None
        self._reading.end()
        if self._group is not None and not self._engine.closed:
            try:
                if not await self._group.close(deadline, in_doubt=in_doubt):
                    return  # a callback asks, while somebody else closes and waits for it
            except CallUser:
                raise
            except Exception as error:  # noqa: BLE001 - a callback of the user's may raise anything
                problem = error
        await self._reading.close(deadline)
        if problem is not None:
            raise problem

    async def _more(self, call: str, timeout: float | None) -> bool:
        return await self._read(call, self._reading.more_unless_closed(timeout))

    async def _read(self, call: str, work: Coroutine[object, None, T]) -> T:
        """Wait for records; of two tasks that do, each would get some of a partition, out of order."""
        me = asyncio.current_task()
        if self._reader is not None:
            try:
                await self._others_leave(call, me)
            except BaseException:
                work.close()
                raise
        before, self._reader = self._reader, me
        try:
            return await work
        finally:
            self._reader = before
            self._reader_left.set()

    async def _others_leave(self, call: str, me: asyncio.Task[object] | None) -> None:
        """Wait for the call of a task that was cancelled; refuse if it is any other task."""
        while self._reader is not None and self._reader is not me:
            if not self._reader.cancelling():
                raise _refusal(call, me, self._reader)
            self._reader_left.clear()
            await self._reader_left.wait()

    def _in_group(self, call: str) -> Group:
        if self._group is None:
            raise UsageError(f"{call}: this consumer has no group; give it a group_id")
        return self._group

    def _sought(self, partitions: Iterable[TopicPartition]) -> None:
        if self._group is not None:
            self._group.sought(partitions)

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, int]:
        self._reading.check_usable()
        found = await look_up(
            self._engine,
            timestamps,
            deadline=self._engine.deadline(timeout),
            committed_only=self._reading.committed_only,
        )
        return {topic_partition: offset.offset for topic_partition, offset in found.items()}

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        call = "seek_to_beginning" if timestamp == EARLIEST_TIMESTAMP else "seek_to_end"
        chosen = self.assignment() if partitions is None else partitions_of(partitions, call)
        self._reading.seek_to(chosen, timestamp)
        self._sought(chosen)


def _refusal(call: str, me: asyncio.Task[object] | None, reader: asyncio.Task[object]) -> ConcurrentUseError:
    mine = "?" if me is None else me.get_name()
    return ConcurrentUseError(
        f"{call} in task {mine!r}: task {reader.get_name()!r} waits for records of this consumer. One task reads at "
        f"a time: make a consumer for each task, or read in one task and hand the records to others (asyncio.Queue). "
        f"From other tasks call wakeup() or close()"
    )


# -- for the blocking face, which reads records on its caller's thread while no call is under way


def reading_of(consumer: AsyncConsumer) -> Reading:
    """What stands behind a consumer."""
    return consumer._reading  # noqa: SLF001 - same module


def is_closed(consumer: AsyncConsumer) -> bool:
    """Whether an iteration over it has come to its end."""
    return consumer._reading.is_over  # noqa: SLF001 - same module


def closing_deadline(timeout: float | None) -> Deadline:
    """By when a call of `close` ends."""
    return Deadline(CLOSE_S if timeout is None else timeout)


async def close_of(consumer: AsyncConsumer, deadline: Deadline, *, in_doubt: bool) -> None:
    """Close it; what was given last may not be processed when an error ended a `with`, or another thread has it."""
    await consumer._close(deadline, in_doubt=in_doubt)  # noqa: SLF001 - same module


def group_of(consumer: AsyncConsumer) -> Group | None:
    """Its side of its group."""
    return consumer._group  # noqa: SLF001 - same module
