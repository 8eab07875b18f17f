"""`Sender`: drives the producer machine. Drains the accumulator, sends what the machine decides, settles batches.

`core/producer` decides; here its actions meet the network (`Outbox`), the memory (`RecordAccumulator`) and the promises
of batches. The actions of the machine are done in two steps: all state is written first, and only then the promises of
batches are settled, one after the other (`_work_off`). So a callback may do anything, for example send another record
into the memory that its batch has left. If a callback ends the process (`sys.exit()`, Ctrl-C), the loop raises that in
a turn of its own. See docs/decisions/0026-who-may-run-when.md.

`_step` looks at all that may be due; `SenderWakeups` knows when the next one is. All of it runs on one loop, but for
`note_on_thread` and `SenderWakeups.wakeup_from_thread`. Start at `Sender.note` and `_step`.

Source: Kafka's Sender.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.producer_metrics import ProducerMetrics
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.sending.accumulator import RecordAccumulator
from kafkaraw.client.sending.waiting import Flush, PendingFlushes
from kafkaraw.core.producer.batches import outcomes_of, produce_request, unanswered
from kafkaraw.core.producer.events import (
    Abandoned,
    Acknowledge,
    Action,
    AddPartitions,
    Answered,
    BatchesSealed,
    BatchSplit,
    Event,
    Fail,
    InitProducerId,
    MetadataRefreshed,
    PartitionsAdded,
    ProducerIdentity,
    ProducerIdFailed,
    ProducerIdReceived,
    RefreshMetadata,
    Release,
    RequestLost,
    SendProduce,
    TopicsIdle,
    Unacknowledged,
    describe,
    summarise,
)
from kafkaraw.core.producer.machine import ProducerLimits, ProducerMachine
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    AuthorizationError,
    ClosedError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    RetriableError,
    StaleMetadataError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol.error_codes import error_for, error_name
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.produce import ProduceResponse
from kafkaraw.protocol.produce_frames import Produce, Written
from kafkaraw.records import AppendStatus, SealedBatch, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.sending.transactions import TransactionManager

log: logging.Logger = logging.getLogger(__name__)

_OK, _OPENED, _SEALED = AppendStatus.OK, AppendStatus.OPENED, AppendStatus.SEALED  # slow to look up
_PRODUCE_KEY: Final = 0
_SECONDS_MAX: Final = 1e9
"""The time of a wait without end: infinity does not become milliseconds."""
ANOTHER_LOOP: Final = "this producer belongs to another event loop; make one for each, or use kafkaraw.Producer"


def machine_of(config: ProducerConfig, engine: Engine) -> ProducerMachine:
    """Make the producer machine that the settings ask for; it looks leaders up in the engine's metadata."""
    limits = ProducerLimits(
        idempotent=config.enable_idempotence,
        transactional=config.transactional_id is not None,
        in_flight_max=config.max_in_flight_requests_per_connection,
        request_size_max=config.max_request_size,
        delivery_timeout_ms=config.delivery_timeout_ms,
        retries=config.retries,
    )
    backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    return ProducerMachine(limits, engine.cluster, lambda attempt: int(backoff.delay_ms(attempt, engine.runtime.rng)))


class Sender:
    """Sends the records of one producer.

    Args:
        config: the settings.
        engine: connections and metadata.
        machine: decides; only the sender changes it.
        accumulator: has the records.
        transactions: the producer's, when it is transactional.
        metrics: counts batches and requests.

    Attributes:
        machine: as given.
        transactions: as given.
        flushes: the calls that wait for batches, and the failures that they report.
        wakeups: when the next step is made.
        broken: why the producer stopped working; None while it works.
    """

    def __init__(
        self,
        config: ProducerConfig,
        engine: Engine,
        machine: ProducerMachine,
        accumulator: RecordAccumulator,
        transactions: TransactionManager | None,
        metrics: ProducerMetrics,
    ) -> None:
        self._config = config
        self._clock = engine.runtime.clock
        self.machine = machine
        self._accumulator = accumulator
        self.transactions = transactions
        self._metrics = metrics
        self.flushes: PendingFlushes = PendingFlushes()
        self.wakeups: SenderWakeups = SenderWakeups(self._step)
        self._outbox = Outbox(engine, config, transactions, self._on_event, self.break_down)
        self._actions: deque[Action] = deque()  # still to be done
        self._outcomes: deque[Callable[[], object]] = deque()  # promises still to be settled
        self._is_acting = False
        self._idle = asyncio.Event()
        self._is_closed = False
        self.broken: str | None = None

    # ---- wakeups

    def note(self, status: AppendStatus) -> None:
        """Send what was appended in time; on the loop."""
        if status is _SEALED or self.wakeups.loop is None or (status is _OPENED and self._config.linger_ms == 0):
            self.wakeups.wakeup()
        elif status is _OPENED:
            self._accumulator.metadata.sync()
            self.wakeups.wakeup_at(self.wakeups.now_ms() + self._config.linger_ms)

    def note_on_thread(self, status: AppendStatus) -> None:
        """Send what was appended in time; on any thread. A timer that fires in time spares the change of threads."""
        in_time = status is _OK
        if status is _OPENED and not self._accumulator.metadata.outdated:
            in_time = self.wakeups.is_due_within(self._config.linger_ms)
        if not in_time:
            self.wakeups.wakeup_from_thread()

    def send_sealed(self, batches: Sequence[SealedBatch]) -> None:
        """Send batches that were made elsewhere, in this order; on the loop. Their topics are known.

        Raises:
            BaseException: a bug; the producer is broken.
        """
        self._accumulator.note_sealed(batches, self.wakeups.now_ms())
        self.receive(BatchesSealed(batches, [0] * len(batches)))

    # ---- what callers wait for

    def begin_flush(self, seconds: float, over: Callable[[bool], None]) -> Flush:
        """Send everything, and wait for all batches; see `PendingFlushes.begin`."""
        self._step(everything=True)
        promises = [batch.promise for batch in self.machine.unsettled()]
        due_ms = self.wakeups.now_ms() + int(min(seconds, _SECONDS_MAX) * 1000) + 1  # the time is cut to milliseconds
        flush = self.flushes.begin(promises, due_ms, over)
        if not flush.is_settled:
            self.wakeups.wakeup_at(due_ms)
        return flush

    async def flush(self, seconds: float, what: str) -> None:
        """Send everything, wait until every batch that there is now has an outcome, and report failures.

        Raises:
            DeliveryTimeoutError: some have none in time.
            DeliveryError: some have failed; or failed before, and no call has reported it.
        """
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def over(in_time: bool) -> None:
            if not settled.done():  # the call may have been cancelled
                settled.set_result(in_time)

        flush = self.begin_flush(seconds, over)
        try:
            if not flush.is_settled and not await settled:
                raise self.too_late(what, seconds)
        finally:
            self.flushes.forget(flush)
            settled.cancel()  # nothing waits for it, and the traceback of an error keeps it
        self.flushes.report(flush)

    async def settle_all(self, deadline: Deadline, what: str) -> None:
        """Send everything, and wait until nothing is queued or in flight.

        Raises:
            DeliveryTimeoutError: something is, still.
            ClosedError: the producer stopped working.
        """
        self._step(everything=True)
        while self.broken is not None or not self.machine.idle:
            if self.broken is not None:
                raise ClosedError(self.broken)
            self._idle.clear()
            try:
                async with asyncio.timeout(deadline.remaining):
                    await self._idle.wait()
            except TimeoutError:
                raise self.too_late(what, deadline.timeout) from None

    def too_late(self, what: str, seconds: float) -> DeliveryTimeoutError:
        """Return the error of a call that timed out after `seconds`."""
        entries, last_error = self.machine.unacknowledged(), self.machine.last_error
        last_seen = "" if last_error is None else f"; last seen: {last_error}"
        message = f"{what}: not acknowledged within {seconds:g} s: {describe(entries)}{last_seen}"
        return DeliveryTimeoutError(message, unacknowledged=entries)

    def receive(self, event: Event) -> None:
        """Pass an event of the transaction to the machine, and carry out the actions that follow.

        Raises:
            BaseException: a bug; the producer is broken.
        """
        try:
            self.machine.receive(event, self.wakeups.now_ms())
        except BaseException as error:
            self.break_down(error)
            raise
        self._step()

    # ---- steps

    def _on_event(self, event: Event) -> None:
        """Pass the end of a request to the machine, and carry out its actions at once: no other step would do it."""
        now_s = self.wakeups.now_s()
        if type(event) is Answered:
            self._metrics.request_ended(event.request_id, now_s, answered=True)
            if event.throttle_time_ms > 0:
                self._metrics.throttled(event.throttle_time_ms)
        elif type(event) is RequestLost:
            self._metrics.request_ended(event.request_id, now_s, answered=False)
        try:
            self.machine.receive(event, int(now_s * 1000))
        except BaseException as error:  # noqa: BLE001 - as in `_step`
            self.break_down(error)
            return
        if not self._is_acting:
            self._act_and_set_timer()

    def _step(self, *, everything: bool = False) -> None:
        """Do all that is due now; a loop root."""
        self.wakeups.begun()
        try:
            self._drain(everything=everything)
            due_ms, now_ms = self.machine.deadline_ms(), self.wakeups.now_ms()
            if due_ms is not None and due_ms <= now_ms:
                self.machine.tick(now_ms)
            self.flushes.expire(now_ms)
            idle_at_ms = self._accumulator.metadata.idle_at_ms
            if idle_at_ms is not None and idle_at_ms <= now_ms:
                self._forget_idle_topics(now_ms)
        except BaseException as error:  # noqa: BLE001 - logged there, and every call that waits is ended
            self.break_down(error)
        else:
            self._act_and_set_timer()

    def _drain(self, *, everything: bool) -> None:
        """Pass the batches that are full or older than `linger_ms` to the machine."""
        now_ms = self.wakeups.now_ms()
        sealed = self._accumulator.drain(now_ms, everything=everything)
        if sealed is not None:
            self.machine.receive(sealed, now_ms)
            self._accumulator.update_load(sealed, now_ms)

    def _forget_idle_topics(self, now_ms: int) -> None:
        idle = self._accumulator.forget_idle_topics(self.machine.busy_topics(), now_ms)
        if idle:
            self.machine.receive(TopicsIdle(idle), now_ms)
            self.wakeups.wakeup()  # a record may just have come that opened a batch, which is sealed now

    def _act_and_set_timer(self) -> None:
        """Do what the machine says, and come back when it wants to be asked again; a loop root."""
        self._is_acting = True
        try:
            self._work_off()
            if self.machine.idle:
                self._idle.set()
            self._set_timer()
        except BaseException as error:  # noqa: BLE001 - logged there, and every call that waits is ended
            self.break_down(error)
        finally:
            self._is_acting = False
            self.flushes.end_settled()

    def _work_off(self) -> None:
        """Carry out the machine's actions; then settle promises, whose callbacks may cause more actions."""
        while True:
            self._actions += self.machine.actions()
            if not self._actions:
                if not self._outcomes:
                    return
                self._run_outcome_callbacks()
            while self._actions:
                action = self._actions.popleft()
                try:
                    self._do(action)
                except BaseException:
                    self._actions.appendleft(action)  # for `break_down`
                    raise

    def _run_outcome_callbacks(self) -> None:
        """Settle promises, which calls callbacks: user code, from which nothing is raised here."""
        while self._outcomes:
            settle = self._outcomes.popleft()
            try:
                settle()
            except BaseException as error:  # noqa: BLE001 - sys.exit() or Ctrl-C in a callback
                self.wakeups.raise_soon(error)

    def _set_timer(self) -> None:
        """Make the next step when something is due."""
        accumulator, now_ms = self._accumulator, self.wakeups.now_ms()
        for due_ms in (
            self.machine.deadline_ms(),
            self.flushes.due_ms,
            accumulator.metadata.idle_at_ms,
            accumulator.due_ms(now_ms),
        ):
            if due_ms is not None:
                self.wakeups.wakeup_at(due_ms)

    # ---- actions of the machine

    def _do(self, action: Action) -> None:
        _DOING[type(action)](self, action)

    def _send(self, action: SendProduce) -> None:
        self._metrics.sent(action, self._clock.time_ms(), self.wakeups.now_s())
        self._outbox.send(action)
        if self.transactions is not None:
            self.transactions.note_sent()

    def _acknowledge(self, action: Acknowledge) -> None:
        batch = action.batch
        self._metrics.acknowledged(batch)
        self._accumulator.note_written(batch)
        self._outcomes.append(partial(batch.promise.resolve, action.base_offset, action.log_append_time_ms))

    def _note_split(self, action: BatchSplit) -> None:
        self._metrics.split()
        self._accumulator.note_too_large(action.batch)

    def _fail(self, action: Fail) -> None:
        """Write down that a batch fails; its promise fails afterwards."""
        promise = action.batch.promise
        self._metrics.failed(action.report.records_count)
        if self.transactions is not None:
            self.transactions.note_failure(action.error)
        elif not promise.done:
            self.flushes.note_failure(promise, action.report)
        self._outcomes.append(partial(promise.fail, with_principal(action.error, self._config)))

    def _release(self, action: Release) -> None:
        self._accumulator.pool.release(action.batch)

    def _add_partitions(self, action: AddPartitions) -> None:
        self._outbox.add_partitions(action.partitions)

    def _refresh_metadata(self, action: RefreshMetadata) -> None:
        self._outbox.refresh(action.topics)

    def _init_producer_id(self, _: InitProducerId) -> None:
        self._outbox.init_producer_id()

    # ---- the end

    def losses(self) -> list[Unacknowledged]:
        """Return what is not acknowledged, and the failures that no call has reported, when the loop has ended.

        On the loop, or on any thread once it has ended.
        """
        unsent: list[Unacknowledged] = []
        try:
            self._drain(everything=True)
        except (RuntimeError, UsageError):  # the loop is closed
            unsent = [report for _, report in self._accumulator.drain_unsent()]
        failures = self.flushes.failures.now().items()
        failed = [report for promise, report in failures if not promise.is_seen(report.records_count)]
        return summarise([*failed, *self.machine.unacknowledged(), *unsent])

    def fail_all(self, make_error: Callable[[Unacknowledged], KafkaError]) -> None:
        """Fail every record that has no outcome."""
        self._drain(everything=True)
        self.machine.receive(Abandoned(make_error), self.wakeups.now_ms())
        for action in self.machine.actions():
            if isinstance(action, Acknowledge | Fail | Release):
                self._do(action)
        self._run_outcome_callbacks()
        self.flushes.end_settled()

    async def close(self) -> None:
        """Stop: no step, no request and no waiter is left."""
        self.wakeups.cancel_timer()
        self._accumulator.pool.fail(ClosedError("the producer was closed while send() waited for buffer memory"))
        try:
            await self._outbox.close()
        finally:
            self._is_closed = True

    def break_down(self, error: BaseException) -> None:
        """After a bug nothing is certain any more: fail every record instead of leaving a caller waiting.

        State is written first, then pending calls fail and callbacks are called. The log comes last, because its
        handlers are user code, and may be what has failed. The loop raises an error that ends the process (a handler
        that calls `sys.exit()`, Ctrl-C in the middle of a change) afterwards.
        """
        if self.broken is not None or self._is_closed:
            return
        message = f"the producer stopped working: {error!r}; the outcome of what it had sent is unknown"
        self.broken = message
        self._accumulator.close(ClosedError, message)
        known = list(self._actions)
        self._actions.clear()
        for action in known:  # what the machine knew already
            if isinstance(action, Acknowledge):
                settle = partial(action.batch.promise.resolve, action.base_offset, action.log_append_time_ms)
                self._outcomes.append(settle)
            elif isinstance(action, Fail):
                self._fail_by_break(action.batch, action.report, action.error)
        for batch, report in [*self.machine.unsettled_reports(), *self._accumulator.drain_unsent()]:
            self._fail_by_break(batch, report, DeliveryError(message))
        self._accumulator.pool.fail(ClosedError(message))
        self._idle.set()
        self._run_outcome_callbacks()
        self.flushes.end_settled()
        if not isinstance(error, Exception):
            self.wakeups.raise_soon(error)
        try:
            if self.transactions is not None:
                self.transactions.note_break(ClosedError(message))
            log.error("the producer failed because of an unexpected error", exc_info=error)
        except BaseException as of_log:  # noqa: BLE001 - the handler that has failed before, or another one
            if not isinstance(of_log, Exception):
                self.wakeups.raise_soon(of_log)

    def _fail_by_break(self, batch: SealedBatch, report: Unacknowledged, error: KafkaError) -> None:
        if not batch.promise.done:
            self.flushes.note_failure(batch.promise, report)
            self._outcomes.append(partial(batch.promise.fail, error))


_DOING: Final[dict[type[Action], Callable[[Sender, Any], None]]] = {
    SendProduce: Sender._send,  # noqa: SLF001 - the table of this class
    Acknowledge: Sender._acknowledge,  # noqa: SLF001
    Release: Sender._release,  # noqa: SLF001
    BatchSplit: Sender._note_split,  # noqa: SLF001
    Fail: Sender._fail,  # noqa: SLF001
    AddPartitions: Sender._add_partitions,  # noqa: SLF001
    RefreshMetadata: Sender._refresh_metadata,  # noqa: SLF001
    InitProducerId: Sender._init_producer_id,  # noqa: SLF001
}


# -- when


class SenderWakeups:
    """When the sender makes its next step: soon, or by a time; several requests for a step make one.

    A step looks at all that may be due, so it may come too early, but never too late. This class does not know what a
    step does.

    Args:
        step: makes one; it calls `begun`, also when it was not called from here.

    Attributes:
        loop: where steps are made; none is made while it is None. Set once.
    """

    __slots__ = ("_error", "_is_called", "_is_scheduled", "_step", "_timer", "_timer_s", "loop")

    def __init__(self, step: Callable[[], None]) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._step = step
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when it fires; uvloop's handle of a time that has passed does not say
        self._is_scheduled = False
        self._is_called = False
        self._error: BaseException | None = None

    def begun(self) -> None:
        """Note that a step is being made: what is asked for from now on needs another one."""
        self._is_scheduled = self._is_called = False

    def wakeup(self) -> None:
        """Make a step soon; on the loop.

        Raises:
            UsageError: that loop has ended, and another one runs.
        """
        if not self._is_scheduled and self.loop is not None:
            _check_open(self.loop)
            self._is_scheduled = True
            self.loop.call_soon(self._step)

    def wakeup_from_thread(self) -> None:
        """Make a step soon; on any thread. Costs nothing while the loop has not answered an earlier call."""
        if not self._is_called and self.loop is not None:
            self._is_called = True
            self.loop.call_soon_threadsafe(self._step)

    def wakeup_at(self, time_ms: int) -> None:
        """Keep one timer, at or before the time of the next step: early costs less than setting it anew.

        Raises:
            UsageError: as `wakeup`.
        """
        assert self.loop is not None
        if self._timer is not None:
            if self._timer_s * 1000 <= time_ms + 1:
                return
            self._timer.cancel()
        _check_open(self.loop)
        # half a millisecond late, so that the clock, cut to milliseconds, has certainly reached the time
        self._timer_s = (time_ms + 0.5) / 1000
        self._timer = self.loop.call_at(self._timer_s, self._on_timer)

    def is_due_within(self, ms: float) -> bool:
        """Whether the timer fires by then; on any thread: it may be replaced meanwhile, but only by an earlier one."""
        loop = self.loop
        return self._timer is not None and loop is not None and self._timer_s <= loop.time() + ms / 1000

    def cancel_timer(self) -> None:
        """Make no step by any time."""
        if self._timer is not None:
            self._timer.cancel()

    def now_s(self) -> float:
        """Return the loop's time."""
        assert self.loop is not None
        return self.loop.time()

    def now_ms(self) -> int:
        """Return the loop's time, cut to milliseconds."""
        return int(self.now_s() * 1000)

    def raise_soon(self, error: BaseException) -> None:
        """Have the loop raise what a callback raised to end the process, in a turn of its own; of several, the first.

        Raised at once, it would leave a change half made: responses behind it in the same read would be lost.
        """
        if self._error is None and self.loop is not None and not self.loop.is_closed():
            self._error = error
            self.loop.call_soon(self._raise)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _on_timer(self) -> None:
        self._timer = None
        self._step()


def _check_open(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed():
        raise UsageError(ANOTHER_LOOP)


# -- the network


class Outbox:
    """Carries out on the network what the producer machine decides; each request ends in one event for the machine.

    Produce requests to one node reach the wire in the order in which they were given: they wait together for the
    connection, and then start one after the other. Nothing here decides or retries.

    Args:
        engine: connections and metadata.
        config: for acks and timeouts.
        transactions: the producer's, when it is transactional.
        report: called with the event with which each request ends; on the loop.
        fail_all: called with an error that is not a KafkaError: a bug, after which no event will come.
    """

    def __init__(
        self,
        engine: Engine,
        config: ProducerConfig,
        transactions: TransactionManager | None,
        report: Callable[[Event], None],
        fail_all: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._acks = config.acks
        self._timeout_ms = config.request_timeout_ms
        self._timeout = config.request_timeout_ms / 1000
        self._transactions = transactions
        self._report = report
        self._fail_all = fail_all
        self._waiting: dict[int, deque[SendProduce]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, action: SendProduce) -> None:
        """Send a produce request; ends in `Answered` or `RequestLost`."""
        waiting = self._waiting.get(action.node_id)
        if not waiting:
            connection = self._engine.open_connection(action.node_id)
            if connection is not None:
                self._exchange(connection, action)
                return
        if waiting is None:
            waiting = self._waiting[action.node_id] = deque()
        waiting.append(action)
        if len(waiting) == 1:
            self._spawn(self._send_waiting(action.node_id, waiting), f"produce to {action.node_id}")

    def init_producer_id(self) -> None:
        """Get a producer id; ends in `ProducerIdReceived` or `ProducerIdFailed`."""
        self._spawn(self._init_producer_id(), "producer id")

    def add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Make partitions part of the transaction; ends in `PartitionsAdded`."""
        self._spawn(self._add_partitions(partitions), "partitions of the transaction")

    def refresh(self, topics: frozenset[str]) -> None:
        """Refresh metadata; ends in `MetadataRefreshed`."""
        self._spawn(self._refresh(topics), "producer metadata")

    async def close(self) -> None:
        """Drop all requests, without events."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[object, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail_all(error)

    async def _send_waiting(self, node_id: int, waiting: deque[SendProduce]) -> None:
        try:
            connection = await self._engine.connection(node_id, timeout=self._timeout)
        except KafkaError as error:
            while waiting:
                self._report(_lost(waiting.popleft(), error, maybe_written=False))
            return
        while waiting:
            self._exchange(connection, waiting.popleft())

    def _exchange(self, connection: Connection, action: SendProduce) -> None:
        """Send one request; there is no task for it, because one for each batch costs as much as the batch."""
        try:
            self._submit(connection, action)
        except KafkaError as error:
            self._lost(action, error)
        except Exception as error:  # noqa: BLE001 - logged where the producer breaks
            self._fail_all(error)

    def _submit(self, connection: Connection, action: SendProduce) -> None:
        transactions, version = self._transactions, None
        request = produce_request(
            action,
            self._engine.cluster,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            transactional_id=None if transactions is None else transactions.transactional_id,
        )
        if transactions is not None and transactions.produce_version_max is not None:
            version = min(transactions.produce_version_max, connection.version_for(_PRODUCE_KEY))

        def answered(outcome: Written | ProduceResponse | KafkaError | None) -> None:
            if not self._closed:
                self._answered(action, request, outcome)

        connection.submit(request, answered, version=version, timeout=self._timeout, oneway=self._acks == 0)

    def _answered(
        self, action: SendProduce, request: Produce, outcome: Written | ProduceResponse | KafkaError | None
    ) -> None:
        try:
            if isinstance(outcome, KafkaError):
                raise outcome
            if outcome is None:  # acks=0, and the bytes have left
                self._report(Answered(action.request_id, unanswered(action)))
                return
            outcomes = outcomes_of(request, outcome, self._engine.cluster, action.node_id)
            self._report(Answered(action.request_id, outcomes, outcome.throttle_time_ms))
        except KafkaError as error:
            self._lost(action, error)
        except Exception as error:  # noqa: BLE001 - logged where the producer breaks
            self._fail_all(error)

    def _lost(self, action: SendProduce, error: KafkaError) -> None:
        self._report(_lost(action, error, maybe_written=not isinstance(error, UnsupportedVersionError)))

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self._timeout_ms, producer_id=-1, producer_epoch=-1
        )
        try:
            answer = await self._engine.request_any(request, timeout=self._timeout)
            if answer.error_code:
                raise error_for(
                    answer.error_code,
                    "no producer id (WRITE on any topic gives one, and enable_idempotence=False does without)",
                    operation="IDEMPOTENT_WRITE",
                )
        except KafkaError as error:
            self._report(ProducerIdFailed(error, retriable=isinstance(error, RetriableError)))
        else:
            self._report(ProducerIdReceived(ProducerIdentity(answer.producer_id, answer.producer_epoch)))

    async def _add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        assert self._transactions is not None
        self._report(PartitionsAdded(partitions, await self._transactions.add_partitions(partitions)))

    async def _refresh(self, topics: frozenset[str]) -> None:
        problem: KafkaError | None = None
        refused: dict[str, KafkaError] = {}
        try:
            await self._engine.refresh(topics, timeout=self._timeout)
        except KafkaError as error:
            problem = error
        else:
            cluster = self._engine.cluster
            bad = {topic: error_name(cluster.error_of(topic)) for topic in sorted(topics) if cluster.error_of(topic)}
            if bad:
                problem = StaleMetadataError(f"metadata: {', '.join(f'topic {t!r} {name}' for t, name in bad.items())}")
            errors = {topic: _topic_error(topic, cluster.error_of(topic)) for topic in bad}
            refused = {topic: error for topic, error in errors.items() if isinstance(error, AuthorizationError)}
        self._report(MetadataRefreshed(problem, refused))


def _topic_error(topic: str, code: int) -> KafkaError:
    return error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")


def _lost(action: SendProduce, error: KafkaError, *, maybe_written: bool) -> RequestLost:
    return RequestLost(action.request_id, error, maybe_written, retriable=isinstance(error, RetriableError))
