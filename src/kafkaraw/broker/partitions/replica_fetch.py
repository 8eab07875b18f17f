"""The fetch of a follower and the possible answers of its leader. Values only.

The rules are those of a Fetch request between brokers since KIP-595: a follower sends the leader epoch of its last
batch, and the leader reports log divergence if its own log differs before the fetch offset.
"""

from __future__ import annotations

from kafkaraw.core.log.leader_epochs import EpochEnd
from kafkaraw.light_classes import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """The fetch of a follower, from its log end offset.

    Attributes:
        node: id of the follower.
        leader_epoch: the leader epoch in which it follows.
        offset: its log end offset.
        last_epoch: the leader epoch of its last batch; -1 if its log is empty.
        high_watermark: the high watermark that it knows.
        log_start_offset: its log start offset.
    """

    node: int
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches to append to the follower's log; empty if only the high watermark or log start offset is new."""

    data: bytes
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """Log divergence: the end of the follower's last epoch in the leader's log."""

    end: EpochEnd


@dataclass(frozen=True, slots=True)
class StartsLater:
    """The leader's log starts after the fetch offset; the follower must restart its log there."""

    log_start_offset: int


ReplicaAnswer = Batches | Parts | StartsLater
