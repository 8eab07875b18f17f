"""`Consumer`: the blocking consumer.

A method that waits runs the method of `AsyncConsumer` on the loop thread; the caller's thread decodes batches. Methods
are documented where they are implemented; `documented_by` copies the docstrings. The package has the rules.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Never, Self, TypeVar

from kafkaraw.client.arguments import partitions_of, refuse_positional
from kafkaraw.client.blocking.one_thread import Loop, OneThread, one_thread
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.consumer import AsyncConsumer, close_of, closing_deadline, group_of, is_closed, reading_of
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.fetching.arrow import ARROW_BYTES, check_columns, to_arrow
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.client.groups.commit_queue import Done
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

    from kafkaraw.client.java_names import Properties

T = TypeVar("T")


class _OnLoopThread(AsyncConsumer):
    """The consumer behind a blocking one, which decodes records on its caller's thread."""

    _name = "Consumer"
    _waits_by = "block"


@documented_by(AsyncConsumer)
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

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._async = _OnLoopThread(runtime=runtime, **settings)
        self._reading = reading_of(self._async)
        self._cursor = self._reading.cursor
        self._bridge = Bridge("consumer", self._async)
        self._calls = UserCalls(self._bridge, self._async)
        self._use = OneThread()
        self._reader: threading.Thread | None = None  # the thread that asked for records last

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
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
        wanted = partitions_of(partitions, "assign")
        self._bridge.call(lambda: self._async.assign(wanted))

    @one_thread
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = partitions_of(partitions, "incremental_assign")
        self._bridge.call(lambda: self._async.incremental_assign(wanted))

    @one_thread
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        gone = partitions_of(partitions, "incremental_unassign")
        self._bridge.call(lambda: self._async.incremental_unassign(gone))

    def assignment(self) -> list[TopicPartition]:
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
        wanted = [*topics] if isinstance(topics, Iterable) and not isinstance(topics, str) else topics
        if wanted == [] and pattern is None and group_of(self._async) is not None:
            self._calls.run(lambda: self._async.unsubscribe())  # as in Java
            return
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        self._bridge.call(lambda: self._async.subscribe(wanted, pattern=pattern, **callbacks))

    @one_thread
    def unsubscribe(self, timeout: float | None = None) -> None:
        self._calls.run(lambda: self._async.unsubscribe(timeout))

    def subscription(self) -> list[str]:
        return self._bridge.call(self._async.subscription)

    @one_thread
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._bridge.call(lambda: self._async.seek(partition, offset))

    @one_thread
    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        chosen = None if partitions is None else partitions_of(partitions, "seek_to_beginning")
        self._bridge.call(lambda: self._async.seek_to_beginning(chosen))

    @one_thread
    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        chosen = None if partitions is None else partitions_of(partitions, "seek_to_end")
        self._bridge.call(lambda: self._async.seek_to_end(chosen))

    @one_thread
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = partitions_of(partitions, "pause")
        self._bridge.call(lambda: self._async.pause(chosen))

    @one_thread
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = partitions_of(partitions, "resume")
        self._bridge.call(lambda: self._async.resume(chosen))

    def paused(self) -> list[TopicPartition]:
        return self._bridge.call(self._async.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        return self._bridge.call(lambda: self._async.lag(partition))

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        return self._bridge.run(self._async.position(partition, timeout))

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._bridge.call(self._async.next_offsets)

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> dict[TopicPartition, Batch]:
        return self._take("poll", by_partition, max_records, timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
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
        names = check_columns(columns)
        return self._take("poll_arrow", partial(to_arrow, columns=names), max_records, timeout, ARROW_BYTES)

    def wakeup(self) -> None:
        self._async.wakeup()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        return self._bridge.run(self._async.partitions_for(topic, timeout))

    def list_topics(self, timeout: float | None = None) -> dict[str, list[TopicPartition]]:
        return self._bridge.run(self._async.list_topics(timeout))

    def topic_id(self, topic: str) -> Uuid:
        return self._async.topic_id(topic)  # one look into a dict: no need to wait for the loop

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._bridge.run(self._async.beginning_offsets(partitions_of(partitions, "beginning_offsets"), timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._bridge.run(self._async.end_offsets(partitions_of(partitions, "end_offsets"), timeout))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._bridge.run(self._async.offsets_for_times(timestamps, timeout))

    def metrics(self) -> Metrics:
        return self._bridge.call(self._async.metrics)

    @one_thread
    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.commit(offsets, timeout))

    @one_thread
    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Done | None = None,
    ) -> None:
        self._bridge.call(lambda: self._async.commit_nowait(offsets, callback))

    @one_thread
    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        self._bridge.call(lambda: self._async.store_offsets(offsets))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._bridge.run(self._async.committed(partitions_of(partitions, "committed"), timeout))

    def group_metadata(self) -> GroupMetadata:
        return self._bridge.call(self._async.group_metadata)

    def close(self, timeout: float | None = None) -> None:
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
