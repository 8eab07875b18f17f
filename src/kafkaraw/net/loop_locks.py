"""Locks that a loop thread waits for, and who must not wait for the loop thread meanwhile.

A signal handler or `__del__` may interrupt a thread that holds such a lock. If it made a blocking call, the loop would
wait for the lock, and the thread for the loop, for ever. So blocking calls ask `holds_loop_lock` and are refused.
Start at `new_loop_lock`.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from _thread import RLock

_locks: Final[weakref.WeakValueDictionary[int, RLock]] = weakref.WeakValueDictionary()
"""By `id`: threads may make locks while the others are looked at, which a `WeakSet` does not allow."""


def new_loop_lock() -> RLock:
    """Make a lock for state that both a loop and other threads change; it can be taken again by its owner."""
    lock = threading.RLock()
    _locks[id(lock)] = lock
    return lock


def holds_loop_lock() -> bool:
    """Whether this thread was interrupted while it had such a lock, so that it must not wait for a loop."""
    held = (reference() for reference in _locks.valuerefs())
    return any(lock is not None and lock._is_owned() for lock in held)  # type: ignore[attr-defined] # noqa: SLF001 - as `Condition` asks


def check_holds_no_loop_lock() -> None:
    """Refuse a blocking call of such a thread.

    Raises:
        UsageError: it has a lock.
    """
    if holds_loop_lock():
        raise UsageError(
            "a blocking call was made in a signal handler or __del__ that has interrupted send() in the middle of a "
            "change, for which the loop thread waits; note the event there, and make the call afterwards"
        )
