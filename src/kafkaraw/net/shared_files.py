"""Open files that several answers send at the same time, with one descriptor for all of them.

An answer that a slow peer takes minutes to read must be able to read its file for so long, even if the file's owner has
closed or deleted it. A descriptor for each part of each answer would let a few slow peers use up the process's
descriptors. So a file's owner shares it, answers refer to it, and its descriptor is closed with the last reference.
This module must not read files. Start at `SharedFile`.
"""

from __future__ import annotations

import os
from typing import Self
from weakref import WeakValueDictionary

_shared: WeakValueDictionary[int, SharedFile] = WeakValueDictionary()


class SharedFile:
    """A descriptor that is closed when nothing refers to this object any more. `loop.sendfile` takes it as a file.

    Args:
        descriptor: belongs to this object from now on.
    """

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def share(cls, descriptor: int) -> Self:
        """Take over a descriptor; while it is open, `of` finds it by its number."""
        file = cls(descriptor)
        _shared[descriptor] = file
        return file

    @classmethod
    def of(cls, descriptor: int) -> SharedFile:
        """Return the shared file of an open descriptor; a descriptor that is not shared yet is duplicated."""
        return _shared.get(descriptor) or cls(os.dup(descriptor))

    def fileno(self) -> int:
        """Return the descriptor, as file objects do."""
        return self._descriptor
