"""`AsyncProducer`: send records to topics.

The asyncio face of `sending/producer_core.py`; `core/producer` decides what is sent when. The blocking face is in
`blocking/producer.py`; the two differ in `async` only, and in `send`, which awaits admission here and blocks there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Final, Never, Self

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.arrow_rows import ArrowTicket
from kafkaraw.client.sending.pipeline import take_nothing
from kafkaraw.client.sending.producer_core import INTERRUPTED_CLOSE_S, ProducerCore
from kafkaraw.client.sending.unclosed import forget, watch
from kafkaraw.errors import DeliveryError
from kafkaraw.records import AppendStatus, Headers, Ticket, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.java_names import Properties

_SEALED: Final = AppendStatus.SEALED  # members of an enum are slow to look up
_FULL: Final = AppendStatus.FULL
_UNKNOWN_TOPIC: Final = AppendStatus.UNKNOWN_TOPIC


class AsyncProducer:
    """Sends records; each `send` gives a ticket for the outcome.

    Records are collected into batches per partition, which leave when they are full or `linger_ms` old. A key decides
    the partition as in Java (murmur2); records without one fill partition after partition. The connection is made on
    first use. Safe for use by many tasks of one loop.

    Close it. If it is garbage collected while open, Python issues a `ResourceWarning`, and its records are delivered in
    the background while its loop runs. If the loop or the process ends first, the log says how many records are lost.

    With `enable_idempotence` (the default) a record is written once and in the order of sending, whatever is sent
    again. Without it, sending again may write twice; with more than one request in flight
    (`max_in_flight_requests_per_connection`) it may also reorder what was in flight together. `acks=0` confirms only
    that a record was handed to the network.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ProducerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._core = ProducerCore(parse(ProducerConfig, settings), runtime, watch)
        plain = self._core.pipeline is None
        self._take: Callable[..., Ticket | None] = self._core.accumulator.open_batches.take if plain else take_nothing

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        """Make one with a Java client's configuration, a `.properties` file or names and values; `settings` go first.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; says what to use instead.
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
        """Take a record for sending; waits only for the topic's metadata or for room in `buffer_memory`.

        Args:
            topic: where it goes.
            value: the content: bytes, or what `value_serializer` takes; None is a tombstone.
            key: decides the partition, and what compaction keeps: bytes, or what `key_serializer` takes.
            headers: name and value pairs.
            partition: to choose it yourself.
            timestamp_ms: milliseconds since 1970 UTC; None is now.

        Returns:
            a ticket: `await ticket` or `ticket.result(timeout)` gives the `RecordMetadata`, or raises.

        Raises:
            RecordTooLargeError: over `max_request_size`, before compression.
            KafkaTimeoutError: no room, or no leader for the topic, within `max_block_ms`.
            UnknownTopicError: the topic does not exist.
            UsageError: a field of the wrong type, or a partition that the topic does not have.
            SerializationError: a serializer refuses the value or the key.
            KafkaError: no broker can be reached.
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
        """Send a record that is not plain, or that finds no open batch with room."""
        core = self._core
        status, ticket = core.accumulator.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            return await core.admit(topic, value, key, headers, partition, timestamp_ms)
        core.sender.note(status)
        if status is _SEALED:
            await asyncio.sleep(0)  # a loop full of sends must not keep the batches from leaving
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
        """Take a record for sending, or refuse at once; arguments and result as for `send`.

        Raises:
            BufferFullError: no room in `buffer_memory` just now.
            StaleMetadataError: the topic is not known (yet): `partitions_for` makes it known.
            RecordTooLargeError: over `max_request_size`, before compression.
            UsageError: a field of the wrong type.
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
            raise core.accumulator.refusal(status, topic)
        core.sender.note(status)
        return ticket

    async def send_arrow(self, topic: str | None, data: pyarrow.Table | pyarrow.RecordBatch) -> ArrowTicket:
        """Take the rows of a table for sending: many times faster than record by record, and otherwise the same.

        Rows of one partition keep their order. When a row cannot be sent, none is. Waits for the topics' metadata, and
        whenever there is no room in `buffer_memory`. Columns are bytes already: neither serializers nor interceptors
        see them.

        Args:
            topic: where all rows go; None when there is a column `topic`.
            data: a table, a record batch, or what gives one by the Arrow PyCapsule interface (as frames of polars and
                pandas do). Columns are `key` and `value` (binary or string), `headers` (a list of structs of `key` and
                `value`, or a map), `timestamp` (or integers: milliseconds; null is now), `partition` (null leaves the
                choice to the partitioner) and `topic`; at least one of `key` and `value`. Other columns are refused.

        Returns:
            a ticket for all rows: `await ticket` or `ticket.result(timeout)` says where they are, or raises.

        Raises:
            UsageError: a column that is missing, unknown or of a type that cannot be sent; a partition that the topic
                does not have.
            RecordTooLargeError: a row over `max_request_size`, before compression.
            KafkaTimeoutError: no room, or no leader for the topic, within `max_block_ms`; some rows may be sent.
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
                # A loop full of rows must not keep the batches from leaving.
                await (core.accumulator.pool.drain() if core.accumulator.pool.is_ahead else asyncio.sleep(0))
            again = status is _FULL

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until every record sent so far is acknowledged or has failed.

        Args:
            timeout: seconds; None waits until `delivery_timeout_ms` has decided about each record.

        Raises:
            DeliveryTimeoutError: some are still on their way; the error says which, and they may yet be written.
            DeliveryError: some have failed and nobody has looked at their tickets; the error says which.
        """
        await self._core.flush(timeout)

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the `transactional_id`; to be called once, before the first transaction.

        A producer that had the id before is fenced, and its open transaction is aborted.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`. After a timeout it may be called again.

        Raises:
            KafkaTimeoutError: the coordinator did not answer in time.
            BrokerError: the coordinator refuses, as when `transaction_timeout_ms` is above its limit.
            UsageError: there is no `transactional_id`, or it was called before.
        """
        await self._core.transactions.init(timeout)

    async def begin_transaction(self) -> None:
        """Begin a transaction: the records sent until it ends are read together, or not at all.

        Raises:
            UsageError: one is open, or `init_transactions` was not called.
            TransactionAbortableError: the last one failed and was not aborted.
            ProducerFencedError: another producer has taken over the id.
        """
        await self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: str | GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer group's positions with the transaction: they count if, and only if, it commits.

        Args:
            offsets: the next offset to read, by partition.
            group: the group; with its `GroupMetadata` a member that was replaced is fenced (KIP-447).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            TransactionAbortableError: refused; abort the transaction.
            ProducerFencedError: another producer has taken over the id.
            KafkaTimeoutError: no answer in time: the offsets are in doubt. Call it again, or abort; until then the
                transaction is neither committed nor prepared. The same holds when this call is cancelled.
            UsageError: no transaction is open.
        """
        await self._core.transactions.send_offsets(offsets, group, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left, wait until all of it is acknowledged, and commit.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            TransactionAbortableError: some records failed, or the coordinator refuses: nothing is committed, abort it.
                Or offsets are in doubt: send them again, or abort.
            ProducerFencedError: another producer has taken over the id; nothing is committed.
            KafkaTimeoutError: not known in time; call it again to find out.
            UsageError: no transaction is open.
        """
        await self._core.transactions.end(commit=True, timeout=timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Send what is left, wait until all of it is acknowledged, and let somebody else end the transaction.

        That is for work that several producers, perhaps in several processes, share: when all have prepared, one of
        them has `Admin.end_transaction` commit all. The transaction stays open until then, and its
        `transaction_timeout_ms` goes on. The producer goes on with `init_transactions`, which aborts it if it still is.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            what to end; None when nothing was written.

        Raises:
            TransactionAbortableError: some records failed, or offsets are in doubt; abort the transaction.
            ProducerFencedError: another producer has taken over the id.
            KafkaTimeoutError: not all were acknowledged in time; call it again.
            UsageError: no transaction is open.
        """
        return await self._core.transactions.prepare(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Give the transaction up; records that were not sent yet fail, and nobody reads the others.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            ProducerFencedError: another producer has taken over the id; the transaction is aborted already.
            KafkaTimeoutError: not known in time; call it again to find out.
            UsageError: no transaction is open.
        """
        await self._core.transactions.end(commit=False, timeout=timeout)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction that is committed at the end of the block, or aborted when the block raises.

            async with producer.transaction():  # `with`, on the blocking face
                await producer.send("orders", b"...")

        Raises:
            TransactionAbortableError: it could not be committed, and was aborted.
            KafkaError: as of `begin_transaction` and `commit_transaction`.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            await self._core.transactions.roll_back(error)
            raise

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic.

        Args:
            topic: its name; it may be created, as by `send`.
            timeout: seconds; None is `max_block_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker gave an answer.
        """
        return await self._core.partitions_for(topic, timeout)

    def metrics(self) -> Metrics:
        """What this client has counted about records and brokers so far; may be called at any time, after `close`, too.

        Returns:
            by node id as text (and "bootstrap"), and under "producer" for the producer itself, then by name. Those of
            the producer are explained in `kafkaraw.client.metrics.producer_metrics.MEANINGS`. Of a node: requests,
            requests_failed, in_flight, latency_count, latency_sum_s, latency_max_s, latency_histogram (answers within
            each bound in seconds), bytes_in, bytes_out, throttle_time_s, connections (open now), connections_opened,
            _failed and _closed.
        """
        return self._core.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then close all connections. May be called twice; `send` raises from now on.

        Args:
            timeout: seconds for the flush; records that are not acknowledged by then are given up. None is as for
                `flush`.

        Raises:
            DeliveryTimeoutError: some were given up; the error says which.
            DeliveryError: some have failed and nobody has looked at their tickets; the error says which.
        """
        await self._core.close(timeout)

    def __del__(self) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)  # None when a setting was refused
        if core is not None:
            forget(self, core)


# -- for tests that simulate crashes


def core_of(producer: AsyncProducer) -> ProducerCore:
    """Return the core of a producer."""
    return producer._core  # noqa: SLF001 - same module
