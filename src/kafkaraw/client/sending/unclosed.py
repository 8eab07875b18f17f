"""Producers that are garbage collected, or left when their event loop or the process ends, without `close()`.

Their records are delivered in the background while their loop runs; else the log says how many records of which
partitions are lost. Python issues a `ResourceWarning` for each, as for an open file. The faces call this module from
`__del__`: on any thread, between any two instructions, so nothing here waits or takes a lock.

No task delivers: a loop that ends would leave it pending, and asyncio would complain. The end of a loop is noticed by
an asynchronous generator, which `asyncio.run` closes (`shutdown_asyncgens`). Start at `forget`.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Final

from kafkaraw.client.forking import keep_unfinalized
from kafkaraw.client.sending.producer_core import ProducerCore
from kafkaraw.core.producer.events import describe
from kafkaraw.errors import KafkaError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.net.process_hooks import at_exit, in_forked_child

log: logging.Logger = logging.getLogger(__name__)

EXIT_CLOSE_S: Final = 10.0
"""How long producers that were left open may try to deliver when the process ends."""


def forget(producer: object, core: ProducerCore) -> None:
    """Deliver the records of a producer that is garbage collected; returns at once.

    Args:
        producer: the face, for the warning.
        core: its core.

    Raises:
        ResourceWarning: if the program turns warnings into errors.
    """
    loop = core.loop
    if loop is None or not core.is_unclosed:
        return
    if core.is_open:  # else its losses were logged
        _forgotten[core] = None
        try:
            loop.call_soon_threadsafe(_begin, core)
        except RuntimeError:  # the loop is closed
            _log_losses(core, "its event loop has ended")
    message = f"{type(producer).__name__} was not closed: call close(), or use a `with` block"
    warnings.warn(message, ResourceWarning, stacklevel=3, source=producer)


def watch(core: ProducerCore) -> None:
    """Log the losses of a producer that is still open when the running loop ends."""
    loop = asyncio.get_running_loop()
    ends = _loop_ends.get(loop)
    if ends is None:
        for ended in [each for each in list(_loop_ends) if each.is_closed()]:
            _loop_ends.pop(ended).log_losses("its event loop has ended")
        ends = _loop_ends[loop] = _LoopEnd(loop)
    ends.cores.add(core)


class _LoopEnd:
    """Logs losses when a loop ends.

    Attributes:
        cores: of the producers that run on it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cores: weakref.WeakSet[ProducerCore] = weakref.WeakSet()
        self._generator = self._until_it_ends(loop)
        with suppress(StopIteration):
            self._generator.__anext__().send(None)  # runs to its `yield`: from now on the loop knows it

    async def _until_it_ends(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.log_losses("its event loop ends")
            _loop_ends.pop(loop, None)

    def log_losses(self, why: str) -> None:
        """Log what is lost."""
        for core in list(self.cores):
            _log_losses(core, why)


_forgotten: Final[dict[ProducerCore, None]] = {}
"""Keeps the cores of producers that are gone until their records are delivered or lost."""
_loop_ends: Final[dict[asyncio.AbstractEventLoop, _LoopEnd]] = {}


def _begin(core: ProducerCore) -> None:
    """Send everything, and close when it is settled; on the loop."""
    if not core.is_open:  # its losses were logged
        return
    call = core.flush_call(None)

    def over(late: BaseException | None) -> None:
        if late is not None:
            log.error(_FAILED, late)
        try:
            call.finish()
        except KafkaError as error:
            log.error(_FAILED, error)
        task = asyncio.get_running_loop().create_task(_close(core), name="close a forgotten producer")
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    call.begin(over)


_FAILED: Final = "a producer was garbage collected without close(): %s"
_closing: Final[set[asyncio.Task[None]]] = set()


async def _close(core: ProducerCore) -> None:
    """Close connections, and abort an open transaction."""
    try:
        await core.close(None)
    except KafkaError as error:
        log.error(_FAILED, error)
    finally:
        _forgotten.pop(core, None)
        for waiting in _waiting:
            waiting.set()


def _log_losses(core: ProducerCore, why: str) -> None:
    _forgotten.pop(core, None)
    lost = core.take_losses()
    if lost:
        count = sum(entry.records_count for entry in lost)
        records = "1 record is lost" if count == 1 else f"{count} records are lost"
        log.error("a producer was not closed, and %s: %s: %s", why, records, describe(lost))


# -- the end of the process


async def _forgotten_end(seconds: float) -> None:
    """Wait for forgotten producers on this loop, so many seconds at most."""
    loop, one_has_ended = asyncio.get_running_loop(), asyncio.Event()
    _waiting.append(one_has_ended)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while any(core.loop is loop for core in list(_forgotten)):
                one_has_ended.clear()
                await one_has_ended.wait()
    _waiting.remove(one_has_ended)


_waiting: Final[list[asyncio.Event]] = []


def end_forgotten(seconds: float) -> None:
    """Give forgotten producers of the clients' loop thread time to deliver, and log what is lost of all others."""
    thread = client_loop_thread()
    if any(thread.runs(core.loop) for core in list(_forgotten)):  # Python 3.12 starts no thread at this time
        thread.run(_forgotten_end(seconds))
    for ends in list(_loop_ends.values()):
        ends.log_losses("the process ends")
    for core in list(_forgotten):
        _log_losses(core, "the process ends")


def _after_fork_in_child() -> None:
    """The parent delivers them."""
    keep_unfinalized((dict(_forgotten), dict(_loop_ends), set(_closing)))
    for registry in (_forgotten, _loop_ends, _closing):
        registry.clear()


in_forked_child(_after_fork_in_child)
at_exit(partial(end_forgotten, EXIT_CLOSE_S), of_workers=True)
