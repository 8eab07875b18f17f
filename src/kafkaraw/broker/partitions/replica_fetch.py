"""What a follower asks its leader, and what the leader can answer. Values only.

The rules are those of a Fetch request between brokers since KIP-595: a follower says which epoch wrote its last batch,
and the leader says so when their logs part before that.
"""

from __future__ import annotations

from kafkaraw.broker.log.leader_epochs import EpochEnd
from kafkaraw.light_classes import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """A follower asks for what comes after its log.

    Attributes:
        node: who asks.
        leader_epoch: the epoch in which it follows.
        offset: where its log ends.
        last_epoch: the epoch that wrote its last batch; -1 when its log is empty.
        high_watermark: what it takes for the high watermark.
        log_start_offset: where its log starts.
    """

    node: int
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches that follow on the follower's log; perhaps none, when only one of the other offsets is new."""

    data: bytes
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """The follower's log parts from the leader's: here is how far the leader has the follower's last epoch."""

    end: EpochEnd


@dataclass(frozen=True, slots=True)
class StartsLater:
    """The leader's log begins after the end of the follower's: the follower is to begin there."""

    log_start_offset: int


ReplicaAnswer = Batches | Parts | StartsLater
