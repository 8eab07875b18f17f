"""What happens in a case around its hook: records are sent, flushed, read, committed; then everything is closed.

`HOOKED` says for each hook how it is brought about: with which settings its client is made, and at which step of the
story it is armed. Start at `story`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import kafkaraw
from kafkaraw import Ticket
from kafkaraw.net.loop_thread import client_loop_thread
from tests.client.hooks.table import HOOKS, Role
from tests.client.hooks.world import REFUSED_BYTES, SOURCE, WAIT_S, World

LINES = 12
"""The log handler calls the hook at one of the first 12 lines after it is armed."""
SOURCES_OF_THE_CLIENT = Path(kafkaraw.__file__).parent


async def story(world: World) -> None:
    """Run the case."""
    settings = settings_for(world)
    with log_handler(world), collected_soon(world) as litter, signals(world) as moments:
        if world.case.needs(Role.PRODUCER):
            await begin_to_send(world, settings)
        if world.case.needs(Role.CONSUMER):
            await begin_to_read(world, settings)
        if world.case.needs(Role.PRODUCER):
            await send_around_the_hook(world, litter, moments)
        if world.case.needs(Role.CONSUMER):
            await read_around_the_hook(world, moments)
        await world.settle()
        if world.case.needs(Role.PRODUCER):
            await end_sending(world)
    await close(world)


def settings_for(world: World) -> dict[str, object]:
    """The settings that bring the hook about."""

    def fire_and_return(value: Any, *_: object) -> Any:
        world.fire()
        return value

    match world.case.hook:
        case "on_send":
            return {"interceptors": [SimpleNamespace(on_send=fire_and_return)]}
        case "on_acknowledgement":
            return {"interceptors": [SimpleNamespace(on_acknowledgement=world.fire)]}
        case "partitioner":
            return {"partitioner": lambda topic, key, value, count: world.fire() or 0}
        case "key serializer":
            return {"key_serializer": lambda value: fire_and_return(value)}
        case "value serializer":
            return {"value_serializer": lambda value: fire_and_return(value)}
        case "on_consume":
            return {"interceptors": [SimpleNamespace(on_consume=fire_and_return)]}
        case "on_commit":
            return {"interceptors": [SimpleNamespace(on_commit=world.fire)]}
        case "deserializer":
            return {"value_deserializer": lambda value: fire_and_return(value)}
    return {}


# ---- the producer


async def begin_to_send(world: World, settings: dict[str, object]) -> None:
    """Make the producer; the first record is acknowledged before anything is tried."""
    small = {"batch_size": 150} if world.case.hook == "signal handler" else {}  # batches are sealed on its thread, too
    world.open_producer(**small, **(settings if HOOKS[world.case.hook].role is Role.PRODUCER else {}))
    if world.case.transactional:
        await world.step("init_transactions", lambda: world.producer.init_transactions(WAIT_S))
        await world.step("begin_transaction", world.begin_transaction)
    await world.step("send", world.send)
    await world.step("flush", world.flush)


async def send_around_the_hook(world: World, litter: Callable[[bool], None], moments: Callable[[], Any]) -> None:
    """Send records, in one of which, or in the outcome of one, the hook is called; then flush, and commit."""
    mine = HOOKS[world.case.hook].role is Role.PRODUCER
    await world.step("send", world.send)
    with moments() if mine else contextlib.nullcontext():
        in_a_callback = world.case.hook == "delivery callback"
        if mine:
            world.armed = True
            litter(True)
        await world.step("send", lambda: world.send(on_ticket=followed(world) if in_a_callback else None))
        litter(False)
        if world.case.refused:
            await world.step("send", lambda: world.send(b"x" * REFUSED_BYTES))
        await world.step("send", world.send)
        await world.step("flush", world.flush)
    if world.case.transactional:
        await world.step("commit", lambda: world.end_transaction("commit"))


def followed(world: World) -> Callable[[Ticket], None]:
    """Have the hook called when the outcome of a record is known."""

    def told(ticket: Ticket) -> None:
        for sent in world.ledger.sent:
            sent.known = sent.known or sent.ticket is ticket
        world.fire()

    return lambda ticket: ticket.add_done_callback(told)


async def end_sending(world: World) -> None:
    """The producer goes on as if nothing had been."""
    if world.case.transactional:
        await world.step("abort", lambda: world.end_transaction("abort"))  # if it was not committed
        await world.step("begin_transaction", world.begin_transaction)
    world.goes_on = bool(await world.step("send", world.send))
    await world.step("flush", world.flush)
    if world.case.transactional:
        await world.step("commit", lambda: world.end_transaction("commit"))


# ---- the consumer


async def begin_to_read(world: World, settings: dict[str, object]) -> None:
    """Make the consumer, and read until partitions are assigned."""
    mine = HOOKS[world.case.hook].role is Role.CONSUMER
    world.open_consumer(**(settings if mine else {}))
    callbacks = {name: world.fire for name in ("on_assigned", "on_revoked") if world.case.hook == name}
    world.armed = world.case.hook == "on_assigned"
    await world.step("subscribe", lambda: world.consumer.subscribe([SOURCE], **callbacks))
    for _ in range(20):
        given = await world.step("poll", world.poll)
        if given or (world.case.hook == "on_assigned" and world.fired):
            break


async def read_around_the_hook(world: World, moments: Callable[[], Any]) -> None:
    """Read in each way, look at the records, and commit."""
    mine = HOOKS[world.case.hook].role is Role.CONSUMER
    with moments() if mine else contextlib.nullcontext():
        looks = world.case.hook in ("on_consume", "deserializer")  # called by a look at a batch, and by `next`
        world.armed = world.case.hook == "signal handler of a consumer" or (looks and world.moment % 2 == 0)
        for way in (world.poll, world.poll, world.batches):
            given = await world.step("read", way)
            for batch in given if isinstance(given, list) else [given]:
                for _ in range(2):  # a hook may have interrupted the first look
                    await world.step("look", lambda batch=batch: batch and [record.value for record in batch] and None)
        world.armed = world.armed or (looks and not world.fired)
        for _ in range(5):
            await world.step("next", world.next)
        world.armed = world.armed or world.case.hook in ("on_commit", "commit callback")
        await world.step("commit", lambda: world.consumer.commit(timeout=WAIT_S))
    if world.case.hook == "commit callback":
        await world.step("commit_nowait", lambda: world.consumer.commit_nowait(callback=world.fire))
    await world.step("read", world.poll)
    await world.step("commit", lambda: world.consumer.commit(timeout=WAIT_S))
    world.armed = world.armed or (world.case.hook == "on_revoked" and not world.fired)


async def close(world: World) -> None:
    """Close everything."""
    if world.consumer is not None:
        await world.step("close consumer", lambda: world.consumer.close(WAIT_S))
        await world.settle()
        await world.step("close consumer", lambda: world.consumer.close(WAIT_S))
    if world.producer is not None:
        await world.step("close producer", world.close_producer)
        if world.case.transactional and world.case.hook == "log handler":  # it may be broken, with a transaction open
            world.open_producer()
            await world.step("init_transactions", lambda: world.producer.init_transactions(WAIT_S))
            await world.step("close producer", world.close_producer)


# ---- hooks that are no setting of a client


@contextmanager
def log_handler(world: World) -> Iterator[None]:
    """A handler that is the hook, at one of the next lines: those of frames, or of everything else.

    It takes no lock: with one, a thread in it would hold up every other that logs.
    """
    if world.case.hook != "log handler":
        yield
        return

    lines = count(-(world.moment % LINES))

    class Handler(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            if world.armed and not _on_the_brokers_thread() and next(lines) >= 0:
                world.fire()
            return True

    log, handler = logging.getLogger("kafkaraw"), Handler()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    wire = logging.getLogger("kafkaraw.wire")
    wire.setLevel(logging.NOTSET if world.moment % 2 else logging.CRITICAL)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.CRITICAL)
        wire.setLevel(logging.NOTSET)


def _on_the_brokers_thread() -> bool:
    """Whether a blocking call would wait for the thread that it is made on: that of the embedded broker."""
    return not (client_loop_thread().is_current or threading.current_thread() is threading.main_thread())


class _Litter:
    """Something in a cycle whose destructor is the hook, or makes more of it, to be collected a moment later."""

    def __init__(self, world: World, left: int) -> None:
        self.world, self.left, self.me = world, left, self

    def __del__(self) -> None:
        if _on_the_brokers_thread() or (self.left and gc.get_threshold()[0] == 1):
            _Litter(self.world, max(0, self.left - 1))
        else:
            self.world.fire()


@contextmanager
def collected_soon(world: World) -> Iterator[Callable[[bool], None]]:
    """Gives what makes litter, which is collected when the next object is made, wherever that is; or ends that."""

    if world.case.hook != "__del__":
        yield lambda _: None
        return

    def litter(collected: bool) -> None:
        if collected:
            gc.collect()
            _Litter(world, world.moment % 16)
        gc.set_threshold(*((1, 1, 1) if collected else before))

    before = gc.get_threshold()
    try:
        yield litter
    finally:
        gc.set_threshold(*before)
        gc.collect()


@contextmanager
def signals(world: World) -> Iterator[Callable[[], Any]]:
    """Gives what surrounds steps that the hook, as a handler of signals, interrupts at one of its moments."""
    if not world.case.hook.startswith("signal handler"):
        yield contextlib.nullcontext
        return
    before = signal.signal(signal.SIGUSR1, world.fire)
    try:
        yield lambda: at_a_moment(world)
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def at_a_moment(world: World) -> Iterator[None]:
    """Have the signal come.

    Blocking: when a function of the client has been called or has returned from a built-in one so often; that is where
    Python runs handlers. In an asyncio program a handler runs in a turn of the loop (`loop.add_signal_handler`).
    """
    if not world.case.blocking:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(0.0005 * (world.moment % 8), world.fire)
        yield
        timer.cancel()
        return
    left = world.moment

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and SOURCES_OF_THE_CLIENT in Path(frame.f_code.co_filename).parents:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                world.fire()

    assert threading.current_thread() is threading.main_thread()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
