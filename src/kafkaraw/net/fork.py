"""Takes the parent's sockets out of a forked child, without a byte on the wire.

A descriptor that a child keeps holds the parent's connection open after the parent has closed it, and a listening
port taken. Spark forks its Python workers, so this is daily life. Knows descriptors only; what else a fork changes
is decided by who owns the object.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from kafkaraw.net.process_hooks import in_forked_child, install


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
