"""Partition load: chooses the order of sticky partitions, more often those with fewer waiting batches.

Pure: from the number of waiting batches it draws the next partitions; the sticky partitioner of `OpenBatches` uses them
one after the other. The weight of a partition is (waiting batches of the fullest partition) + 1 - (waiting batches of
this one), so a slow broker gets fewer records, and every partition gets some. With equal load, all partitions are used
in turn. Start at `PartitionLoadStats.order`.

Source: KIP-794; Kafka's BuiltInPartitioner.updatePartitionLoadStats and RecordAccumulator.partitionReady.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

_STRIDE: Final = 7
ORDER_SIZE: Final = 16
"""Partitions drawn at a time; the next draw comes with the next sealed batch, so few are used."""


class PartitionLoadStats:
    """Draws the order of sticky partitions.

    Args:
        adaptive: whether what waits counts; `partitioner.adaptive.partitioning.enable`.
        rng: decides.
    """

    def __init__(self, adaptive: bool, rng: random.Random) -> None:
        self._adaptive = adaptive
        self._rng = rng

    def order(
        self, partitions_count: int, led: Sequence[int], waiting: Mapping[int, int], unavailable: Collection[int]
    ) -> Sequence[int]:
        """Return the next partitions to fill, in this order; empty for all in turn.

        Args:
            partitions_count: of the topic.
            led: those of its partitions that have a leader.
            waiting: how many batches wait at a partition, where any do.
            unavailable: partitions whose brokers could not be sent anything for too long.
        """
        if not led or (not waiting and not unavailable and len(led) == partitions_count):
            return ()  # the usual case, and topics may have thousands of partitions
        takers = [partition for partition in led if partition not in unavailable] if self._adaptive else led
        uneven = self._adaptive and len({waiting.get(partition, 0) for partition in takers}) > 1
        if uneven:
            return self._draw(takers, waiting)
        if not takers or len(takers) == len(led):  # if no partition is available, Java ignores the statistics, too
            takers = led
        return () if len(takers) == partitions_count else takers

    def _draw(self, takers: Sequence[int], waiting: Mapping[int, int]) -> list[int]:
        """Draw by weight: at points that are evenly spaced behind a random one, then in a mixed order.

        One number decides, because the system's randomness costs a call of the kernel each.
        """
        counts = [waiting.get(partition, 0) for partition in takers]
        most = max(counts) + 1
        ends = list(accumulate(most - count for count in counts))
        first = self._rng.random()
        points = [(number * _STRIDE % ORDER_SIZE + first) / ORDER_SIZE * ends[-1] for number in range(ORDER_SIZE)]
        return [takers[min(bisect_right(ends, point), len(takers) - 1)] for point in points]
