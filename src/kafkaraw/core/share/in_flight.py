"""The records in flight of a share partition: one state for a range of records, or one for each record. Pure.

Source: org.apache.kafka.server.share.fetch.{InFlightBatch, InFlightState}.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kafkaraw.core.share.record_states import MAY_FOLLOW, IllegalTransitionError, RecordState
from kafkaraw.light_classes import dataclass, field, replace

NO_MEMBER = ""


@dataclass(frozen=True, slots=True)
class InFlight:
    """The state of a record.

    Attributes:
        delivery_count: how often it was delivered.
        member_id: the member that has acquired it; empty for none.
        locked_until_ms: when the lock of the member expires.
        before: the state to return to if the change that is being written fails; None without such a change.
    """

    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    locked_until_ms: float = 0
    before: InFlight | None = None

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire it."""
        return self.state is RecordState.AVAILABLE and self.before is None

    def acquired(self, member_id: str, locked_until_ms: float) -> InFlight:
        """Return the state after a member has acquired the record."""
        count = self.delivery_count + 1
        return self._to(
            RecordState.ACQUIRED, delivery_count=count, member_id=member_id, locked_until_ms=locked_until_ms
        )

    def released(self, state: RecordState, delivery_count_limit: int) -> InFlight:
        """Return the state after the member no longer has the record.

        Args:
            state: the state that is asked for; a record that was delivered too often is archived instead.
            delivery_count_limit: how often it may be delivered.
        """
        if state is RecordState.AVAILABLE and self.delivery_count >= delivery_count_limit:
            state = RecordState.ARCHIVED
        return self._to(state, member_id=NO_MEMBER, locked_until_ms=0)

    def archived(self) -> InFlight:
        """Return the state of a record that is no longer to be delivered."""
        return replace(self, state=RecordState.ARCHIVED, member_id=NO_MEMBER, before=None)

    def _to(self, state: RecordState, **changes: object) -> InFlight:
        if self.state not in MAY_FOLLOW[state]:
            raise IllegalTransitionError(f"{self.state.name} cannot become {state.name}")
        return replace(self, state=state, **changes)  # type: ignore[arg-type]  # names and types are ours


@dataclass(slots=True)
class InFlightBatch:
    """A range of records; `records` has the state of each once they differ."""

    first: int
    last: int
    whole: InFlight
    records: dict[int, InFlight] | None = None

    def split(self) -> dict[int, InFlight]:
        """Keep a state for each record from now on."""
        if self.records is None:
            self.records = dict.fromkeys(range(self.first, self.last + 1), self.whole)
        return self.records

    def parts(self, first: int, last: int) -> Iterator[tuple[int, int, InFlight]]:
        """Yield the ranges of one state each within two offsets; a batch without own states is yielded whole."""
        if self.records is None:
            yield self.first, self.last, self.whole
            return
        for offset in range(max(first, self.first), min(last, self.last) + 1):
            yield offset, offset, self.records[offset]

    def put(self, first: int, state: InFlight) -> None:
        """Set the state of the part that begins at an offset."""
        if self.records is None:
            self.whole = state
        else:
            self.records[first] = state

    def get(self, first: int) -> InFlight:
        """Return the state of the part that begins at an offset."""
        return self.whole if self.records is None else self.records[first]


@dataclass(slots=True)
class InFlightBatches:
    """The batches of a share partition, in the order of offsets."""

    _firsts: list[int] = field(default_factory=list)
    _batches: dict[int, InFlightBatch] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        for first in list(self._firsts):
            yield self._batches[first]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch."""
        self._firsts.insert(bisect_right(self._firsts, batch.first), batch.first)
        self._batches[batch.first] = batch

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at an offset or before it."""
        at = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[at - 1]] if at else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that overlap with a range."""
        found = []
        for at in range(max(0, bisect_right(self._firsts, first) - 1), bisect_right(self._firsts, last)):
            batch = self._batches[self._firsts[at]]
            if batch.last >= first:
                found.append(batch)
        return found

    def first(self) -> InFlightBatch:
        """Return the first batch, which must exist."""
        return self._batches[self._firsts[0]]

    def pop_first(self) -> None:
        """Remove the first batch."""
        del self._batches[self._firsts.pop(0)]
