"""`Consumer`: the blocking consumer.

A method that waits runs the method of `AsyncConsumer` on the loop thread; the caller's thread decodes batches.
`docs/generate_docstrings.py` copies the docstrings of its methods from there. The package has the rules.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Never, Self, TypeVar, Unpack

from kafkaraw.client.arguments import partitions_of, refuse_positional
from kafkaraw.client.blocking.one_thread import Loop, OneThread, one_thread
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.consumer import AsyncConsumer, close_of, closing_deadline, group_of, is_closed, reading_of
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.client.groups.listeners import Callback
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.user_calls import UserCalls
from kafkaraw.core.fetch.cursor import Conversion, by_partition
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, Record, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
    from kafkaraw.client.groups.commit_queue import Done
    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.settings_types import ConsumerSettings

T = TypeVar("T")


class _OnLoopThread(AsyncConsumer):
    """The consumer behind a blocking one, which decodes records on its caller's thread."""

    _name = "Consumer"
    _waits_by = "block"


class Consumer:
    """Reads records from the partitions that are assigned to it: the blocking form of `AsyncConsumer`.

    The consumer connects on first use. One thread at a time may use it: a call of a second thread that reads, assigns,
    seeks, pauses or commits raises `ConcurrentUseError` while the first thread is in a call, or in a `for` loop over
    the consumer. Any thread may call `wakeup`, `close` and the methods that only return information; signal handlers
    may call `wakeup`, too.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ConsumerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ConsumerSettings]) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._async = _OnLoopThread(runtime=runtime, **settings)
        self._reading = reading_of(self._async)
        self._cursor = self._reading.cursor
        self._bridge = Bridge("consumer", self._async)
        self._calls = UserCalls(self._bridge, self._async)
        self._use = OneThread()
        self._reader: threading.Thread | None = None  # the thread that asked for records last

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

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close(None, in_doubt=error is not None)
        except Exception as problem:
            if error is None:
                raise
            error.add_note(f"while closing the consumer: {problem}")

    @one_thread
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
        wanted = partitions_of(partitions, "assign")
        self._bridge.call(lambda: self._async.assign(wanted))

    @one_thread
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these partitions in addition to those that are assigned.

        Args:
            partitions: `TopicPartition`s; their positions are as with `assign`.

        Raises:
            UsageError: as `assign`.
        """
        wanted = partitions_of(partitions, "incremental_assign")
        self._bridge.call(lambda: self._async.incremental_assign(wanted))

    @one_thread
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions from the assignment. The other ones keep their positions; nothing is committed.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned (then none is removed), or the consumer has subscribed.
        """
        gone = partitions_of(partitions, "incremental_unassign")
        self._bridge.call(lambda: self._async.incremental_unassign(gone))

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, in order."""
        return self._bridge.call(self._async.assignment)

    @one_thread
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
        wanted = [*topics] if isinstance(topics, Iterable) and not isinstance(topics, str) else topics
        if wanted == [] and pattern is None and group_of(self._async) is not None:
            self._calls.run(lambda: self._async.unsubscribe())  # as in Java
            return
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        self._bridge.call(lambda: self._async.subscribe(wanted, pattern=pattern, **callbacks))

    @one_thread
    def unsubscribe(self, timeout: float | None = None) -> None:
        """End the subscription: commit if commits are automatic, call `on_revoked`, and leave the group.

        Partitions that were assigned by hand are removed from the assignment, too.

        Args:
            timeout: seconds for committing and for leaving; None is `default_api_timeout_ms`.
        """
        self._calls.run(lambda: self._async.unsubscribe(timeout))

    def subscription(self) -> list[str]:
        """Return the subscribed topics, in order; with a pattern that the client evaluates, the topics that match."""
        return self._bridge.call(self._async.subscription)

    @one_thread
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
        self._bridge.call(lambda: self._async.seek(partition, offset))

    @one_thread
    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Set the positions of partitions to the first record that the brokers still have.

        Args:
            partitions: assigned partitions; None is all of them.

        Raises:
            UsageError: a partition is not assigned.
        """
        chosen = None if partitions is None else partitions_of(partitions, "seek_to_beginning")
        self._bridge.call(lambda: self._async.seek_to_beginning(chosen))

    @one_thread
    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Set the positions of partitions to the end of their logs. The next call that waits looks the end up.

        Args:
            partitions: assigned partitions; None is all of them.

        Raises:
            UsageError: a partition is not assigned.
        """
        chosen = None if partitions is None else partitions_of(partitions, "seek_to_end")
        self._bridge.call(lambda: self._async.seek_to_end(chosen))

    @one_thread
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`. Fetched records stay buffered: none is fetched twice.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned.
        """
        chosen = partitions_of(partitions, "pause")
        self._bridge.call(lambda: self._async.pause(chosen))

    @one_thread
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: assigned partitions.

        Raises:
            UsageError: a partition is not assigned.
        """
        chosen = partitions_of(partitions, "resume")
        self._bridge.call(lambda: self._async.resume(chosen))

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, in order."""
        return self._bridge.call(self._async.paused)

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
        return self._bridge.call(lambda: self._async.lag(partition))

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the position of a partition: the offset of the next record to read.

        Args:
            partition: an assigned partition.
            timeout: seconds, if the position has to be looked up; None is `default_api_timeout_ms`.

        Raises:
            UsageError: the partition is not assigned, or has no position.
            KafkaTimeoutError: the position was not known in time.
        """
        return self._bridge.run(self._async.position(partition, timeout))

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of the assigned partitions, each with the leader epoch before it, if that is known.

        These are the offsets that `commit()` commits, and the offsets to pass to `send_offsets_to_transaction`. They
        are behind all records that were returned, and behind offsets without records, such as transaction markers
        (KIP-1094).
        """
        return self._bridge.call(self._async.next_offsets)

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> dict[TopicPartition, Batch]:
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
        return self._take("poll", by_partition, max_records, timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Yield batches as they are fetched, each with records of one partition.

        Args:
            timeout: stop after this many seconds without a record; None continues until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not is_closed(self._async):
            batch = self._next_batch(timeout)
            if batch is not None:
                yield batch
            elif timeout is not None:
                return

    def _next_batch(self, timeout: float | None) -> Batch | None:
        """Return the next batch; None when none arrived in time, or the consumer is closed."""
        use = self._use
        before = use.begin("batches")
        try:
            batch = self._cursor.next_batch()
            while batch is None and self._more_unless_closed(timeout):
                batch = self._cursor.next_batch()
            return batch
        finally:
            use.caller = before

    def __iter__(self) -> Iterator[Record]:
        """Iterate over records until the consumer is closed. A new loop continues behind the last record returned."""
        use, loop = self._use, Loop()
        try:
            while not is_closed(self._async):
                use.enter_loop(loop)
                yield from self._cursor.records()  # decoded here; threads are crossed once per Fetch response
                self._more_unless_closed(None)
        finally:
            loop.thread = 0

    def __next__(self) -> Record:
        use, reading, cursor = self._use, self._reading, self._cursor
        me = get_ident()
        if use.caller or use.loop is not None:
            before = use.begin("next")
        else:  # what `begin` does, without a call for each record
            before, use.caller = 0, me
        try:
            while not reading.is_over:
                record = cursor.next_record()
                if record is not None:
                    return record
                self._more_unless_closed(None)
        finally:
            use.caller = before
        raise StopIteration

    def poll_arrow(
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
        return self._take("poll_arrow", partial(to_arrow, columns=names), max_records, timeout, ARROW_BYTES)

    def wakeup(self) -> None:
        """Interrupt the call that waits: it raises `WakeupError`. If no call waits, the next one that may wait raises.

        Calls that may wait are those that read, `commit`, and those that send requests to brokers. No record is lost:
        the next call returns the records that the interrupted call did not return, and the position stays behind the
        last record that was returned. An interrupted commit may or may not have been carried out. May be called on any
        thread, and in signal handlers. As Java's `KafkaConsumer.wakeup`.
        """
        self._async.wakeup()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic, for `assign`.

        Args:
            topic: its name.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker answered.
        """
        return self._bridge.run(self._async.partitions_for(topic, timeout))

    def list_topics(self, timeout: float | None = None) -> dict[str, list[TopicPartition]]:
        """Return the partitions of all topics that this consumer may describe, internal topics included, by name.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker answered.
        """
        return self._bridge.run(self._async.list_topics(timeout))

    def topic_id(self, topic: str) -> Uuid:
        """Return the id of a topic from this consumer's metadata. A topic that is deleted and recreated gets a new id.

        After a poll, it is the id of the topic that the records come from, or of a topic created later with that name.

        Args:
            topic: its name.

        Returns:
            zero when the topic is not known (yet), and with brokers before 2.8.
        """
        return self._async.topic_id(topic)  # one look into a dict: no need to wait for the loop

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition.

        Args:
            partitions: any partitions; they need not be assigned.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some offsets could not be looked up.
        """
        return self._bridge.run(self._async.beginning_offsets(partitions_of(partitions, "beginning_offsets"), timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark, or the last stable offset (`read_committed`).

        Args:
            partitions: any partitions; they need not be assigned.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: some offsets could not be looked up.
        """
        return self._bridge.run(self._async.end_offsets(partitions_of(partitions, "end_offsets"), timeout))

    def offsets_for_times(
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
        return self._bridge.run(self._async.offsets_for_times(timestamps, timeout))

    def metrics(self) -> Metrics:
        """Return the metrics of this client, about fetching, about its group, and about each broker.

        Returns:
            metrics by group, then by name. Groups are node ids as text (see `AsyncProducer.metrics`); "consumer", with
            what was fetched and the lag; and "group", if there is a `group_id`, with rebalances, heartbeats and
            commits. Names are Java's.
        """
        return self._bridge.call(self._async.metrics)

    def client_instance_id(self, timeout: float | None = None) -> Uuid:
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
        return self._bridge.run(self._async.client_instance_id(timeout))

    @one_thread
    def commit(
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
        self._bridge.run(self._async.commit(offsets, timeout))

    @one_thread
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
        self._bridge.call(lambda: self._async.commit_nowait(offsets, callback))

    @one_thread
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
        self._bridge.call(lambda: self._async.store_offsets(offsets))

    def committed(
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
        return self._bridge.run(self._async.committed(partitions_of(partitions, "committed"), timeout))

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's group id, member id and generation, for `Producer.send_offsets_to_transaction`.

        Raises:
            UsageError: there is no `group_id`.
        """
        return self._bridge.call(self._async.group_metadata)

    def close(self, timeout: float | None = None) -> None:
        """Commit if commits are automatic, leave the group, and close all connections. May be called twice.

        A call that waits raises `ClosedError`. A rebalance callback that runs in another task or thread is completed
        first, and so is another `close`. Records that the last call of another task or thread returned do not count as
        processed, because that task may still be processing them; the next owner of the partition reads them again.

        Args:
            timeout: seconds for callbacks, the commit, leaving, and sending the last bytes together; None is 30.

        Raises:
            Exception: the error that a rebalance callback raised; the consumer is closed nevertheless.
        """
        self._close(timeout, in_doubt=False)

    def _close(self, timeout: float | None, *, in_doubt: bool) -> None:
        if self._bridge.is_lost:
            self._bridge.let_go()
            return
        reader = self._reader
        is_elsewhere = reader is not None and reader is not threading.current_thread() and reader.is_alive()
        deadline = self._bridge.call(lambda: closing_deadline(timeout))  # one for all: callbacks interrupt the call
        self._calls.run(lambda: close_of(self._async, deadline, in_doubt=in_doubt or is_elsewhere))

    def _take(
        self,
        call: str,
        convert: Conversion[T],
        max_records: int | None,
        timeout: float | None,
        size_bytes: int | None = None,
    ) -> T:
        """Return buffered records, or those that arrive in time. Buffered records do not need the loop thread."""
        limit = self._reading.limit(max_records)
        self._bridge.check_usable()
        self._reading.check_usable()
        use = self._use
        before = use.begin(call)
        try:
            self._reader = threading.current_thread()
            taken = self._cursor.take_converted(convert, limit, size_bytes)
            if not taken and self._calls.run(lambda: self._reading.more(timeout)):
                taken = self._cursor.take_converted(convert, limit, size_bytes)
            return taken
        finally:
            use.caller = before

    def _more_unless_closed(self, timeout: float | None) -> bool:
        self._reader = threading.current_thread()
        return self._calls.run(lambda: self._reading.more_unless_closed(timeout))
