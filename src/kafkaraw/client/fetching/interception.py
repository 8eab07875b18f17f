"""Interceptors of a consumer. Only a consumer with interceptors runs this code.

`on_consume` is called with the records of each batch, when the application reads the batch and on its thread;
`on_commit` is called with committed offsets. Exceptions from interceptors are logged and have no other effect, as in
Java. Start at `Interception.batch`.
Source: KIP-42; Kafka's ConsumerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.interceptors import guarded, methods_of, name_of_method
from kafkaraw.errors import KafkaError, copy_to_raise
from kafkaraw.records import Batch, Record, TopicPartition

log: logging.Logger = logging.getLogger(__name__)


class Interception:
    """The interceptors of one consumer.

    Args:
        interceptors: in the order in which they are called.
    """

    def __init__(self, interceptors: Sequence[object]) -> None:
        self._interceptors = interceptors
        self._on_consume = methods_of(interceptors, "on_consume")
        self._on_commit = methods_of(interceptors, "on_commit")
        self._closed = False

    def batch(self, *given: Any, **settings: Any) -> Batch:  # noqa: ANN401 - the arguments of `Batch`
        """Make a batch whose records are seen by `on_consume` before the user sees them."""
        if not self._on_consume:
            return Batch(*given, **settings)
        made = _InterceptedBatch(*given, **settings)
        made.intercept = self.consumed
        return made

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call `on_commit` with committed offsets."""
        for on_commit in self._on_commit:
            guarded(on_commit, dict(offsets))

    def close(self) -> None:
        """Call `close` of the interceptors, once."""
        if not self._closed:
            self._closed = True
            for close in methods_of(self._interceptors, "close"):
                guarded(close)

    def consumed(self, records: list[Record]) -> list[Record]:
        """Pass the records of a batch to `on_consume`; returns those for the application."""
        for on_consume in self._on_consume:
            changed: Any = guarded(on_consume, list(records))
            if changed is None:
                continue
            try:
                given = list(changed)
            except TypeError:
                given = [changed]
            if all(isinstance(record, Record) for record in given):
                records = given
            else:
                log.error("%s returned %s instead of records", name_of_method(on_consume), type(changed).__name__)
        return records


class _InterceptedBatch(Batch):
    """A batch that passes its records once to the interceptors, and then returns the records that these return."""

    __slots__ = ("_problem", "_problem_offset", "_seen", "intercept")

    intercept: Callable[[list[Record]], list[Record]]
    _seen: list[Record] | None
    _problem: KafkaError | None
    _problem_offset: int

    def __init__(self, *given: Any, **settings: Any) -> None:  # noqa: ANN401 - the arguments of `Batch`
        super().__init__(*given, **settings)
        self._seen = self._problem = None
        self._problem_offset = 0

    def behind_damage(self) -> Batch:
        """See `Batch.behind_damage`; interceptors may have left out the last records before the damage."""
        at_damage = self.starting_at(max(self.start_offset, self._problem_offset))
        rest = Batch.behind_damage(at_damage)
        assert isinstance(rest, _InterceptedBatch)
        rest._seen = rest._problem = None  # noqa: SLF001 - same class; the interceptors have not seen these records
        return rest

    def __iter__(self) -> Iterator[Record]:
        seen = self._seen
        if seen is None:
            seen = self._look()
        return self._given(seen)

    def values(self) -> list[bytes | None]:
        return [record.value for record in self]

    def _look(self) -> list[Record]:
        records: list[Record] = []
        try:
            records.extend(super().__iter__())
        except KafkaError as error:  # raised after the records before it were returned
            self._problem = error
            self._problem_offset = records[-1].offset + 1 if records else self.start_offset
        self._seen = self.intercept(records)
        return self._seen

    def _given(self, seen: list[Record]) -> Iterator[Record]:
        for record in seen:
            if record.offset >= self.start_offset and (self.end_offset is None or record.offset < self.end_offset):
                yield record
        if self._problem is not None:
            raise copy_to_raise(self._problem)
