"""Callbacks of clients in a forked child process.

A child has none of the parent's threads, and shares its sockets (`net.process_hooks` releases those). A callback must
not use the locks, loops and connections of the parent; it may only drop them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafkaraw.net.process_hooks import in_forked_child, install

K = TypeVar("K")

_known: Final[weakref.WeakKeyDictionary[Any, Callable[[Any], None]]] = weakref.WeakKeyDictionary()
_left_behind: Final[list[object]] = []


def call_after_fork(client: K, act: Callable[[K], None]) -> None:
    """Register `act(client)` for every child process, before other code runs there, while the client is alive."""
    install()
    _known[client] = act


def keep_unfinalized(inherited: object) -> None:
    """Keep an object of the parent for ever: finalizers of connections, tasks and loops must not run in the child."""
    _left_behind.append(inherited)


def _call_all() -> None:
    for client, act in list(_known.items()):
        act(client)


in_forked_child(_call_all)
