"""The order in which Java's hash sets return strings: the order of messages in Confluent's answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def in_hash_order(maps: Sequence[Iterable[str]]) -> list[str]:
    """Return the distinct names of one or two maps in the order of a HashSet of all of them.

    Args:
        maps: the set is made of the first, then the others are added.
    """
    names = list(dict.fromkeys(name for one in maps for name in one))
    first = len(set(maps[0]))
    capacity = 16
    while capacity < max(first / 0.75 + 1, 16) or len(names) > capacity * 0.75:
        capacity *= 2
    return sorted(names, key=lambda name: _spread_hash(name) & (capacity - 1)) if len(names) > 1 else names


def _spread_hash(name: str) -> int:
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
