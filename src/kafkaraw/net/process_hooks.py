"""What this package does when the process forks or ends, in one place.

Modules add their functions when they are imported, which changes nothing outside of this module. `install` registers
one fork hook and one exit hook with Python when the first client, connection or loop thread is created; they cannot be
removed. Exit hooks run in the reverse order of their registration, so a later hook may use what an earlier module
provides.

The first hook takes the parent's sockets out of a forked child, without a byte on the wire (`release_in_child`). A
descriptor that a child keeps holds the parent's connection open after the parent has closed it, and keeps a listening
port taken. Spark forks its Python workers. What else a fork changes, the owner of the object decides.
Start at `install`, `release_in_child` and `ForkedLock`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Final, Protocol

log: logging.Logger = logging.getLogger(__name__)

Hook = Callable[[], None]

_in_child: Final[list[Hook]] = []
_at_exit: Final[list[Hook]] = []
_at_exit_of_workers: Final[list[Hook]] = []
_claims: Final = [True]
"""The thread that pops the entry installs: two threads may create the first client at once. A lock could be forked."""


def in_forked_child(act: Hook) -> None:
    """Have `act` called in each forked child process, before other code runs there."""
    _in_child.append(act)


def at_exit(act: Hook, *, of_workers: bool = False) -> None:
    """Have `act` called when the process ends.

    Args:
        act: what to do; a worker of `multiprocessing` may call it twice.
        of_workers: also at the end of a worker, which ends by `os._exit` and, before Python 3.13, skips `atexit`.
    """
    _at_exit.append(act)
    if of_workers:
        _at_exit_of_workers.append(act)


def install() -> None:
    """Register the hooks with Python, once per process; costs nothing when that was done."""
    if not _claims:
        return
    try:
        _claims.pop()
    except IndexError:  # another thread does it
        return
    os.register_at_fork(after_in_child=_run_in_child)
    atexit.register(_run_at_exit)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _finish_worker()


def _run_in_child() -> None:
    _run(_in_child, "in a forked child process")
    util = sys.modules.get("multiprocessing.util")
    if util is not None:  # a worker begins by forgetting all of its parent's hooks; these come after that
        util.register_after_fork(_run_at_exit_of_worker, lambda _: _finish_worker())


def _finish_worker() -> None:
    sys.modules["multiprocessing.util"].Finalize(None, _run_at_exit_of_worker, exitpriority=0)


def _run_at_exit() -> None:
    _run(reversed(_at_exit), "at the end of the process")


def _run_at_exit_of_worker() -> None:
    _run(reversed(_at_exit_of_workers), "at the end of the process")


def _run(hooks: Iterable[Hook], when: str) -> None:
    for act in hooks:
        try:
            act()
        except BaseException:
            log.exception("%s.%s failed %s", act.__module__, getattr(act, "__qualname__", act), when)


class HoldsDescriptors(Protocol):
    """Something with open descriptors that a forked child must not share."""

    def descriptors(self) -> list[int]:
        """Return them; negative ones are already closed."""
        ...


_holders: weakref.WeakSet[HoldsDescriptors] = weakref.WeakSet()


def release_in_child(holder: HoldsDescriptors) -> None:
    """Release in a forked child the descriptors that `holder` has open at the time of the fork."""
    install()
    _holders.add(holder)


def _release_all() -> None:
    inherited = [fd for holder in list(_holders) for fd in holder.descriptors() if fd >= 0]
    _holders.clear()
    if not inherited:
        return
    # Replaced, not closed: the Python objects that own these numbers live on in the child and close them one day,
    # when the number of a closed descriptor might belong to another file.
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in inherited:
        os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


in_forked_child(_release_all)


class ForkedLock:
    """A lock that is free in a forked child, whichever thread held it in the parent at the time of the fork."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        install()
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Make the lock anew."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_locks: weakref.WeakSet[ForkedLock] = weakref.WeakSet()


def _renew_locks() -> None:
    for lock in list(_locks):
        lock.renew()


in_forked_child(_renew_locks)
