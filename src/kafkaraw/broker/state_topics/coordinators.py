"""The partition of an internal topic to which a group or a transactional id belongs. Pure.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.partitionFor.
"""

from __future__ import annotations

from typing import Final

_INT32: Final = 1 << 32
_SIGN: Final = 1 << 31


def partition_of(key: str, partitions: int) -> int:
    """Return Java's String.hashCode, made positive, modulo the number of partitions."""
    number = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) % _INT32
    signed = number - _INT32 if number >= _SIGN else number
    return (0 if signed == -_SIGN else abs(signed)) % partitions
