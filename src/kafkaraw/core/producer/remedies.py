"""What to do about a batch that was not written: retry it as it is, renumbered or split, or fail it.

Pure functions from what is known of the batch to a `Remedy`, one per verdict; the verdicts are in `outcomes.py`, and
`machine.py` carries remedies out. Start at `remedy_for`.

Source: Kafka's TransactionManager.canRetry and Sender.completeBatch; KIP-360; wire facts 37, 38, 41.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from kafkaraw.core.producer.events import PartitionOutcome
from kafkaraw.core.producer.outcomes import Verdict
from kafkaraw.core.producer.partition import Shipment
from kafkaraw.light_classes import dataclass

log = logging.getLogger(__name__)


class Remedy(Enum):
    """What to do about a batch that was not written."""

    AGAIN = auto()
    """Send the same bytes again, once everything in flight has landed."""
    AGAIN_ELSEWHERE = auto()
    """The same, after a metadata refresh."""
    NEXT_EPOCH = auto()
    """Send it and everything behind it again, from sequence 0 under the next epoch."""
    SAME_EPOCH = auto()
    """The same under the present epoch, which a coordinator gave."""
    SPLIT = auto()
    """Send it again in parts, which have its numbers."""
    GIVE_UP = auto()
    """Fail the batch."""


@dataclass(frozen=True, slots=True)
class Case:
    """A batch that has landed unwritten.

    Attributes:
        shipment: the batch.
        outcome: what the broker said of it.
        first: no earlier batch of the partition is in flight or has been sent back, so it is not refused because of
            one.
        after_hole: some batch before it can never have been written, so this one cannot have been, either.
        last_acked_offset: the largest offset of the partition that this producer has had acknowledged; -1 is none.
        epochs_from_coordinator: the producer is transactional and must not take the next epoch by itself.
    """

    shipment: Shipment
    outcome: PartitionOutcome
    first: bool
    after_hole: bool
    last_acked_offset: int
    epochs_from_coordinator: bool

    @property
    def may_be_there(self) -> bool:
        """Whether it must keep its numbers: with others, a broker would not know it again."""
        return self.shipment.maybe_written and not self.after_hole


def remedy_for(verdict: Verdict, case: Case) -> Remedy:
    """What to do about a batch after this verdict, which is not `WRITTEN`."""
    return _REMEDIES[verdict](case)


def _out_of_sequence(case: Case) -> Remedy:
    """Behind a hole nothing is written. If it is only an earlier batch that comes again, this one just follows it."""
    if not case.first:
        return Remedy.AGAIN
    if case.epochs_from_coordinator:
        return Remedy.GIVE_UP
    if case.may_be_there:  # a part, because the whole is there: brokers recognise batches, not parts of them
        return Remedy.GIVE_UP if case.shipment.is_part else Remedy.AGAIN_ELSEWHERE
    return Remedy.NEXT_EPOCH


def _forgotten(case: Case) -> Remedy:
    """A broker forgets a producer with the last of its records: they are too old and gone, or they are lost."""
    log_start = case.outcome.log_start_offset
    if not case.first or log_start < 0:  # a broker that does not lead any more does not say; another one will
        return Remedy.AGAIN
    if case.may_be_there and not case.epochs_from_coordinator:
        return Remedy.AGAIN_ELSEWHERE
    if case.last_acked_offset < log_start:
        return Remedy.SAME_EPOCH if case.epochs_from_coordinator else Remedy.NEXT_EPOCH
    log.warning(
        "%s-%d: the broker has lost records that it had acknowledged, up to offset %d (its log begins at %d)",
        *case.shipment.topic_partition,
        case.last_acked_offset,
        log_start,
    )
    return Remedy.GIVE_UP if case.epochs_from_coordinator else Remedy.NEXT_EPOCH


def _old_epoch(case: Case) -> Remedy:
    """The later epoch is this producer's own, since the producer id is; this batch may be written under it already."""
    if case.epochs_from_coordinator:
        return Remedy.GIVE_UP
    if not case.first:
        return Remedy.AGAIN
    return Remedy.AGAIN_ELSEWHERE if case.may_be_there else Remedy.NEXT_EPOCH


_REMEDIES: Final[dict[Verdict, Callable[[Case], Remedy]]] = {
    Verdict.AGAIN: lambda _: Remedy.AGAIN,
    Verdict.AGAIN_ELSEWHERE: lambda _: Remedy.AGAIN_ELSEWHERE,
    Verdict.OUT_OF_SEQUENCE: _out_of_sequence,
    Verdict.FORGOTTEN: _forgotten,
    Verdict.OLD_EPOCH: _old_epoch,
    Verdict.TOO_LARGE: lambda case: Remedy.SPLIT if case.shipment.batch.records_count > 1 else Remedy.GIVE_UP,
    Verdict.REFUSED: lambda _: Remedy.GIVE_UP,
}
