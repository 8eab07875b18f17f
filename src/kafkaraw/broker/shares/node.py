"""The share coordinators of a node, their logs, and the way to those of other nodes.

The leader of a partition of `__share_group_state` is the coordinator of the share partitions in it. `ShareNode` starts
and stops coordinators when leaders change, and reaches them for the group coordinators and the share partitions of its
node. It does not know requests; handlers call it. Start at `ask`.
Source: org.apache.kafka.coordinator.share.ShareCoordinatorService; org.apache.kafka.server.share.persister.
{DefaultStatePersister, PersisterStateManager}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.hosting import Hosting, OwedAnswers
from kafkaraw.broker.coordinator_runtime.internal_topic import InternalTopic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.controller import Controller
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.shares.coordinator import Done, Outcome, ShareCoordinator
    from kafkaraw.broker.shares.hosted import HostedShareCoordinator
    from kafkaraw.broker.shares.state import ShareKey
    from kafkaraw.net import Clock
    from kafkaraw.protocol import Uuid

SHARE_STATE_TOPIC: Final = "__share_group_state"
FIRST_PAUSE_S: Final = 0.01
PAUSE_MAX_S: Final = 0.5
TRIES_MAX: Final = 8
"""Tries of an operation whose coordinator is not available; together they take about 2 s."""
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)

_logger = logging.getLogger("kafkaraw.broker.shares")

Operation = Callable[["ShareCoordinator", "Done"], None]
"""Something that a coordinator is to do; it reports the outcome to its second argument."""


class ShareNode:
    """The share coordinators of one node, and its access to the others.

    Args:
        node_id: id of the node.
        controller: the cluster's controller.
        config: the node's properties.
        clock: wall clock.
    """

    def __init__(self, node_id: int, controller: Controller, config: BrokerConfig, clock: Clock) -> None:
        self._node_id = node_id
        self._controller = controller
        self._config = config
        self._clock = clock
        settings = config.shares
        self.topic: InternalTopic = InternalTopic(
            SHARE_STATE_TOPIC,
            settings.topic_partitions,
            settings.topic_replication_factor,
            settings.topic_min_isr,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "retention.ms": "-1",
                "segment.bytes": str(settings.topic_segment_bytes),
            },
        )
        self._hosting = Hosting(SHARE_STATE_TOPIC, self._make, lambda here: here.coordinator.resign())
        self._timer: asyncio.TimerHandle | None = None
        self._owed = OwedAnswers()
        self._closed = False

    # -- which coordinators are here ---------------------------------------------------------------------------------

    def lead_or_follow(self, partition: Partition) -> None:
        """Start or stop the coordinator of a partition of `__share_group_state`, as its new state says."""
        self._hosting.lead_or_follow(partition)

    def _make(self, partition: Partition) -> tuple[HostedShareCoordinator, Callable[[], None]] | None:
        from kafkaraw.broker.shares.hosted import host  # only for a broker with share groups

        try:
            made, load = host(
                partition, self._controller.catalog, self._clock, self._config.shares.updates_per_snapshot
            )
        except OSError as error:
            index = partition.topic_partition.partition
            _logger.error("%s-%d cannot be read, its states are not available: %s", SHARE_STATE_TOPIC, index, error)
            return None
        self._watch_time()
        return made, load

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop the coordinator of a partition of `__share_group_state` whose replica is removed from this node."""
        self._hosting.drop(topic_partition.partition)

    def close(self) -> None:
        """Stop the coordinators, and answer all operations in progress."""
        self._closed = True
        self._hosting.close()
        if self._timer is not None:
            self._timer.cancel()
        self._owed.give_up()

    def hosted(self) -> list[ShareCoordinator]:
        """Return the coordinators on this node."""
        return [here.coordinator for here in self._hosting.all()]

    def coordinator(self, key: ShareKey) -> ShareCoordinator:
        """Return the coordinator of a share partition, which this node hosts.

        Raises:
            ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, or COORDINATOR_NOT_AVAILABLE while there is none.
        """
        self._create_topic_if_missing()
        partition = self.topic.partition_for(key.coordinator_key, self._controller.catalog)
        return self._hosting.coordinator(partition.partition).coordinator

    def leader_for(self, coordinator_key: str) -> int | None:
        """Return the node that coordinates a share partition; None while no node does.

        Raises:
            ApiError: `__share_group_state` cannot be created.
        """
        self._create_topic_if_missing()
        return self.topic.leader_for(coordinator_key, self._controller.catalog)

    def _create_topic_if_missing(self) -> None:
        self.topic.create_if_missing(self._controller, self._config)

    def forget_topic(self, topic_id: Uuid) -> None:
        """Delete the states of a deleted topic."""
        for coordinator in self.hosted():
            coordinator.forget_topic(topic_id)

    # -- operations of this node -------------------------------------------------------------------------------------

    def ask(self, key: ShareKey, operation: Operation, done: Done) -> None:
        """Have the coordinator of a share partition do something, on whichever node it is.

        While there is no coordinator, or it loads, the node tries again for about two seconds.

        Args:
            key: the share partition.
            operation: what to do.
            done: called once with the outcome.
        """
        answer = self._owing(done)

        def try_now(tries_left: int, pause_s: float) -> None:
            def tried(outcome: Outcome) -> None:
                if outcome.code not in _RETRIED or not tries_left or self._closed:
                    answer(outcome)
                    return
                loop = asyncio.get_running_loop()
                loop.call_later(pause_s, try_now, tries_left - 1, min(2 * pause_s, PAUSE_MAX_S))

            if not self._closed:
                self._send(key, operation, tried)

        try_now(TRIES_MAX, FIRST_PAUSE_S)

    def ask_each(
        self, operations: Mapping[ShareKey, Operation], done: Callable[[Mapping[ShareKey, Outcome]], None]
    ) -> None:
        """Do an operation for each of several share partitions.

        Args:
            operations: what to do, by share partition.
            done: called once with all outcomes.
        """
        outcomes: dict[ShareKey, Outcome] = {}
        if not operations:
            done(outcomes)

        def note(key: ShareKey, outcome: Outcome) -> None:
            outcomes[key] = outcome
            if len(outcomes) == len(operations):
                done(outcomes)

        for key, operation in operations.items():
            self.ask(key, operation, lambda outcome, key=key: note(key, outcome))  # type: ignore[misc]

    def _send(self, key: ShareKey, operation: Operation, done: Done) -> None:
        from kafkaraw.broker.shares.coordinator import Outcome

        try:
            leader = self.leader_for(key.coordinator_key)
        except ApiError as error:
            done(Outcome(error.code, error.message))
            return
        node = None if leader is None else self._controller.shares_of(leader)
        if node is None:
            done(Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no share coordinator"))
        elif node is self:
            self.run(key, operation, done)
        else:
            send = self._controller.replication.send
            send(lambda: node.run(key, operation, lambda outcome: send(lambda: done(outcome))))

    def run(self, key: ShareKey, operation: Operation, done: Done) -> None:
        """Do an operation for a node, by the coordinator on this node."""
        from kafkaraw.broker.shares.coordinator import Outcome

        answer = self._owing(done)
        try:
            if self._closed:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's node stops")
            coordinator = self.coordinator(key)
        except ApiError as error:
            answer(Outcome(error.code, error.message))
            return
        operation(coordinator, answer)

    def _owing(self, done: Done) -> Done:
        """Wrap `done` so that it is called once: with an outcome, or with an error if the node stops first."""
        from kafkaraw.broker.shares.coordinator import Outcome

        return self._owed.owe(done, Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the node stops"))

    # -- time --------------------------------------------------------------------------------------------------------

    def _watch_time(self) -> None:
        """Delete outdated records at intervals, while this node hosts a coordinator."""
        if self._timer is None and not self._closed and not self._config.read_only:
            interval_s = self._config.shares.prune_interval_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(interval_s, self._prune)

    def _prune(self) -> None:
        self._timer = None
        for here in self._hosting.all():
            here.prune(self._config.shares.cold_interval_ms)
        if self._hosting.all():
            self._watch_time()
