"""The stored state of ranges of records, and how later writes combine with earlier ones. Pure.

Source: org.apache.kafka.coordinator.share.PersisterStateBatchCombiner.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from kafkaraw.light_classes import NamedTuple

NO_START_OFFSET: Final = -1
"""The start offset of a share partition that has not been read yet, and of a write that does not change it."""


class StateBatch(NamedTuple):
    """The state of a range of records.

    Attributes:
        state: the number of a `RecordState`.
        delivery_count: how often the records were delivered.
    """

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """The order of states of one record: a record is delivered more often, or else done with, as time goes on."""
        return self.delivery_count, self.state


def combined(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the newest state of each record, as the fewest ranges in the order of offsets.

    Args:
        batches: earlier and later ranges in any order; they may overlap.
        start_offset: the first record that counts; -1 for all.
    """
    waiting = sorted(batch for batch in batches if batch.last_offset >= start_offset)
    found: list[StateBatch] = []
    open_batches: list[tuple[tuple[int, int], StateBatch]] = []  # a heap; the highest rank comes first
    position = start_offset
    at = 0
    while at < len(waiting) or open_batches:
        if not open_batches:
            position = max(position, waiting[at].first_offset)
        while at < len(waiting) and waiting[at].first_offset <= position:
            count, state = waiting[at].rank
            heapq.heappush(open_batches, ((-count, -state), waiting[at]))
            at += 1
        best = open_batches[0][1]
        if best.last_offset < position:
            heapq.heappop(open_batches)
            continue
        end = best.last_offset if at == len(waiting) else min(best.last_offset, waiting[at].first_offset - 1)
        _append(found, best._replace(first_offset=position, last_offset=end))
        position = end + 1
    return found


def _append(found: list[StateBatch], batch: StateBatch) -> None:
    if found and found[-1].last_offset + 1 == batch.first_offset and found[-1].rank == batch.rank:
        found[-1] = found[-1]._replace(last_offset=batch.last_offset)
    else:
        found.append(batch)
