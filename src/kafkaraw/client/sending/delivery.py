"""Everything a producer does that is not its face: takes records in, and delivers them.

Joins three parts that know nothing of each other: `records.OpenBatches` (records into batches, on the caller's thread),
`core.producer` (what to do with sealed batches) and the `Outbox` (doing it). `AsyncProducer` and the blocking
`Producer` are two faces of this. It runs on one loop; only `append` and `wake_from_thread` may be called on others.

What the machine says is done in two steps: all of it is written down first, and only then the outcomes of batches are
told, one after the other (`_work_off`). So a callback may do anything, as send another record into the memory that its
batch has left. What ends a process (`sys.exit()`, Ctrl-C) in a callback, the loop raises in a turn of its own.

The life of a record: `append` puts it into an open batch. Opening or filling one wakes `_step`, which collects what is
due, tells the machine, and carries out what it says; `Steps` knows when. Records that `append` does not take go through
`admit`, which waits for the topic or for room. Start at `admit` and `_step`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NoReturn

from kafkaraw.client.arguments import topic_of
from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline, check_timeout
from kafkaraw.client.forking import leave_behind, tell_about_forks
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.metrics.producer_metrics import GROUP, ProducerMetrics
from kafkaraw.client.network.connection import CLOSE_TIMEOUT_S
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.sending.arrow_rows import ArrowSending
from kafkaraw.client.sending.failures import UnreportedFailures
from kafkaraw.client.sending.known_topics import KnownTopics
from kafkaraw.client.sending.outbox import Outbox
from kafkaraw.client.sending.pipeline import pipeline_of
from kafkaraw.client.sending.producer_machine import machine_of
from kafkaraw.client.sending.record_arguments import refuse_record
from kafkaraw.client.sending.record_size import RECORD_OVERHEAD_BYTES, check_record_size
from kafkaraw.client.sending.refusals import CLOSED, closed_before, raising
from kafkaraw.client.sending.room import Ahead, Room
from kafkaraw.client.sending.settling import FlushCall, Settling
from kafkaraw.client.sending.steps import ANOTHER_LOOP, Steps
from kafkaraw.client.sending.transactions import Transactions
from kafkaraw.client.sending.turns import Turns, partitioner_of
from kafkaraw.client.sending.unclosed import watch
from kafkaraw.client.sending.waiting import FORKED, PromiseWaiter
from kafkaraw.core.producer.batch_sizes import BatchSizes
from kafkaraw.core.producer.events import (
    Abandoned,
    Acknowledge,
    Action,
    AddPartitions,
    Answered,
    AskProducerId,
    BatchesSealed,
    Event,
    Fail,
    RefreshMetadata,
    Release,
    RequestLost,
    Resplit,
    SendProduce,
    TopicsIdle,
)
from kafkaraw.core.producer.report import Unacknowledged, describe, summarise
from kafkaraw.core.producer.spreading import Spreading
from kafkaraw.errors import (
    BufferFull,
    ClosedError,
    DeliveryError,
    ForkedError,
    KafkaError,
    KafkaTimeoutError,
    StaleMetadataError,
    UsageError,
    copy_to_raise,
)
from kafkaraw.net.clock import SystemClock
from kafkaraw.net.loop_locks import new_loop_lock
from kafkaraw.net.loop_thread import tell_about_fault
from kafkaraw.records import (
    KEY_SIZE_SAFE,
    AppendStatus,
    Headers,
    OpenBatches,
    SealedBatch,
    Ticket,
    TopicPartition,
    whole_number,
)

log = logging.getLogger(__name__)

_OK, _OPENED, _SEALED = AppendStatus.OK, AppendStatus.OPENED, AppendStatus.SEALED  # slow to look up
INTERRUPTED_CLOSE_S = 5.0
"""How long a `with` block that is left by Ctrl-C or cancellation may still try to deliver."""


class Delivery:
    """The inside of a producer.

    Args:
        config: the settings.
        runtime: network, clock and rng; the real ones when None.

    Attributes:
        record_size_max: the most bytes of one record, before compression.
        ahead: how far senders of many rows are ahead of the network.
        open_batches: where records go; refuses them once the producer is closed, broken, or in a child process.
        pipeline: what happens to each record before and after, when it has interceptors or serializers; else None.
    """

    def __init__(self, config: ProducerConfig, runtime: Runtime | None = None) -> None:
        self._config = config
        self._engine = Engine.on(config, runtime)
        self._clock = self._engine.runtime.clock
        self._waiter = PromiseWaiter()
        self.record_size_max = min(config.max_request_size, config.buffer_memory)
        self.open_batches = OpenBatches(
            config.batch_size,
            config.compression_type,
            config.compression_level,
            config.buffer_memory,
            self._clock.time_ms,
            waiter=self._waiter,
            lock=new_loop_lock(),
            value_size_safe=self.record_size_max - RECORD_OVERHEAD_BYTES - KEY_SIZE_SAFE,
            system_clock=isinstance(self._clock, SystemClock),
            partitioner=partitioner_of(config),
        )
        self._batch_sizes = BatchSizes(config.batch_size, self.open_batches.limit_batches)
        self._machine = machine_of(config, self._engine)
        self._turns = Turns(
            Spreading(config.partitioner_adaptive_partitioning_enable, self._engine.runtime.rng),
            config.partitioner_availability_timeout_ms,
            self._engine.cluster,
            self._machine,
            self.open_batches,
        )
        self._nothing_left = asyncio.Event()
        self._outbox = Outbox(self._engine, config, self._receive, self._break)
        self._room = Room(self._has_room)
        self.ahead = Ahead(lambda: self.open_batches.used_bytes)
        self._settling = Settling(self._machine, UnreportedFailures(), self)
        self._transactions: Transactions | None = None
        idle_ms = max(config.metadata_max_idle_ms, config.linger_ms)
        self._topics = KnownTopics(self._engine, self.open_batches, self._turns, idle_ms)
        self._metrics = ProducerMetrics(config.batch_size, config.buffer_memory)
        self.pipeline = pipeline_of(config)
        self._steps = Steps(self._step)
        self._actions: deque[Action] = deque()  # what is still to be done
        self._outcomes: deque[Callable[[], object]] = deque()  # what is still to be told
        self._acting = False
        self._closed = False
        self._closing: asyncio.Event | None = None  # there once `close` was called, and set once it is over
        self._close_error: DeliveryError | None = None
        self._losses_told = False
        self._broken: str | None = None  # why it takes no records any more
        if config.transactional_id is not None:
            self._transactions = self._outbox.transactions = Transactions(self._engine, config, self)
            self.take_records(False)
        tell_about_forks(self, Delivery._after_fork_in_child)

    # ---- taking records in

    def append(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> tuple[AppendStatus, Ticket | None]:
        """Take any record now if that can be; the way of those that `OpenBatches.take` leaves.

        Raises:
            RecordTooLarge: over `max_request_size` or `buffer_memory`.
            UsageError: a field of the wrong type.
        """
        try:
            check_record_size(topic, value, key, headers, self._config)
            # what is not bytes is refused there
            return self.open_batches.append(topic, key, value, headers, timestamp_ms, partition)  # type: ignore[arg-type]
        except (UsageError, TypeError, ValueError, AttributeError) as error:
            if not isinstance(error, UsageError) or type(error) is UsageError:
                refuse_record(topic, value, key, headers)
            raise

    def note(self, status: AppendStatus) -> None:
        """See to it that what was appended leaves in time; on the loop."""
        if status is _SEALED or self._steps.loop is None or (status is _OPENED and self._config.linger_ms == 0):
            self.wake()
        elif status is _OPENED:
            self._topics.sync()
            self.step_by(self.now_ms() + self._config.linger_ms)

    def note_on_thread(self, status: AppendStatus) -> None:
        """The same, on any thread. A timer that fires in time spares the change of threads."""
        in_time = status is _OK
        if status is _OPENED and not self._topics.outdated:
            in_time = self._steps.is_due_within(self._config.linger_ms)
        if not in_time:
            self._steps.make_soon_from_thread()

    def wake(self) -> None:
        """Have a step made soon; on the loop."""
        self._steps.make_soon()

    def wake_from_thread(self) -> None:
        """Have a step made soon; on any thread."""
        self._steps.make_soon_from_thread()

    async def admit(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        """Take a record that `append` did not take: wait for the topic's metadata, or for room, then try again.

        Raises:
            KafkaTimeoutError: `max_block_ms` passed.
            StaleMetadataError: there is no such topic.
            UsageError: the topic has no such partition.
            ClosedError: the producer is closed.
        """
        self._begin()
        deadline = Deadline(self._config.max_block_ms / 1000)
        again = False
        while True:
            releases = self._room.releases
            status, ticket = self.append(topic, value, key, headers, partition, timestamp_ms)
            if ticket is not None:
                self.wake()
                self._offer_room()
                return ticket
            if status is AppendStatus.FULL:
                self.wake()
                await self._wait_for_room(releases, deadline, first=again)
                again = True
            else:
                refuse_record(topic, value, key, headers)
                await self._topics.learn(topic, None if partition is None else whole_number(partition), deadline)

    def arrow_sending(self, data: object, topic: str | None) -> ArrowSending:
        """Prepare to send Arrow data.

        Raises:
            UsageError: it is none, or its columns do not fit.
        """
        return ArrowSending(data, topic, self.open_batches, self._waiter)

    @property
    def releases(self) -> int:
        """How often room was made so far; to be noted before rows are sent, and handed to `make_room`."""
        return self._room.releases

    def counts_of(self, topics: Iterable[str]) -> dict[str, int] | None:
        """How many partitions topics have; None unless all are known. On any thread."""
        return self._topics.counts_of(topics)

    async def learn_topics(self, topics: Iterable[str]) -> dict[str, int]:
        """Wait until all topics are known; gives how many partitions each has.

        Raises:
            KafkaTimeoutError: `max_block_ms` passed.
            StaleMetadataError: there is no such topic.
        """
        self._begin()
        deadline = Deadline(self._config.max_block_ms / 1000)
        return {topic: await self._topics.learn(topic, None, deadline) for topic in topics}

    async def make_room(self, releases: int, *, again: bool) -> None:
        """Wait for room; `releases` is what it was before there was none, `again` that there was none before, too."""
        self._begin()
        self.wake()
        await self._wait_for_room(releases, Deadline(self._config.max_block_ms / 1000), first=again)

    def refusal(self, status: AppendStatus, topic: str) -> KafkaError:
        """Why `append` did not take a record, for callers that do not wait.

        Raises:
            UsageError: the topic is no name.
        """
        if status is AppendStatus.FULL:
            self._metrics.waited_for_room(0.0, in_vain=True)
            return BufferFull(f"buffer_memory={self._config.buffer_memory} bytes are full of unacknowledged records")
        topic_of(topic, "send_nowait")
        return StaleMetadataError(f"topic {topic!r} (or that partition) is not known yet; call partitions_for() first")

    def metrics(self) -> Metrics:
        """What is counted about the producer and each broker; see `AsyncProducer.metrics`."""
        return {GROUP: self._metrics.as_dict(self.open_batches.used_bytes), **self._engine.metrics.as_dict()}

    async def partitions_for(self, topic: str, timeout: float | None) -> list[TopicPartition]:
        """The partitions of a topic, waiting for its metadata if need be."""
        topic_of(topic, "partitions_for")
        self._begin()
        await self._engine.wait_for_topics([topic], self._config.max_block_ms / 1000 if timeout is None else timeout)
        self._topics.take(topic)
        return self._engine.cluster.partitions_of(topic) or []

    # ---- transactions

    @property
    def transactions(self) -> Transactions:
        """The producer's transactions.

        Raises:
            UsageError: it makes none.
        """
        self._begin()
        if self._transactions is None:
            raise UsageError("this producer has no transactional_id: give it one to make transactions")
        return self._transactions

    def take_records(self, taken: bool) -> None:
        """Whether `append` takes records; for the time between transactions, not for the end of the producer."""
        if not (self._closed or self._broken is not None or self._waiter.forked):
            self.open_batches.refuse(None if taken else self._refuse_outside_transaction)

    def _refuse_outside_transaction(self) -> NoReturn:
        assert self._transactions is not None
        self._transactions.check_open()
        raise UsageError("the transaction takes no more records")

    def receive(self, event: Event) -> None:
        """Tell the machine something that happened to the transaction, and do what follows."""
        try:
            self._machine.receive(event, self.now_ms())
        except BaseException as error:
            self._break(error)
            raise
        self._step()

    async def settle_all(self, deadline: Deadline, what: str) -> None:
        """Send everything, and wait until nothing is queued or in flight.

        Raises:
            DeliveryTimeout: something is, still.
            ClosedError: the producer stopped working.
        """
        self._step(everything=True)
        while self._broken is not None or not self._machine.idle:
            if self._broken is not None:
                raise ClosedError(self._broken)
            self._nothing_left.clear()
            try:
                async with asyncio.timeout(deadline.remaining):
                    await self._nothing_left.wait()
            except TimeoutError:
                raise self._settling.too_late(what, deadline.timeout) from None

    # ---- until it is done

    async def flush(self, timeout: float | None) -> None:
        """Send everything now, and wait until all of it is settled; see `AsyncProducer.flush`."""
        seconds = self._flush_s(timeout)
        self._begin()
        await self._settling.wait(seconds, "flush")

    def flush_call(self, timeout: float | None) -> FlushCall:
        """A `flush` for a thread that waits."""
        return FlushCall(self._begin, self._settling, self._flush_s(timeout))

    def _flush_s(self, timeout: float | None) -> float:
        if timeout is None:
            return self._longest_delivery()
        check_timeout(timeout)
        return timeout

    @property
    def begun(self) -> bool:
        """Whether it has ever run on a loop; if not, there is nothing to deliver and nothing to let go of."""
        return self._steps.loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that it runs on; None before it has begun."""
        return self._steps.loop

    @property
    def is_open(self) -> bool:
        """Whether it has begun, and neither `close` nor `take_losses` was called; on any thread."""
        return self.begun and not (self._closed or self._losses_told or self._waiter.forked)

    @property
    def is_unclosed(self) -> bool:
        """Whether it has begun, and `close` was not called; on any thread."""
        return self.begun and self._closing is None and not self._waiter.forked

    def take_losses(self) -> list[Unacknowledged]:
        """What is not acknowledged, and failures nobody heard of, as the loop has ended; empty from the second call on.

        On its loop, or on any thread once that has ended.
        """
        if not self.is_open:
            return []
        self._losses_told = True
        unsent: list[Unacknowledged] = []
        try:
            self._collect(everything=True)
        except (RuntimeError, UsageError):  # the loop is closed
            unsent = [report for _, report in map(_unsent, self.open_batches.seal_all())]
        failures = self._settling.failures.now().items()
        failed = [report for promise, report in failures if not promise.is_seen(report.records_count)]
        return summarise([*failed, *self._machine.unacknowledged(), *unsent])

    async def discard(self) -> None:
        """End as if the process had crashed: send nothing more, report nothing, and drop the connections."""
        self._closed = True
        self._closing = asyncio.Event()
        self._closing.set()
        self.open_batches.refuse(raising(ClosedError, CLOSED))
        await self._let_go(0.0)

    @property
    def is_closed(self) -> bool:
        """Whether `close` or `close_unused` is over: nothing is left to be delivered or reported by another call."""
        return self._closed and (not self.begun or (self._closing is not None and self._closing.is_set()))

    def close_unused(self) -> None:
        """Close what has not begun; on any thread. If it has `begun` afterwards, another thread was faster: `close`."""
        self._closed = True
        self.open_batches.refuse(raising(ClosedError, CLOSED))
        if self.pipeline is not None:
            self.pipeline.close()

    async def close(self, timeout: float | None) -> None:
        """Flush, then let go of everything; see `AsyncProducer.close`.

        A call that is interrupted gives up at once what is not acknowledged. Another call, meanwhile or later, waits
        until the first one is over, and reports what that one could not.
        """
        deadline = None if timeout is None else Deadline(timeout)
        if self._closing is not None:
            await self._wait_for_close(self._closing, deadline)
            return
        self._closing = asyncio.Event()
        if self._broken is not None and self._steps.loop is not asyncio.get_running_loop():
            self.close_unused()  # everything else ended with the loop thread that it lived on
            self._closing.set()
            self._settling.report_rest()
            return
        try:
            self._take_loop()
        except KafkaError:
            self._closing = None
            raise
        self._closed = True
        self.open_batches.refuse(raising(ClosedError, CLOSED))
        try:
            if self._transactions is not None:
                await self._transactions.abandon(timeout)
            await self._settling.wait(self._longest_delivery() if deadline is None else deadline.remaining, "close")
        except DeliveryError as error:
            self._close_error = error
        finally:
            try:
                self._give_up(closed_before)
                if self.pipeline is not None:
                    self.pipeline.close()
                await self._let_go(CLOSE_TIMEOUT_S if deadline is None else deadline.remaining)
            finally:
                self._closing.set()
        self._report_close()

    def _report_close(self) -> None:
        """Raise what the first close could not deliver in time, with what no call has reported, or only the latter."""
        try:
            self._settling.report_rest()
        except DeliveryError as rest:
            if self._close_error is None:
                raise
            self._close_error.add_note(str(rest))
        if self._close_error is not None:
            raise self._close_error

    async def _wait_for_close(self, closing: asyncio.Event, deadline: Deadline | None) -> None:
        """What a second call of `close` does."""
        waits = not closing.is_set()
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining):
                await closing.wait()
        except TimeoutError:
            assert deadline is not None
            raise self._settling.too_late("close", deadline.timeout) from None
        if waits and self._close_error is not None:
            raise copy_to_raise(self._close_error)
        self._settling.report_rest()

    # ---- inside: the loop

    def _begin(self) -> None:
        """Make the running loop this producer's own; refuse if that cannot be, or it is closed.

        In this order: `close_unused`, on another thread, says that it is closed before it looks whether it has begun.
        """
        self._take_loop()
        if self._closed:
            raise ClosedError(CLOSED)

    def _take_loop(self) -> None:
        self._waiter.check_not_forked()
        loop = asyncio.get_running_loop()
        if self._steps.loop is None:
            self._steps.loop = self._waiter.loop = loop
            tell_about_fault(self, loop, Delivery._break)
            watch(self)
        elif self._steps.loop is not loop:
            if self._broken is not None:  # with the loop thread that it lived on
                self._settling.report_rest()
                raise ClosedError(self._broken)
            raise UsageError(ANOTHER_LOOP)

    def _receive(self, event: Event) -> None:
        """Tell the machine, and do what follows at once: whoever waits for an answer does so for no other reason."""
        now_s = self._steps.now_s()
        if type(event) is Answered:
            self._metrics.landed(event.request_id, now_s, answered=True)
        elif type(event) is RequestLost:
            self._metrics.landed(event.request_id, now_s, answered=False)
        try:
            self._machine.receive(event, int(now_s * 1000))
        except BaseException as error:  # noqa: BLE001 - as in `_step`
            self._break(error)
            return
        if not self._acting:
            self._act_and_set_timer()

    def _step(self, *, everything: bool = False) -> None:
        """Do whatever is due now; a loop root."""
        self._steps.begun()
        try:
            self._collect(everything=everything)
            due_ms, now_ms = self._machine.deadline_ms(), self.now_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._machine.tick(now_ms)
            self._settling.expire(now_ms)
            idle_at_ms = self._topics.idle_at_ms
            if idle_at_ms is not None and idle_at_ms <= now_ms:
                self._forget_idle_topics(now_ms)
        except BaseException as error:  # noqa: BLE001 - logged there, and everybody who waits is told
            self._break(error)
        else:
            self._act_and_set_timer()

    def _act_and_set_timer(self) -> None:
        """Do what the machine says, and come back when it wants to be asked again; a loop root."""
        self._acting = True
        try:
            self._work_off()
            if self._machine.idle:
                self._nothing_left.set()
            self._set_timer()
        except BaseException as error:  # noqa: BLE001 - logged there, and everybody who waits is told
            self._break(error)
        finally:
            self._acting = False
            self._settling.end_settled()

    def _work_off(self) -> None:
        """Do all that the machine says; then tell outcomes, of which more may follow."""
        while True:
            self._actions += self._machine.actions()
            if not self._actions:
                if not self._outcomes:
                    return
                self._tell_outcomes()
            while self._actions:
                action = self._actions.popleft()
                try:
                    self._do(action)
                except BaseException:
                    self._actions.appendleft(action)  # for `_break`
                    raise

    def _tell_outcomes(self) -> None:
        """Settle promises, which calls callbacks: user code, from which nothing is raised here."""
        while self._outcomes:
            settle = self._outcomes.popleft()
            try:
                settle()
            except BaseException as error:  # noqa: BLE001 - sys.exit() or Ctrl-C in a callback
                self._steps.raise_soon(error)

    def send_everything(self) -> None:
        """See `Sending.send_everything`."""
        self._step(everything=True)

    def _collect(self, *, everything: bool) -> None:
        """Tell the machine about the batches that are full or have waited long enough."""
        self._topics.sync()
        now_ms = self._clock.time_ms()
        linger_ms = self._config.linger_ms
        sealed = self.open_batches.seal_all() if everything else self.open_batches.seal_due(now_ms, linger_ms)
        if sealed:
            ages_ms = [min(max(0, now_ms - batch.created_ms), linger_ms) for batch in sealed]
            now_loop_ms = self.now_ms()
            self._machine.receive(BatchesSealed(sealed, ages_ms), now_loop_ms)
            self._turns.renew((batch.topic for batch in sealed), now_loop_ms)
            self._topics.note_used([batch.topic for batch in sealed], now_loop_ms)

    def _forget_idle_topics(self, now_ms: int) -> None:
        """Let go of what is kept for topics to which nothing was sent for `metadata_max_idle_ms`."""
        idle = self._topics.take_idle(self._machine.busy_topics(), now_ms)
        if idle:
            self._machine.receive(TopicsIdle(idle), now_ms)
            for topic in idle:
                self._batch_sizes.forget(topic)
            self.wake()  # a record may just have come that opened a batch, which is sealed now

    def _do(self, action: Action) -> None:
        _DOING[type(action)](self, action)

    def _send(self, action: SendProduce) -> None:
        self._metrics.sent(action, self._clock.time_ms(), self._steps.now_s())
        self._outbox.send(action)
        if self._transactions is not None:
            self._transactions.note_sent()

    def _acknowledge(self, action: Acknowledge) -> None:
        batch = action.batch
        self._metrics.acknowledged(batch)
        if self._batch_sizes.learned:
            self._batch_sizes.written(batch.topic, batch.size_bytes)
        self._outcomes.append(partial(batch.promise.resolve, action.base_offset, action.log_append_time_ms))

    def _note_split(self, action: Resplit) -> None:
        self._metrics.split()
        self._batch_sizes.refused(action.batch.topic, action.batch.size_bytes)

    def _fail(self, action: Fail) -> None:
        """Write down that a batch fails; that its promise fails is told afterwards."""
        promise = action.batch.promise
        self._metrics.failed(action.report.records_count)
        if self._transactions is not None:
            self._transactions.note_failure(action.error)
        elif not promise.done:
            self._settling.note_failure(promise, action.report)
        self._outcomes.append(partial(promise.fail, with_principal(action.error, self._config)))

    def _add_partitions(self, action: AddPartitions) -> None:
        assert self._transactions is not None
        self._outbox.add_partitions(self._transactions, action.partitions)

    def _set_timer(self) -> None:
        """Have the next step made when something is due."""
        for deadline_ms in (self._machine.deadline_ms(), self._settling.due_ms, self._topics.idle_at_ms):
            if deadline_ms is not None:
                self.step_by(deadline_ms)
        due_ms = self.open_batches.next_due_ms(self._config.linger_ms)
        if due_ms is not None:  # by the wall clock, which may be set: never wait longer than linger_ms
            left_ms = min(max(due_ms - self._clock.time_ms(), 0), self._config.linger_ms)
            self.step_by(self.now_ms() + left_ms)

    def step_by(self, time_ms: int) -> None:
        """See `Sending.step_by`."""
        self._steps.make_by(time_ms)

    def now_ms(self) -> int:
        """See `Sending.now_ms`."""
        return self._steps.now_ms()

    def _after_fork_in_child(self) -> None:
        """The parent delivers what was sent; here, nothing of it may be touched (see `forking`)."""
        self._waiter.forked = True
        self.open_batches.refuse(raising(ForkedError, FORKED))
        leave_behind(self)

    # ---- inside: room

    async def _wait_for_room(self, releases: int, deadline: Deadline, *, first: bool) -> None:
        before, admitted = deadline.remaining, False
        self._metrics.senders_waiting += 1
        try:
            admitted = await self._room.wait(releases, before, first=first)
        finally:
            self._metrics.senders_waiting -= 1
            self._metrics.waited_for_room(before - deadline.remaining, in_vain=not admitted)
        if not admitted:
            self._offer_room()
            entries = self._machine.unacknowledged()
            raise KafkaTimeoutError(
                f"buffer_memory={self._config.buffer_memory} bytes stayed full for "
                f"max_block_ms={self._config.max_block_ms}; not acknowledged: {describe(entries)}{self._last_seen()}"
            )

    def _release(self, batch: SealedBatch) -> None:
        self.open_batches.release(batch)
        used_bytes = self.open_batches.used_bytes
        self._room.releases += 1
        self.ahead.note(used_bytes)
        if used_bytes <= self._config.buffer_memory // 2:
            self._room.let_one_in()
        elif used_bytes < self._config.buffer_memory:
            self._room.let_one_in_soon()

    def _offer_room(self) -> None:
        if self._has_room():
            self._room.let_one_in()

    def _has_room(self) -> bool:
        return self.open_batches.used_bytes < self._config.buffer_memory

    # ---- inside: the end

    def _longest_delivery(self) -> float:
        """After so many seconds every record that was sent before is settled."""
        return (self._config.delivery_timeout_ms + self._config.linger_ms) / 1000 + 1.0

    def _give_up(self, make_error: Callable[[Unacknowledged], KafkaError]) -> None:
        self._collect(everything=True)
        self._machine.receive(Abandoned(make_error), self.now_ms())
        for action in self._machine.actions():
            if isinstance(action, Acknowledge | Fail | Release):
                self._do(action)
        self._tell_outcomes()
        self._settling.end_settled()

    async def _let_go(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        self._steps.cancel_timer()
        self._room.fail(ClosedError("the producer was closed while send() waited for room"))
        await self._outbox.close()
        await self._engine.close(timeout)

    def _break(self, error: BaseException) -> None:
        """After a bug nothing is certain any more: fail every record instead of leaving anybody waiting.

        What is known is written down first, then calls and callbacks are told, and the log comes last: its handlers are
        the user's, and may be what has failed. What ends a process (a handler that calls `sys.exit()`, Ctrl-C in the
        middle of a change) the loop raises afterwards.
        """
        if self._broken is not None or self.is_closed:
            return
        message = f"the producer stopped working: {error!r}; the outcome of what it had sent is unknown"
        self._broken = message
        self.open_batches.refuse(raising(ClosedError, message))
        settled = list(self._actions)
        self._actions.clear()
        for action in settled:  # what the machine knew already
            if isinstance(action, Acknowledge):
                settle = partial(action.batch.promise.resolve, action.base_offset, action.log_append_time_ms)
                self._outcomes.append(settle)
            elif isinstance(action, Fail):
                self._fail_by_break(action.batch, action.report, action.error)
        for batch, report in [*self._machine.unsettled_reports(), *map(_unsent, self.open_batches.seal_all())]:
            self._fail_by_break(batch, report, DeliveryError(message))
        self._room.fail(ClosedError(message))
        self._nothing_left.set()
        self._tell_outcomes()
        self._settling.end_settled()
        if not isinstance(error, Exception):
            self._steps.raise_soon(error)
        try:
            if self._transactions is not None:
                self._transactions.note_break(ClosedError(message))
            log.error("the producer failed in an unforeseen way", exc_info=error)
        except BaseException as of_log:  # noqa: BLE001 - the handler that has failed before, or another one
            if not isinstance(of_log, Exception):
                self._steps.raise_soon(of_log)

    def _fail_by_break(self, batch: SealedBatch, report: Unacknowledged, error: KafkaError) -> None:
        if not batch.promise.done:
            self._settling.note_failure(batch.promise, report)
            self._outcomes.append(partial(batch.promise.fail, error))

    def _last_seen(self) -> str:
        error = self._machine.last_error
        return "" if error is None else f"; last seen: {error}"


def _unsent(batch: SealedBatch) -> tuple[SealedBatch, Unacknowledged]:
    """A batch that the machine has not been told of, with its report."""
    count = batch.records_count
    return batch, Unacknowledged(batch.topic, batch.partition, count, 0, count - 1, maybe_written=False)


_DOING: Final[dict[type[Action], Callable[[Delivery, Any], None]]] = {
    SendProduce: Delivery._send,  # noqa: SLF001 - the table of this class
    Acknowledge: Delivery._acknowledge,  # noqa: SLF001
    Release: lambda delivery, action: delivery._release(action.batch),  # noqa: SLF001
    Resplit: Delivery._note_split,  # noqa: SLF001
    Fail: Delivery._fail,  # noqa: SLF001
    AddPartitions: Delivery._add_partitions,  # noqa: SLF001
    RefreshMetadata: lambda delivery, action: delivery._outbox.refresh(action.topics),  # noqa: SLF001
    AskProducerId: lambda delivery, _: delivery._outbox.ask_producer_id(),  # noqa: SLF001
}
