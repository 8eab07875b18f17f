"""What clusters have so that pages show it: a share group, a streams group, open and hanging transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kafkaraw import (
    AcknowledgeType,
    Admin,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    Producer,
    ShareConsumer,
)
from kafkaraw.errors import BrokerError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records.batch import encode_batch
from tests.interop.raw_client import RawClient
from tests.interop.streams_questions import beat, joins, part
from tests.waiting import wait_until

WAIT_S = 40
TRANSACTION = "loads-1"
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Brokers take a batch of a transaction that its coordinator does not know."""
STARTING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def share_group(servers: str, topic: str, group: str) -> None:
    """Let a group take four records: accept the first, release the second, reject the third, and leave the last."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(topic, 1, 1)])
        admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, group): {"share.auto.offset.reset": "earliest"}})
        for number in range(4):
            producer.send(topic, b"%d" % number)
    answers = (AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT)
    settings = {"share_acknowledgement_mode": "explicit", "group_id": group, "bootstrap_servers": servers}
    taken = 0
    with ShareConsumer(**settings) as consumer:
        consumer.subscribe([topic])
        while taken < 4:
            for batch in consumer.poll(1).values():
                for record in batch:
                    consumer.acknowledge(record, answers[record.offset])
                    taken += 1
            if taken >= 4:
                consumer.commit()


def _answered(client: RawClient, request: Any, version: int) -> Any:
    """Ask until a coordinator answers: a new broker has not created its internal topics and has no producer ids yet."""
    answer = client.ask(request, version)

    def is_answered() -> bool:
        nonlocal answer
        if answer.error_code in STARTING:
            answer = client.ask(request, version)
        return answer.error_code not in STARTING

    assert wait_until(is_answered, WAIT_S), answer
    assert not answer.error_code, answer
    return answer


@contextlib.contextmanager
def streams_group(servers: str, topic: str, group: str) -> Iterator[None]:
    """A streams group whose member runs the tasks of a topic with two partitions."""
    with Admin(bootstrap_servers=servers) as admin, RawClient(servers, client_id="streams-app") as client:
        admin.create_topics([NewTopic(topic, 2, 1)])
        admin.list_group_offsets([group])  # a new broker creates the coordinators' topic when one is looked for
        epoch = _answered(client, joins(group, part("0", topic)), 0).member_epoch

        def is_assigned() -> bool:
            nonlocal epoch
            epoch = _answered(client, beat(group, epoch), 0).member_epoch
            try:
                members = admin.describe_groups([group])[group].members
            except BrokerError as error:  # its coordinator has just stored it, and does not describe it yet
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                return False
            return bool(members) and len(members[0].active_tasks) == 2

        assert wait_until(is_assigned, WAIT_S)
        yield


@contextlib.contextmanager
def open_transaction(servers: str, topic: str) -> Iterator[None]:
    """A transaction that is open in both partitions of a topic."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    with Producer(bootstrap_servers=servers, transactional_id=TRANSACTION) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(2):
            producer.send(topic, b"open", partition=number).result(WAIT_S)
        yield
        with contextlib.suppress(Exception):
            producer.abort_transaction()


def hang(servers: str, topic: str) -> int:
    """Let a transaction hang in a topic of one partition, as after a bug of a broker; return its producer's id."""
    with Admin(bootstrap_servers=servers) as admin, RawClient(servers) as client:
        admin.create_topics([NewTopic(topic, 1, 1)])
        producer = _answered(client, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        batch = encode_batch(
            [(1_700_000_000_000, None, b"hangs", None)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=[data])
        answer = client.ask(request, 11).responses[0].partition_responses[0]
        assert not answer.error_code, answer
        number: int = producer.producer_id
        return number
