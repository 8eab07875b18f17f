"""A bounded cache: answers of a registry that do not change.

A hit costs one dictionary look-up, no lock and no clock, because serializers look up an answer for every record. When
the cache is full, the entry that was stored first makes room. Several threads may use a cache at once: each method is
one operation on a dictionary, which is atomic, or tolerates that another thread has removed the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps at most `size_max` answers.

    Args:
        size_max: maximum number of entries; at least 1.

    Attributes:
        get: return the answer for a key, or None: the dictionary's own method, so that a hit costs no call in between.
    """

    __slots__ = ("_entries", "_size_max", "get")

    def __init__(self, size_max: int) -> None:
        self._entries: dict[K, V] = {}
        self._size_max = size_max
        self.get: Callable[[K], V | None] = self._entries.get

    def put(self, key: K, value: V) -> None:
        """Store an answer; the oldest entry makes room if necessary."""
        entries = self._entries
        while len(entries) >= self._size_max and key not in entries:
            oldest = next(iter(list(entries)), None)
            if oldest is None:
                break
            entries.pop(oldest, None)
        entries[key] = value

    def discard(self, is_stale: Callable[[K, V], bool]) -> None:
        """Remove the entries for which a function is true."""
        for key, value in list(self._entries.items()):
            if is_stale(key, value):
                self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove every entry."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
