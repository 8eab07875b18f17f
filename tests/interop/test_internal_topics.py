"""Writing to internal topics and changing them: the same requests to Apache Kafka and to our broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import encode_batch
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka
from tests.interop.raw_client import Closed, RawClient

INTERNAL = ("__consumer_offsets", "__transaction_state")
ADMIN_CLIENT = "__admin_client"
PATIENCE_S = 30.0
NODES_MAX = 2


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    topics = {
        name: value for name, value in SINGLE_NODE.items() if "topic.num.partitions" in name or ".log.num" in name
    }
    with EmbeddedBroker(properties={**topics, "share.coordinator.state.topic.num.partitions": "4"}) as broker:
        yield broker


def make_internal_topics(servers: str) -> None:
    """Both are made when a coordinator is looked for."""
    with RawClient(servers) as client:
        for kind in (0, 1):
            deadline = time.monotonic() + PATIENCE_S
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
            while client.ask(request, 4).coordinators[0].error_code:
                assert time.monotonic() < deadline
                time.sleep(0.2)


def produced(servers: str, topic: str, topic_id: Any, version: int, **how: Any) -> object:
    """The code, base offset and log start offset that a Produce is answered with; an offset is told apart from none."""
    client_id, acks, partition = how.get("client_id", "raw"), how.get("acks", -1), how.get("partition", 0)
    record = (int(time.time() * 1000), b"\0\1\x7f\xff", b"x", ())  # a key that promises more bytes than there are
    data = PartitionProduceData(index=partition, records=encode_batch([record]))
    asked = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])
    with RawClient(servers, client_id=client_id) as client:
        try:
            answer = client.ask(ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[asked]), version)
        except Closed:
            return "closed"
    (answered,) = answer.responses[0].partition_responses
    return ErrorCode(answered.error_code).name, min(answered.base_offset, 0), answered.log_start_offset


def conversation(servers: str) -> list[object]:
    make_internal_topics(servers)
    said: list[object] = []
    with Admin(bootstrap_servers=servers) as admin:
        found = {name: told.topic_id for name, told in admin.describe_topics(INTERNAL).items()}
    for topic in INTERNAL:
        said += [produced(servers, topic, found[topic], version) for version in (3, 7, 9, 13)]
        for how in (
            {"client_id": None},
            {"client_id": ADMIN_CLIENT + "x"},
            {"client_id": ADMIN_CLIENT},
            {"partition": 99},
            {"acks": 5},
            {"acks": 0},
        ):
            said.append(produced(servers, topic, found[topic], 9, **how))
        part = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        change = AlterableConfig(name="cleanup.policy", config_operation=0, value="delete")
        settings = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
        more = CreatePartitionsTopic(name=topic, count=60, assignments=None)
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        with RawClient(servers) as client:
            deleted = client.ask(DeleteRecordsRequest(topics=[part], timeout_ms=5_000), 2).topics[0].partitions[0]
            said.append(("delete records", deleted.error_code, deleted.low_watermark))
            grown = client.ask(CreatePartitionsRequest(topics=[more], timeout_ms=5_000, validate_only=True), 3)
            said.append(("more partitions", grown.results[0].error_code))
            altered = client.ask(IncrementalAlterConfigsRequest(resources=[settings], validate_only=True), 1)
            said.append(("settings", altered.responses[0].error_code))
            created = client.ask(CreateTopicsRequest(topics=[new], timeout_ms=5_000), 7).topics[0]
            said.append(("create", created.error_code, created.error_message))
    of_controllers = CreatableTopic(
        name="__cluster_metadata", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with RawClient(servers) as client:
        created = client.ask(CreateTopicsRequest(topics=[of_controllers], timeout_ms=5_000), 7).topics[0]
        said.append(("create", created.error_code, created.error_message))
    return said


def of_apache_kafka() -> list[object]:
    """What a node of its own says, since what the admin client writes stops the coordinators of those partitions.

    Such a node has once ended in the middle, on a busy machine: then another one is asked, so that it answers twice.
    """
    for _ in range(NODES_MAX):
        with ApacheKafka() as apache_kafka, contextlib.suppress(Closed):
            return conversation(apache_kafka.bootstrap_servers)
    raise AssertionError(f"{NODES_MAX} nodes of Apache Kafka have closed a connection that they keep open elsewhere")


@pytest.mark.usefixtures("apache_kafka")  # which says why when it cannot run here
def test_internal_topics_are_protected_as_apache_kafkas_are(our_broker: EmbeddedBroker):
    ours = conversation(our_broker.bootstrap_servers)
    assert ours == of_apache_kafka()
    assert ours.count(("INVALID_TOPIC_EXCEPTION", -1, -1)) == 2 * 6
    assert ours.count(("NONE", 0, 0)) == 2, "the admin client may"
