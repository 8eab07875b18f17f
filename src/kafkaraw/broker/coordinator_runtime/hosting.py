"""The coordinators that a node hosts: one for each partition of their topic of which the node is leader.

A coordinator starts once all records in its log are replicated. A new leader may find a record that the previous leader
had not replicated to all in-sync replicas. If the coordinator used it in a response, and the next leader lacked it, the
client would have a wrong response. Used by the coordinators of transactions, of groups and of share groups, whose nodes
also need an `Alarm` for their timers, and `OwedAnswers` for the callbacks that they have not called.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.coordinator_log import when_replicated
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Hosted(Generic[C]):
    leader_epoch: int
    coordinator: C


class Hosting(Generic[C]):
    """The coordinators of one kind on one node.

    Args:
        topic: name of their topic.
        make: reads the log of a partition; returns its coordinator and a callable that starts it, or None on failure.
        resign: stops a coordinator.
    """

    def __init__(
        self,
        topic: str,
        make: Callable[[Partition], tuple[C, Callable[[], None]] | None],
        resign: Callable[[C], None],
    ) -> None:
        self._topic = topic
        self._make = make
        self._end = resign
        self._hosted: dict[int, _Hosted[C]] = {}
        self._loading: dict[int, int] = {}  # partition -> leader epoch, until its log is replicated
        self._closed = False

    def lead_or_follow(self, partition: Partition) -> None:
        """Start or stop the coordinator of a partition, as its new state says."""
        index = partition.topic_partition.partition
        hosted = self._hosted.get(index)
        if hosted is not None and not (partition.is_leader and hosted.leader_epoch == partition.leader_epoch):
            self.drop(index)
        if self._loading.get(index) != partition.leader_epoch or not partition.is_leader:
            self._loading.pop(index, None)
        if partition.is_leader and index not in self._hosted and index not in self._loading:
            self._load(index, partition)

    def _load(self, index: int, partition: Partition) -> None:
        epoch = self._loading[index] = partition.leader_epoch

        def replicated(code: ErrorCode) -> None:
            if self._loading.get(index) == epoch and not self._closed:
                del self._loading[index]
                if not code:
                    self._begin(index, partition)

        when_replicated(partition, partition.log.log_end_offset, replicated)

    def _begin(self, index: int, partition: Partition) -> None:
        made = self._make(partition)
        if made is not None:
            coordinator, start = made
            self._hosted[index] = _Hosted(partition.leader_epoch, coordinator)
            start()

    def drop(self, index: int) -> None:
        """Stop the coordinator of a partition."""
        self._loading.pop(index, None)
        hosted = self._hosted.pop(index, None)
        if hosted is not None:
            self._end(hosted.coordinator)

    def close(self) -> None:
        """Stop all coordinators."""
        self._closed = True
        for index in list(self._hosted):
            self.drop(index)

    def is_active(self, index: int, leader_epoch: int) -> bool:
        """Return whether the coordinator that started in that leader epoch is still active."""
        hosted = self._hosted.get(index)
        return hosted is not None and hosted.leader_epoch == leader_epoch

    def all(self) -> list[C]:
        """Return the coordinators, by partition."""
        return [self._hosted[index].coordinator for index in sorted(self._hosted)]

    def find(self, index: int) -> C | None:
        """Return the coordinator of a partition; None if this node does not host it."""
        hosted = self._hosted.get(index)
        return None if hosted is None else hosted.coordinator

    def coordinator(self, index: int) -> C:
        """Return the coordinator of a partition.

        Raises:
            ApiError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if index in self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{index} is being loaded")
        hosted = self._hosted.get(index)
        if hosted is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"{self._topic}-{index} has another coordinator")
        return hosted.coordinator


def loop_ms() -> float:
    """Return the time of the running loop, in milliseconds."""
    return asyncio.get_running_loop().time() * 1000


class Alarm:
    """Calls a function at the earliest of the times that were set.

    Args:
        act: the function; it sets the next time.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ms: float) -> None:
        """Call the function at a time of the loop, in milliseconds, or earlier."""
        at_s = at_ms / 1000
        if self._handle is not None:
            if self._handle.when() <= at_s:
                return
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_at(at_s, self._ring)

    def cancel(self) -> None:
        """Do not call the function."""
        if self._handle is not None:
            self._handle.cancel()

    def _ring(self) -> None:
        self._handle = None
        self._act()


class OwedAnswers:
    """Callbacks that are called once: with an answer, or with another value if the node stops first."""

    def __init__(self) -> None:
        self._give_up: dict[object, Callable[[], None]] = {}

    def owe(self, done: Callable[[T], None], otherwise: T) -> Callable[[T], None]:
        """Return a callback that passes its first argument to `done`.

        Args:
            done: the callback of the client.
            otherwise: its argument if the node stops first.
        """
        key = object()
        self._give_up[key] = lambda: done(otherwise)

        def answer(value: T) -> None:
            if self._give_up.pop(key, None) is not None:
                done(value)

        return answer

    def give_up(self) -> None:
        """Answer all that is open, because the node stops."""
        owed, self._give_up = self._give_up, {}
        for give_up in owed.values():
            give_up()
