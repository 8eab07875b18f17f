"""Producers that are garbage collected, or left when the process ends, without `close()`.

Their records are delivered, or the log says how many are lost. A `ResourceWarning` is issued in any case.
This module knows deliveries and their loops only; the faces call it from `__del__`, on any thread. Start at
`close_later`.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Final

from kafkaraw.client.forking import leave_behind
from kafkaraw.client.sending.delivery import Delivery
from kafkaraw.errors import KafkaError

log = logging.getLogger(__name__)

_left: Final[dict[Delivery, asyncio.AbstractEventLoop]] = {}
"""Deliveries that are to be closed on a loop, and are not yet."""


def close_later(delivery: Delivery) -> None:
    """Deliver what a producer took that nobody can close any more; returns at once.

    Raises:
        ResourceWarning: if the program turns warnings into errors.
    """
    loop = delivery.loop
    if loop is None or not delivery.is_open:
        return
    _left[delivery] = loop
    try:
        loop.call_soon_threadsafe(_begin, delivery)
    except RuntimeError:  # the loop is closed
        _tell_loss(delivery, "its event loop is closed")
    warnings.warn("a producer was not closed: call close(), or use `with`", ResourceWarning, stacklevel=3)


def closes_wait() -> bool:
    """Whether there are producers that are still being closed."""
    return bool(_left)


async def end_closes(seconds: float) -> None:
    """Wait for the producers that are being closed on this loop; after so many seconds their records are given up."""
    loop = asyncio.get_running_loop()
    tasks = [task for task in _tasks if task.get_loop() is loop]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def tell_stranded() -> None:
    """Log how many records are lost of each producer whose event loop has ended before they were delivered."""
    for delivery, loop in list(_left.items()):
        if loop.is_closed():
            _tell_loss(delivery, "its event loop has ended")


def at_end_of_process(close: Callable[[], None]) -> None:
    """Have `close` called when this process ends, or a worker of `multiprocessing`, where `atexit` does not run."""
    atexit.register(close)
    _close_hooks.append(close)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:  # imported by a worker
        _close_in_worker(close)


_close_hooks: Final[list[Callable[[], None]]] = []


def _close_in_worker(close: Callable[[], None]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, close, exitpriority=0)


def _begin(delivery: Delivery) -> None:
    task = asyncio.get_running_loop().create_task(_close(delivery), name="close of a forgotten producer")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: Final[set[asyncio.Task[None]]] = set()


async def _close(delivery: Delivery) -> None:
    try:
        await delivery.close(None)
    except KafkaError as error:
        log.error("a producer was garbage collected without close(): %s", error)
    except asyncio.CancelledError:
        _tell_loss(delivery, "its event loop ends")
        raise
    finally:
        _left.pop(delivery, None)


def _tell_loss(delivery: Delivery, why: str) -> None:
    if _left.pop(delivery, None) is None:
        return
    count = delivery.give_up_count()
    if count:
        log.error("a producer was not closed, and %s: %d records that send() took are lost", why, count)


def _forget_after_fork() -> None:
    """The parent delivers them. A worker of `multiprocessing` begins by forgetting all hooks; these come after that."""
    leave_behind((dict(_left), set(_tasks)))
    _left.clear()
    _tasks.clear()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        for close in _close_hooks:
            util.register_after_fork(close, _close_in_worker)


os.register_at_fork(after_in_child=_forget_after_fork)
