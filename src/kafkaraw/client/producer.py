"""`AsyncProducer`: sends records to topics.

The asyncio face of `sending/producer_core.py`; `core/producer` decides what is sent when. The blocking face is in
`blocking/producer.py`; the two differ in `async` only, and in `send`, which awaits admission here and blocks there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Final, Never, Self, Unpack

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.producer_core import INTERRUPTED_CLOSE_S, ProducerCore
from kafkaraw.client.sending.unclosed import forget, watch
from kafkaraw.errors import DeliveryError
from kafkaraw.records import AppendStatus, Headers, Ticket, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.sending.arrow_rows import ArrowTicket
    from kafkaraw.client.settings_types import ProducerSettings
    from kafkaraw.protocol import Uuid

_SEALED: Final = AppendStatus.SEALED  # members of an enum are slow to look up
_FULL: Final = AppendStatus.FULL
_UNKNOWN_TOPIC: Final = AppendStatus.UNKNOWN_TOPIC


class AsyncProducer:
    """Sends records to topics. `send` returns a ticket for the outcome of each record.

    The producer collects records into a batch per partition, and sends a batch when it is full or `linger_ms` old. The
    key of a record decides its partition as in Java (murmur2). The sticky partitioner chooses the partition of records
    without a key. The producer connects on first use. Many tasks of one event loop may share a producer.

    Close a producer after use. If it is garbage collected while open, Python issues a `ResourceWarning`, and its
    records are delivered in the background while its loop runs. If the loop or the process ends first, the log says how
    many records are lost.

    With `enable_idempotence` (the default), each record is written once and in the order of sending, even if batches
    are retried. Without it, a retry may write a record twice. With more than one request in flight
    (`max_in_flight_requests_per_connection`), a retry may also reorder batches that were in flight together. With
    `acks=0` a send succeeds when the record was handed to the network.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ProducerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ProducerSettings]) -> None:
        refuse_positional(type(self).__name__, misplaced)
        config = parse(ProducerConfig, settings)
        if config.serializers:
            from kafkaraw.client.serializers import check_waiting  # most producers have none

            check_waiting(type(self).__name__, "await", config.serializers, "serialize")
        self._core = ProducerCore(config, runtime, watch)
        plain = self._core.pipeline is None
        self._take: Callable[..., Ticket | None] = self._core.accumulator.open_batches.take if plain else _take_nothing

    @classmethod
    def from_properties(
        cls, properties: Properties, *, runtime: Runtime | None = None, **settings: Unpack[ProducerSettings]
    ) -> Self:
        """Create a producer from a `.properties` file, or a dict of names and values.

        Names are those of Java's clients, of librdkafka (so of confluent-kafka), or ours with dots. `settings` override
        them. The log has a warning with the names that have no effect here.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; the message says what to use
                instead.
        """
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, ProducerConfig, properties, runtime, settings)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(None if isinstance(error, Exception) else INTERRUPTED_CLOSE_S)
        except DeliveryError as lost:
            error.add_note(f"while closing the producer: {lost}")

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ticket:
        """Add a record to the batch of its partition. Waits only for the topic's metadata or for `buffer_memory`.

        Args:
            topic: the topic to send to.
            value: the value: bytes, or an object that `value_serializer` accepts; None is a tombstone.
            key: decides the partition, and which records compaction keeps: bytes, or an object that `key_serializer`
                accepts.
            headers: name and value pairs.
            partition: the partition to send to; None lets the partitioner choose.
            timestamp_ms: milliseconds since 1970 UTC; None is now.

        Returns:
            a ticket: `await ticket` or `ticket.result(timeout)` returns the `RecordMetadata`, or raises.

        Raises:
            RecordTooLargeError: the record is larger than `max_request_size`, before compression.
            KafkaTimeoutError: `buffer_memory` stayed full, or the topic had no leader, for `max_block_ms`.
            UnknownTopicError: the topic does not exist.
            UsageError: a field has the wrong type, or the topic does not have the partition.
            SerializationError: a serializer refuses the value or the key.
            KafkaError: no broker can be reached; or a serializer's schema registry, for `max_block_ms`.
        """
        ticket = self._take(topic, value, key, headers, partition, timestamp_ms)
        if ticket is not None:
            return ticket
        pipeline = self._core.pipeline
        if pipeline is None:
            return await self._send_slowly(topic, value, key, headers, partition, timestamp_ms)
        return await pipeline.send_async(self._send_slowly, topic, value, key, headers, partition, timestamp_ms)

    async def _send_slowly(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        """Send a record that is not plain, or for which no open batch has room."""
        core = self._core
        status, ticket = core.accumulator.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            return await core.admit(topic, value, key, headers, partition, timestamp_ms)
        core.sender.note(status)
        if status is _SEALED:
            await asyncio.sleep(0)  # lets the sender loop run, even if the caller sends without a pause
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
        """Add a record to the batch of its partition without waiting; arguments and result as for `send`.

        Raises:
            BufferFullError: `buffer_memory` is full.
            StaleMetadataError: the topic's metadata is not known yet; `partitions_for` fetches it.
            RecordTooLargeError: the record is larger than `max_request_size`, before compression.
            UsageError: a field has the wrong type.
        """
        pipeline = self._core.pipeline
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
        core = self._core
        status, ticket = core.accumulator.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            core.sender.wakeups.wakeup()
            raise core.accumulator.error_of(status, topic)
        core.sender.note(status)
        return ticket

    async def send_arrow(self, topic: str | None, data: pyarrow.Table | pyarrow.RecordBatch) -> ArrowTicket:
        """Send the rows of an Arrow table as records; many times faster than `send` for each record.

        Rows of one partition keep their order. If one row cannot be sent, no row is sent. The call waits for the
        topics' metadata, and whenever `buffer_memory` is full. The columns are bytes already, so neither serializers
        nor interceptors are called.

        Args:
            topic: the topic of all rows; None when there is a column `topic`.
            data: a table, a record batch, or an object with the Arrow PyCapsule interface (such as a frame of polars or
                pandas). Columns are `key` and `value` (binary or string), `headers` (a list of structs of `key` and
                `value`, or a map), `timestamp` (or integers: milliseconds; null is now), `partition` (null lets the
                partitioner choose) and `topic`; at least one of `key` and `value`. Other columns are refused.

        Returns:
            a ticket for all rows: `await ticket` or `ticket.result(timeout)` returns a list of `SentRows`, or raises.

        Raises:
            UsageError: a column is missing, unknown or of a type that cannot be sent; or the topic does not have a
                partition that a row names.
            RecordTooLargeError: a row is larger than `max_request_size`, before compression.
            KafkaTimeoutError: `buffer_memory` stayed full, or the topic had no leader, for `max_block_ms`; some rows
                may be sent.
            UnknownTopicError: the topic does not exist.
        """
        core = self._core
        sending = core.arrow_sending(data, topic)
        sending.check(await core.learn_topics(sending.topics), core.accumulator.record_size_max)
        again = False
        while True:
            releases = core.accumulator.pool.releases
            status = sending.go_on()
            if status is None:
                return sending.ticket
            if status is _FULL:
                await core.wait_for_memory(releases, first=again)
            elif status is _UNKNOWN_TOPIC:
                sending.check(await core.learn_topics(sending.topics), core.accumulator.record_size_max)
            else:
                core.sender.note(status)
                # Lets the sender loop run, even if the table has many rows.
                await (core.accumulator.pool.drain() if core.accumulator.pool.needs_backpressure else asyncio.sleep(0))
            again = status is _FULL

    async def flush(self, timeout: float | None = None) -> None:
        """Send all open batches now, and wait until every record sent so far is acknowledged or has failed.

        Args:
            timeout: seconds; None waits until each record is acknowledged or has failed, at the latest after
                `delivery_timeout_ms`.

        Raises:
            DeliveryTimeoutError: some records are not acknowledged yet; the error names them, and they may still be
                written.
            DeliveryError: some records failed and their tickets were not read; the error names them.
        """
        await self._core.flush(timeout)

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Register the `transactional_id` with the transaction coordinator. Call it once, before the first transaction.

        The coordinator fences an earlier producer with the same id, and aborts its open transaction.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`. After a timeout, call it again.

        Raises:
            KafkaTimeoutError: the coordinator did not answer in time.
            BrokerError: the coordinator refuses, for example because `transaction_timeout_ms` is above its limit.
            UsageError: there is no `transactional_id`, or `init_transactions` was called before.
        """
        await self._core.transactions.init(timeout)

    async def begin_transaction(self) -> None:
        """Begin a transaction. With `read_committed`, consumers read all records sent until it ends, or none of them.

        Raises:
            UsageError: a transaction is open, or `init_transactions` was not called.
            TransactionAbortableError: the last transaction failed and was not aborted.
            ProducerFencedError: a newer producer has the same transactional id.
            KafkaTimeoutError: the coordinator could not be reached within `default_api_timeout_ms`.
        """
        await self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: str | GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Add a consumer group's offsets to the transaction. They are committed if, and only if, it commits.

        Args:
            offsets: the next offset to read, by partition.
            group: the group id, or the `GroupMetadata` of a member: then the coordinator fences a member that was
                replaced (KIP-447).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            TransactionAbortableError: the coordinator refuses the offsets; abort the transaction.
            ProducerFencedError: a newer producer has the same transactional id.
            KafkaTimeoutError: the coordinator did not answer in time, so the offsets are in doubt. Call it again, or
                abort; until then the transaction can be neither committed nor prepared. The same holds when this call
                is cancelled.
            UsageError: no transaction is open.
        """
        await self._core.transactions.send_offsets(offsets, group, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send the records that are left, wait until all are acknowledged, and commit the transaction.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            TransactionAbortableError: some records failed, or the coordinator refuses: nothing is committed, abort the
                transaction. Or offsets are in doubt: send them again, or abort.
            ProducerFencedError: a newer producer has the same transactional id; nothing is committed.
            KafkaTimeoutError: the outcome was not known in time; call it again to find out.
            UsageError: no transaction is open.
        """
        await self._core.transactions.end(commit=True, timeout=timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Send the records that are left, wait until all are acknowledged, and leave the transaction open.

        `Admin.end_transaction` ends the transaction, also from another process. Several producers, perhaps in several
        processes, can share a unit of work in this way: when all have prepared, one process commits all transactions.
        Until then the transaction stays open, and its `transaction_timeout_ms` keeps running. To use the producer
        again, call `init_transactions`, which aborts the transaction if it is still open.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the transaction to end; None when nothing was written.

        Raises:
            TransactionAbortableError: some records failed, or offsets are in doubt; abort the transaction.
            ProducerFencedError: a newer producer has the same transactional id.
            KafkaTimeoutError: not all records were acknowledged in time; call it again.
            UsageError: no transaction is open.
        """
        return await self._core.transactions.prepare(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction. Records that were not sent yet fail; `read_committed` consumers skip the others.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            ProducerFencedError: a newer producer has the same transactional id; the transaction is aborted already.
            KafkaTimeoutError: the outcome was not known in time; call it again to find out.
            UsageError: no transaction is open.
        """
        await self._core.transactions.end(commit=False, timeout=timeout)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, and commit it at the end of the block. If the block raises, abort it.

            async with producer.transaction():  # `with`, on the blocking face
                await producer.send("orders", b"...")

        Raises:
            TransactionAbortableError: the transaction could not be committed, and was aborted.
            KafkaError: as `begin_transaction` and `commit_transaction` raise it.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            await self._core.transactions.roll_back(error)
            raise

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Args:
            topic: its name; the broker may create it, as with `send`.
            timeout: seconds; None is `max_block_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker answered.
        """
        return await self._core.partitions_for(topic, timeout)

    def metrics(self) -> Metrics:
        """Return the metrics of this client, about records and about each broker. May be called after `close`, too.

        Returns:
            metrics by group, then by name. Groups are node ids as text, "bootstrap", and "producer" for the producer
            itself. `kafkaraw.client.metrics.producer_metrics.MEANINGS` explains those of the producer. A node has:
            requests, requests_failed, in_flight, latency_count, latency_sum_s, latency_max_s, latency_histogram
            (responses within each bound in seconds), bytes_in, bytes_out, throttle_time_s, connections (open now),
            connections_opened, _failed and _closed.
        """
        return self._core.metrics()

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
        return await self._core.client_instance_id(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then close all connections. May be called twice; `send` raises from now on.

        Args:
            timeout: seconds for the flush; records that are not acknowledged by then fail. None is as for `flush`.

        Raises:
            DeliveryTimeoutError: some records were not acknowledged in time; the error names them.
            DeliveryError: some records failed and their tickets were not read; the error names them.
        """
        await self._core.close(timeout)

    def __del__(self) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)  # None when a setting was refused
        if core is not None:
            forget(self, core)


def _take_nothing(*_: object) -> None:
    """Stand in for `OpenBatches.take` in a producer with a pipeline: every record takes the long way."""


# -- for tests that simulate crashes


def core_of(producer: AsyncProducer) -> ProducerCore:
    """Return the core of a producer."""
    return producer._core  # noqa: SLF001 - same module
