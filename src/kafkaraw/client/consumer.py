"""`AsyncConsumer`: reads records from partitions of topics.

This module has the public methods and their documentation. Fetching and waiting are in `reading`, decisions in
`core/fetch`. Start at `poll`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, Final, Literal, Never, ParamSpec, Self, TypeVar, Unpack

from kafkaraw.client.arguments import (
    partition_of,
    partitions_of,
    position_of,
    refuse_positional,
    timestamps_of,
    topic_of,
)
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, look_up
from kafkaraw.client.fetching.reading import Reading
from kafkaraw.client.groups.listeners import Callback, CallUser, Listeners
from kafkaraw.client.metrics import consumer_metrics
from kafkaraw.client.metrics.client_metrics import Metrics, MetricsSource
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

    from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
    from kafkaraw.client.groups.commit_queue import Done
    from kafkaraw.client.groups.group import Group
    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.settings_types import ConsumerSettings

CLOSE_S: Final = 30.0
"""Default timeout of `close`, in seconds."""

P = ParamSpec("P")
T = TypeVar("T")


def _interruptible(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[AsyncConsumer, P], Coroutine[object, None, T]]:
    """Let `wakeup` interrupt a method that may wait."""

    @wraps(method)
    async def call(self: AsyncConsumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await reading_of(self).wakeups.interruptible(method(self, *args, **kwargs))

    return call


class AsyncConsumer:
    """Reads records from the partitions that are assigned to it.

    The consumer connects on first use. One task reads at a time: a call that waits for records raises
    `ConcurrentUseError` while another task is in such a call. Other tasks of the same event loop may call all other
    methods meanwhile. With automatic commits, the records returned to one task count as processed when another task
    asks for more.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ConsumerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    _name = "AsyncConsumer"
    _waits_by: Literal["await", "block"] = "await"  # how deserializers may wait

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ConsumerSettings]) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._config = config = parse(ConsumerConfig, settings)
        if config.deserializers:
            from kafkaraw.client.serializers import check_waiting  # most consumers have none

            check_waiting(self._name, self._waits_by, config.deserializers, "deserialize")
        self._engine = Engine.on(self._config, runtime)
        self._reading = Reading(self._engine, self._config)
        self._group: Group | None = None
        if self._config.group_id is not None:
            from kafkaraw.client.groups.group import Group  # only for members: a quarter of a consumer's modules

            self._group = Group(self._engine, self._config, self._reading)
        metrics = partial(_metrics, self._engine, self._reading, self._group)
        self._engine.source = MetricsSource(consumer_metrics.GROUP, metrics, partial(_labels, config, self._group))
        self._reader: asyncio.Task[object] | None = None  # the task whose call waits for records
        self._reader_left = asyncio.Event()

    @classmethod
    def from_properties(
        cls, properties: Properties, *, runtime: Runtime | None = None, **settings: Unpack[ConsumerSettings]
    ) -> Self:
        """Create a consumer from a `.properties` file, or a dict of names and values.

        Names are those of Java's clients, of librdkafka (so of confluent-kafka), or ours with dots. `settings` override
        them. The log has a warning with the names that have no effect here.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; the message says what to use
                instead.
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
        """Assign exactly these partitions to this consumer.

        Partitions that were assigned before keep their positions. The position of a new partition is the one that
        `seek` sets; without `seek`, it is the committed offset of the group, if there is a `group_id` and the group has
        committed one; else `auto_offset_reset` decides.

        Args:
            partitions: `TopicPartition`s; an empty list stops reading.

        Raises:
            UsageError: an entry is not a topic and a partition, or the consumer has subscribed.
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
        """Assign these partitions in addition to those that are assigned.

        Args:
            partitions: `TopicPartition`s; their positions are as with `assign`.

        Raises:
            UsageError: as `assign`.
        """
        self.assign([*self.assignment(), *partitions_of(partitions, "incremental_assign")])

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions from the assignment. The other ones keep their positions; nothing is committed.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned (then none is removed), or the consumer has subscribed.
        """
        gone = set(partitions_of(partitions, "incremental_unassign"))
        for partition in gone:
            self._reading.subscriptions.partition(partition)
        self.assign([partition for partition in self.assignment() if partition not in gone])

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, in order."""
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
        """Subscribe to topics: the members of the group share the partitions.

        The consumer joins the group in the next call that reads. Heartbeats run in the background, independently of the
        application. Calls that read also call the rebalance listener, with a list of partitions. Listener callbacks may
        be `async`, and may commit and seek. Subscribing again replaces the subscription. See the how-to "Consume in a
        group".

        Args:
            topics: names; a topic that does not exist is read as soon as it exists.
            pattern: instead of topics: a regex that matches the whole name; Kafka's internal topics are left out. With
                `group_protocol="consumer"`, the broker evaluates a pattern that is text (RE2).
            on_assigned: called after partitions were assigned, before any record of them is read.
            on_revoked: called before partitions are revoked.
            on_lost: called when other members may own the partitions already; if it is None, `on_revoked` is called
                instead.

        Raises:
            UsageError: there is no `group_id`, partitions are assigned by hand, or the arguments are invalid.
        """
        self._reading.check_usable()
        self._in_group("subscribe").subscribe(topics, pattern, Listeners(on_assigned, on_revoked, on_lost))

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """End the subscription: commit if commits are automatic, call `on_revoked`, and leave the group.

        Partitions that were assigned by hand are removed from the assignment, too.

        Args:
            timeout: seconds for committing and for leaving; None is `default_api_timeout_ms`.
        """
        self._reading.check_usable()
        if self._group is not None:
            await self._group.unsubscribe(self._engine.deadline(timeout))
        else:
            self._reading.assign(())

    def subscription(self) -> list[str]:
        """Return the subscribed topics, in order; with a pattern that the client evaluates, the topics that match."""
        return [] if self._group is None else self._group.membership.subscription

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position of a partition.

        Args:
            partition: an assigned partition.
            offset: the offset of the next record to read. The broker checks at the next fetch whether it exists. An
                offset with a leader epoch, as `committed` and `next_offsets` return it, also detects a log that was
                truncated before it.

        Raises:
            UsageError: the partition is not assigned, or the offset is negative.
        """
        chosen = partition_of(partition, "seek")
        at = position_of(offset, f"seek {chosen.topic}-{chosen.partition}", "see seek_to_beginning() and seek_to_end()")
        self._reading.seek(chosen, at.offset, at.leader_epoch)
        self._sought([chosen])

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Set the positions of partitions to the first record that the brokers still have.

        Args:
            partitions: assigned partitions; None is all of them.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Set the positions of partitions to the end of their logs. The next call that waits looks the end up.

        Args:
            partitions: assigned partitions; None is all of them.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`. Fetched records stay buffered: none is fetched twice.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._reading.check_usable()
        self._reading.subscriptions.pause(partitions_of(partitions, "pause"))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned.
        """
        self._reading.check_usable()
        self._reading.resume(partitions_of(partitions, "resume"))

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, in order."""
        return sorted(self._reading.subscriptions.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end of a partition.

        The end is the one in the last Fetch response: the high watermark, or the last stable offset with
        `isolation_level="read_committed"`. Offsets without records count, too.

        Args:
            partition: an assigned partition.

        Returns:
            None before the first response.

        Raises:
            UsageError: the partition is not assigned.
        """
        return self._reading.lag(partition_of(partition, "lag"))

    @_interruptible
    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the position of a partition: the offset of the next record to read.

        Args:
            partition: an assigned partition.
            timeout: seconds, if the position has to be looked up; None is `default_api_timeout_ms`.

        Raises:
            UsageError: the partition is not assigned, or has no position.
            KafkaTimeoutError: the position was not known in time.
        """
        chosen = partition_of(partition, "position")
        deadline = self._engine.deadline(timeout)
        if self._group is not None:
            await self._group.place(deadline)
        return await self._reading.position(chosen, deadline)

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of the assigned partitions, each with the leader epoch before it, if that is known.

        These are the offsets that `commit()` commits, and the offsets to pass to `send_offsets_to_transaction`. They
        are behind all records that were returned, and behind offsets without records, such as transaction markers
        (KIP-1094).
        """
        self._reading.check_usable()
        return self._reading.subscriptions.positions()

    # -- reading

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> dict[TopicPartition, Batch]:
        """Wait for records, and return those that were fetched.

        The next Fetch is in flight when this returns. Records are decoded when the application reads the batch.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            max_records: maximum number of records in all batches together; None is `max_poll_records`.

        Returns:
            one batch for each partition that has records; empty when no record arrived in time.

        Raises:
            KafkaError: a fatal error, or one that retries have not fixed for `default_api_timeout_ms`: no broker can be
                reached, a topic does not exist, the position is out of range and `auto_offset_reset` is "none".
            CorruptBatchError: the header of a batch is damaged. A batch with damaged records is returned, and raises
                when its records are read; the next call continues behind it.
        """
        limit = self._reading.limit(max_records)
        if self._reading.awaits:
            return await self._poll_decoded(limit, timeout)
        at_once = self._reading.take_at_once(by_partition, limit)
        if at_once:
            return at_once
        return await self._read("poll", self._reading.take(by_partition, limit, timeout))

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:
        """Yield batches as they are fetched, each with records of one partition.

        Args:
            timeout: stop after this many seconds without a record; None continues until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not self._reading.is_over:
            batch = await self._next_decoded() if self._reading.awaits else self._reading.cursor.next_batch()
            if batch is not None:
                yield batch
            elif not await self._more("batches", timeout) and timeout is not None:
                return

    def __aiter__(self) -> AsyncConsumer:
        """Iterate over records until the consumer is closed. A new loop continues behind the last record returned."""
        return self

    async def __anext__(self) -> Record:
        while True:
            if self._reading.is_over:
                raise StopAsyncIteration
            if self._reading.awaits:
                record = await self._next_record_decoded()
            else:
                record = self._reading.cursor.next_record()
            if record is not None:
                return record
            await self._more("iteration", None)

    async def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch:
        """Wait for records, and return those that were fetched as Arrow columns, without record objects.

        Neither deserializers nor an interceptor's `on_consume` are called: key and value are the bytes that were sent.
        A call decompresses about 16 MiB, or one record batch if that is larger; the next call continues behind it.

        Args:
            max_records: maximum number of rows; None is `max_poll_records`.
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            columns: the columns to return, in order; None is all.

        Returns:
            topic dictionary<int32, string>, partition int32, offset int64, timestamp timestamp[ms, UTC],
            timestamp_type int8, key and value binary, headers list<struct<key: string, value: binary>> (null when a
            record has none). No rows when no record arrived in time.

        Raises:
            UsageError: a column is unknown.
            CorruptBatchError: a batch is damaged. Earlier calls returned all records before it; the next call continues
                behind it. The same holds for `BatchTooLargeError`.
            KafkaError: as `poll`.
        """
        from kafkaraw.client.fetching.arrow import ARROW_BYTES, check_columns, to_arrow  # most consumers make none

        names = check_columns(columns)
        limit = self._reading.limit(max_records)
        work = self._reading.take(partial(to_arrow, columns=names), limit, timeout, ARROW_BYTES)
        return await self._read("poll_arrow", work)

    # -- asking

    def wakeup(self) -> None:
        """Interrupt the call that waits: it raises `WakeupError`. If no call waits, the next one that may wait raises.

        Calls that may wait are those that read, `commit`, and those that send requests to brokers. No record is lost:
        the next call returns the records that the interrupted call did not return, and the position stays behind the
        last record that was returned. An interrupted commit may or may not have been carried out. May be called on any
        thread, and in signal handlers. As Java's `KafkaConsumer.wakeup`.
        """
        self._reading.wakeup()

    @_interruptible
    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic, for `assign`.

        Args:
            topic: its name.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker answered.
        """
        self._reading.check_usable()
        topic_of(topic, "partitions_for")
        deadline = self._engine.deadline(timeout)
        await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], deadline.remaining)
        return self._engine.cluster.partitions_of(topic) or []

    @_interruptible
    async def list_topics(self, timeout: float | None = None) -> dict[str, list[TopicPartition]]:
        """Return the partitions of all topics that this consumer may describe, internal topics included, by name.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker answered.
        """
        self._reading.check_usable()
        await self._engine.refresh(None, timeout=timeout)
        cluster = self._engine.cluster
        return {topic: cluster.partitions_of(topic) or [] for topic in sorted(cluster.topics)}

    def topic_id(self, topic: str) -> Uuid:
        """Return the id of a topic from this consumer's metadata. A topic that is deleted and recreated gets a new id.

        After a poll, it is the id of the topic that the records come from, or of a topic created later with that name.

        Args:
            topic: its name.

        Returns:
            zero when the topic is not known (yet), and with brokers before 2.8.
        """
        return self._engine.cluster.topic_id_of(topic_of(topic, "topic_id"))

    @_interruptible
    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition.

        Args:
            partitions: any partitions; they need not be assigned.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some offsets could not be looked up.
        """
        return await self._offsets(
            dict.fromkeys(partitions_of(partitions, "beginning_offsets"), EARLIEST_TIMESTAMP), timeout
        )

    @_interruptible
    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark, or the last stable offset (`read_committed`).

        Args:
            partitions: any partitions; they need not be assigned.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some offsets could not be looked up.
        """
        return await self._offsets(dict.fromkeys(partitions_of(partitions, "end_offsets"), LATEST_TIMESTAMP), timeout)

    @_interruptible
    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of the first record at or after a time, by partition.

        Args:
            timestamps: milliseconds since 1970 UTC, by partition.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            offset and timestamp of the record; None when all records are older.

        Raises:
            UsageError: a timestamp is negative.
            KafkaError: some offsets could not be looked up.
        """
        wanted = timestamps_of(timestamps, "offsets_for_times")
        self._reading.check_usable()
        deadline = self._engine.deadline(timeout)
        found = await look_up(self._engine, wanted, deadline=deadline, committed_only=self._reading.committed_only)
        return {partition: offset if offset.offset >= 0 else None for partition, offset in found.items()}

    def metrics(self) -> Metrics:
        """Return the metrics of this client, about fetching, about its group, and about each broker.

        Returns:
            metrics by group, then by name. Groups are node ids as text (see `AsyncProducer.metrics`); "consumer", with
            what was fetched and the lag; and "group", if there is a `group_id`, with rebalances, heartbeats and
            commits. Names are Java's.
        """
        return _metrics(self._engine, self._reading, self._group)

    @_interruptible
    async def client_instance_id(self, timeout: float | None = None) -> Uuid:
        """Return the id that the cluster has given this client, by which its metrics are found there (KIP-714).

        Brokers give one to each client that asks whether to push its metrics, even if no metrics are requested. It
        stays the same until the client is closed. As Java's `clientInstanceId`.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: `enable_metrics_push` is false.
            UnsupportedVersionError: the brokers take no metrics of clients.
            KafkaTimeoutError: no broker has answered in time.
            KafkaError: no broker can be reached.
        """
        self._reading.check_usable()
        return await self._engine.client_instance_id(timeout)

    # -- committed offsets

    @_interruptible
    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Commit offsets for the group, and wait until the coordinator has stored them.

        Callbacks of earlier `commit_nowait` calls are called before it returns.

        Args:
            offsets: the next offset to read, by partition, optionally with metadata. None is the position of every
                assigned partition, behind all records that earlier calls returned; with
                `enable_auto_offset_store=False`, the offsets passed to `store_offsets`.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            CommitFailedError: the consumer is not a member any more, or a partition was revoked before the commit was
                sent, so other members may own the partitions. Nothing was committed.
            RebalanceInProgressError: call `poll()` first, so that the rebalance can end.
            UsageError: there is no `group_id`, or an offset is negative.
            KafkaTimeoutError: the coordinator did not answer in time; it may or may not have stored the offsets.
        """
        self._reading.check_usable()
        await self._in_group("commit").commit(offsets, self._engine.deadline(timeout))

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Done | None = None,
    ) -> None:
        """Commit offsets without waiting for the response. Commits are sent in the order of the calls.

        While such a commit is in flight, later ones are merged into one, with the last offset of each partition.

        Args:
            offsets: as for `commit`.
            callback: called in a later call that reads or commits, or in `close()`, with the offsets and the error or
                None; must not block. Without a callback, a failure is logged.

        Raises:
            UsageError: there is no `group_id`, or an offset is negative.
        """
        self._reading.check_usable()
        self._in_group("commit_nowait").commit_nowait(offsets, callback)

    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Store the offsets of processed records for the next automatic commit, or for `commit()` without offsets.

        For `enable_auto_offset_store=False`: then only offsets stored here are committed. So an automatic commit cannot
        include records that are still being processed. As librdkafka's `store_offsets`.

        Args:
            offsets: the next offset to read, by partition: the offset of the last processed record plus 1. A later call
                overrides an earlier one.

        Raises:
            UsageError: there is no `group_id`, the setting is true, a partition is not assigned, or an offset is
                negative.
        """
        self._reading.check_usable()
        self._in_group("store_offsets").store_offsets(offsets)

    @_interruptible
    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition; None when the group has not committed one.

        Args:
            partitions: any partitions; they need not be assigned.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: there is no `group_id`.
            KafkaTimeoutError: the offsets were not known in time, for example because a transaction that may change one
                stays open.
        """
        self._reading.check_usable()
        return await self._in_group("committed").committed(partitions, self._engine.deadline(timeout))

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's group id, member id and generation, for `Producer.send_offsets_to_transaction`.

        Raises:
            UsageError: there is no `group_id`.
        """
        return self._in_group("group_metadata").group_metadata()

    async def close(self, timeout: float | None = None) -> None:
        """Commit if commits are automatic, leave the group, and close all connections. May be called twice.

        A call that waits raises `ClosedError`. A rebalance callback that runs in another task or thread is completed
        first, and so is another `close`. Records that the last call of another task or thread returned do not count as
        processed, because that task may still be processing them; the next owner of the partition reads them again.

        Args:
            timeout: seconds for callbacks, the commit, leaving, and sending the last bytes together; None is 30.

        Raises:
            Exception: the error that a rebalance callback raised; the consumer is closed nevertheless.
        """
        await self._close(closing_deadline(timeout), in_doubt=False)

    # -- inside

    async def _close(self, deadline: Deadline, *, in_doubt: bool) -> None:
        problem: Exception | None = None
        self._reading.end()
        if self._group is not None and not self._engine.closed:
            try:
                if not await self._group.close(deadline, in_doubt=in_doubt):
                    return  # a callback called `close`, while another `close` waits for the callback to end
            except CallUser:
                raise
            except Exception as error:  # noqa: BLE001 - a callback of the user's may raise anything
                problem = error
        await self._reading.close(deadline)
        if problem is not None:
            raise problem

    # What reads batches whose deserializers may return awaitables: a batch stays in hand until it is decoded.

    async def _poll_decoded(self, limit: int | None, timeout: float | None) -> dict[TopicPartition, Batch]:
        from kafkaraw.client.fetching.awaiting import NotDecodedError, by_partition_decoded

        while True:
            try:
                return await self._read("poll", self._reading.take(by_partition_decoded, limit, timeout))
            except NotDecodedError as error:
                await self._decode("poll", error.batch.decode())

    async def _next_decoded(self) -> Batch | None:
        from kafkaraw.client.fetching.awaiting import NotDecodedError, first_decoded

        while not self._reading.is_over:
            try:
                return self._reading.cursor.take_converted(first_decoded, None)
            except NotDecodedError as error:
                await self._decode("batches", error.batch.decode())
        return None

    async def _next_record_decoded(self) -> Record | None:
        from kafkaraw.client.fetching.awaiting import NotDecodedError

        while not self._reading.is_over:
            try:
                return self._reading.cursor.next_record()
            except NotDecodedError as error:
                await self._decode("iteration", error.batch.decode())
        return None

    async def _decode(self, call: str, work: Coroutine[object, None, None]) -> None:
        await self._read(call, self._reading.wakeups.interruptible(work))

    async def _more(self, call: str, timeout: float | None) -> bool:
        return await self._read(call, self._reading.more_unless_closed(timeout))

    async def _read(self, call: str, work: Coroutine[object, None, T]) -> T:
        """Wait for records, in one task at a time: two tasks would get records of one partition out of order."""
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
                raise _concurrent_use_error(call, me, self._reader)
            self._reader_left.clear()
            await self._reader_left.wait()

    def _in_group(self, call: str) -> Group:
        if self._group is None:
            raise UsageError(f"{call}: this consumer has no group; set group_id")
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


def _metrics(engine: Engine, reading: Reading, group: Group | None) -> Metrics:
    """Return the metrics of a consumer. It is not given the consumer: what pushes them must not keep that alive."""
    of_group = {}
    if group is not None:
        from kafkaraw.client.metrics.group_metrics import GROUP  # the group has loaded it

        of_group = {GROUP: group.metrics()}
    return {consumer_metrics.GROUP: reading.metrics(), **of_group, **engine.metrics.as_dict()}


def _labels(config: ConsumerConfig, group: Group | None) -> dict[str, str | None]:
    """Return what tells the metrics of this consumer from those of others, by Java's names."""
    return {
        "client_rack": config.client_rack,
        "group_id": config.group_id,
        "group_instance_id": config.group_instance_id,
        "group_member_id": None if group is None else group.group_metadata().member_id,
    }


def _concurrent_use_error(
    call: str, me: asyncio.Task[object] | None, reader: asyncio.Task[object]
) -> ConcurrentUseError:
    mine = "?" if me is None else me.get_name()
    return ConcurrentUseError(
        f"{call} in task {mine!r}: task {reader.get_name()!r} waits for records of this consumer. One task reads at "
        f"a time: make a consumer for each task, or read in one task and hand the records to others (asyncio.Queue). "
        f"From other tasks call wakeup() or close()"
    )


# -- for the blocking face, which reads records on its caller's thread while no call is under way


def reading_of(consumer: AsyncConsumer) -> Reading:
    """Return the `Reading` of a consumer."""
    return consumer._reading  # noqa: SLF001 - same module


def is_closed(consumer: AsyncConsumer) -> bool:
    """Whether an iteration over a consumer has ended."""
    return consumer._reading.is_over  # noqa: SLF001 - same module


def closing_deadline(timeout: float | None) -> Deadline:
    """Return the deadline of a call of `close`."""
    return Deadline(CLOSE_S if timeout is None else timeout)


async def close_of(consumer: AsyncConsumer, deadline: Deadline, *, in_doubt: bool) -> None:
    """Close a consumer.

    Args:
        consumer: the consumer to close.
        deadline: of the call.
        in_doubt: the last records may be unprocessed: an error ended a `with`, or another thread has the records.
    """
    await consumer._close(deadline, in_doubt=in_doubt)  # noqa: SLF001 - same module


def group_of(consumer: AsyncConsumer) -> Group | None:
    """Return the `Group` of a consumer; None without a `group_id`."""
    return consumer._group  # noqa: SLF001 - same module


def engine_of(consumer: AsyncConsumer) -> Engine:
    """Return the `Engine` of a consumer."""
    return consumer._engine  # noqa: SLF001 - same module
