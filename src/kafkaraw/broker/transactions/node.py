"""The transaction coordinators of one node, and the markers that the node appends.

The leader of a partition of `__transaction_state` is the coordinator of the ids in it. `TransactionNode` starts and
stops coordinators when leaders change, and finds those of other nodes. It does not know requests; handlers call it.
Source: kafka.coordinator.transaction.{TransactionStateManager, TransactionMarkerChannelManager};
kafka.server.AddPartitionsToTxnManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.coordinator_log import when_replicated
from kafkaraw.broker.coordinator_runtime.hosting import Hosting, OwedAnswers
from kafkaraw.broker.coordinator_runtime.internal_topic import InternalTopic
from kafkaraw.broker.groups.node import OFFSETS_TOPIC
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import ControlType, TopicPartition, encode_control_batch

if TYPE_CHECKING:
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.controller import Controller
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch, TransactionCoordinator
    from kafkaraw.net import Clock

_logger = logging.getLogger("kafkaraw.broker")

TRANSACTION_TOPIC: Final = "__transaction_state"
FIRST_PAUSE_S: Final = 0.002
"""Delay of the first retry. Most transactions complete within it; it doubles up to Kafka's 20 ms."""

Code = Callable[[ErrorCode], None]


class TransactionNode:
    """The transaction coordinators of one node, and its access to the others.

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
        self.topic: InternalTopic = InternalTopic(
            TRANSACTION_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_min_isr,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
        self._hosting = Hosting(TRANSACTION_TOPIC, self._make, lambda coordinator: coordinator.resign())
        self._timer: asyncio.TimerHandle | None = None
        self._owed = OwedAnswers()
        self._closed = False

    # -- which coordinators are here ---------------------------------------------------------------------------------

    def lead_or_follow(self, partition: Partition) -> None:
        """Start or stop the coordinator of a partition of `__transaction_state`, as its new state says."""
        self._hosting.lead_or_follow(partition)

    def _make(self, partition: Partition) -> tuple[TransactionCoordinator, Callable[[], None]] | None:
        # Imported when the first client uses transactions: a broker without them never creates the topic.
        from kafkaraw.broker.transactions.coordinator import Limits, TransactionCoordinator
        from kafkaraw.broker.transactions.markers import MarkerSender
        from kafkaraw.broker.transactions.state_log import PartitionStateLog

        index, epoch = partition.topic_partition.partition, partition.leader_epoch
        log = PartitionStateLog(partition, self._clock.time_ms)
        markers = MarkerSender(self, self._controller, epoch, lambda: self._hosting.is_active(index, epoch))
        limits = Limits(self._config.transaction_max_timeout_ms, self._config.transactional_id_expiration_ms)
        coordinator = TransactionCoordinator(
            log, markers, self._controller.producer_ids.take, self._clock.time_ms, limits
        )
        try:
            found = log.read()
        except OSError as error:
            _logger.error(
                "%s-%d cannot be read, its transactional ids are not available: %s", TRANSACTION_TOPIC, index, error
            )
            return None

        def start() -> None:
            coordinator.load(found)
            if found:
                self._watch_time()

        return coordinator, start

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop the coordinator of a partition of `__transaction_state` whose replica is no longer on this node."""
        self._hosting.drop(topic_partition.partition)

    def close(self) -> None:
        """Stop the coordinators, and answer all pending callbacks with their fallback value."""
        self._closed = True
        self._hosting.close()
        if self._timer is not None:
            self._timer.cancel()
        self._owed.give_up()

    def hosted(self) -> list[TransactionCoordinator]:
        """Return the coordinators on this node."""
        return self._hosting.all()

    def coordinator(self, transactional_id: str) -> TransactionCoordinator:
        """Return the coordinator of a transactional id, if this node hosts it.

        Raises:
            ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, or COORDINATOR_NOT_AVAILABLE while there is none.
        """
        self._create_topic_if_missing()
        coordinator = self._hosting.coordinator(
            self.topic.partition_for(transactional_id, self._controller.catalog).partition
        )
        self._watch_time()
        return coordinator

    def leader_for(self, transactional_id: str) -> int | None:
        """Return the id of the node that coordinates a transactional id; None if there is none at the moment.

        Raises:
            ApiError: `__transaction_state` cannot be created.
        """
        self._create_topic_if_missing()
        return self.topic.leader_for(transactional_id, self._controller.catalog)

    def _create_topic_if_missing(self) -> None:
        """Create `__transaction_state` if it does not exist."""
        self.topic.create_if_missing(self._controller, self._config)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _watch_time(self) -> None:
        """Check for transaction timeouts and expired ids at intervals, while there are any transactional ids."""
        if self._timer is None and not self._config.read_only:
            interval_s = self._config.transaction_abort_interval_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(interval_s, self._look)

    def _look(self) -> None:
        self._timer = None
        for coordinator in self.hosted():
            coordinator.abort_overdue()
            coordinator.forget_unused()
        if any(coordinator.transactions() for coordinator in self.hosted()):
            self._watch_time()

    # -- partitions that brokers add by themselves -----------------------------------------------------------------

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        *,
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Ask the coordinator, on any node, to add or verify partitions before records are appended to them.

        Args:
            transactional_id: transactional id of the producer.
            identity: identity of the producer.
            partitions: the partitions of the records.
            add: add the partitions to the transaction (KIP-890, transaction.version 2); else only verify that they
                belong to it. While the previous transaction is being completed, the node retries up to
                add.partitions.to.txn.retry.backoff.max.ms, because a retry by the client would take longer.
            done: called with the code of each partition.
        """
        if not add:
            self._ask_coordinator(transactional_id, identity, partitions, False, done)
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._config.add_partitions_to_txn_retry_backoff_max_ms / 1000
        pause_max_s = self._config.add_partitions_to_txn_retry_backoff_ms / 1000

        def try_now(pause_s: float) -> None:
            def tried(codes: Mapping[TopicPartition, ErrorCode]) -> None:
                if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values() or loop.time() + pause_s > until_s:
                    done(codes)
                    return
                next_s = min(2 * pause_s, pause_max_s)
                again = self._owed.owe(lambda goes_on: try_now(next_s) if goes_on else done(codes), False)
                loop.call_later(pause_s, again, True)

            self._ask_coordinator(transactional_id, identity, partitions, True, tried)

        try_now(min(FIRST_PAUSE_S, pause_max_s))

    def _ask_coordinator(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        try:
            leader = self.leader_for(transactional_id)
        except ApiError as error:
            done(dict.fromkeys(partitions, error.code))
            return
        node = None if leader is None else self._controller.transactions_of(leader)
        if node is None:
            done(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def reply(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            self.send(node, lambda: done(codes))

        self.send(node, lambda: node.add_or_verify(transactional_id, identity, partitions, add, reply))

    def add_or_verify(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Answer another node's `join`."""
        from kafkaraw.broker.transactions.states import EPOCH_BUMP_VERSION  # as in `_make`

        gone = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            if self._closed:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's node stops")
            coordinator = self.coordinator(transactional_id)
        except ApiError as error:
            done(dict.fromkeys(partitions, error.code))
            return
        if not add:
            done(coordinator.verify_partitions(transactional_id, identity, partitions))
            return
        answer = self._owed.owe(done, gone)
        coordinator.add_partitions(
            transactional_id,
            identity,
            partitions,
            EPOCH_BUMP_VERSION,
            lambda code: answer(dict.fromkeys(partitions, code)),
        )

    def send(self, other: TransactionNode, message: Callable[[], None]) -> None:
        """Run a callback on another node, after the delay of a message; immediately if it is this node."""
        if other is self:
            message()
        else:
            self._controller.replication.send(message)

    # -- markers -------------------------------------------------------------------------------------------------------

    def append_marker(
        self,
        topic_partition: TopicPartition,
        kind: ControlType,
        identity: ProducerIdAndEpoch,
        coordinator_epoch: int,
        done: Code,
        *,
        transaction_version: int = 0,
    ) -> None:
        """Append a marker to a partition that this node leads; call `done` with the code once it is replicated."""
        partition = self._controller.replication.replica(self._node_id, topic_partition)
        if partition is None or self._closed:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        marker = encode_control_batch(
            kind,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._clock.time_ms(),
        )
        try:
            partition.producers.check_marker(
                identity.producer_id, identity.epoch, coordinator_epoch, transaction_version=transaction_version
            )
            appended = partition.append_as_leader(marker)
        except ApiError as error:
            done(error.code)
            return
        answer = self._owed.owe(done, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        def replicated(code: ErrorCode) -> None:
            groups = self._controller.groups_of(self._node_id)
            if not code and topic_partition.topic == OFFSETS_TOPIC and groups is not None:
                groups.marked(topic_partition, identity.producer_id, kind)
            answer(code)

        when_replicated(partition, appended.next_offset, replicated)
