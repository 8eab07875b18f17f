"""One case of the harness: its clients, what was done with them, and what came of it.

The story of a case is one coroutine for both faces: `World.step` carries out an operation and awaits what the asyncio
clients return; with blocking clients nothing is ever awaited. A hook calls `World.fire`, which carries out the case's
operation once and ends as the case says. In the asyncio face an operation that waits becomes a task, as in any
callback of asyncio. Everything is written into the `Ledger`, which `audit` compares with the log. Start at `World`.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import pyarrow

from kafkaraw import AsyncConsumer, AsyncProducer, Consumer, Producer, Ticket, TopicPartition
from kafkaraw.client.sending.arrow_rows import ArrowTicket
from kafkaraw.errors import DeliveryError, TransactionAbortableError
from kafkaraw.net.loop_thread import client_loop_thread
from tests.client.hooks.table import Case, End

T = TypeVar("T")
TOPIC, SOURCE = "target", "source"
PARTITIONS, SOURCE_RECORDS, SOURCE_BATCH = 2, 60, 4
REFUSED_BYTES = 2_000
"""Larger than the target topic takes."""
WAIT_S = 20.0
"""What an operation may take; nothing but a fault, or a very busy machine, comes near it."""
STRAY_S = 30.0


@dataclass(eq=False)
class Sent:
    """One record, or the rows of one `send_arrow`.

    Attributes:
        values: what the log is searched for.
        ticket: None if `send` did not return one.
        transactions: the number of the open transaction before and after the call.
        known: a flush, a commit, a close, or a callback of its own has told of its failure.
    """

    values: list[bytes]
    began_in: int
    ticket: Ticket | ArrowTicket | None = None
    ended_in: int = -1
    known: bool = False


@dataclass(eq=False)
class Call:
    """One operation: who made it, and what came of it."""

    name: str
    in_hook: bool
    on_loop_thread: bool = False
    over: bool = False
    error: BaseException | None = None

    def __str__(self) -> str:
        came = "under way" if not self.over else "returned" if self.error is None else repr(self.error)[:160]
        return f"{'in the hook: ' if self.in_hook else ''}{self.name}: {came}"


@dataclass(eq=False)
class Ledger:
    """What was done in a case."""

    calls: list[Call] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    given: list[tuple[TopicPartition, int, int]] = field(default_factory=list)  # from one offset to before another
    findings: list[str] = field(default_factory=list)
    transaction: int = 0
    ended: dict[int, str] = field(default_factory=dict)  # how a transaction certainly ended


class World:
    """The clients of one case.

    Args:
        case: what is tried.
        servers: of the broker.
        name: unlike that of any other case: of the group, the transactional id, and values.
        moment: at which one of many a signal comes.
    """

    def __init__(self, case: Case, servers: str, name: str, moment: int) -> None:
        self.case = case
        self.moment = moment
        self.ledger = Ledger()
        self.name = name
        self.armed = self.fired = False
        self.goes_on = False  # the producer took a record in the end
        self.producer: Any = None
        self.consumer: Any = None
        self._servers = servers
        self._numbers = count()
        self._tasks: list[asyncio.Task[object]] = []

    def open_producer(self, **settings: object) -> None:
        """Make the producer."""
        kind = Producer if self.case.blocking else AsyncProducer
        if self.case.transactional:
            settings["transactional_id"] = self.name
        self.producer = kind(bootstrap_servers=self._servers, linger_ms=2, delivery_timeout_ms=40_000,
                             request_timeout_ms=18_000, max_block_ms=18_000, **settings)  # fmt: skip

    def open_consumer(self, **settings: object) -> None:
        """Make the consumer."""
        kind = Consumer if self.case.blocking else AsyncConsumer
        self.consumer = kind(bootstrap_servers=self._servers, group_id=self.name, auto_offset_reset="earliest",
                             enable_auto_commit=False, max_partition_fetch_bytes=150, **settings)  # fmt: skip

    # ---- carrying out operations

    async def step(self, name: str, begin: Callable[[], object]) -> object:
        """Carry out an operation of the story: whatever it raises is noted, and the story goes on."""
        call = Call(name, in_hook=False)
        self.ledger.calls.append(call)
        try:
            value = begin()
            if _is_pending(value):
                value = await value
        except BaseException as error:  # noqa: BLE001 - every outcome is noted
            self._fail(call, error)
            return None
        call.over = True
        return value

    def fire(self, *_: object) -> None:
        """What the hook does: once, and only if it is armed."""
        if not self.armed:
            return
        self.armed, self.fired = False, True
        self.operate()
        self.case.end.come()

    def operate(self) -> None:
        """Carry out the case's operation inside the hook."""
        call = Call(self.case.operation, in_hook=True, on_loop_thread=self._on_loop_thread())
        self.ledger.calls.append(call)
        try:
            value = OPERATE[self.case.operation](self)
        except BaseException as error:  # noqa: BLE001 - every outcome is noted
            self._fail(call, error)
            return
        if _is_pending(value):
            self._tasks.append(asyncio.get_running_loop().create_task(self._awaited(call, value)))
        else:
            call.over = True

    async def settle(self) -> None:
        """Wait until what hooks have begun is over."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STRAY_S)
            for task in late:
                self.ledger.findings.append(f"a task of the hook is not over after {STRAY_S:g} s")
                task.cancel()

    async def _awaited(self, call: Call, work: Awaitable[object]) -> None:
        try:
            await work
        except BaseException as error:  # noqa: BLE001 - every outcome is noted
            self._fail(call, error)
        else:
            call.over = True

    def _fail(self, call: Call, error: BaseException) -> None:
        call.over, call.error = True, error
        if isinstance(error, DeliveryError | TransactionAbortableError):
            self._all_failed_are_known()

    def _on_loop_thread(self) -> bool:
        return self.case.blocking and client_loop_thread().is_current

    # ---- the operations: each notes what it did when it is over

    def send(self, value: bytes = b"", *, nowait: bool = False, on_ticket: Callable[[Ticket], None] | None = None):
        """Send one record; the ticket is noted."""
        content = b"%s %d %s" % (self.name.encode(), next(self._numbers), value)
        sent = Sent([content], self.ledger.transaction)
        self.ledger.sent.append(sent)

        def took(ticket: Ticket) -> Ticket:
            sent.ticket, sent.ended_in = ticket, self.ledger.transaction
            if on_ticket is not None:
                on_ticket(ticket)
            return ticket

        method = self.producer.send_nowait if nowait else self.producer.send
        return _then(method(TOPIC, content, b"key"), took)

    def send_arrow(self):
        """Send two rows."""
        contents = [b"%s %d row" % (self.name.encode(), next(self._numbers)) for _ in range(2)]
        sent = Sent(contents, self.ledger.transaction)
        self.ledger.sent.append(sent)

        def took(ticket: ArrowTicket) -> None:
            sent.ticket, sent.ended_in = ticket, self.ledger.transaction

        rows = pyarrow.table({"value": pyarrow.array(contents, pyarrow.binary())})
        return _then(self.producer.send_arrow(TOPIC, rows), took)

    def result(self):
        """Wait for the record that was sent last."""
        last = [sent for sent in self.ledger.sent if isinstance(sent.ticket, Ticket)][-1]
        last.known = True  # unless it times out, which no case brings about
        return last.ticket.result(WAIT_S) if self.case.blocking else _awaiting(last.ticket)

    def flush(self):
        """Flush, and check its promise if it returns."""
        return self._settling("flush", self.producer.flush)

    def close_producer(self):
        """Close, likewise."""
        return self._settling("close", self.producer.close)

    def _settling(self, name: str, method: Callable[[float], object]):
        before = [sent for sent in self.ledger.sent if sent.ticket is not None]

        def returned(_: object) -> None:
            for sent in before:
                if not sent.ticket.done:
                    self.ledger.findings.append(f"{name} returned before a record had an outcome")
                elif failed(sent.ticket) and not sent.known and not self.case.transactional:
                    self.ledger.findings.append(
                        f"{name} returned, and nobody was told that a record sent before failed"
                    )

        return _then(method(WAIT_S), returned)

    def begin_transaction(self):
        """Begin a transaction."""

        def begun(_: object) -> None:
            self.ledger.transaction += 1

        return _then(self.producer.begin_transaction(), begun)

    def end_transaction(self, how: str):
        """Commit or abort."""
        number = self.ledger.transaction

        def ended(_: object) -> None:
            if number == self.ledger.transaction:  # else a task of the hook may have ended the next one
                self.ledger.ended.setdefault(number, how)  # a second end is of one whose begin the hook has interrupted

        method = self.producer.commit_transaction if how == "commit" else self.producer.abort_transaction
        return _then(method(WAIT_S), ended)

    def poll(self):
        """Poll, and look at the records."""

        def took(batches: dict[TopicPartition, Any]) -> list[Any]:
            for partition, batch in batches.items():
                self.ledger.given.append((partition, batch.start_offset, batch.next_offset))
            return list(batches.values())

        return _then(self.consumer.poll(0.3, 3), took)

    def next(self):
        """Read one record."""
        work = next(self.consumer) if self.case.blocking else _coroutine(anext(self.consumer))
        return _then(work, self._record_given)

    def batches(self):
        """Read one batch of an iteration."""

        def took(batch: Any) -> Any:
            if batch is not None:
                self.ledger.given.append((batch.topic_partition, batch.start_offset, batch.next_offset))
            return batch

        if self.case.blocking:
            return took(next(iter(self.consumer.batches(0.3)), None))
        return _then(_first_of(self.consumer.batches(0.3)), took)

    def poll_arrow(self):
        """Read columns."""

        def took(rows: pyarrow.RecordBatch) -> None:
            places: dict[int, list[int]] = defaultdict(list)
            for partition, offset in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
                places[partition].append(offset)
            for partition, offsets in places.items():
                self.ledger.given.append((TopicPartition(SOURCE, partition), offsets[0], offsets[-1] + 1))

        return _then(self.consumer.poll_arrow(3, 0.3), took)

    def _record_given(self, record: Any) -> None:
        place = TopicPartition(record.topic, record.partition)
        self.ledger.given.append((place, record.offset, record.offset + 1))

    def _all_failed_are_known(self) -> None:
        for sent in self.ledger.sent:
            if sent.ticket is not None and failed(sent.ticket):
                sent.known = True


SOURCES = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]

OPERATE: dict[str, Callable[[World], object]] = {
    "send": World.send,
    "send_nowait": lambda world: world.send(nowait=True),
    "send_arrow": World.send_arrow,
    "result": World.result,
    "flush": World.flush,
    "begin_transaction": World.begin_transaction,
    "commit_transaction": lambda world: world.end_transaction("commit"),
    "abort_transaction": lambda world: world.end_transaction("abort"),
    "send_offsets": lambda world: world.producer.send_offsets_to_transaction({SOURCES[0]: 1}, world.name, WAIT_S),
    "close producer": World.close_producer,
    "poll": World.poll,
    "next": World.next,
    "batches": World.batches,
    "poll_arrow": World.poll_arrow,
    "seek": lambda world: world.consumer.seek(SOURCES[0], 0),
    "pause": lambda world: world.consumer.pause([SOURCES[0]]),
    "subscribe": lambda world: world.consumer.subscribe([SOURCE]),
    "unsubscribe": lambda world: world.consumer.unsubscribe(WAIT_S),
    "assign": lambda world: world.consumer.assign(SOURCES),
    "commit": lambda world: world.consumer.commit(timeout=WAIT_S),
    "commit_nowait": lambda world: world.consumer.commit_nowait(),
    "close consumer": lambda world: world.consumer.close(WAIT_S),
}


def failed(ticket: Ticket | ArrowTicket) -> bool:
    """Return whether the ticket failed, without reading its error: flush reports failures whose error was not read.

    No hook comes in here (`story.at_a_moment`): this is the audit's own look, not the program's.
    """
    moments = sys.getprofile()
    sys.setprofile(None)
    try:
        return _has_failed(ticket)
    finally:
        sys.setprofile(moments)


def _has_failed(ticket: Ticket | ArrowTicket) -> bool:
    if isinstance(ticket, ArrowTicket):
        pieces = (part.promise.pieces_of(part.first_index, part.rows_count) for part in ticket._parts)
        return any(promise.error is not None for piece in pieces for promise, _, _ in piece)
    promise, _ = ticket.batch_promise.part_of(ticket.index)
    return promise.error is not None


def _then(value: object, took: Callable[[Any], object]) -> object:
    """Hand over the value, now or when it has been awaited."""
    return _later(value, took) if _is_pending(value) else took(value)


def _is_pending(value: object) -> bool:
    """Whether it is to be awaited; tickets may be, too, but for the outcome of their record."""
    return inspect.isawaitable(value) and not isinstance(value, Ticket | ArrowTicket)


async def _later(work: Awaitable[object], took: Callable[[Any], object]) -> object:
    return took(await work)


async def _awaiting(ticket: Ticket) -> object:
    return await ticket


async def _coroutine(work: Awaitable[object]) -> object:
    return await work


async def _first_of(batches: Any) -> object:
    try:
        return await anext(batches, None)
    finally:
        await batches.aclose()


def run_to_the_end(world: World, story: Callable[[World], Any]) -> None:
    """Run the story on the case's face. What a callback raises to end the process, an asyncio program goes on after."""
    if world.case.blocking:
        try:
            story(world).send(None)
        except StopIteration:
            return
        raise AssertionError("a blocking client returned something to be awaited")
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: note_complaint(world, context))
    try:
        run_on(loop, story(world))
        left = run_on(loop, _others(0))
        if left:
            world.ledger.findings.append(f"tasks left: {left}")
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> T:
    """Run it to its end, however often a callback ends the loop meanwhile."""
    task = loop.create_task(work)
    while not task.done():
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(task)
    return task.result()


def note_complaint(world: World, context: dict[str, Any]) -> None:
    """The event loop complains; of what the hook raises in a turn of its own, it should."""
    if str(context.get("exception")) != "the hook's own":
        world.ledger.findings.append(f"the event loop: {context}")


async def _others(expected: int) -> list[str]:
    """The tasks of this loop if there are more than expected, after a moment for those that are about to end."""
    for _ in range(20):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if len(left) <= expected:
            return []
        await asyncio.sleep(0.01)
    return [repr(task)[:100] for task in left]


def left_on_client_thread(expected: int) -> list[str]:
    """The tasks of the blocking clients, if there are more than expected."""
    return client_loop_thread().run(_others(expected), timeout=5)


def count_on_client_thread() -> int:
    """How many tasks the blocking clients have."""

    async def count_tasks() -> int:
        return len(asyncio.all_tasks()) - 1

    return client_loop_thread().run(count_tasks(), timeout=5)


def threads() -> set[str]:
    """The threads of this process."""
    return {thread.name for thread in threading.enumerate()}


def is_the_hooks_own(error: BaseException, case: Case) -> bool:
    """Whether it is what the hook raised, or what a client makes of that."""
    own = {End.EXCEPTION: ValueError, End.INTERRUPT: KeyboardInterrupt, End.EXIT: SystemExit}.get(case.end)
    if own is None:
        return False
    return isinstance(error, own) or isinstance(error.__cause__, own)
