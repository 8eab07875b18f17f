"""Which coordinators a node hosts: one for each partition of their topic that it leads, as long as it does.

A coordinator begins once all that its log says cannot be lost. A successor may find a state that its predecessor had
not got to all replicas: if it answered by that, and the next leader did not have it, a client would have been told what
is not so. Used by the coordinators of transactions and of groups.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state_topics.replicated import when_replicated
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class _Hosted(Generic[C]):
    leader_epoch: int
    coordinator: C


class Hosting(Generic[C]):
    """The coordinators of one kind on one node.

    Args:
        topic: the name of their topic.
        make: reads the log of a partition; gives its coordinator, and what makes that start. None when it cannot.
        resign: ends a coordinator.
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
        self._loading: dict[int, int] = {}  # the leader epoch in which what the log says is waited for
        self._closed = False

    def lead_or_follow(self, partition: Partition) -> None:
        """A partition has a new state: begin to coordinate, or stop."""
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
        """Coordinate that partition no longer."""
        self._loading.pop(index, None)
        hosted = self._hosted.pop(index, None)
        if hosted is not None:
            self._end(hosted.coordinator)

    def close(self) -> None:
        """Coordinate nothing any more."""
        self._closed = True
        for index in list(self._hosted):
            self.drop(index)

    def in_office(self, index: int, leader_epoch: int) -> bool:
        """Whether the coordinator that began in that epoch still is one."""
        hosted = self._hosted.get(index)
        return hosted is not None and hosted.leader_epoch == leader_epoch

    def all(self) -> list[C]:
        """The coordinators, by partition."""
        return [self._hosted[index].coordinator for index in sorted(self._hosted)]

    def find(self, index: int) -> C | None:
        """The coordinator of a partition, when it is here."""
        hosted = self._hosted.get(index)
        return None if hosted is None else hosted.coordinator

    def coordinator(self, index: int) -> C:
        """The coordinator of a partition.

        Raises:
            Refusal: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if index in self._loading:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{index} is being loaded")
        hosted = self._hosted.get(index)
        if hosted is None:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"{self._topic}-{index} is coordinated elsewhere")
        return hosted.coordinator
