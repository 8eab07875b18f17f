"""How much of each partition to ask a broker for: more where answers come full and at once. Pure; times are passed in.

An answer costs consumer and broker about the same whether it holds one megabyte of a partition or two. But the user
waits until all of it is there, so a slow line is asked for less. Must not know of partitions: what one batch needs that
exceeds every limit is in its position. Start at `Appetite.fed`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.core.fetch.plan import FetchLimits
from kafkaraw.light_classes import replace
from kafkaraw.protocol.messages.fetch import FetchResponse

PARTITION_BYTES: Final = 1_048_576
"""What is asked for at first: the default of Kafka's clients."""
PARTITION_BYTES_MOST: Final = 2 * PARTITION_BYTES
QUICK_S: Final = 0.25
SLOW_S: Final = 1.0


class Appetite:
    """What to ask one broker for.

    Args:
        limits: to begin with, and never less of a partition than that.
        partition_bytes_most: never more of a partition than that, unless a batch needs it.

    Attributes:
        limits: what to ask with now.
    """

    def __init__(self, limits: FetchLimits, partition_bytes_most: int) -> None:
        self.limits = limits
        self._least = limits.partition_max_bytes
        self._most = partition_bytes_most

    def fed(self, response: FetchResponse, took_s: float) -> None:
        """Take note of an answer, and of how long it took from the request to its last byte."""
        asked = self.limits.partition_max_bytes
        if QUICK_S < took_s <= SLOW_S or _largest(response) * 2 < asked:
            return
        wanted = min(asked * 2, self._most) if took_s <= QUICK_S else max(asked // 2, self._least)
        if wanted != asked:
            self.limits = replace(self.limits, partition_max_bytes=wanted)


def _largest(response: FetchResponse) -> int:
    """Bytes of the partition with the most; whole batches seldom fill exactly what was asked for."""
    return max((len(part.records or b"") for topic in response.responses for part in topic.partitions), default=0)
