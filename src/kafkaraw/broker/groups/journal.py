"""How decisions about groups become durable: written as records, and counting once they cannot be lost.

Knows nothing of groups. Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaraw.broker.groups.means import Done
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.refusal import Refusal
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable

NO_PRODUCER: Final = (-1, -1)
# What a coordinator says when its log refuses: clients look for the coordinator and try again.
_ANSWERS: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
}

_logger = logging.getLogger("kafkaraw.broker.groups")


class Journal(Protocol):
    """Where records are made durable."""

    def append(self, records: Sequence[GroupRecord], producer: tuple[int, int]) -> int:
        """Write records; returns the position to wait for.

        Raises:
            Refusal: they cannot be written.
        """
        ...

    def when_safe(self, position: int, done: Done) -> None:
        """Call `done` with NONE when what is before a position cannot be lost, or with why that will not be so."""
        ...


class Batch(NamedTuple):
    """What a log says, in parts: records, or the end of a transaction.

    Attributes:
        producer_id: whose transaction it is; -1 for none.
        committed: whether the transaction was committed; None for records.
    """

    producer_id: int
    records: Sequence[GroupRecord]
    committed: bool | None = None


class Writer:
    """Writes what a coordinator decides, for as long as it is one.

    Args:
        journal: where records are kept.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._position = 0
        self._resigned = False

    @property
    def resigned(self) -> bool:
        """Whether another node decides now."""
        return self._resigned

    def resign(self) -> None:
        """Have everybody who waits be told that this is no coordinator any more."""
        self._resigned = True

    def write(self, records: Sequence[GroupRecord], done: Done) -> None:
        """Write records; see `append`."""
        self.append(records, done)

    def append(
        self,
        records: Sequence[GroupRecord],
        done: Done,
        *,
        producer: tuple[int, int] = NO_PRODUCER,
        appended: Callable[[], None] = lambda: None,
    ) -> None:
        """Write records.

        Args:
            records: at least one.
            done: told NONE once they cannot be lost, or why they were not written.
            producer: whose transaction they are part of.
            appended: called before, when they are in the log but may still be lost.
        """
        try:
            position = self._journal.append(records, producer)
        except Refusal as refusal:
            _logger.warning("the state of groups is not written: %s", printable(refusal.message))
            done(_ANSWERS.get(refusal.code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        self._position = position
        appended()
        self._wait_for(position, done)

    def when_safe(self, done: Done) -> None:
        """Call back once nothing that was written so far can be lost, or with why that will not be so."""
        self._wait_for(self._position, done)

    def _wait_for(self, position: int, done: Done) -> None:
        def safe(code: ErrorCode) -> None:
            if self._resigned:
                done(ErrorCode.NOT_COORDINATOR)
            else:
                done(_ANSWERS.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE))

        self._journal.when_safe(position, safe)
