"""The producer machine while partitions are made part of a transaction: it is not idle before that is known."""

from __future__ import annotations

from kafkaraw.core.producer.events import (
    AddPartitions,
    BatchesSealed,
    Fail,
    PartitionsAdded,
    ProducerIdentity,
    ProducerIdReceived,
    TransactionAborts,
    TransactionBegun,
)
from kafkaraw.core.producer.machine import ProducerLimits, ProducerMachine
from kafkaraw.errors import DeliveryError
from kafkaraw.records import TopicPartition
from tests.core.producer.machine_driver import FakeBatch

T0 = TopicPartition("t", 0)


class Leader:
    def leader_of(self, topic_partition: TopicPartition) -> int:
        return 1


def test_an_abort_has_to_wait_for_partitions_that_are_being_added():
    """What arrives after the end would open a transaction that nobody ends."""
    machine = ProducerMachine(ProducerLimits(transactional=True), Leader(), lambda attempt: 10)
    machine.receive(ProducerIdReceived(ProducerIdentity(7, 0)), 0)
    machine.receive(TransactionBegun(implicit=False), 0)
    machine.receive(BatchesSealed([FakeBatch()], [0]), 0)  # type: ignore[list-item]
    assert AddPartitions(frozenset({T0})) in machine.actions()
    machine.receive(TransactionAborts(lambda entry: DeliveryError(str(entry))), 5)
    assert any(isinstance(action, Fail) for action in machine.actions())
    assert not machine.idle
    machine.receive(PartitionsAdded(frozenset({T0}), None), 9)
    assert machine.idle
