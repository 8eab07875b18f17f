"""Replication from leaders to followers within the process: without sockets, but with delays, in order, and pausable.

`Replication` is the network between the nodes. A `ReplicaFetcher` fetches from the leader for one follower replica.
All code runs in callbacks of the running loop; with a seeded source of delays, a run is reproducible.
Source: kafka.server.{AbstractFetcherThread, ReplicaFetcherThread}.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Final

from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.partitions.followers import ReplicaFetch, ReplicaFetchResult
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")


class Replication:
    """The network between the nodes.

    Args:
        delay_s: returns the delay of the next message, in seconds; called for each message. None is no delay.
    """

    def __init__(self, delay_s: Callable[[], float] | None = None) -> None:
        self._delay_s = delay_s
        self._replicas: dict[tuple[int, TopicPartition], Partition] = {}
        self._fetchers: dict[tuple[int, TopicPartition], ReplicaFetcher] = {}
        self._held: dict[int, None] = {}

    def add(self, partition: Partition) -> None:
        """Register a replica of a node."""
        key = (partition.node_id, partition.topic_partition)
        self._replicas[key] = partition
        self._fetchers[key] = ReplicaFetcher(self, partition)

    def remove(self, partition: Partition) -> None:
        """Unregister a replica that was deleted or whose node has stopped."""
        key = (partition.node_id, partition.topic_partition)
        if self._replicas.pop(key, None) is not None:
            self._fetchers.pop(key).stop()

    def state_changed(self, partition: Partition) -> None:
        """Start or stop fetching after a replica has become leader or follower."""
        fetcher = self._fetchers.get((partition.node_id, partition.topic_partition))
        if fetcher is not None:
            fetcher.follow()

    def hold(self, node_id: int) -> None:
        """Hold all messages to a node's followers until `release`."""
        self._held[node_id] = None

    def release(self, node_id: int) -> None:
        """Let a node's followers fetch again after `hold`."""
        self._held.pop(node_id, None)
        for (node, _), fetcher in list(self._fetchers.items()):
            if node == node_id:
                fetcher.released()

    def is_held(self, node_id: int) -> bool:
        """Return whether messages to a node's followers are held."""
        return node_id in self._held

    def replica(self, node_id: int, topic_partition: TopicPartition) -> Partition | None:
        """Return the replica of a node; None if the node is not running or has none."""
        return self._replicas.get((node_id, topic_partition))

    def send(self, message: Callable[[], None]) -> None:
        """Run a callback on another node, after the delay of a message."""
        loop = asyncio.get_running_loop()
        if self._delay_s is None:
            loop.call_soon(message)
        else:
            loop.call_later(self._delay_s(), message)


class Step(enum.Enum):
    """The state of a fetcher."""

    IDLE = "idle"
    ASKING = "asking"
    WAITING = "waiting"
    TAKING = "taking"
    HELD = "held"
    FAILED = "failed"


MOVES: Final[dict[Step, tuple[Step, ...]]] = {
    Step.IDLE: (Step.ASKING, Step.HELD),
    Step.ASKING: (Step.WAITING, Step.TAKING, Step.IDLE),
    Step.WAITING: (Step.ASKING, Step.IDLE),
    Step.TAKING: (Step.ASKING, Step.HELD, Step.FAILED, Step.IDLE),
    Step.HELD: (Step.ASKING, Step.IDLE),
    Step.FAILED: (Step.IDLE,),
}


class ReplicaFetcher:
    """Fetches from the leader for one follower replica.

    Args:
        replication: the network to the leader.
        partition: the follower replica.
    """

    def __init__(self, replication: Replication, partition: Partition) -> None:
        self.step: Step = Step.IDLE
        self._replication = replication
        self._partition = partition
        self._following: tuple[int, int] | None = None  # leader and its epoch
        self._turn = 0  # incremented by `stop`, so that messages of an earlier leader or epoch are ignored

    def follow(self) -> None:
        """Fetch from the leader of the replica's state; no effect if it is already fetching from that leader."""
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
        """Stop fetching."""
        self._following = None
        self._turn += 1
        if self.step is not Step.IDLE:
            self._move(Step.IDLE)

    def released(self) -> None:
        """Continue after `Replication.release`."""
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
        """Deliver the fetch to the leader."""
        if turn != self._turn or self._following is None:
            return
        leader = self._replication.replica(self._following[0], self._partition.topic_partition)
        try:
            answer = None if leader is None else leader.answer_follower(fetch, lambda: self._woken(turn, fetch))
        except OSError as error:  # the leader's log directory goes offline, and another replica becomes leader
            _logger.error("%s cannot be read by its leader: %s", self._partition.log.folder, error)
            answer = None
        if turn != self._turn:
            return
        self._move(Step.WAITING if answer is None else Step.TAKING)
        if answer is not None:
            self._replication.send(lambda: self._answered(turn, answer))

    def _woken(self, turn: int, fetch: ReplicaFetch) -> None:
        """Fetch again, because the leader has something new for a waiting fetch."""
        if turn == self._turn and self.step is Step.WAITING:
            self._move(Step.ASKING)
            asyncio.get_running_loop().call_soon(self._asked, turn, fetch)

    def _answered(self, turn: int, answer: ReplicaFetchResult) -> None:
        """Apply the leader's answer and fetch again."""
        if turn != self._turn:
            return
        if self._replication.is_held(self._partition.node_id):
            self._move(Step.HELD)
            return
        try:
            self._partition.take(answer)
        except OSError as error:
            _logger.error("%s cannot be written: %s", self._partition.log.folder, error)
            self._move(Step.FAILED)
            return
        self._ask()
