"""`Consumer`: the asyncio consumer for code that blocks.

What waits runs its async twin on the loop thread; batches are decoded on the caller's. Methods are
documented where they are implemented; their texts are taken over here. See the package for the rules.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from kafkaraw.client.bridge import Bridge
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.consumer import AsyncConsumer, close_of, closing_deadline, is_closed, reading_of
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.fetching.arrow import ARROW_BYTES, check_columns, to_arrow
from kafkaraw.client.fetching.cursor import Conversion, by_partition
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.client.groups.unwatched import Done
from kafkaraw.client.java_names import Properties, made_from_properties
from kafkaraw.client.listeners import Callback
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.user_calls import UserCalls
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, Record, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

T = TypeVar("T")


@documented_by(AsyncConsumer)
class Consumer:
    """Reads records from partitions that are assigned to it. `AsyncConsumer` for code that blocks.

    The connection is made on first use. To be used by one thread at a time, except `close`.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ConsumerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
    """

    def __init__(self, *, runtime: Runtime | None = None, **settings: object) -> None:
        self._async = AsyncConsumer(runtime=runtime, **settings)
        self._reading = reading_of(self._async)
        self._cursor = self._reading.cursor
        self._bridge = Bridge("consumer", self._async)
        self._calls = UserCalls(self._bridge, self._async)
        self._reader: threading.Thread | None = None  # who came last for records

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
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

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        self._bridge.call(lambda: self._async.assign(wanted))

    def assignment(self) -> list[TopicPartition]:
        return self._bridge.call(self._async.assignment)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        wanted = [*topics] if topics is not None and not isinstance(topics, str) else topics
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        self._bridge.call(lambda: self._async.subscribe(wanted, pattern=pattern, **callbacks))

    def unsubscribe(self, timeout: float | None = None) -> None:
        self._calls.run(lambda: self._async.unsubscribe(timeout))

    def subscription(self) -> list[str]:
        return self._bridge.call(self._async.subscription)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._bridge.call(lambda: self._async.seek(partition, offset))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        chosen = None if partitions is None else list(partitions)
        self._bridge.call(lambda: self._async.seek_to_beginning(chosen))

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        chosen = None if partitions is None else list(partitions)
        self._bridge.call(lambda: self._async.seek_to_end(chosen))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = list(partitions)
        self._bridge.call(lambda: self._async.pause(chosen))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = list(partitions)
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
        return self._take(by_partition, max_records, timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        while not is_closed(self._async):
            batch = self._cursor.next_batch()
            if batch is not None:
                yield batch
            elif not self._more_unless_closed(timeout) and timeout is not None:
                return

    def __iter__(self) -> Iterator[Record]:
        """Iterate over records, until the consumer is closed; may be left and gone on with at any record."""
        while not is_closed(self._async):
            yield from self._cursor.records()  # decoded here; threads are crossed once per answer
            self._more_unless_closed(None)

    def __next__(self) -> Record:
        while not is_closed(self._async):
            record = self._cursor.next_record()
            if record is not None:
                return record
            self._more_unless_closed(None)
        raise StopIteration

    def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch:
        names = check_columns(columns)
        return self._take(partial(to_arrow, columns=names), max_records, timeout, ARROW_BYTES)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        return self._bridge.run(self._async.partitions_for(topic, timeout))

    def topic_id(self, topic: str) -> Uuid:
        return self._async.topic_id(topic)  # one look into a dict: no need to wait for the loop

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._bridge.run(self._async.beginning_offsets(list(partitions), timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._bridge.run(self._async.end_offsets(list(partitions), timeout))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._bridge.run(self._async.offsets_for_times(timestamps, timeout))

    def metrics(self) -> Metrics:
        return self._bridge.call(self._async.metrics)

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.commit(offsets, timeout))

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Done | None = None,
    ) -> None:
        self._bridge.call(lambda: self._async.commit_nowait(offsets, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._bridge.run(self._async.committed(list(partitions), timeout))

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
        self, convert: Conversion[T], max_records: int | None, timeout: float | None, size_bytes: int | None = None
    ) -> T:
        """What is in hand, or what comes in time; the loop's thread is not troubled for what is in hand."""
        limit = self._reading.limit(max_records)
        self._bridge.check_usable()
        self._reading.check_usable()
        self._reader = threading.current_thread()
        taken = self._cursor.take_converted(convert, limit, size_bytes)
        if not taken and self._calls.run(lambda: self._reading.more(timeout)):
            taken = self._cursor.take_converted(convert, limit, size_bytes)
        return taken

    def _more_unless_closed(self, timeout: float | None) -> bool:
        self._reader = threading.current_thread()
        return self._calls.run(lambda: self._reading.more_unless_closed(timeout))
