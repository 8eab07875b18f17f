"""Records that a member of a share group has in hand, and what it tells the broker about each of them. Pure.

The broker locks acquired records for the member, as ranges of offsets. `RecordsInHand` is what one response has brought
of one partition: it knows which offsets are open, collects acknowledgements, and makes the batches of a request from
them. Offsets without a record (transaction markers, compacted records) are acknowledged as gaps. Start at
`RecordsInHand.take`.
Source: KIP-932, KIP-1222; Kafka's ShareInFlightBatch and Acknowledgements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import TopicPartition

GAP: Final = 0
"""The type of offsets that have no record."""


class AcknowledgeType(IntEnum):
    """What became of a record; the numbers are the protocol's.

    ACCEPT: it was processed. RELEASE: it was not; another delivery may succeed. REJECT: it cannot be processed; it is
    not delivered again. RENEW: it is still being processed; the acquisition lock begins again (KIP-1222).
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquiredRange(NamedTuple):
    """Offsets that are locked for this member.

    Attributes:
        first_offset: the first one.
        last_offset: the last one, included.
        delivery_count: how often they have been delivered, this time included.
    """

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgedRange(NamedTuple):
    """Acknowledgements of consecutive offsets.

    Attributes:
        first_offset: the first one.
        last_offset: the last one, included.
        types: one for each offset, or one for all.
    """

    first_offset: int
    last_offset: int
    types: list[int]

    @property
    def record_offsets(self) -> list[int]:
        """The offsets that are not gaps."""
        offsets = range(self.first_offset, self.last_offset + 1)
        if len(self.types) == 1:
            return [] if self.types[0] == GAP else list(offsets)
        return [offset for offset, kind in zip(offsets, self.types, strict=True) if kind != GAP]

    @property
    def renews(self) -> bool:
        """Whether a lock is renewed."""
        return AcknowledgeType.RENEW in self.types


class RecordsInHand:
    """The acquired records of one partition from one response.

    Args:
        topic_partition: the partition.
        acquired: the ranges that are locked, by offset.

    Attributes:
        topic_partition: as given.
        acquired: as given.
        renewed: offsets whose lock was renewed and that are not acknowledged since.
    """

    def __init__(self, topic_partition: TopicPartition, acquired: Sequence[AcquiredRange]) -> None:
        self.topic_partition: TopicPartition = topic_partition
        self.acquired: Sequence[AcquiredRange] = acquired
        self.renewed: set[int] = set()
        self._open: dict[int, None] | None = None  # offsets of records without an acknowledgement; None is all
        self._chosen: dict[int, int] = {}  # acknowledgements to send, by offset
        self._renewing: set[int] = set()

    def found(self, offsets: Iterable[int]) -> None:
        """Take note of the offsets that have records: all others are gaps."""
        records = dict.fromkeys(offsets)
        self._chosen = {**{each: GAP for each in self._offsets() if each not in records}, **self._chosen}
        self._open = {offset: None for offset in records if offset not in self._chosen}

    def is_refused(self, offset: int) -> bool:
        """Return whether a record has an acknowledgement that is not sent yet."""
        return self._chosen.get(offset, GAP) != GAP

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge one record; a later call replaces an acknowledgement that was not sent yet.

        Raises:
            UsageError: the record is not in hand: not acquired, or acknowledged and sent.
        """
        if not self.holds(offset):
            raise UsageError(
                f"acknowledge: offset {offset} of {_named(self.topic_partition)} is not in hand: this consumer has not "
                f"acquired it, its acknowledgement was sent already, or the broker has released it"
            )
        if self._open is None:  # nothing was decoded: every offset counts as a record
            self._open = dict.fromkeys(self._offsets())
        self._open.pop(offset, None)
        self.renewed.discard(offset)
        self._chosen[offset] = kind

    def holds(self, offset: int) -> bool:
        """Return whether a record can be acknowledged now."""
        if self._chosen.get(offset, GAP) != GAP:
            return True
        if self._open is not None:
            return offset in self._open
        return any(each.first_offset <= offset <= each.last_offset for each in self.acquired)

    @property
    def unacknowledged(self) -> Collection[int]:
        """The offsets of records without an acknowledgement, those with a renewed lock excepted."""
        if self._open is None:
            return list(self._offsets())
        return [offset for offset in self._open if offset not in self.renewed]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to acknowledge or to send."""
        return self._open is not None and not self._open and not self._chosen and not self._renewing

    @property
    def is_renewing(self) -> bool:
        """Whether the broker has not answered a renewal yet, or one is to be sent."""
        return bool(self._renewing) or AcknowledgeType.RENEW in self._chosen.values()

    def settle(self, kind: AcknowledgeType, *, at_least: int | None = None, below: int | None = None) -> None:
        """Acknowledge open records, all of them or those between two offsets."""
        if self._open is None:
            self._open = dict.fromkeys(self._offsets())
        for offset in list(self._open):
            if (at_least is None or offset >= at_least) and (below is None or offset < below):
                del self._open[offset]
                self.renewed.discard(offset)
                self._chosen[offset] = kind

    def accept_all(self) -> list[AcknowledgedRange]:
        """Accept everything, and return what to send: as `settle` and `take`, without a look at each offset."""
        if self._open is None and not self._chosen:
            self._open = {}
            return [AcknowledgedRange(first, last, [AcknowledgeType.ACCEPT]) for first, last in self._joined()]
        self.settle(AcknowledgeType.ACCEPT)
        return self.take()

    def take(self, *, below: int | None = None) -> list[AcknowledgedRange]:
        """Return the acknowledgements to send; those that renew stay in hand until `renewal_ended`.

        Args:
            below: leave those of other offsets; None takes all.
        """
        chosen, self._chosen = self._chosen, {}
        if below is not None:
            self._chosen = {offset: kind for offset, kind in chosen.items() if offset >= below}
            chosen = {offset: kind for offset, kind in chosen.items() if offset < below}
        self._renewing |= {offset for offset, kind in chosen.items() if kind == AcknowledgeType.RENEW}
        return ranges_of(chosen)

    def renewal_ended(self, offsets: Iterable[int], *, is_renewed: bool) -> None:
        """The broker has answered; renewed records are open again, the others are lost."""
        ended = self._renewing.intersection(offsets)
        self._renewing -= ended
        if is_renewed and ended:
            self.renewed |= ended
            self._open = {} if self._open is None else self._open
            self._open |= dict.fromkeys(sorted(ended))  # in place: the application may acknowledge others meanwhile

    def released(self) -> None:
        """The broker has released the records, because the share session has ended: nothing is left to acknowledge."""
        self._open = {}
        self._chosen.clear()
        self._renewing.clear()
        self.renewed.clear()

    def _joined(self) -> Iterator[tuple[int, int]]:
        """Yield the acquired ranges as first and last offset; those that follow each other as one."""
        (begin, end, _), *others = self.acquired
        for first, last, _ in others:
            if first == end + 1:
                end = last
            else:
                yield begin, end
                begin, end = first, last
        yield begin, end

    def _offsets(self) -> Iterator[int]:
        for first, last, _ in self.acquired:
            yield from range(first, last + 1)


def ranges_of(chosen: Mapping[int, int]) -> list[AcknowledgedRange]:
    """Return acknowledgements by offset as ranges of consecutive offsets, in order."""
    ranges: list[AcknowledgedRange] = []
    for offset in sorted(chosen):
        if ranges and offset == ranges[-1].last_offset + 1:
            ranges[-1] = ranges[-1]._replace(last_offset=offset)
            ranges[-1].types.append(chosen[offset])
        else:
            ranges.append(AcknowledgedRange(offset, offset, [chosen[offset]]))
    return [each._replace(types=each.types[:1]) if len(set(each.types)) == 1 else each for each in ranges]


def _named(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"
