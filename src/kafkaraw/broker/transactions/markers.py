"""The markers of one coordinator: sent to the leaders of a transaction's partitions until all of them are written.

A coordinator sends as long as it is in office. What it has sent may still be under way when another one has taken
over, has ended the transaction itself, and the next one has begun: markers carry the coordinator's epoch, by which a
partition tells old ones (`ProducerTable.check_marker`). Who refuses them so knows better; they are not sent again.
Source: kafka.coordinator.transaction.{TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.transactions.coordinator import Identity
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
        node: where the coordinator is.
        controller: what the cluster's nodes share.
        epoch: of the coordinator: that of the leader of its partition of `__transaction_state`.
        in_office: whether it coordinates, still.
    """

    def __init__(
        self, node: TransactionNode, controller: Controller, epoch: int, in_office: Callable[[], bool]
    ) -> None:
        self._node = node
        self._controller = controller
        self._epoch = epoch
        self._in_office = in_office

    def later(self, act: Callable[[], None]) -> None:
        """Do something after a moment, if it is still for this coordinator to do."""
        asyncio.get_running_loop().call_later(RETRY_S, lambda: act() if self._in_office() else None)

    def write(self, ending: Transaction, done: Callable[[], None]) -> None:
        """Have the outcome written into each partition; see `coordinator.Markers`."""
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

        def heard(code: ErrorCode) -> None:
            if not code:
                written(topic_partition)
            elif code not in _OVERTAKEN:
                self.later(lambda: self._send(topic_partition, ending, written))

        leader = self._controller.transactions_of(state.leader)
        if leader is None:
            heard(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        identity = Identity(ending.producer_id, ending.producer_epoch)

        def reply(code: ErrorCode) -> None:
            self._node.send(leader, lambda: heard(code))

        self._node.send(leader, lambda: leader.append_marker(topic_partition, kind, identity, self._epoch, reply))
