"""Followers copy from their leaders, within the process: no sockets, but late, in order, and held when a test says so.

`Replication` is the network between the nodes; a `ReplicaFetcher` is the part of one follower replica that asks, waits
and takes. All happens in callbacks of the running loop; with a random source for the delays it follows from a seed.
Source: kafka.server.{AbstractFetcherThread, ReplicaFetcherThread}.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Final

from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.partitions.replica_fetch import ReplicaAnswer, ReplicaFetch
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")


class Replication:
    """What is between the nodes.

    Args:
        delay_s: how long a message is under way, in seconds; called for each. None is no time at all.
    """

    def __init__(self, delay_s: Callable[[], float] | None = None) -> None:
        self._delay_s = delay_s
        self._replicas: dict[tuple[int, TopicPartition], Partition] = {}
        self._fetchers: dict[tuple[int, TopicPartition], ReplicaFetcher] = {}
        self._held: dict[int, None] = {}

    def add(self, partition: Partition) -> None:
        """A node has a replica."""
        key = (partition.node_id, partition.topic_partition)
        self._replicas[key] = partition
        self._fetchers[key] = ReplicaFetcher(self, partition)

    def remove(self, partition: Partition) -> None:
        """A node no longer has a replica, or no longer runs."""
        key = (partition.node_id, partition.topic_partition)
        if self._replicas.pop(key, None) is not None:
            self._fetchers.pop(key).stop()

    def state_changed(self, partition: Partition) -> None:
        """A replica has taken the part that a new state gives it."""
        fetcher = self._fetchers.get((partition.node_id, partition.topic_partition))
        if fetcher is not None:
            fetcher.follow()

    def hold(self, node_id: int) -> None:
        """Let nothing reach a node's followers until `release`."""
        self._held[node_id] = None

    def release(self, node_id: int) -> None:
        """End a `hold`."""
        self._held.pop(node_id, None)
        for (node, _), fetcher in list(self._fetchers.items()):
            if node == node_id:
                fetcher.released()

    def is_held(self, node_id: int) -> bool:
        """Whether nothing reaches a node's followers."""
        return node_id in self._held

    def replica(self, node_id: int, topic_partition: TopicPartition) -> Partition | None:
        """A node's replica, when the node runs and has one."""
        return self._replicas.get((node_id, topic_partition))

    def send(self, message: Callable[[], None]) -> None:
        """Have something happen on another node, after the time that it takes to get there."""
        loop = asyncio.get_running_loop()
        if self._delay_s is None:
            loop.call_soon(message)
        else:
            loop.call_later(self._delay_s(), message)


class Step(enum.Enum):
    """What a fetcher is at."""

    IDLE = "idle"
    ASKING = "asking"
    WAITING = "waiting"
    TAKING = "taking"
    HELD = "held"
    FAILED = "failed"


MOVES: Final = {
    Step.IDLE: (Step.ASKING, Step.HELD),
    Step.ASKING: (Step.WAITING, Step.TAKING, Step.IDLE),
    Step.WAITING: (Step.ASKING, Step.IDLE),
    Step.TAKING: (Step.ASKING, Step.HELD, Step.FAILED, Step.IDLE),
    Step.HELD: (Step.ASKING, Step.IDLE),
    Step.FAILED: (Step.IDLE,),
}


class ReplicaFetcher:
    """Keeps one follower replica up with its leader.

    Args:
        replication: the way to the leader.
        partition: the replica.
    """

    def __init__(self, replication: Replication, partition: Partition) -> None:
        self.step = Step.IDLE
        self._replication = replication
        self._partition = partition
        self._following: tuple[int, int] | None = None  # leader and its epoch
        self._turn = 0  # tells messages of this conversation from those of one that is over

    def follow(self) -> None:
        """Follow the leader that the replica's state names; a leader that is followed already is not disturbed."""
        state = self._partition.state
        is_follower = state.leader not in (NO_LEADER, self._partition.node_id)
        following = (state.leader, state.leader_epoch) if is_follower else None
        if following == self._following:
            return
        self.stop()
        self._following = following
        if following is not None:
            self._ask()

    def stop(self) -> None:
        """Follow nobody."""
        self._following = None
        self._turn += 1
        if self.step is not Step.IDLE:
            self._move(Step.IDLE)

    def released(self) -> None:
        """Messages get through again."""
        if self.step is Step.HELD:
            self._ask()

    def _move(self, step: Step) -> None:
        assert step in MOVES[self.step], f"{self.step} -> {step}"
        self.step = step

    def _ask(self) -> None:
        if self._replication.is_held(self._partition.node_id):
            self._move(Step.HELD)
            return
        self._move(Step.ASKING)
        turn, fetch = self._turn, self._partition.next_fetch()
        self._replication.send(lambda: self._asked(turn, fetch))

    def _asked(self, turn: int, fetch: ReplicaFetch) -> None:
        """The question is with the leader."""
        if turn != self._turn or self._following is None:
            return
        leader = self._replication.replica(self._following[0], self._partition.topic_partition)
        answer = None if leader is None else leader.answer_follower(fetch, lambda: self._woken(turn, fetch))
        if turn != self._turn:
            return
        self._move(Step.WAITING if answer is None else Step.TAKING)
        if answer is not None:
            self._replication.send(lambda: self._answered(turn, answer))

    def _woken(self, turn: int, fetch: ReplicaFetch) -> None:
        """The leader has something new for a question that waits with it."""
        if turn == self._turn and self.step is Step.WAITING:
            self._move(Step.ASKING)
            asyncio.get_running_loop().call_soon(self._asked, turn, fetch)

    def _answered(self, turn: int, answer: ReplicaAnswer) -> None:
        """The answer is here."""
        if turn != self._turn:
            return
        if self._replication.is_held(self._partition.node_id):
            self._move(Step.HELD)
            return
        try:
            self._partition.take(answer)
        except OSError as error:
            _logger.error("%s cannot be written any more: %s", self._partition.log.folder, error)
            self._move(Step.FAILED)
            return
        self._ask()
