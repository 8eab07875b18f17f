"""What a Spark worker process keeps from task to task: clients with open connections.

Spark reuses its Python workers across micro-batches, so a connection made once serves many tasks. A worker is forked
and any partition may land on any worker: clients are kept by settings, not by partition, and only in the process that
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

from kafkaraw.net.loop_locks import holds_loop_lock
from kafkaraw.net.loop_thread import client_loop_thread

_log = logging.getLogger(__name__)

CORES_VARIABLE: Final = "KAFKARAW_SPARK_CORES"
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\d+)?\])?")


def tell_cores(master: str) -> None:
    """Let Spark's processes that are started from now on know how many tasks a Spark on this machine runs at once."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        os.environ.pop(CORES_VARIABLE, None)
    else:
        os.environ[CORES_VARIABLE] = str(os.cpu_count() or 1) if found[1] == "*" else found[1] or "1"


def cores_of_this_machine() -> int | None:
    """How many tasks run at once; None when that is not known, as in a cluster."""
    told = os.environ.get(CORES_VARIABLE)
    return int(told) if told else None


class Closeable(Protocol):
    """Anything with a `close()`."""

    def close(self) -> None:
        """Give up what it holds."""


if TYPE_CHECKING:
    from kafkaraw.spark.options.client import Settings

C = TypeVar("C", bound=Closeable)

SettingsKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Idle(Generic[C]):
    """A client that nobody uses; equal to itself only."""

    key: SettingsKey
    client: C


class ClientPool(Generic[C]):
    """Idle clients by settings. A client is with one user at a time, even if two reads are interleaved.

    A worker outlives the queries that it works for, so what is kept is bounded in all: those clients go first that
    were not used for longest. The connections of those that stay close by themselves, after
    `connections_max_idle_ms`.

    Idle clients are closed when the process ends.

    Any thread may borrow. There is no lock, which a fork could leave locked: the list of idle clients only changes by
    single appends and removals, and a client belongs to the thread that has removed it.

    Args:
        make: makes a client from settings.
        idle_max: how many idle clients to keep for the same settings.
        total_max: how many idle clients to keep in all.
        settle: called with a client whose user is done, before it is kept; what it raises is the user's error, so that
            no later user is told of it.
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
        """A client for the settings.

        Args:
            settings: of the client, as text.
            keep: keep it for the next user, unless this one ends with an error. False for settings that nobody will
                have again.
        """
        key = tuple(sorted(settings.items()))
        client = self._taken(key) or self._make(settings)
        try:
            yield client
            if self._settle is not None:
                self._settle(client)
        except BaseException as error:
            # The user's own error counts. It may be the GeneratorExit of a read that the garbage collector ends.
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
        """Take an idle client out; False when another thread has."""
        try:
            self._idle.remove(idle)
        except ValueError:
            return False
        return True

    def _of_this_process(self) -> list[_Idle[C]]:
        if self._process != os.getpid():
            # The parent's clients stay the parent's; the client layer closes their sockets in a forked child.
            self._idle = []
            self._process = os.getpid()
        return self._idle


def _discard(client: Closeable, because: BaseException | None = None) -> None:
    """Close a client whose user has failed, or that nobody uses; what goes wrong there must not fail anything else.

    The garbage collector may end a read on any thread, at any moment. Closing blocks, which the clients' loop thread
    must not, nor a thread in the middle of a change for which the loop waits.
    """
    if client_loop_thread().is_current or holds_loop_lock():
        threading.Thread(target=_discard, args=[client], name="kafkaraw-close").start()
        return
    try:
        client.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the error of whoever is working now
        _log.warning("a %s of an earlier task could not be closed: %s", type(client).__name__, error, exc_info=error)
        if because is not None:
            because.add_note(f"closing the {type(client).__name__} failed, too: {type(error).__name__}: {error}")


@functools.cache
def freeze_modules_once() -> None:
    """Keep the garbage collector from walking all loaded modules: Spark collects after every task, at 25 ms a time."""
    gc.collect()
    gc.freeze()
