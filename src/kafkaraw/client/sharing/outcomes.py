"""What became of acknowledgements: for a commit that waits, for the callback of the application, and as metrics.

Start at `Outcomes.ended`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kafkaraw.client.metrics.share_consumer_metrics import ShareCounters
from kafkaraw.core.share.acknowledgements import AcknowledgedRange, RecordsInHand
from kafkaraw.core.share.sessions import TopicIdPartition
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

AcknowledgementCallback: TypeAlias = Callable[[dict[TopicPartition, list[int]], KafkaError | None], object]
"""Called with the offsets of acknowledged records by partition, and the error; None if the broker has stored them."""


class CommitCall:
    """A call of `commit` that waits for acknowledgements."""

    def __init__(self) -> None:
        self.results: dict[TopicPartition, KafkaError | None] = {}
        self.done: asyncio.Event = asyncio.Event()
        self._waiting: set[PendingAcknowledgement] = set()

    def expect(self, pending: PendingAcknowledgement) -> None:
        """Wait for one more."""
        self._waiting.add(pending)

    def ended(self, pending: PendingAcknowledgement, error: KafkaError | None) -> None:
        """One of them has ended."""
        partition = pending.in_hand.topic_partition
        self.results[partition] = self.results.get(partition) or error
        self._waiting.discard(pending)
        if not self._waiting:
            self.done.set()

    @property
    def waits_for(self) -> set[TopicPartition]:
        """The partitions of which an answer is missing."""
        return {pending.in_hand.topic_partition for pending in self._waiting}


@dataclass(slots=True, eq=False)
class PendingAcknowledgement:
    """Acknowledgements of one partition on their way to its leader.

    Attributes:
        partition: the partition.
        in_hand: the records that they belong to.
        ranges: what is to be said.
        incarnation: of the session in which the records were acquired.
        deadline_s: it is not sent again after this time of the loop.
        calls: the commits that wait, or have waited, for it.
        tries: how often the broker could not store it.
    """

    partition: TopicIdPartition
    in_hand: RecordsInHand
    ranges: Sequence[AcknowledgedRange]
    incarnation: int
    deadline_s: float
    calls: list[CommitCall] = field(default_factory=list)
    tries: int = 0


@dataclass(slots=True)
class Outcomes:
    """Counts acknowledgements, and keeps their results for the callback until a call of the application.

    Attributes:
        counters: count the records.
        callback: the application's; None for none.
    """

    counters: ShareCounters
    callback: AcknowledgementCallback | None = None
    _results: deque[tuple[TopicPartition, list[int], KafkaError | None]] = field(default_factory=deque)

    def ended(self, pending: PendingAcknowledgement, error: KafkaError | None) -> None:
        """The broker has answered, or cannot be asked any more."""
        partition = pending.in_hand.topic_partition
        counts = [each.last_offset - each.first_offset + 1 for each in pending.ranges]
        self.counters.sent += sum(counts)
        if error is not None:
            self.counters.failed += sum(counts)
            if self.callback is None and not pending.calls:
                log.warning("acknowledging records of %s-%d failed: %s", *partition, error)
        if any(each.renews for each in pending.ranges):
            offsets = [offset for each in pending.ranges for offset in each.record_offsets]
            pending.in_hand.renewal_ended(offsets, is_renewed=error is None)
        if self.callback is not None:
            self._results.append(
                (partition, [offset for each in pending.ranges for offset in each.record_offsets], error)
            )
        for call in pending.calls:
            call.ended(pending, error)

    def report(self) -> None:
        """Call the callback with everything that has ended since the last call.

        If it raises, it gets the other results nevertheless, and then its first exception is raised, as in Java.
        """
        callback, first = self.callback, None
        if callback is None:
            self._results.clear()
            return
        while self._results:  # meanwhile, the loop may add others
            partition, offsets, error = self._results.popleft()
            try:
                callback({partition: offsets}, error)
            except Exception as problem:
                log.exception("the acknowledgement commit callback failed")
                first = first or problem
        if first is not None:
            raise first
