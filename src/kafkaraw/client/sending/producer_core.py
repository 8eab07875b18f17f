"""`ProducerCore`: the calls of a producer that wait: for admission, for outcomes, for the end of a transaction.

`AsyncProducer` and the blocking `Producer` are two faces of it. It makes and owns the parts that a record passes
through, which do not know it: the accumulator, then the sender; beside them the transaction manager. It runs on one
loop; what may be called on other threads says so.

The life of a record: a face puts it into an open batch (`RecordAccumulator.open_batches`), or else calls
`RecordAccumulator.append` and then `Sender.note`. If the record is not taken, `admit` waits for the topic or for buffer
memory. Start at `ProducerCore.admit`, `ProducerCore.flush` and `ProducerCore.close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.client.arguments import topic_of
from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline, check_timeout
from kafkaraw.client.forking import call_after_fork, keep_unfinalized
from kafkaraw.client.metrics.client_metrics import Metrics, MetricsSource
from kafkaraw.client.metrics.producer_metrics import GROUP, ProducerMetrics
from kafkaraw.client.network.connection import CLOSE_TIMEOUT_S
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.accumulator import RecordAccumulator, check_record_types
from kafkaraw.client.sending.lines import Lines, WaitingRecord
from kafkaraw.client.sending.sender import ANOTHER_LOOP, Sender, machine_of
from kafkaraw.client.sending.waiting import FORKED, Flush, PromiseWaiter
from kafkaraw.core.producer.events import Unacknowledged
from kafkaraw.errors import (
    ClosedError,
    DeliveryError,
    DeliveryTimeoutError,
    ForkedError,
    KafkaError,
    UsageError,
    copy_to_raise,
)
from kafkaraw.net.loop_thread import on_loop_fault
from kafkaraw.records import (
    AppendStatus,
    BatchPromise,
    Headers,
    SealedBatch,
    Ticket,
    TopicPartition,
    whole_number,
)

if TYPE_CHECKING:
    from kafkaraw.client.sending.arrow_rows import ArrowSending
    from kafkaraw.client.sending.pipeline import Pipeline
    from kafkaraw.client.sending.transaction_calls import Transactions
    from kafkaraw.protocol import Uuid

INTERRUPTED_CLOSE_S: Final = 5.0
"""How long a `with` block that is left by Ctrl-C or cancellation may still try to deliver."""
CLOSED: Final = "the producer is closed; make a new one"


class ProducerCore:
    """What both faces of a producer share.

    Args:
        config: the settings.
        runtime: network, clock and rng; the real ones when None.
        on_begun: called once, on the loop, when the producer begins to run there.

    Attributes:
        accumulator: takes records.
        sender: sends them.
        pipeline: interceptors and serializers, if there are any.
    """

    def __init__(
        self, config: ProducerConfig, runtime: Runtime | None, on_begun: Callable[[ProducerCore], None]
    ) -> None:
        self._config = config
        self._on_begun = on_begun
        self._engine = Engine.on(config, runtime)
        labels: dict[str, str | None] = {"transactional_id": config.transactional_id}
        self._engine.source = MetricsSource(GROUP, self.metrics, lambda: labels)
        self._waiter = PromiseWaiter()
        self._metrics = ProducerMetrics(config.batch_size, config.buffer_memory)
        self.pipeline: Pipeline | None = _pipeline_of(config)
        machine = machine_of(config, self._engine)
        self.accumulator: RecordAccumulator = RecordAccumulator(
            config, self._engine, machine, self._waiter, self._metrics
        )
        self._lines = Lines(self.accumulator.append, self.accumulator.metadata.is_known)
        self._transactions: Transactions | None = None
        if config.transactional_id is None:
            self.sender: Sender = Sender(config, self._engine, machine, self.accumulator, None, self._metrics)
        else:
            from kafkaraw.client.sending.transaction_calls import Transactions  # few producers are transactional
            from kafkaraw.client.sending.transactions import TransactionManager

            manager = TransactionManager(self._engine, config, self.accumulator)
            self.sender = Sender(config, self._engine, machine, self.accumulator, manager, self._metrics)
            self._transactions = Transactions(manager, self.sender, self._engine)
        self._closed = False
        self._closing: asyncio.Event | None = None  # there once `close` was called, and set once it is over
        self._close_error: DeliveryError | None = None
        self._losses_taken = False
        call_after_fork(self, ProducerCore._after_fork_in_child)

    # ---- the loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that it runs on; None before it has begun."""
        return self.sender.wakeups.loop

    @property
    def begun(self) -> bool:
        """Whether it has ever run on a loop; if not, there is nothing to deliver and nothing to close."""
        return self.loop is not None

    def _begin(self) -> None:
        """Make the running loop this producer's own; refuse if that cannot be, or it is closed.

        In this order: `close_unused`, on another thread, says that it is closed before it looks whether it has begun.
        """
        self._take_loop()
        if self._closed:
            raise ClosedError(CLOSED)

    def _take_loop(self) -> None:
        self._waiter.check_not_forked()
        loop, wakeups = asyncio.get_running_loop(), self.sender.wakeups
        if wakeups.loop is None:
            wakeups.loop = self._waiter.loop = loop
            on_loop_fault(self.sender, loop, Sender.break_down)
            self._on_begun(self)
        elif wakeups.loop is not loop:
            if self.sender.broken is not None:  # with the loop thread that it lived on
                self.sender.flushes.report_rest()
                raise ClosedError(self.sender.broken)
            raise UsageError(ANOTHER_LOOP)

    def _after_fork_in_child(self) -> None:
        """Touch nothing of the parent's, which delivers what was sent (see `forking`)."""
        self._waiter.forked = True
        self.accumulator.close(ForkedError, FORKED)
        keep_unfinalized(self)

    # ---- taking records

    async def admit(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        """Take a record that the accumulator did not take: wait for the topic's metadata, or for memory; try again.

        Raises:
            KafkaTimeoutError: `max_block_ms` passed.
            UnknownTopicError: there is no such topic.
            UsageError: the topic has no such partition.
            ClosedError: the producer is closed.
        """
        self._begin()
        record = self._lines.join((topic, value, key, headers, partition, timestamp_ms))
        try:
            await self._admitted(record, Deadline(self._config.max_block_ms / 1000))
        except KafkaError:
            if record.ticket is None:
                raise
        finally:
            self._lines.leave(record)
        if record.error is not None:
            raise record.error
        assert record.ticket is not None
        return record.ticket

    async def _admitted(self, record: WaitingRecord, deadline: Deadline) -> None:
        """Wait until a record is over; it is appended by this task, or by one that comes behind it in the line."""
        topic, value, key, headers, partition, _ = record.arguments
        accumulator, is_again = self.accumulator, False
        while True:
            releases = accumulator.pool.releases
            status = self._lines.append(topic, record)
            if record.is_over:
                self.sender.wakeups.wakeup()
                accumulator.pool.offer()
                return
            if status is AppendStatus.FULL:
                self.sender.wakeups.wakeup()
                await accumulator.wait_for_memory(releases, deadline, first=is_again)
                is_again = True
            else:
                check_record_types(topic, value, key, headers)
                number = None if partition is None else whole_number(partition)
                await accumulator.metadata.learn(topic, number, deadline)
                # From now on records are taken at once: those that have waited come first.
                self._lines.append(topic, None)

    def arrow_sending(self, data: object, topic: str | None) -> ArrowSending:
        """Prepare to send Arrow data.

        Raises:
            UsageError: it is none, or its columns do not fit.
        """
        from kafkaraw.client.sending.arrow_rows import ArrowSending  # with pyarrow, for `send_arrow` only

        return ArrowSending(data, topic, self.accumulator.open_batches, self._waiter)

    async def learn_topics(self, topics: Iterable[str]) -> dict[str, int]:
        """Wait until all topics are known; returns their partition counts.

        Raises:
            KafkaTimeoutError: `max_block_ms` passed.
            UnknownTopicError: there is no such topic.
        """
        self._begin()
        deadline, metadata = Deadline(self._config.max_block_ms / 1000), self.accumulator.metadata
        wanted = list(topics)
        unknown = [topic for topic in wanted if not metadata.is_known(topic)]
        if len(unknown) > 1:  # with one request for all of them
            await self._engine.wait_for_topics(unknown, timeout=deadline.remaining)
        return {topic: await metadata.learn(topic, None, deadline) for topic in wanted}

    def topic_id(self, topic: str) -> Uuid:
        """Return the id of a topic in the metadata; zero if it is not known, and with brokers before 2.8."""
        return self._engine.cluster.topic_id_of(topic)

    def new_promise(self, topic: str, partition: int) -> BatchPromise:
        """Make the promise of a batch for `send_sealed`."""
        return BatchPromise(topic, partition, self._waiter)

    def send_sealed(self, batches: Sequence[SealedBatch]) -> None:
        """Send batches that were made elsewhere, those of a partition in this order.

        They do not count for `buffer_memory`: the caller limits how much is in flight. `learn_topics` was called with
        their topics.

        Raises:
            KafkaError: the producer is closed, or no transaction is open.
        """
        self._begin()
        self.sender.send_sealed(batches)

    async def wait_for_memory(self, releases: int, *, first: bool) -> None:
        """Wait for buffer memory for up to `max_block_ms`, as `BufferPool.wait`.

        Raises:
            KafkaTimeoutError: `max_block_ms` passed.
            ClosedError: the producer is closed.
        """
        self._begin()
        self.sender.wakeups.wakeup()
        await self.accumulator.wait_for_memory(releases, Deadline(self._config.max_block_ms / 1000), first=first)

    async def partitions_for(self, topic: str, timeout: float | None) -> list[TopicPartition]:
        """Return the partitions of a topic, and wait for its metadata if they are not known."""
        topic_of(topic, "partitions_for")
        self._begin()
        await self._engine.wait_for_topics([topic], self._config.max_block_ms / 1000 if timeout is None else timeout)
        self.accumulator.metadata.take(topic)
        return self._engine.cluster.partitions_of(topic) or []

    def metrics(self) -> Metrics:
        """Return what is counted about the producer and each broker; see `AsyncProducer.metrics`."""
        used_bytes = self.accumulator.open_batches.used_bytes
        return {GROUP: self._metrics.as_dict(used_bytes), **self._engine.metrics.as_dict()}

    async def client_instance_id(self, timeout: float | None) -> Uuid:
        """Return the id that the cluster has given this producer; see `AsyncProducer.client_instance_id`."""
        self._begin()
        return await self._engine.client_instance_id(timeout)

    @property
    def transactions(self) -> Transactions:
        """The calls of a transactional producer.

        Raises:
            UsageError: it is not transactional, or used on another loop.
            ClosedError: it is closed.
        """
        self._begin()
        if self._transactions is None:
            raise UsageError("this producer has no transactional_id: give it one to make transactions")
        return self._transactions

    # ---- flush

    async def flush(self, timeout: float | None) -> None:
        """Send everything now, and wait until all of it is settled; see `AsyncProducer.flush`."""
        seconds = self._flush_s(timeout)
        self._begin()
        await self.sender.flush(seconds, "flush")

    def flush_call(self, timeout: float | None) -> FlushCall:
        """Prepare a `flush` of a thread that waits."""
        return FlushCall(self._begin, self.sender, self._flush_s(timeout))

    def _flush_s(self, timeout: float | None) -> float:
        if timeout is None:
            return self._longest_delivery_s
        check_timeout(timeout)
        return timeout

    @property
    def _longest_delivery_s(self) -> float:
        """Each record sent before is acknowledged or failed after this: delivery_timeout_ms + linger_ms + 1 s."""
        return (self._config.delivery_timeout_ms + self._config.linger_ms) / 1000 + 1.0

    # ---- the end

    @property
    def is_open(self) -> bool:
        """Whether it has begun, and neither `close` nor `take_losses` was called; on any thread."""
        return self.begun and not (self._closed or self._losses_taken or self._waiter.forked)

    @property
    def is_unclosed(self) -> bool:
        """Whether it has begun, and `close` was not called; on any thread."""
        return self.begun and self._closing is None and not self._waiter.forked

    @property
    def is_closed(self) -> bool:
        """Whether `close` or `close_unused` is over: nothing is left to be delivered or reported by another call."""
        return self._closed and (not self.begun or (self._closing is not None and self._closing.is_set()))

    def take_losses(self) -> list[Unacknowledged]:
        """Return what is not acknowledged and what no call has reported, as the loop has ended; empty the second time.

        On its loop, or on any thread once that has ended.
        """
        if not self.is_open:
            return []
        self._losses_taken = True
        return self.sender.losses()

    def close_unused(self) -> None:
        """Close what has not begun; on any thread. If it has `begun` afterwards, another thread was faster: `close`."""
        self._refuse_records()
        if self.pipeline is not None:
            self.pipeline.close()

    async def close(self, timeout: float | None) -> None:
        """Flush, then close all connections; see `AsyncProducer.close`.

        If a call is interrupted, unacknowledged records fail at once. Another call, meanwhile or later, waits
        until the first one is over, and reports what that one could not.
        """
        deadline = None if timeout is None else Deadline(timeout)
        if self._closing is not None:
            await self._wait_for_close(self._closing, deadline)
            return
        self._closing = asyncio.Event()
        if self.sender.broken is not None and self.loop is not asyncio.get_running_loop():
            self.close_unused()  # everything else ended with the loop thread that it lived on
            self._closing.set()
            self.sender.flushes.report_rest()
            return
        try:
            self._take_loop()
        except KafkaError:
            self._closing = None
            raise
        self._refuse_records()
        try:
            if self._transactions is not None:
                await self._transactions.abandon(timeout)
            await self.sender.flush(self._longest_delivery_s if deadline is None else deadline.remaining, "close")
        except DeliveryError as error:
            self._close_error = error
        finally:
            try:
                self.sender.fail_all(_closed_before)
                if self.pipeline is not None:
                    self.pipeline.close()
                await self._close_network(CLOSE_TIMEOUT_S if deadline is None else deadline.remaining)
            finally:
                self._closing.set()
        self._report_close()

    async def discard(self) -> None:
        """End as if the process had crashed: send nothing more, report nothing, and drop the connections."""
        self._closing = asyncio.Event()
        self._closing.set()
        self._refuse_records()
        await self._close_network(0.0)

    def _refuse_records(self) -> None:
        self._closed = True
        self.accumulator.close(ClosedError, CLOSED)

    async def _close_network(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        await self.sender.close()
        await self._engine.close(timeout)

    def _report_close(self) -> None:
        """Raise what the first close could not deliver in time, with what no call has reported, or only the latter."""
        try:
            self.sender.flushes.report_rest()
        except DeliveryError as rest:
            if self._close_error is None:
                raise
            self._close_error.add_note(str(rest))
        if self._close_error is not None:
            raise self._close_error

    async def _wait_for_close(self, closing: asyncio.Event, deadline: Deadline | None) -> None:
        """Wait for the first call of `close`; what a second call does."""
        waits = not closing.is_set()
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining):
                await closing.wait()
        except TimeoutError:
            assert deadline is not None
            raise self.sender.too_late("close", deadline.timeout) from None
        if waits and self._close_error is not None:
            raise copy_to_raise(self._close_error)
        self.sender.flushes.report_rest()


def _pipeline_of(config: ProducerConfig) -> Pipeline | None:
    """The interceptors and serializers that the settings name; None without any."""
    if not config.interceptors and not config.serializers:
        return None
    from kafkaraw.client.sending.pipeline import Pipeline  # most producers have none

    return Pipeline(config)


def _closed_before(entry: Unacknowledged) -> KafkaError:
    message = f"{entry}: the producer was closed before a broker acknowledged them"
    return DeliveryTimeoutError(message, unacknowledged=(entry,))


class FlushCall:
    """A `flush` of a thread that waits: begun on the loop, and finished on the thread.

    Args:
        check: raises if the producer takes no calls; called on the loop.
        sender: of the producer.
        seconds: how long it may take.
    """

    def __init__(self, check: Callable[[], None], sender: Sender, seconds: float) -> None:
        self._check = check
        self._sender = sender
        self._seconds = seconds
        self._flush: Flush | None = None

    def begin(self, over: Callable[[BaseException | None], None]) -> None:
        """Begin; `over` is called once at the end, with a `DeliveryTimeoutError` if it takes too long. On the loop."""
        self._check()
        self._flush = self._sender.begin_flush(
            self._seconds, lambda settled: over(None if settled else self._sender.too_late("flush", self._seconds))
        )
        if self._flush.is_settled:
            over(None)

    def finish(self) -> None:
        """Report failures, after it is over; on the thread that waited.

        Raises:
            DeliveryError: there are some.
        """
        if self._flush is not None:
            self._sender.flushes.report(self._flush)
