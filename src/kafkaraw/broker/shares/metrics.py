"""What a node counts about its share groups; `broker/share_metrics.py` gives it Kafka's names.

Source: org.apache.kafka.server.share.metrics.{ShareGroupMetrics, SharePartitionMetrics} of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafkaraw.core.share.acknowledgements import AcknowledgeType


class ShareCounters:
    """The counters of one node.

    Attributes:
        acknowledged: records by group and type.
        expired: records whose locks have expired, by group, topic and partition.
    """

    def __init__(self) -> None:
        self.acknowledged: Counter[tuple[str, AcknowledgeType]] = Counter()
        self.expired: Counter[tuple[str, str, int]] = Counter()

    def acknowledge(self, group_id: str, first: int, last: int, types: Iterable[int]) -> None:
        """Count what a member says about a range of records: a type for each, or one for all."""
        kinds = list(types)
        each = last - first + 1 if len(kinds) == 1 else 1
        for kind in kinds:
            if kind != 0:  # a gap has no record
                self.acknowledged[group_id, AcknowledgeType(kind)] += each
