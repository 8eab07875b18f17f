"""Runs records: starts handlers as the schedule allows, reacts to failures, and sends results.

Each started record has a task of its own, from the call of its handler to the acknowledgement of its results. It must
not poll, commit or acknowledge: the services do. Start at `item` and `_process`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.core.fetch.offsets import NO_EPOCH
from kafkaraw.errors import HandlerError, KafkaError
from kafkaraw.records import TopicPartition
from kafkaraw.worker.calls import HandlerCall
from kafkaraw.worker.failures import DeliveryLimitError, Failure, Reaction, Reason, decide, may_be_called_again
from kafkaraw.worker.letters import dead_letter, original_of, retry_copy
from kafkaraw.worker.metrics import HandlerMetrics
from kafkaraw.worker.schedule import Slots, State, WorkItem, lane_of
from kafkaraw.worker.sending import RefusedError, Sender
from kafkaraw.worker.settings import HandlerSpec, Ordering
from kafkaraw.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from kafkaraw.client.runtime import Runtime
    from kafkaraw.client.sharing.batch import ShareRecord
    from kafkaraw.records import Record

log: logging.Logger = logging.getLogger("kafkaraw.worker")

CANCELLED_S = 1.0
"""How long a cancelled handler may take to end before its partition is released nevertheless, in seconds."""


class Processing:
    """The records in work of one worker.

    Args:
        group: the worker's group.
        handlers: by topic, retry topics included.
        ordering: which records run one after the other.
        schedule: which records may run.
        sender: sends results at once; None if the commit sends them, in a transaction.
        runtime: clock and randomness.
        failed: called when the worker has to stop.
        ended: called when a record is done.

    Attributes:
        metrics: by handler.
    """

    def __init__(
        self,
        group: str,
        handlers: Mapping[str, HandlerSpec],
        ordering: Ordering,
        schedule: Slots,
        sender: Sender | None,
        runtime: Runtime,
        failed: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        self.metrics: dict[HandlerSpec, HandlerMetrics] = {spec: HandlerMetrics() for spec in handlers.values()}
        self._group = group
        self._handlers = handlers
        self._ordering = ordering
        self._schedule = schedule
        self._sender = sender
        self._runtime = runtime
        self._failed = failed
        self._ended = ended
        self._threads = HandlerThreads()
        self._calls = {spec: HandlerCall(spec, self._threads) for spec in handlers.values()}
        self._tasks: dict[WorkItem, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    # -- records

    def item(
        self, partition: TopicPartition, record: Record | ShareRecord, leader_epoch: int = NO_EPOCH, deliveries: int = 0
    ) -> WorkItem:
        """Return a record that was read as a work item, for the schedule.

        Args:
            partition: of the record.
            record: with bytes.
            leader_epoch: in which it was written.
            deliveries: how often a share group had delivered it before; each of them counts as an attempt.
        """
        item = self._item(partition, record, leader_epoch)
        item.attempts += deliveries
        return item

    def _item(self, partition: TopicPartition, record: Record | ShareRecord, leader_epoch: int) -> WorkItem:
        handler, lane = self._handlers[partition.topic], lane_of(record, self._ordering)
        if partition.topic != handler.retries.topic:
            return WorkItem(record, record, handler, partition, lane, leader_epoch)
        first, attempts, not_before_ms = original_of(record)
        # A clock that is wrong must not delay a record for ever.
        wait_ms = min(max(not_before_ms - self._runtime.clock.time_ms(), 0), handler.retries.backoff_max_ms)
        ready_s = _now_s() + wait_ms / 1000
        return WorkItem(record, first, handler, partition, lane, leader_epoch, ready_s, attempts)

    def start_ready(self) -> None:
        """Start the records that may run now."""
        loop = asyncio.get_running_loop()
        for item in self._schedule.start(_now_s()):
            item.tries += 1
            task = self._tasks[item] = loop.create_task(self._process(item), name=f"worker: {item}")
            task.add_done_callback(partial(self._forget, item))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self._schedule.deadline_s()
        if due_s is not None:
            self._timer = loop.call_at(due_s, self.start_ready)

    def _forget(self, item: WorkItem, task: asyncio.Task[None]) -> None:
        if self._tasks.get(item) is task:  # else it was started again
            del self._tasks[item]

    async def _process(self, item: WorkItem) -> None:
        """Handle a record, from the call of its handler to the acknowledgement of its results."""
        metrics, loop = self.metrics[item.handler], asyncio.get_running_loop()
        began_s = loop.time()
        try:
            try:
                outcome = await self._outcome(item)
            finally:
                metrics.seconds += loop.time() - began_s
            if item.state is State.DROPPED:  # while a thread, or a handler that ignored its cancellation, went on
                self._schedule.end(item, State.DONE)
                return
            if isinstance(outcome, Failure):
                await self._react(item, outcome)
            else:
                metrics.handled += 1
                await self._send(item, outcome)
        except asyncio.CancelledError:
            self._schedule.end(item, State.FAILED)
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit of a handler, or a record that the broker refuses
            self._stop_at(item, error)
        finally:
            self.start_ready()
            self._ended()

    async def _outcome(self, item: WorkItem) -> Sequence[ProducerRecord] | Failure:
        """Call the handler; not at the last delivery of a share group, which is left for the dead letter."""
        left = item.deliveries_left
        if left is not None and not may_be_called_again(item.handler, left + 1):
            deliveries = item.attempts
            return Failure(
                Reason.DELIVERIES,
                DeliveryLimitError(
                    f"the share group has delivered the record {deliveries} times, no worker has accepted it, and it "
                    "is not delivered again: perhaps the handler ends the process, or takes longer than the lock"
                ),
            )
        return await self._calls[item.handler].make(item)

    async def _react(self, item: WorkItem, failure: Failure) -> None:
        """Do what follows from a failed call."""
        handler, metrics = item.handler, self.metrics[item.handler]
        decision = decide(failure, handler, item.attempts, item.tries, self._runtime.rng, item.deliveries_left)
        metrics.failures[failure.reason] += 1
        metrics.reactions[decision.reaction] += 1
        self._log(item, failure, decision.reaction, decision.delay_ms)
        now_ms = self._runtime.clock.time_ms()
        match decision.reaction:
            case Reaction.RETRY_IN_PLACE:
                self._schedule.retry(item, _now_s() + decision.delay_ms / 1000)
            case Reaction.RELEASE:
                self._schedule.release_later(item, _now_s() + decision.delay_ms / 1000)
            case Reaction.RETRY_TOPIC:
                await self._send(
                    item, [retry_copy(item, failure, self._group, now_ms, now_ms + int(decision.delay_ms))]
                )
            case Reaction.DEAD_LETTER:
                await self._send(item, [dead_letter(item, failure, self._group, now_ms)], is_letter=True)
            case Reaction.STOP:
                raise _cannot_handle(item, failure)

    async def _send(self, item: WorkItem, records: Sequence[ProducerRecord], *, is_letter: bool = False) -> None:
        """Send what follows from a record; then the record is done."""
        if self._sender is not None and records:
            self._schedule.sending(item)
            self.start_ready()
            try:
                await self._sender.send(records)
            except RefusedError as error:
                if is_letter:
                    raise _cannot_handle(item, Failure(Reason.RESULT, error.cause)) from error.cause
                await self._react(item, Failure(Reason.RESULT, error.cause))
                return
        else:
            item.results = records
        item.is_dead = is_letter
        self._schedule.end(item, State.DONE)

    def replace_results(self, item: WorkItem, cause: KafkaError) -> None:
        """Write a dead letter instead of results that a transaction cannot send; stop if that is not possible."""
        failure, handler = Failure(Reason.RESULT, cause), item.handler
        if handler.dead_letter_topic is None or handler.dead_letter_topic in {each.topic for each in item.results}:
            self._failed(_cannot_handle(item, failure))
            return
        self.metrics[handler].failures[failure.reason] += 1
        self.metrics[handler].reactions[Reaction.DEAD_LETTER] += 1
        self._log(item, failure, Reaction.DEAD_LETTER, 0)
        item.results = [dead_letter(item, failure, self._group, self._runtime.clock.time_ms())]

    def _stop_at(self, item: WorkItem, error: BaseException) -> None:
        """Leave a record uncommitted, and stop the worker."""
        self._schedule.end(item, State.FAILED)
        if item.state is not State.FAILED:
            return  # its partition was revoked or lost meanwhile
        if isinstance(error, KafkaError):
            error.add_note(f"at the record {item}, which is not committed")
        self._failed(error)

    def _log(self, item: WorkItem, failure: Failure, reaction: Reaction, delay_ms: float) -> None:
        repeats = (Reaction.RETRY_IN_PLACE, Reaction.RETRY_TOPIC, Reaction.RELEASE)
        level = logging.WARNING if reaction in repeats else logging.ERROR
        wait = f" in {delay_ms:.0f} ms" if level == logging.WARNING else ""
        log.log(
            level,
            "handler %r failed with the record %s (call %d, %s): %s%s",
            item.handler.name,
            item,
            item.attempts,
            failure.reason.value,
            reaction.value,
            wait,
            exc_info=failure.error,
        )

    # -- partitions that are revoked, and the end

    async def finish(self, items: Collection[WorkItem], seconds: float) -> None:
        """Wait until these records are done, at most for a time."""
        tasks = [self._tasks[item] for item in items if item in self._tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def drop(self, items: Iterable[WorkItem]) -> list[asyncio.Task[None]]:
        """Cancel the handlers of records that were dropped; return their tasks. Threads run on."""
        cancelled: list[asyncio.Task[None]] = []
        for item in items:
            self.metrics[item.handler].dropped += 1
            task = self._tasks.get(item)
            if task is not None and (self._calls[item.handler].is_async or not item.has_slot):
                task.cancel()
                cancelled.append(task)
        return cancelled

    def cancel_unfinished(self) -> list[asyncio.Task[None]]:
        """Cancel the handlers and sends that are left, and return their tasks; threads run on."""
        left = [task for item, task in self._tasks.items() if self._calls[item.handler].is_async or not item.has_slot]
        for task in left:
            task.cancel()
        return left

    async def close(self) -> None:
        """Cancel what still runs, and end idle threads."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCELLED_S)
        self._threads.close()

    @property
    def overdue(self) -> list[str]:
        """The handlers whose threads exceed `timeout_ms`, with their records."""
        return [
            f"handler {spec.name!r} exceeds timeout_ms={spec.timeout_ms} with the record {item}"
            for spec, call in self._calls.items()
            for item in call.overdue
        ]


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _cannot_handle(item: WorkItem, failure: Failure) -> HandlerError:
    record, name = item.original, item.handler.name
    what = {
        Reason.DECODE: "cannot be decoded for handler",
        Reason.RESULT: "has a result or a dead letter that cannot be sent, of handler",
    }.get(failure.reason, "cannot be handled by handler")
    error = HandlerError(
        f"the record {record.topic}-{record.partition} at offset {record.offset} {what} {name!r}: "
        f"{type(failure.error).__name__}: {failure.error}; it is not committed. Fix the handler, or give it a "
        "dead_letter_topic that takes such records",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )
    error.__cause__ = failure.error
    return error
