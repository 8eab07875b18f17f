"""The pool of clients that a Spark worker process keeps open from task to task.

Spark reuses its Python workers across micro-batches, so one connection serves many tasks. A worker is forked, and any
partition may be read by any worker. So clients are kept by settings, not by partition, and only in the process that
made them. Must not be used on the driver, which owns its clients itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.net.threads import holds_loop_lock

_log = logging.getLogger(__name__)

CORES_VARIABLE: Final = "KAFKARAW_SPARK_CORES"
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\d+)?\])?")


def tell_cores(master: str) -> None:
    """Pass the number of tasks that a Spark on this machine runs at once to the processes that Spark starts later."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        os.environ.pop(CORES_VARIABLE, None)
    else:
        os.environ[CORES_VARIABLE] = str(os.cpu_count() or 1) if found[1] == "*" else found[1] or "1"


RACK_VARIABLE: Final = "KAFKARAW_CLIENT_RACK"
"""The environment variable of an executor with the rack, or availability zone, of its machine."""


def rack_of_this_machine() -> str | None:
    """Return the rack in which this process runs, to read from replicas there; None if its environment has none."""
    return os.environ.get(RACK_VARIABLE) or None


def cores_of_this_machine() -> int | None:
    """Return how many tasks run at once; None if that is not known, as in a cluster."""
    cores = os.environ.get(CORES_VARIABLE)
    return int(cores) if cores else None


class Closeable(Protocol):
    """Anything with a `close()`."""

    def close(self) -> None:
        """Release all resources."""


if TYPE_CHECKING:
    from kafkaraw.spark.options.client import Settings

C = TypeVar("C", bound=Closeable)

SettingsKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Idle(Generic[C]):
    """An idle client. It equals itself only."""

    key: SettingsKey
    client: C


class ClientPool(Generic[C]):
    """Idle clients by settings. A client has one user at a time, even if two reads are interleaved.

    A worker outlives the queries that it works for, so the total number of idle clients is bounded: the least recently
    used ones are closed first. Connections of the remaining clients close after `connections_max_idle_ms`.

    Idle clients are closed when the process ends.

    Any thread may borrow a client. There is no lock, because a fork could leave it locked: the list of idle clients
    only changes by single appends and removals, and a client belongs to the thread that has removed it.

    Args:
        make: makes a client from settings.
        idle_max: maximum number of idle clients with the same settings.
        total_max: maximum number of idle clients in all.
        settle: called with a client after its use, before it is kept. An error that it raises goes to the current user
            of the client, so that no later user gets it.
    """

    def __init__(
        self,
        make: Callable[[Settings], C],
        *,
        idle_max: int = 2,
        total_max: int = 64,
        settle: Callable[[C], None] | None = None,
    ) -> None:
        self._make = make
        self._idle_max = idle_max
        self._total_max = total_max
        self._settle = settle
        self._idle: list[_Idle[C]] = []  # in the order of use
        self._process = os.getpid()
        self._closes_at_exit = False

    @contextmanager
    def borrow(self, settings: Settings, *, keep: bool = True) -> Iterator[C]:
        """Borrow a client with these settings.

        Args:
            settings: of the client, as text.
            keep: keep the client for the next user, unless this use ends with an error. False for settings that will
                not be used again.
        """
        key = tuple(sorted(settings.items()))
        client = self._taken(key) or self._make(settings)
        try:
            yield client
            if self._settle is not None:
                self._settle(client)
        except BaseException as error:
            # The user's own error is raised. It may be the GeneratorExit of a read that the garbage collector ends.
            _discard(client, error)
            raise
        if keep:
            self._give_back(key, client)
        else:
            client.close()

    def close(self) -> None:
        """Close the idle clients."""
        for each in list(self._of_this_process()):
            if self._remove(each):
                _discard(each.client)

    def _taken(self, key: SettingsKey) -> C | None:
        for each in reversed(list(self._of_this_process())):
            if each.key == key and self._remove(each):
                return each.client
        return None

    def _give_back(self, key: SettingsKey, client: C) -> None:
        if not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self.close)  # after the client's own hooks, so that it runs before them
        idle = self._of_this_process()
        idle.append(_Idle(key, client))
        now = list(idle)
        same = [each for each in now if each.key == key]
        for each in [*same[: max(0, len(same) - self._idle_max)], *now[: max(0, len(now) - self._total_max)]]:
            if self._remove(each):
                _discard(each.client)

    def _remove(self, idle: _Idle[C]) -> bool:
        """Remove an idle client from the list; False if another thread has removed it."""
        try:
            self._idle.remove(idle)
        except ValueError:
            return False
        return True

    def _of_this_process(self) -> list[_Idle[C]]:
        if self._process != os.getpid():
            # The parent process keeps its clients; the client layer closes their sockets in a forked child.
            self._idle = []
            self._process = os.getpid()
        return self._idle


def _discard(client: Closeable, because: BaseException | None = None) -> None:
    """Close a client after an error, or an idle one. An error while closing must not fail anything else.

    The garbage collector may end a read on any thread, at any moment. Closing blocks, so it must not run on the
    clients' loop thread, nor on a thread that is in the middle of a change for which the loop waits.
    """
    if client_loop_thread().is_current or holds_loop_lock():
        threading.Thread(target=_discard, args=[client], name="kafkaraw-close").start()
        return
    try:
        client.close()
    except Exception as error:  # noqa: BLE001 - the task that runs now must not fail for an earlier task's client
        _log.warning("a %s of an earlier task could not be closed: %s", type(client).__name__, error, exc_info=error)
        if because is not None:
            because.add_note(f"closing the {type(client).__name__} failed, too: {type(error).__name__}: {error}")


@functools.cache
def freeze_modules_once() -> None:
    """Keep the garbage collector from visiting all loaded modules: Spark collects after every task, at 25 ms each."""
    gc.collect()
    gc.freeze()
