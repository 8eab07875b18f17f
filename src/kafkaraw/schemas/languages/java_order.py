"""The orders of strings in Java: of hash sets, for messages in Confluent's answers, and of sorted maps and sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def in_text_order(names: Iterable[str]) -> list[str]:
    """Return strings in the order of `String.compareTo`, which compares UTF-16 code units, not characters."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def in_hash_order(maps: Sequence[Collection[str]], only: Iterable[str] | None = None) -> list[str]:
    """Return the distinct names of one or two maps in the order of a HashSet of all of them.

    Args:
        maps: the set is made of the first, then the others are added.
        only: return these names only, in the order that they have among all.
    """
    names = list(dict.fromkeys(name for one in maps for name in one) if only is None else only)
    if len(names) < 2:
        return names
    total = len(maps[0]) if len(maps) == 1 else len(maps[0]) + sum(name not in maps[0] for name in maps[1])
    capacity = 16
    while capacity < max(len(maps[0]) / 0.75 + 1, 16) or total > capacity * 0.75:
        capacity *= 2
    return sorted(names, key=lambda name: _spread_hash(name) & (capacity - 1))


def _spread_hash(name: str) -> int:
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
