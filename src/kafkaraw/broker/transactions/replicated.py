"""Waiting until all replicas in sync have what a leader has appended."""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.broker.partition import Partition
from kafkaraw.protocol.error_codes import ErrorCode


def when_replicated(partition: Partition, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
    """Call `done` when the high watermark has reached an offset, at once when it has.

    Args:
        partition: that this node leads.
        next_offset: the offset after what was appended.
        done: told NONE, or NOT_LEADER_OR_FOLLOWER when the leader has changed before.
    """
    waiting = _Waiting(partition, next_offset, done)
    partition.watch(waiting)
    waiting.readable(0)


class _Waiting:
    """One who waits."""

    def __init__(self, partition: Partition, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._next_offset = next_offset
        self._done = done

    def readable(self, size_bytes: int) -> None:
        """The high watermark has moved."""
        if self._partition.high_watermark >= self._next_offset:
            self._end(ErrorCode.NONE)

    def ended(self) -> None:
        """The leader has changed, or leads in another epoch now."""
        self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, code: ErrorCode) -> None:
        self._partition.unwatch(self)
        self._done(code)
