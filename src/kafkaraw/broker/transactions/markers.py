"""The markers of one coordinator: sent to the leaders of a transaction's partitions until all of them are written.

A coordinator sends markers until it resigns. A marker may arrive late: after another node has become coordinator and
completed the transaction, and the producer has begun the next one. Markers therefore carry the coordinator's epoch, and
partitions refuse those of an earlier coordinator (`ProducerTable.check_marker`). A marker refused for this reason is
not sent again.
Source: kafka.coordinator.transaction.{TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.broker.transactions.states import Transaction, TransactionState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import ControlType, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.controller import Controller
    from kafkaraw.broker.transactions.node import TransactionNode

RETRY_S: Final = 0.05
_OVERTAKEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class MarkerSender:
    """Ends the transactions of one coordinator in their partitions; implements `coordinator.Markers`.

    Args:
        node: the coordinator's node.
        controller: the cluster's controller.
        epoch: the coordinator's epoch, which is the leader epoch of its partition of `__transaction_state`.
        is_active: returns whether the coordinator is still active.
    """

    def __init__(
        self, node: TransactionNode, controller: Controller, epoch: int, is_active: Callable[[], bool]
    ) -> None:
        self._node = node
        self._controller = controller
        self._epoch = epoch
        self._is_active = is_active

    def later(self, act: Callable[[], None]) -> None:
        """Call a function after a delay, if this coordinator is still active then."""
        asyncio.get_running_loop().call_later(RETRY_S, lambda: act() if self._is_active() else None)

    def write(self, ending: Transaction, done: Callable[[], None]) -> None:
        """Write a marker to each partition; see `coordinator.Markers`."""
        left = dict.fromkeys(sorted(ending.partitions))
        if not left:
            done()

        def written(topic_partition: TopicPartition) -> None:
            left.pop(topic_partition, None)
            if not left:
                done()

        for topic_partition in list(left):
            self._send(topic_partition, ending, written)

    def _send(
        self, topic_partition: TopicPartition, ending: Transaction, written: Callable[[TopicPartition], None]
    ) -> None:
        committed = ending.state is TransactionState.PREPARE_COMMIT
        state = self._controller.catalog.state_of(topic_partition)
        if state is None:  # the topic was deleted
            written(topic_partition)
            return

        def on_result(code: ErrorCode) -> None:
            if not code:
                written(topic_partition)
            elif code not in _OVERTAKEN:
                self.later(lambda: self._send(topic_partition, ending, written))

        leader = self._controller.transactions_of(state.leader)
        if leader is None:
            on_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        identity = ProducerIdAndEpoch(ending.producer_id, ending.producer_epoch)

        def reply(code: ErrorCode) -> None:
            self._node.send(leader, lambda: on_result(code))

        self._node.send(leader, lambda: leader.append_marker(topic_partition, kind, identity, self._epoch, reply))
