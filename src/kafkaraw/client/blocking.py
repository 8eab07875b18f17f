"""`Producer`, `Consumer`, `Admin`: the asyncio clients for code that blocks.

The same objects, run on the one loop thread of the process. A call crosses threads once; sending and reading records
cross none: records are collected into batches, and batches decoded, on the caller's thread. Methods are documented
where they are implemented, in the async faces; their texts are taken over here.

What differs: producers and admins may be used by many threads, consumers by one at a time. Nothing of this may be
called on the loop thread (in a ticket's callback): it would wait for itself, and raises `UsageError` instead.
"""

# ruff: noqa: D102 - the docstrings come from the async faces, see `documented_by`

from __future__ import annotations

import atexit
import contextlib
import logging
import re
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kafkaraw.client.blocking_admin import Admin as Admin
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.consumer import AsyncConsumer, close_of, is_closed, reading_of
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.fetching.arrow import ARROW_BYTES, check_columns, to_arrow
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.client.forking import tell_about_forks
from kafkaraw.client.groups.progress import Done
from kafkaraw.client.java_names import Properties, made_from_properties
from kafkaraw.client.listeners import Callback
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.arrow_sending import ArrowTicket
from kafkaraw.client.sending.delivery import INTERRUPTED_CLOSE_S, Delivery
from kafkaraw.client.sending.transactions import Transactions
from kafkaraw.client.user_calls import UserCalls
from kafkaraw.errors import DeliveryError, KafkaError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.protocol import Uuid
from kafkaraw.records import AppendStatus, Batch, Headers, Record, Sender, Ticket, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

log = logging.getLogger(__name__)

_FULL: Final = AppendStatus.FULL  # members of an enum are slow to look up
_UNKNOWN_TOPIC: Final = AppendStatus.UNKNOWN_TOPIC
T = TypeVar("T")
C = TypeVar("C", bound=type)

EXIT_CLOSE_S = 10.0
"""How long producers that were left open may try to deliver when the interpreter exits."""


@documented_by(AsyncProducer)
class Producer(Sender):
    """Sends records; each `send` gives a ticket for the outcome. `AsyncProducer` for code that blocks.

    Safe for use by many threads. In a forked child process it goes on as a new producer; what was sent before the fork
    the parent delivers, and its tickets raise `ForkedError` in the child. See `AsyncProducer` for what it promises.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ProducerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
    """

    def __init__(self, *, runtime: Runtime | None = None, **settings: object) -> None:
        self._config = parse(ProducerConfig, settings)
        self._runtime = runtime
        self._deliver_with(Delivery(self._config, runtime))
        tell_about_forks(self, Producer._after_fork_in_child)
        _open_producers.add(self)

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        return made_from_properties(cls, ProducerConfig, properties, runtime, settings)

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(None if isinstance(error, Exception) else INTERRUPTED_CLOSE_S)
        except DeliveryError as lost:
            error.add_note(f"while closing the producer: {lost}")

    send = Sender.send  # one method of the compiled module for nearly every record

    def _send_slowly(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        """Send a record that is not plain, or that finds no open batch with room; with a pipeline, all of them."""
        pipeline = self._delivery.pipeline
        if pipeline is None:
            return self._send_plain(topic, value, key, headers, partition, timestamp_ms)
        return pipeline.send(self._send_plain, topic, value, key, headers, partition, timestamp_ms)

    def _send_plain(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        delivery = self._delivery
        status, ticket = delivery.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            return _run(delivery.admit(topic, value, key, headers, partition, timestamp_ms))
        delivery.note_on_thread(status)
        return ticket

    def send_nowait(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ticket:
        pipeline = self._delivery.pipeline
        if pipeline is None:
            return self._send_at_once(topic, value, key, headers, partition, timestamp_ms)
        return pipeline.send(self._send_at_once, topic, value, key, headers, partition, timestamp_ms)

    def _send_at_once(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        delivery = self._delivery
        status, ticket = delivery.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            delivery.wake_from_thread()
            raise delivery.refusal(status, topic)
        delivery.note_on_thread(status)
        return ticket

    def send_arrow(self, topic: str | None, data: pyarrow.Table | pyarrow.RecordBatch) -> ArrowTicket:
        delivery = self._delivery
        sending = delivery.arrow_sending(data, topic)
        counts = delivery.counts_of(sending.topics)
        sending.check(counts or _run(delivery.learn_topics(sending.topics)), delivery.record_size_max)
        again = False
        while True:
            releases = delivery.releases
            status = sending.go_on()
            if status is None:
                return sending.ticket
            if status is _FULL:
                _run(delivery.make_room(releases, again=again))
            elif status is _UNKNOWN_TOPIC:
                sending.check(_run(delivery.learn_topics(sending.topics)), delivery.record_size_max)
            else:
                delivery.note_on_thread(status)
                if delivery.ahead:
                    _run(delivery.ahead.drain())
            again = status is _FULL

    def flush(self, timeout: float | None = None) -> None:
        client_loop_thread().run_until_told(partial(self._delivery.begin_flush, timeout))

    def init_transactions(self, timeout: float | None = None) -> None:
        _run(self._in_transactions(lambda transactions: transactions.init(timeout)))

    def begin_transaction(self) -> None:
        _run(self._in_transactions(lambda transactions: transactions.begin()))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: str | GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        _run(self._in_transactions(lambda transactions: transactions.send_offsets(offsets, group, timeout)))

    def commit_transaction(self, timeout: float | None = None) -> None:
        _run(self._in_transactions(lambda transactions: transactions.end(commit=True, timeout=timeout)))

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        return _run(self._in_transactions(lambda transactions: transactions.prepare(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        _run(self._in_transactions(lambda transactions: transactions.end(commit=False, timeout=timeout)))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException as error:
            _run(self._in_transactions(partial(Transactions.roll_back, error=error)))
            raise

    async def _in_transactions(self, act: Callable[[Transactions], Coroutine[object, None, T]]) -> T:
        return await act(self._delivery.transactions)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        return _run(self._delivery.partitions_for(topic, timeout))

    def metrics(self) -> Metrics:
        return self._delivery.metrics()

    def close(self, timeout: float | None = None) -> None:
        _open_producers.discard(self)
        if self._delivery.begun:
            _run(self._delivery.close(timeout))
        else:
            self._delivery.close_unused()

    def _after_fork_in_child(self) -> None:
        """Start anew in a child process: with a producer id, connections and batches of its own."""
        if self in _open_producers:
            self._deliver_with(Delivery(self._config, self._runtime))

    def _deliver_with(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._send_through(delivery.open_batches if delivery.pipeline is None else None)


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

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        return made_from_properties(cls, ConsumerConfig, properties, runtime, settings)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._calls.run(lambda: close_of(self._async, in_doubt=error is not None))
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
        batches = self._take(self._reading.limit(max_records), timeout)
        return {batch.topic_partition: batch for batch in batches}

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        while not is_closed(self._async):
            batch = self._cursor.next_batch()
            if batch is not None:
                yield batch
            elif not self._calls.run(lambda: self._reading.more_unless_closed(timeout)) and timeout is not None:
                return

    def __iter__(self) -> Iterator[Record]:
        """Iterate over records, until the consumer is closed; may be left and gone on with at any record."""
        while not is_closed(self._async):
            yield from self._cursor.records()  # decoded here; threads are crossed once per answer
            self._calls.run(lambda: self._reading.more_unless_closed(None))

    def __next__(self) -> Record:
        while not is_closed(self._async):
            record = self._cursor.next_record()
            if record is not None:
                return record
            self._calls.run(lambda: self._reading.more_unless_closed(None))
        raise StopIteration

    def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch:
        names = check_columns(columns)
        return to_arrow(self._take(self._reading.limit(max_records), timeout, ARROW_BYTES), names)

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
        self._calls.run(lambda: self._async.close(timeout))

    def _take(self, limit: int | None, timeout: float | None, size_bytes: int | None = None) -> list[Batch]:
        """What is in hand, or what comes in time; the loop's thread is not troubled for what is in hand."""
        self._reading.check_usable()
        batches = self._cursor.take(limit, size_bytes)
        if not batches and self._calls.run(lambda: self._reading.more(timeout)):
            batches = self._cursor.take(limit, size_bytes)
        return batches


def _run(work: Coroutine[object, None, T]) -> T:
    return client_loop_thread().run(work)


_open_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


def _close_producers() -> None:
    """At exit, deliver what is still there, and say what could not be: a loss must not be silent."""
    for producer in list(_open_producers):
        try:
            producer.close(EXIT_CLOSE_S)
        except KafkaError as error:
            log.error("a producer was left open, and at exit: %s", error)


atexit.register(_close_producers)  # runs before the loop thread's own, which was registered by the import above
