"""Telling clients that they find themselves in a forked child process.

A child has none of the parent's threads, and shares its sockets (`net.fork` takes those away). What an object has to do
about it, it decides itself: touch no lock, loop or connection of the parent's, only drop them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafkaraw.net.process_hooks import in_forked_child, install

K = TypeVar("K")

_known: Final[weakref.WeakKeyDictionary[Any, Callable[[Any], None]]] = weakref.WeakKeyDictionary()
_left_behind: Final[list[object]] = []


def tell_about_forks(client: K, act: Callable[[K], None]) -> None:
    """Have `act(client)` called in every child process, before other code runs there, as long as the object lives."""
    install()
    _known[client] = act


def leave_behind(inherited: object) -> None:
    """Keep an object of the parent's for ever, untouched: finalizers of connections, tasks and loops must not run."""
    _left_behind.append(inherited)


def _tell_all() -> None:
    for client, act in list(_known.items()):
        act(client)


in_forked_child(_tell_all)
