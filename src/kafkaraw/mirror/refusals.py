"""Partitions that cannot be copied now, because a cluster refuses them: why, since which offset, and when to try again.

A refusal concerns one partition or topic: a record that is too large for the copy, one that its `cleanup.policy` does
not take, a missing permission, a damaged batch. The flow leaves these partitions out and copies the others. It tries
again with backoff, as a failed task of Kafka Connect would be restarted, and continues with the first record that was
refused. Positions do not move meanwhile, so nothing is left out. Pure.

Start at `Refusals` and `refused_by`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import BrokerError, KafkaError, TopicAuthorizationError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from random import Random

BACKOFF: Final = Backoff(1_000, 60_000)
"""Between the attempts to copy a partition that was refused."""

_OF_RECORDS: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
"""Errors of brokers about records of one partition."""


class Refusal(NamedTuple):
    """Why a partition is not copied now.

    Attributes:
        source: the partition of the source.
        offset: of the first record that is refused.
        stop_offset: batches before it can be copied; the batch that begins there has the record.
        kind: name of the error, such as `MESSAGE_TOO_LARGE`.
        text: the stage, the partition, the offset, the error and what to change.
    """

    source: TopicPartition
    offset: int
    stop_offset: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """A partition that a flow leaves out for now.

    Attributes:
        refusal: the last one.
        attempts: how many times in a row it was refused.
        retry_at_s: when the flow tries again, on the clock of its loop.
    """

    refusal: Refusal
    attempts: int
    retry_at_s: float


class Refusals:
    """The partitions that a flow leaves out, over all of its sessions.

    Args:
        rng: spreads the waits.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._stopped: dict[TopicPartition, StoppedPartition] = {}

    @property
    def stopped(self) -> Mapping[TopicPartition, StoppedPartition]:
        """The partitions whose last attempt was refused, by partition of the source."""
        return self._stopped

    def add(self, refusal: Refusal, now_s: float) -> bool:
        """Take note of a refusal; returns whether it is another one than the last of this partition."""
        before = self._stopped.get(refusal.source)
        attempts = 1 if before is None else before.attempts + 1
        retry_at_s = now_s + BACKOFF.delay_ms(attempts - 1, self._rng) / 1000
        self._stopped[refusal.source] = StoppedPartition(refusal, attempts, retry_at_s)
        return before is None or (before.refusal.offset, before.refusal.kind) != (refusal.offset, refusal.kind)

    def left_out(self, now_s: float) -> Collection[TopicPartition]:
        """Return the partitions to leave out: all of them, or none when the first one is due.

        They are tried together: an attempt that is refused interrupts the others of the flow.
        """
        due_at_s = self.due_at_s
        return () if due_at_s is None or due_at_s <= now_s else self._stopped.keys()

    @property
    def due_at_s(self) -> float | None:
        """When the next attempt is due; None if nothing is left out."""
        return min((each.retry_at_s for each in self._stopped.values()), default=None)

    def moved(self, of: TopicPartition, offset: int) -> bool:
        """Take note of a committed position; returns whether the partition continues that was refused before."""
        stopped = self._stopped.get(of)
        if stopped is None or offset <= stopped.refusal.stop_offset:
            return False
        del self._stopped[of]
        return True

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is not among the partitions of the flow any more."""
        for gone in self._stopped.keys() - partitions:
            del self._stopped[gone]


def is_of_records(error: BaseException) -> bool:
    """Return whether a broker refuses records of one partition with this error."""
    return isinstance(error, BrokerError) and error.code in _OF_RECORDS


def refused_by(error: BaseException | None) -> tuple[set[TopicPartition], set[str]]:
    """Return the partitions and the topics to which access is denied, by an error or its causes."""
    partitions, topics = set[TopicPartition](), set[str]()
    for each in _causes(error):
        for item, failure in each.failures.items():
            if isinstance(failure, TopicAuthorizationError) and isinstance(item, TopicPartition):
                partitions.add(item)
            elif isinstance(failure, TopicAuthorizationError) and isinstance(item, str):
                topics.add(item)
        if isinstance(each, TopicAuthorizationError) and not each.failures and each.resource_name:
            topics.add(each.resource_name)
    return partitions, topics


def _causes(error: BaseException | None) -> Iterator[KafkaError]:
    while error is not None:
        if isinstance(error, KafkaError):
            yield error
        error = error.__cause__


def refusal_of(
    source: TopicPartition,
    target: TopicPartition,
    offset: int,
    stage: str,
    error: BaseException,
    stop_offset: int | None = None,
) -> Refusal:
    """Return a refusal with its message.

    Args:
        source: the partition.
        target: its copy.
        offset: of the first record that is refused.
        stage: what was done with it.
        error: of the broker.
        stop_offset: the first offset of its batch; None if `offset` is.
    """
    kind = error.name if isinstance(error, BrokerError) else type(error).__name__
    text = f"{stage} {name_of(source)} at offset {offset} to {name_of(target)}: {error}"
    return Refusal(source, offset, offset if stop_offset is None else stop_offset, kind, text)
