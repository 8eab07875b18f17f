"""Where the registry's records are: the interface of the log, and one in memory.

`MemoryLog` is the log of a registry without Kafka; `topic.TopicLog` is the topic `_schemas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafkaraw.net import Clock
from kafkaraw.schemas.server.records import RegistryRecord
from kafkaraw.schemas.server.state import Outcome, State


class SchemaLog(Protocol):
    """A log of registry records, and the state that they make."""

    @property
    def state(self) -> State:
        """What the records that were read make."""

    async def append(self, records: Sequence[RegistryRecord]) -> list[Outcome]:
        """Write records, and return when the state has them.

        Returns:
            what became of each record.

        Raises:
            RecordTooLargeError: a record does not fit; none is written.
            KafkaTimeoutError: whether the records are written is unknown.
            KafkaError: they could not be written.
        """

    async def catch_up(self) -> None:
        """Return when the state has all records that were written before this call.

        Raises:
            KafkaError: the end of the log could not be reached in time.
        """


class MemoryLog:
    """A log in memory: the registry forgets everything when it ends.

    Args:
        state: gets the records.
        clock: for their timestamps.
    """

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    @property
    def state(self) -> State:
        """What the records make."""
        return self._state

    async def append(self, records: Sequence[RegistryRecord]) -> list[Outcome]:
        """Apply records at once."""
        now_ms = self._clock.time_ms()
        return [self._state.apply(record, self._state.applied_offset + 1, now_ms) for record in records]

    async def catch_up(self) -> None:
        """Do nothing: the state has all records."""
