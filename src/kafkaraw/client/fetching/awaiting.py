"""Batches whose deserializers may return awaitables. Only an `AsyncConsumer` with such a deserializer runs this code.

A batch is decoded as a whole before the application gets it, because iteration cannot wait. The cursor keeps a batch
in hand until that is done: `NotDecodedError` stops a read of it, the consumer waits for `AwaitedBatch.decode`, and
reads again. So nothing is lost if the call is cancelled, or if a server cannot be asked. Start at `AwaitedBatch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kafkaraw.client.deserializers import AwaitingConversion
from kafkaraw.core.fetch.cursor import by_partition
from kafkaraw.errors import DeserializationError, KafkaError, ProtocolError, copy_to_raise
from kafkaraw.records import Batch, Record, TopicPartition

RECORDS_AT_ONCE: Final = 500
"""Records that are decoded before other tasks of the event loop run."""


class NotDecodedError(Exception):
    """A batch was read that has to be decoded first; it stays in hand.

    Attributes:
        batch: the batch to decode.
    """

    def __init__(self, batch: AwaitedBatch) -> None:
        super().__init__("the batch is not decoded yet")
        self.batch = batch


class AwaitedBatch(Batch):
    """A batch that is decoded by a coroutine, once, before it is read.

    Attributes:
        conversion: converts a record, or returns an awaitable of the converted one.
        intercept: returns the records that the application gets; None without interceptors.
    """

    __slots__ = ("_decoded", "_origin", "_problem", "_undecoded_from", "conversion", "intercept")

    conversion: AwaitingConversion
    intercept: Callable[[list[Record]], list[Record]] | None
    _decoded: list[Record] | None
    _origin: AwaitedBatch | None
    _problem: KafkaError | None
    _undecoded_from: int | None

    def __init__(self, *given: Any, **settings: Any) -> None:  # noqa: ANN401 - the arguments of `Batch`
        super().__init__(*given, **settings)
        self._decoded = self._problem = self._origin = self._undecoded_from = None

    def starting_at(self, offset: int) -> Batch:
        """Return the same records from a later offset on; one that could not be decoded is tried again."""
        rest = super().starting_at(offset)
        assert isinstance(rest, AwaitedBatch)
        if self._undecoded_from is not None and offset >= self._undecoded_from:
            rest._forget_decoded()  # noqa: SLF001 - same class
        return rest

    def behind_damage(self) -> Batch:
        """See `Batch.behind_damage`; interceptors may have left out the last records before the damage."""
        at_damage = self.starting_at(max(self.start_offset, self._undecoded_from or 0))
        rest = Batch.behind_damage(at_damage)
        assert isinstance(rest, AwaitedBatch)
        rest._forget_decoded()  # noqa: SLF001 - same class; it is no part of a batch in hand, which `decode` would decode
        return rest

    def _forget_decoded(self) -> None:
        self._decoded = self._problem = self._origin = self._undecoded_from = None

    def _copy(self) -> Batch:
        made = super()._copy()
        if self._decoded is None and isinstance(made, AwaitedBatch):
            made._origin = self  # noqa: SLF001 - same class
        return made

    def check_decoded(self) -> None:
        """See that the batch can be read.

        Raises:
            NotDecodedError: it has to be decoded first; names the batch of which this is a part.
        """
        if self._decoded is None:
            raise NotDecodedError(self._origin or self)

    def __iter__(self) -> Iterator[Record]:
        self.check_decoded()
        return self._given()

    def values(self) -> list[bytes | None]:
        """Return the converted values alone."""
        return [record.value for record in self]

    def _given(self) -> Iterator[Record]:
        for record in self._decoded or ():
            if record.offset >= self.start_offset and (self.end_offset is None or record.offset < self.end_offset):
                yield record
        if self._problem is not None:
            raise copy_to_raise(self._problem)

    async def decode(self) -> None:
        """Decode the records, up to the first one that cannot be; reading raises its error behind the others.

        Raises:
            RetriableError: a deserializer could not ask a server; the batch stays as it is, and may be decoded again.
        """
        records: list[Record] = []
        problem: KafkaError | None = None
        failed_at: int | None = None
        try:
            for record in super().__iter__():
                made = self.conversion(record)
                records.append(made if isinstance(made, Record) else await made)
                if not len(records) % RECORDS_AT_ONCE:
                    await asyncio.sleep(0)
        except DeserializationError as error:
            problem, failed_at = error, error.offset
        except ProtocolError as error:  # damaged; the cursor skips the wire batch
            problem, failed_at = error, records[-1].offset + 1 if records else self.start_offset
        self._decoded = records if self.intercept is None else self.intercept(records)
        self._problem, self._undecoded_from = problem, failed_at


def by_partition_decoded(batches: list[Batch]) -> tuple[dict[TopicPartition, Batch], Sequence[Batch]]:
    """The cursor's `Conversion` of `poll`, for batches that have to be decoded first.

    Raises:
        NotDecodedError: one of them is not.
    """
    for batch in batches:
        _check(batch)
    return by_partition(batches)


def first_decoded(batches: list[Batch]) -> tuple[Batch | None, Sequence[Batch]]:
    """The cursor's `Conversion` for one batch; the others are left.

    Raises:
        NotDecodedError: it is not decoded.
    """
    if not batches:
        return None, ()
    _check(batches[0])
    return batches[0], batches[1:]


def _check(batch: Batch) -> None:
    if isinstance(batch, AwaitedBatch):
        batch.check_decoded()
