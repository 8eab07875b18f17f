"""`Producer`: the blocking producer.

A method that waits runs the method of `AsyncProducer` on the loop thread; the caller's thread appends records to
batches. `docs/generate_docstrings.py` copies the docstrings of its methods from there. The package has the rules.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Never, Self, TypeVar, Unpack

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.deadline import check_timeout
from kafkaraw.client.forking import call_after_fork
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.producer_core import INTERRUPTED_CLOSE_S, ProducerCore
from kafkaraw.client.sending.unclosed import EXIT_CLOSE_S, forget, watch
from kafkaraw.errors import DeliveryError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.net.process_hooks import at_exit
from kafkaraw.records import AppendStatus, Headers, SendFastPath, Ticket, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.sending.arrow_rows import ArrowTicket
    from kafkaraw.client.sending.transaction_calls import Transactions
    from kafkaraw.client.settings_types import ProducerSettings
    from kafkaraw.protocol import Uuid

log: logging.Logger = logging.getLogger(__name__)

_FULL: Final = AppendStatus.FULL  # members of an enum are slow to look up
_UNKNOWN_TOPIC: Final = AppendStatus.UNKNOWN_TOPIC
T = TypeVar("T")
C = TypeVar("C", bound=type)


class Producer(SendFastPath):
    """Sends records to topics: the blocking form of `AsyncProducer`. `send` returns a ticket for each record.

    Many threads may share a producer. In a forked child process it continues as a new producer: the parent process
    delivers the records that were sent before the fork, and their tickets raise `ForkedError` in the child. See
    `AsyncProducer` for the delivery guarantees.

    Close a producer after use. If it is garbage collected while open, or the process ends (a worker of
    `multiprocessing`, too), Python issues a `ResourceWarning`, and its records are delivered in the background; the log
    names those that could not be delivered. The end of the process waits 10 s for the delivery.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `ProducerConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[ProducerSettings]) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._config = config = parse(ProducerConfig, settings)
        if config.serializers:
            from kafkaraw.client.serializers import check_waiting  # most producers have none

            check_waiting(type(self).__name__, "block", config.serializers, "serialize")
        self._runtime = runtime
        self._send_with(ProducerCore(self._config, runtime, watch))
        call_after_fork(self, Producer._after_fork_in_child)
        _open_producers[id(self)] = self

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

    if not TYPE_CHECKING:  # for type checkers it is inherited, with its docstring
        send = SendFastPath.send  # one method of the compiled module for nearly every record

    def _send_slowly(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        """Send a record that is not plain, or for which no open batch has room; with a pipeline, every record."""
        pipeline = self._core.pipeline
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
        core = self._core
        status, ticket = core.accumulator.append(topic, value, key, headers, partition, timestamp_ms)
        if ticket is None:
            return _run(core.admit(topic, value, key, headers, partition, timestamp_ms))
        core.sender.note_on_thread(status)
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
            core.sender.wakeups.wakeup_from_thread()
            raise core.accumulator.error_of(status, topic)
        core.sender.note_on_thread(status)
        return ticket

    def send_arrow(self, topic: str | None, data: pyarrow.Table | pyarrow.RecordBatch) -> ArrowTicket:
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
        counts = core.accumulator.metadata.counts_of(sending.topics)
        sending.check(counts or _run(core.learn_topics(sending.topics)), core.accumulator.record_size_max)
        again = False
        while True:
            releases = core.accumulator.pool.releases
            status = sending.go_on()
            if status is None:
                return sending.ticket
            if status is _FULL:
                _run(core.wait_for_memory(releases, first=again))
            elif status is _UNKNOWN_TOPIC:
                sending.check(_run(core.learn_topics(sending.topics)), core.accumulator.record_size_max)
            else:
                core.sender.note_on_thread(status)
                if core.accumulator.pool.needs_backpressure:
                    _run(core.accumulator.pool.drain())
            again = status is _FULL

    def flush(self, timeout: float | None = None) -> None:
        """Send all open batches now, and wait until every record sent so far is acknowledged or has failed.

        Args:
            timeout: seconds; None waits until each record is acknowledged or has failed, at the latest after
                `delivery_timeout_ms`.

        Raises:
            DeliveryTimeoutError: some records are not acknowledged yet; the error names them, and they may still be
                written.
            DeliveryError: some records failed and their tickets were not read; the error names them.
        """
        call = self._core.flush_call(timeout)
        client_loop_thread().run_until_called(call.begin)
        call.finish()  # on this thread: an interrupted call leaves failures to be reported by the next one

    def init_transactions(self, timeout: float | None = None) -> None:
        """Register the `transactional_id` with the transaction coordinator. Call it once, before the first transaction.

        The coordinator fences an earlier producer with the same id, and aborts its open transaction.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`. After a timeout, call it again.

        Raises:
            KafkaTimeoutError: the coordinator did not answer in time.
            BrokerError: the coordinator refuses, for example because `transaction_timeout_ms` is above its limit.
            UsageError: there is no `transactional_id`, or `init_transactions` was called before.
        """
        _run(self._in_transactions(lambda transactions: transactions.init(timeout)))

    def begin_transaction(self) -> None:
        """Begin a transaction. With `read_committed`, consumers read all records sent until it ends, or none of them.

        Raises:
            UsageError: a transaction is open, or `init_transactions` was not called.
            TransactionAbortableError: the last transaction failed and was not aborted.
            ProducerFencedError: a newer producer has the same transactional id.
            KafkaTimeoutError: the coordinator could not be reached within `default_api_timeout_ms`.
        """
        _run(self._in_transactions(lambda transactions: transactions.begin()))

    def send_offsets_to_transaction(
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
        _run(self._in_transactions(lambda transactions: transactions.send_offsets(offsets, group, timeout)))

    def commit_transaction(self, timeout: float | None = None) -> None:
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
        _run(self._in_transactions(lambda transactions: transactions.end(commit=True, timeout=timeout)))

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
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
        return _run(self._in_transactions(lambda transactions: transactions.prepare(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction. Records that were not sent yet fail; `read_committed` consumers skip the others.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            ProducerFencedError: a newer producer has the same transactional id; the transaction is aborted already.
            KafkaTimeoutError: the outcome was not known in time; call it again to find out.
            UsageError: no transaction is open.
        """
        _run(self._in_transactions(lambda transactions: transactions.end(commit=False, timeout=timeout)))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, and commit it at the end of the block. If the block raises, abort it.

            async with producer.transaction():  # `with`, on the blocking face
                await producer.send("orders", b"...")

        Raises:
            TransactionAbortableError: the transaction could not be committed, and was aborted.
            KafkaError: as `begin_transaction` and `commit_transaction` raise it.
        """
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException as error:
            _run(self._roll_back(error))
            raise

    async def _roll_back(self, error: BaseException) -> None:
        await self._core.transactions.roll_back(error)

    async def _in_transactions(self, act: Callable[[Transactions], Coroutine[object, None, T]]) -> T:
        return await act(self._core.transactions)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Args:
            topic: its name; the broker may create it, as with `send`.
            timeout: seconds; None is `max_block_ms`.

        Raises:
            UnknownTopicError: the topic does not exist.
            KafkaError: no broker answered.
        """
        return _run(self._core.partitions_for(topic, timeout))

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
        return _run(self._core.client_instance_id(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Flush, then close all connections. May be called twice; `send` raises from now on.

        Args:
            timeout: seconds for the flush; records that are not acknowledged by then fail. None is as for `flush`.

        Raises:
            DeliveryTimeoutError: some records were not acknowledged in time; the error names them.
            DeliveryError: some records failed and their tickets were not read; the error names them.
        """
        core = self._core
        if timeout is not None:
            check_timeout(timeout)
        try:
            if not core.begun:
                core.close_unused()
            if core.begun:
                _run(core.close(timeout))
        finally:
            if core.is_closed:  # else it was refused or interrupted, and is closed at exit
                _open_producers.pop(id(self), None)

    def __del__(self) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)  # None when a setting was refused
        if core is not None:
            forget(self, core)

    def _after_fork_in_child(self) -> None:
        """Start as a new producer in a child process, with its own producer id, connections and batches."""
        if id(self) in _open_producers:
            self._send_with(ProducerCore(self._config, self._runtime, watch))

    def _send_with(self, core: ProducerCore) -> None:
        self._core = core
        self._send_through(core.accumulator.open_batches.table if core.pipeline is None else None)


def _run(work: Coroutine[object, None, T]) -> T:
    return client_loop_thread().run(work)


_open_producers: weakref.WeakValueDictionary[int, Producer] = weakref.WeakValueDictionary()
"""By `id`: threads may make producers while the others are listed, which a `WeakSet` does not allow."""


def _close_producers() -> None:
    """At the end of the process, deliver the records of open producers, and log those that could not be delivered.

    After Ctrl-C, the remaining records fail at once, and are logged as lost, too.
    """
    timeout, unclosed_count = EXIT_CLOSE_S, 0
    for reference in _open_producers.valuerefs():
        producer = reference()
        unclosed_count += producer is not None and core_of(producer).is_open
        while producer is not None:
            try:
                producer.close(timeout)
            except Exception as error:  # noqa: BLE001 - the other producers have records, too
                log.error("a producer was left open, and at exit: %s", error)
            except BaseException as error:  # noqa: BLE001 - Ctrl-C
                if timeout:
                    timeout = 0.0
                    continue
                log.error("a producer was left open, and at exit: %r", error)
            break
    if unclosed_count:  # after all are closed: a program may turn warnings into errors
        what = "Producer was" if unclosed_count == 1 else f"{unclosed_count} Producers were"
        warnings.warn(f"{what} not closed: call close(), or use a `with` block", ResourceWarning, stacklevel=1)


def core_of(producer: Producer) -> ProducerCore:
    """Return the core of a producer."""
    return producer._core  # noqa: SLF001 - same module


at_exit(_close_producers, of_workers=True)  # runs before the loop thread's own, which the import above has named
