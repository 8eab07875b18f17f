"""The services of a node for its group coordinators, and how their decisions become durable.

A coordinator decides on records, writes them to its log, and acts on them once they are replicated (`Writer`). A
decision about a consumer group is made on a copy of the group, which replaces the group when the records are written
(`GroupChange`). Time, random ids, topics and settings come from the node (`CoordinatorContext`).
Source: org.apache.kafka.coordinator.common.runtime.{CoordinatorRuntime, CoordinatorResult, SnapshottableCoordinator}.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable

NO_PRODUCER: Final = (-1, -1)
_HASH_BYTES: Final = 8
# A coordinator whose log refuses a write answers with these: clients look the coordinator up again and retry.
_CODES_OF_LOG: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
}

_logger = logging.getLogger("kafkaraw.broker.groups")

Done: TypeAlias = Callable[[ErrorCode], None]
"""Called with NONE once records are replicated, or with the code of the failure."""
Write: TypeAlias = Callable[[Sequence[GroupRecord], Done], None]
"""Writes records to the coordinator's log."""


# ---- services of the node


class Caller(NamedTuple):
    """The client that sent a request.

    Attributes:
        host: the client's address, as Kafka shows it.
        version: of the request.
        sees: whether the client may describe a topic.
    """

    client_id: str
    host: str
    version: int
    sees: Callable[[str], bool] = lambda name: True


class Topics(Protocol):
    """The cluster's topics (Kafka's CoordinatorMetadataImage)."""

    @property
    def version(self) -> int:
        """Grows with every change."""
        ...

    def find(self, name: str) -> tuple[Uuid, int] | None:
        """Return the id and the number of partitions of a topic."""
        ...

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics to which a regex may subscribe."""
        ...


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """Return a number that changes when one of these topics changes, is created or deleted; 0 if none exists."""
    known = [(name, topics.find(name)) for name in sorted(names)]
    if not any(found for _, found in known):
        return 0
    text = repr([(name, bytes(found[0]), found[1]) for name, found in known if found is not None])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big", signed=True)


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """What decisions about groups need besides the group.

    Attributes:
        write: writes records; `done` is called with NONE once they are replicated, or with the code of the failure.
        timers: timeouts of sessions and rebalances.
        now_ms: wall clock, in milliseconds since 1970.
        new_id: returns a random UUID, as text.
        limits: the broker's settings.
        limits_of: the settings of one group.
    """

    write: Write
    timers: Timers
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    limits: Limits
    limits_of: Callable[[str], Limits]


# ---- decisions


@dataclass(slots=True)
class GroupChange:
    """A decision about a consumer group, which takes effect when its records are written.

    Attributes:
        group: a copy of the group, changed.
        records: the records that change it.
        after: what to do once they are in the log.
        becomes: the classic group that replaces it, if its last member of the consumer protocol leaves.
    """

    group: ConsumerGroup
    records: list[GroupRecord] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    becomes: ClassicGroup | None = None

    def add(self, *records: GroupRecord) -> None:
        """Add records, and apply them to the copy."""
        for record in records:
            self.records.append(record)
            self.group.replay(record)


BeginChange: TypeAlias = Callable[[str, bool], GroupChange]
"""Returns the change for a request, given the group's id, and whether to create the group."""
CommitChange: TypeAlias = Callable[[GroupChange, Done], None]
"""Writes a change, and calls back once it is replicated."""


# ---- the log


class Journal(Protocol):
    """The log of a coordinator."""

    def append(self, records: Sequence[GroupRecord], producer: tuple[int, int]) -> int:
        """Write records; return the log position up to which they have to be replicated.

        Raises:
            ApiError: they cannot be written.
        """
        ...

    def when_replicated(self, position: int, done: Done) -> None:
        """Call `done` with NONE when the log is replicated up to a position, or with why it will not be."""
        ...


class Batch(NamedTuple):
    """A batch of the log: records, or the end of a transaction.

    Attributes:
        producer_id: of the transaction; -1 for none.
        committed: whether the transaction was committed; None for records.
    """

    producer_id: int
    records: Sequence[GroupRecord]
    committed: bool | None = None


class Writer:
    """Writes the decisions of a coordinator until it resigns.

    Args:
        journal: its log.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._position = 0
        self._resigned = False

    @property
    def resigned(self) -> bool:
        """Whether another node coordinates now."""
        return self._resigned

    def resign(self) -> None:
        """Answer everything that is still to be replicated with NOT_COORDINATOR."""
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
            done: called with NONE once they are replicated, or with the code of the failure.
            producer: the producer id and epoch of the transaction that they are part of.
            appended: called before, when they are in the log and may still be lost.
        """
        try:
            position = self._journal.append(records, producer)
        except ApiError as error:
            _logger.warning("the records of a group cannot be written: %s", printable(error.message))
            done(_CODES_OF_LOG.get(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        self._position = position
        appended()
        self._wait_for(position, done)

    def when_replicated(self, done: Done) -> None:
        """Call `done` once all records that were written are replicated, or with the error code."""
        self._wait_for(self._position, done)

    def _wait_for(self, position: int, done: Done) -> None:
        def replicated(code: ErrorCode) -> None:
            if self._resigned:
                done(ErrorCode.NOT_COORDINATOR)
            else:
                done(_CODES_OF_LOG.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE))

        self._journal.when_replicated(position, replicated)
