"""`ShareConsumer`: the blocking share consumer.

A method that waits runs the method of `AsyncShareConsumer` on the loop thread; the caller's thread decodes records and
calls the callback. `docs/generate_docstrings.py` copies the docstrings of its methods from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Never, Self, Unpack

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.blocking.one_thread import Loop, OneThread, one_thread
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.config import ShareConsumerConfig
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.share_consumer import AsyncShareConsumer, ShareParts, arrow_columns, parts_of
from kafkaraw.client.sharing.batch import ShareBatch, ShareRecord
from kafkaraw.client.sharing.outcomes import AcknowledgementCallback
from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.errors import ClosedError, KafkaError
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.settings_types import ShareConsumerSettings


class _OnLoopThread(AsyncShareConsumer):
    """The consumer behind a blocking one, which decodes records on its caller's thread."""

    _name = "ShareConsumer"
    _waits_by = "block"


class ShareConsumer:
    """Reads records of a share group: the blocking form of `AsyncShareConsumer`.

    One thread at a time may use it: a call of a second thread raises `ConcurrentUseError` while the first thread is in
    a call, or in a `for` loop over the consumer. Any thread may call `wakeup`, `close` and the methods that only return
    information.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ShareConsumerConfig`; `bootstrap_servers` and `group_id` are required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(
        self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ShareConsumerSettings]
    ) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._async = _OnLoopThread(runtime=runtime, **settings)
        self._parts: ShareParts = parts_of(self._async)
        self._bridge = Bridge("share consumer", self._async)
        self._use = OneThread()

    @classmethod
    def from_properties(
        cls, properties: Properties, *, runtime: Runtime | None = None, **settings: Unpack[ShareConsumerSettings]
    ) -> Self:
        """Create a share consumer from a `.properties` file, or a dict of names and values.

        Names are those of Java's clients, of librdkafka (so of confluent-kafka), or ours with dots. `settings` override
        them. The log has a warning with the names that have no effect here.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; the message says what to use
                instead.
        """
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, ShareConsumerConfig, properties, runtime, settings)

    def __enter__(self) -> ShareConsumer:
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
    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics. The consumer joins the group in the next call that reads.

        A new share group starts at the end of the partitions, unless its configuration `share.auto.offset.reset` is
        "earliest". Subscribing again replaces the subscription.

        Args:
            topics: names; a topic that does not exist is read as soon as it exists.

        Raises:
            UsageError: the argument is not a list of names.
        """
        self._bridge.call(lambda: self._async.subscribe(topics))

    @one_thread
    def unsubscribe(self, timeout: float | None = None) -> None:
        """Send the acknowledgements that were made, release all other records, and leave the group.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.
        """
        self._bridge.run(self._async.unsubscribe(timeout))
        self._parts.outcomes.report()

    def subscription(self) -> list[str]:
        """Return the subscribed topics, in order."""
        return self._bridge.call(self._async.subscription)

    def poll(self, timeout: float | None = None) -> dict[TopicPartition, ShareBatch]:
        """Wait for records, and return those that were acquired.

        With `share_acknowledgement_mode="implicit"`, this accepts the records that earlier calls returned. With
        "explicit", each of them must be acknowledged before. Records whose lock was renewed are returned again, alone.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.

        Returns:
            one batch for each partition that has records; empty when no record arrived in time.

        Raises:
            KafkaError: a fatal error, or no broker can be reached.
            CorruptBatchError: records are damaged. They are rejected; the next call continues behind them.
            DeserializationError: a record cannot be deserialized. It is released, unless it is acknowledged; the next
                call continues behind it.
            UsageError: there is no subscription, or a record is not acknowledged.
        """
        before = self._use.begin("poll")
        try:
            self._take(timeout, renews=True)
            return self._parts.delivery.renewed() or self._parts.delivery.batches()
        finally:
            self._use.caller = before

    def batches(self, timeout: float | None = None) -> Iterator[ShareBatch]:
        """Yield batches as they are acquired, each with records of one partition.

        Args:
            timeout: stop after this many seconds without a record; None continues until the consumer is closed.

        Raises:
            KafkaError: as `poll`.
        """
        while not self._parts.is_over():
            before = self._use.begin("batches")
            try:
                batch = self._parts.delivery.next_batch()
                is_over = batch is None and not self._more(timeout) and timeout is not None
            finally:
                self._use.caller = before
            if batch is not None:
                yield batch
            elif is_over:
                return

    def __iter__(self) -> Iterator[ShareRecord]:
        """."""
        use, loop, delivery = self._use, Loop(), self._parts.delivery
        try:
            while not self._parts.is_over():
                use.enter_loop(loop)
                while (record := delivery.next_record()) is not None:
                    yield record
                    if self._parts.is_over():
                        return
                self._more(None)
        finally:
            loop.thread = 0

    def __next__(self) -> ShareRecord:
        before = self._use.begin("next")
        try:
            while not self._parts.is_over():
                record = self._parts.delivery.next_record()
                if record is not None:
                    return record
                self._more(None)
        finally:
            self._use.caller = before
        raise StopIteration

    def poll_arrow(self, timeout: float | None = None, columns: Iterable[str] | None = None) -> pyarrow.Table:
        """Wait for records, and return those that were acquired as Arrow columns, without record objects.

        Neither deserializers nor interceptors are called: key and value are the bytes that were sent. Records are
        acknowledged as with `poll`; in explicit mode with `acknowledge_offset`.

        Args:
            timeout: seconds to wait for the first record; None is `default_api_timeout_ms`.
            columns: the columns to return, in order; None is all.

        Returns:
            the columns of `AsyncConsumer.poll_arrow`, and delivery_count int16. No rows when no record arrived in time.

        Raises:
            UsageError: a column is unknown, or as `poll`.
            CorruptBatchError: records are damaged. They are rejected; the next call continues behind them.
            KafkaError: as `poll`.
        """
        names = arrow_columns(columns)
        before = self._use.begin("poll_arrow")
        try:
            self._bridge.run(self._parts.take(timeout, renews=False))
            self._parts.outcomes.report()
            return self._parts.delivery.arrow(names)
        finally:
            self._use.caller = before

    @one_thread
    def acknowledge(
        self, records: ShareRecord | ShareBatch, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record, or all records of a batch. The next call that reads, or `commit`, sends it.

        In implicit mode, this is for records that are not to be accepted. `RENEW`, in explicit mode, begins the
        acquisition lock again (KIP-1222, from Kafka 4.2): the record has to be acknowledged again later.

        Args:
            records: what `poll` or an iteration has returned.
            acknowledge_type: what became of it.

        Raises:
            UsageError: the record is not in hand: it was acknowledged and sent, the broker has released it, or the
                consumer has never had it; or `RENEW` in implicit mode.
        """
        self._async.acknowledge(records, acknowledge_type)

    @one_thread
    def acknowledge_offset(
        self,
        partition: TopicPartition,
        offset: int,
        acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record by its offset, as one of `poll_arrow`, or one that could not be deserialized.

        Args:
            partition: the partition.
            offset: the offset of the record.
            acknowledge_type: what became of it.

        Raises:
            UsageError: as `acknowledge`.
        """
        self._async.acknowledge_offset(partition, offset, acknowledge_type)

    @one_thread
    def commit(self, timeout: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send acknowledgements, and wait until the brokers have stored them, those of earlier calls included.

        In implicit mode, this accepts the records that earlier calls returned.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the error of each partition with acknowledgements; None for none. INVALID_RECORD_STATE says that the
            acquisition lock expired before, so the record is, or will be, delivered again.

        Raises:
            WakeupError: `wakeup` was called.
        """
        results = self._bridge.run(self._async.commit(timeout))
        self._parts.outcomes.report()
        return results

    @one_thread
    def commit_nowait(self) -> None:
        """Send acknowledgements without waiting for the response; see `set_acknowledgement_commit_callback`."""
        self._parts.outcomes.report()
        self._bridge.call(self._async.commit_nowait)

    @one_thread
    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that gets the results of acknowledgements.

        Args:
            callback: called in a later call that reads or commits, or in `close()`, with the offsets by partition and
                the error or None; must not block. None removes it: then failures are logged.
        """
        self._bridge.call(lambda: self._async.set_acknowledgement_commit_callback(callback))

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long acquired records stay locked for this consumer, in milliseconds.

        Returns:
            None before the first response of a broker.
        """
        return self._async.acquisition_lock_timeout_ms()

    def wakeup(self) -> None:
        """Interrupt the call that waits: it raises `WakeupError`. If no call waits, the next one that may wait raises.

        No record is lost. May be called on any thread, and in signal handlers.
        """
        self._async.wakeup()

    def metrics(self) -> Metrics:
        """Return the metrics of this client, about reading and acknowledging, about its group, and about each broker.

        Returns:
            metrics by group, then by name. Groups are node ids as text; "share_consumer", with records, bytes and
            acknowledgements; and "share_group", with heartbeats and assignments.
        """
        return self._bridge.call(self._async.metrics)

    def client_instance_id(self, timeout: float | None = None) -> Uuid:
        """Return the id that the cluster has given this client for its metrics (KIP-714); as of `AsyncConsumer`.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: `enable_metrics_push` is false.
            KafkaError: no broker can be reached, or the brokers take no metrics of clients.
        """
        return self._bridge.run(self._async.client_instance_id(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Send the acknowledgements, release all other records, leave the group, and close all connections.

        In implicit mode, this accepts the records that earlier calls returned; after an error in a `with` block it
        releases the last ones instead. May be called twice.

        Args:
            timeout: seconds for all of it; None is 30.
        """
        self._close(timeout, in_doubt=False)

    def _close(self, timeout: float | None, *, in_doubt: bool) -> None:
        if self._bridge.is_lost:
            self._bridge.let_go()
            return
        try:
            self._bridge.run(self._parts.close(timeout, in_doubt))
        finally:
            self._parts.outcomes.report()

    def _more(self, timeout: float | None) -> bool:
        try:
            self._take(timeout, renews=True)
        except ClosedError:
            return False
        return self._parts.delivery.has_waiting or self._parts.delivery.has_renewed

    def _take(self, timeout: float | None, *, renews: bool) -> None:
        """Acquire records, and decode them on this thread."""
        self._bridge.run(self._parts.take(timeout, renews=renews))
        self._parts.delivery.decode()
        self._parts.outcomes.report()
