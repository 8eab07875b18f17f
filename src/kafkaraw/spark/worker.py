"""What a Spark worker process keeps from task to task: clients with open connections.

Spark reuses its Python workers across micro-batches, so a connection made once serves many tasks. A worker is forked
and any partition may land on any worker: clients are kept by settings, not by partition, and only in the process that
made them. Must not be used on the driver, which owns its clients itself.
"""

from __future__ import annotations

import functools
import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

_CORES: Final = "KAFKARAW_SPARK_CORES"
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\d+)?\])?")


def tell_cores(master: str) -> None:
    """Let Spark's processes that are started from now on know how many tasks a Spark on this machine runs at once."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        os.environ.pop(_CORES, None)
    else:
        os.environ[_CORES] = str(os.cpu_count() or 1) if found[1] == "*" else found[1] or "1"


def cores_of_this_machine() -> int | None:
    """How many tasks run at once; None when that is not known, as in a cluster."""
    told = os.environ.get(_CORES)
    return int(told) if told else None


class Closeable(Protocol):
    """Anything with a `close()`."""

    def close(self) -> None:
        """Give up what it holds."""


C = TypeVar("C", bound=Closeable)

SettingsKey = tuple[tuple[str, str], ...]


class ClientPool(Generic[C]):
    """Idle clients by settings. A client is with one user at a time, even if two reads are interleaved.

    Args:
        make: makes a client from settings.
        idle_max: how many idle clients to keep for the same settings.
    """

    def __init__(self, make: Callable[[dict[str, str]], C], *, idle_max: int = 2) -> None:
        self._make = make
        self._idle_max = idle_max
        self._idle: dict[SettingsKey, list[C]] = {}
        self._process = os.getpid()

    @contextmanager
    def borrow(self, settings: dict[str, str]) -> Iterator[C]:
        """A client for the settings; it is kept for the next user unless this one ends with an error."""
        idle = self._of_this_process().setdefault(tuple(sorted(settings.items())), [])
        client = idle.pop() if idle else self._make(settings)
        healthy = False
        try:
            yield client
            healthy = True
        finally:
            if healthy and len(idle) < self._idle_max:
                idle.append(client)
            else:
                client.close()

    def close(self) -> None:
        """Close the idle clients."""
        for idle in self._of_this_process().values():
            while idle:
                idle.pop().close()

    def _of_this_process(self) -> dict[SettingsKey, list[C]]:
        if self._process != os.getpid():
            # The parent's clients stay the parent's; the client layer closes their sockets in a forked child.
            self._idle = {}
            self._process = os.getpid()
        return self._idle


@functools.cache
def freeze_modules_once() -> None:
    """Keep the garbage collector from walking all loaded modules: Spark collects after every task, at 25 ms a time."""
    gc.collect()
    gc.freeze()
