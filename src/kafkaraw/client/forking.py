"""Telling clients that they find themselves in a forked child process.

A child has none of the parent's threads, and shares its sockets (`net.fork` takes those away). What an object has to do
about it, it decides in `after_fork_in_child`: touch no lock, loop or connection of the parent's, only drop them.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class KnowsForks(Protocol):
    """An object that must change in a child process."""

    def after_fork_in_child(self) -> None:
        """Called in the child, before anything else of it runs."""
        ...


_known: Final[weakref.WeakSet[KnowsForks]] = weakref.WeakSet()
_left_behind: Final[list[object]] = []


def tell_about_forks(client: KnowsForks) -> None:
    """Have `client.after_fork_in_child()` called in every child process, as long as the object lives."""
    _known.add(client)


def leave_behind(inherited: object) -> None:
    """Keep an object of the parent's for ever, untouched: finalizers of connections, tasks and loops must not run."""
    _left_behind.append(inherited)


def _tell_all() -> None:
    for client in list(_known):
        client.after_fork_in_child()


os.register_at_fork(after_in_child=_tell_all)
