"""`Producer`: the blocking producer.

A method that waits runs the method of `AsyncProducer` on the loop thread; the caller's thread appends records to
batches. Methods are documented where they are implemented; `documented_by` copies the docstrings. The package has the
rules.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Never, Self, TypeVar

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.deadline import check_timeout
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.forking import call_after_fork
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.pipeline import serializers_of
from kafkaraw.client.sending.producer_core import INTERRUPTED_CLOSE_S, ProducerCore
from kafkaraw.client.sending.unclosed import EXIT_CLOSE_S, forget, watch
from kafkaraw.client.serializers import check_waiting
from kafkaraw.errors import DeliveryError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.net.process_hooks import at_exit
from kafkaraw.records import AppendStatus, Headers, SendFastPath, Ticket, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow

    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.sending.arrow_rows import ArrowTicket
    from kafkaraw.client.sending.transaction_calls import Transactions

log = logging.getLogger(__name__)

_FULL: Final = AppendStatus.FULL  # members of an enum are slow to look up
_UNKNOWN_TOPIC: Final = AppendStatus.UNKNOWN_TOPIC
T = TypeVar("T")
C = TypeVar("C", bound=type)


@documented_by(AsyncProducer)
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

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._config = config = parse(ProducerConfig, settings)
        if config.key_serializer is not None or config.value_serializer is not None:
            check_waiting(type(self).__name__, "block", serializers_of(config), "serialize")
        self._runtime = runtime
        self._send_with(ProducerCore(self._config, runtime, watch))
        call_after_fork(self, Producer._after_fork_in_child)
        _open_producers[id(self)] = self

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
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
        call = self._core.flush_call(timeout)
        client_loop_thread().run_until_called(call.begin)
        call.finish()  # on this thread: an interrupted call leaves failures to be reported by the next one

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
            _run(self._roll_back(error))
            raise

    async def _roll_back(self, error: BaseException) -> None:
        await self._core.transactions.roll_back(error)

    async def _in_transactions(self, act: Callable[[Transactions], Coroutine[object, None, T]]) -> T:
        return await act(self._core.transactions)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        return _run(self._core.partitions_for(topic, timeout))

    def metrics(self) -> Metrics:
        return self._core.metrics()

    def close(self, timeout: float | None = None) -> None:
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
