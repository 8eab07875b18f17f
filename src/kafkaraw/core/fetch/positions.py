"""Where a consumer stands in one partition, and how that changes.

    LOST ------- seek, seek_to ------------> READY or SEARCHING
    SEARCHING -- found --------------------> READY
    READY ------ out_of_range, seek_to ----> SEARCHING, or LOST when the policy is "none"

`offset` is the next one to hand to the user, and the one to fetch from when nothing is buffered. Every change that the
user or a reset makes raises `generation`; an answer to a question of an older generation is stale and is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class Start(NamedTuple):
    """Where to begin.

    Attributes:
        offset: of the first record to give.
        leader_epoch: of the record before it; -1 when unknown.
    """

    offset: int
    leader_epoch: int = NO_EPOCH


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
        checked_epoch: the leader epoch in which a leader has confirmed the records before `offset`, where it had to be
            asked apart (KIP-320); -1 for none.
        generation: raised by every jump; answers carry the one they were asked with.
        size_wanted_bytes: what the next fetch needs to bring one whole batch, when the last one was cut short.
        high_watermark: end of what may be read, as of the last answer; -1 when unknown.
        last_stable_offset: end of what is decided about in transactions, as of the last answer; -1 when unknown.
        log_start_offset: first offset that the broker still has, as of the last answer; -1 when unknown.
        failures_count: failed tries in a row.
        failing_since_ms: when the first of them was.
        retry_at_ms: not to be asked about before.
        replica_until_ms: how long it is read from the replica that the leader named; 0 when from the leader.
        error: the last failure.
        touched: a list on which it puts itself whenever what it needs next may have changed; see `agenda.py`.
    """

    topic_partition: TopicPartition
    standing: Standing = Standing.LOST
    offset: int = NO_OFFSET
    search_timestamp: int = LATEST_TIMESTAMP
    last_epoch: int = NO_EPOCH
    checked_epoch: int = NO_EPOCH
    generation: int = 0
    size_wanted_bytes: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    failures_count: int = 0
    failing_since_ms: int = 0
    retry_at_ms: int = 0
    replica_until_ms: int = 0
    error: KafkaError | None = None
    touched: dict[TopicPartition, None] = field(default_factory=dict, repr=False, compare=False)
    _epochs: list[tuple[int, int]] = field(default_factory=list)  # (first offset, leader epoch), as far as needed
    _topic_id: Uuid = ZERO_UUID
    _replica_id: int | None = None

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Go to an offset; the record before it was written in that leader epoch."""
        self._jump(Standing.READY)
        self.offset = offset
        self.learn_epoch(leader_epoch)

    def seek_to(self, timestamp: int) -> None:
        """Go to where a timestamp (or a mark such as `EARLIEST_TIMESTAMP`) is, once that has been looked up."""
        self._jump(Standing.SEARCHING)
        self.search_timestamp = timestamp

    def lose(self) -> None:
        """Give the position up."""
        self._jump(Standing.LOST)

    def advance(self, next_offset: int, epochs: Sequence[tuple[int, int]], topic_id: Uuid) -> None:
        """Records up to `next_offset` were handed over.

        Args:
            next_offset: where to go on.
            epochs: the leader epochs in which they were written, each with the first offset of it.
            topic_id: of the topic that they come from.
        """
        self._epochs = [(self.offset - 1, self.last_epoch), *epochs]
        self.offset = next_offset
        self.last_epoch = self._epochs[-1][1]
        self._topic_id = topic_id
        self._touch()

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before an offset, of those that were handed over last; -1 when unknown."""
        return next((epoch for first, epoch in reversed(self._epochs) if first < offset), NO_EPOCH)

    def last_epoch_in(self, topic_id: Uuid) -> int:
        """`last_epoch`, if it is one of that topic: one that was made anew under the name counts from 0 again."""
        return self.last_epoch if self._topic_id in (topic_id, ZERO_UUID) else NO_EPOCH

    def learn_epoch(self, leader_epoch: int) -> None:
        """The record before the position turns out to be of this leader epoch; -1 forgets what was known."""
        self.last_epoch = leader_epoch
        self._epochs = [(self.offset - 1, leader_epoch)]
        self._touch()

    def want(self, size_bytes: int) -> None:
        """The next fetch has to bring so much, to bring one whole batch; 0 is any size."""
        if size_bytes != self.size_wanted_bytes:
            self.size_wanted_bytes = size_bytes
            self._touch()

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known of the partition's ends yet."""
        return self.high_watermark < 0

    def learn_ends(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """An answer told how far the partition goes."""
        if self.is_fresh != (high_watermark < 0):
            self._touch()
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    def read_from(self, replica_id: int, until_ms: int) -> None:
        """Read from a replica that the leader named, until a time (KIP-392)."""
        self._replica_id = replica_id
        self.replica_until_ms = until_ms
        self._touch()

    def replica_at(self, now_ms: int) -> int | None:
        """The replica to read from instead of the leader, if any."""
        return self._replica_id if now_ms < self.replica_until_ms else None

    def leave_replica(self) -> bool:
        """Ask the leader again; says whether another replica was to be asked."""
        left = self._replica_id is not None
        self._replica_id, self.replica_until_ms = None, 0
        if left:
            self._touch()
        return left

    def failed(self, error: KafkaError, now_ms: int, delay_ms: int) -> None:
        """A try went wrong; the next one is due after `delay_ms`."""
        if not self.failures_count:
            self.failing_since_ms = now_ms
        self.failures_count += 1
        self.error = error
        self.retry_at_ms = now_ms + delay_ms
        self._touch()

    def worked(self) -> None:
        """An answer without error came in."""
        if self.failures_count:
            self.failures_count = 0
            self.retry_at_ms = 0
            self.error = None
            self._touch()

    def _jump(self, standing: Standing) -> None:
        self.standing = standing
        self.generation += 1
        self.offset = NO_OFFSET
        self.last_epoch = NO_EPOCH
        self._epochs = []
        self._topic_id = ZERO_UUID
        self.checked_epoch = NO_EPOCH
        self.size_wanted_bytes = 0
        self.worked()
        self._touch()

    def _touch(self) -> None:
        self.touched[self.topic_partition] = None
