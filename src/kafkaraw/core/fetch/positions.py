"""Where a consumer stands in one partition, and how that changes.

    LOST ------- seek, seek_to ------------> READY or SEARCHING
    SEARCHING -- found --------------------> READY
    READY ------ out_of_range, seek_to ----> SEARCHING, or LOST when the policy is "none"

`offset` is the next one to hand to the user, and the one to fetch from when nothing is buffered. Every change that the
user or a reset makes raises `generation`; an answer to a question of an older generation is stale and is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkaraw.errors import KafkaError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class Standing(Enum):
    """Whether a partition can be fetched."""

    LOST = "no position, and no policy by which to find one"
    SEARCHING = "the position is being looked up"
    READY = "the position is known"


@dataclass(slots=True)
class PartitionPosition:
    """One partition that a consumer reads.

    Attributes:
        topic_partition: which.
        standing: see the state diagram above.
        offset: the next offset to hand over; -1 unless READY.
        search_timestamp: where to look while SEARCHING: milliseconds, or one of the negative marks.
        last_epoch: leader epoch of the record before `offset`; -1 when unknown. A broker whose log has another one
            there says so (KIP-320).
        generation: raised by every jump; answers carry the one they were asked with.
        size_wanted_bytes: what the next fetch needs to bring one whole batch, when the last one was cut short.
        high_watermark: end of what may be read, as of the last answer; -1 when unknown.
        last_stable_offset: end of what is decided about in transactions, as of the last answer; -1 when unknown.
        log_start_offset: first offset that the broker still has, as of the last answer; -1 when unknown.
        failures_count: failed tries in a row.
        failing_since_ms: when the first of them was.
        retry_at_ms: not to be asked about before.
        error: the last failure.
    """

    topic_partition: TopicPartition
    standing: Standing = Standing.LOST
    offset: int = NO_OFFSET
    search_timestamp: int = LATEST_TIMESTAMP
    last_epoch: int = NO_EPOCH
    generation: int = 0
    size_wanted_bytes: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    failures_count: int = 0
    failing_since_ms: int = 0
    retry_at_ms: int = 0
    error: KafkaError | None = None
    _topic_id: Uuid = ZERO_UUID
    _replica_id: int | None = None
    _replica_until_ms: int = 0

    def seek(self, offset: int) -> None:
        """Go to an offset."""
        self._jump(Standing.READY)
        self.offset = offset

    def seek_to(self, timestamp: int) -> None:
        """Go to where a timestamp (or a mark such as `EARLIEST_TIMESTAMP`) is, once that has been looked up."""
        self._jump(Standing.SEARCHING)
        self.search_timestamp = timestamp

    def lose(self) -> None:
        """Give the position up."""
        self._jump(Standing.LOST)

    def found(self, offset: int) -> None:
        """The search succeeded."""
        self.seek(offset)

    def advance(self, next_offset: int, last_epoch: int, topic_id: Uuid) -> None:
        """Records up to `next_offset` were handed over; the last was written in that leader epoch of that topic."""
        self.offset = next_offset
        self.last_epoch = last_epoch
        self._topic_id = topic_id

    def last_epoch_in(self, topic_id: Uuid) -> int:
        """`last_epoch`, if it is one of that topic: one that was made anew under the name counts from 0 again."""
        return self.last_epoch if topic_id == self._topic_id else NO_EPOCH

    def read_from(self, replica_id: int, until_ms: int) -> None:
        """Read from a replica that the leader named, until a time (KIP-392)."""
        self._replica_id = replica_id
        self._replica_until_ms = until_ms

    def replica_at(self, now_ms: int) -> int | None:
        """The replica to read from instead of the leader, if any."""
        return self._replica_id if now_ms < self._replica_until_ms else None

    def leave_replica(self) -> bool:
        """Ask the leader again; says whether another replica was to be asked."""
        left = self._replica_id is not None
        self._replica_id, self._replica_until_ms = None, 0
        return left

    def failed(self, error: KafkaError, now_ms: int, delay_ms: int) -> None:
        """A try went wrong; the next one is due after `delay_ms`."""
        if not self.failures_count:
            self.failing_since_ms = now_ms
        self.failures_count += 1
        self.error = error
        self.retry_at_ms = now_ms + delay_ms

    def worked(self) -> None:
        """An answer without error came in."""
        self.failures_count = 0
        self.retry_at_ms = 0
        self.error = None

    def _jump(self, standing: Standing) -> None:
        self.standing = standing
        self.generation += 1
        self.offset = NO_OFFSET
        self.last_epoch = NO_EPOCH
        self.size_wanted_bytes = 0
        self.worked()
