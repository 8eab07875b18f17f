"""Requests about leaders, the quorum, features and registrations: our broker's answers are Apache Kafka's."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kafkaraw.protocol.messages.add_raft_voter import Listener as VoterListener
from kafkaraw.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaraw.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kafkaraw.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkaraw.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkaraw.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkaraw.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkaraw.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kafkaraw.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.raw_client import RawClient

TOPIC = f"answers-{uuid.uuid4().hex[:12]}"
NODE_ID = 1  # that of the fixture's Apache Kafka
DIRECTORY = Uuid(bytes(15) + b"\x07")
CONTROLLER = VoterListener(name="CONTROLLER", host="localhost", port=9093)
OF_THE_CLUSTER = {"leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp", "throttle_time_ms"}
OF_THE_CLUSTER |= {"last_caught_up_timestamp", "host", "port", "name", "replica_directory_id"}


def elect(*partitions: tuple[str, list[int]], kind: int = 0) -> ElectLeadersRequest:
    topics = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in partitions]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1000)


def quorum(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=topic, partitions=[DescribeQuorumRequestPartitionData(partition_index=number)]
            )
            for topic, number in partitions
        ]
    )


def update(*features: tuple[str, int, int]) -> UpdateFeaturesRequest:
    updates = [
        FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
        for feature, level, kind in features
    ]
    return UpdateFeaturesRequest(timeout_ms=1000, feature_updates=updates, validate_only=True)


def add_voter(voter_id: int = 7, directory: Uuid = DIRECTORY, **fields: Any) -> AddRaftVoterRequest:
    given = {"cluster_id": None, "listeners": [CONTROLLER], **fields}
    return AddRaftVoterRequest(timeout_ms=1000, voter_id=voter_id, voter_directory_id=directory, **given)


def remove_voter(
    voter_id: int = 7, directory: Uuid = DIRECTORY, cluster_id: str | None = None
) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory)


def reassign(
    *partitions: tuple[int, list[int] | None], topic: str = TOPIC, factor: bool = True
) -> AlterPartitionReassignmentsRequest:
    moves = [ReassignablePartition(partition_index=number, replicas=nodes) for number, nodes in partitions]
    topics = [ReassignableTopic(name=topic, partitions=moves)]
    return AlterPartitionReassignmentsRequest(timeout_ms=1000, allow_replication_factor_change=factor, topics=topics)


def reassignments(*topics: str) -> ListPartitionReassignmentsRequest:
    asked = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9]) for topic in topics]
    return ListPartitionReassignmentsRequest(timeout_ms=1000, topics=asked)


TX = "transaction.version"
QUESTIONS: list[tuple[Any, int]] = [
    *((elect((TOPIC, [0, 9]), ("nope", [0]), kind=kind), version) for kind in (0, 1) for version in (1, 2)),
    (elect((TOPIC, [0]), (TOPIC, [1])), 0),
    (elect((TOPIC, [0]), kind=7), 2),
    (reassign((0, [NODE_ID]), (1, None), (9, [NODE_ID]), (1, [])), 1),
    *((reassign((0, nodes)), 0) for nodes in ([], [NODE_ID, NODE_ID], [NODE_ID, 77, 78], [-3])),
    (reassign((0, [NODE_ID, 2]), factor=False), 1),
    (reassign((0, [NODE_ID]), topic="nope"), 1),
    (AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[]), 1),
    (reassignments(TOPIC, "nope"), 0),
    (ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0),
    *((quorum(("__cluster_metadata", 0)), version) for version in (0, 1, 2)),
    (quorum(("__cluster_metadata", 1)), 2),
    (quorum((TOPIC, 0)), 2),
    (quorum(), 2),
    *((update((TX, level, kind)), 1) for level in (-1, 0, 1, 2, 3) for kind in (1, 2, 3, 9)),
    *((update((TX, level, 2)), 2) for level in (1, 3)),
    *((update((feature, level, 1)), 2) for feature in ("no.such", "") for level in (0, 1)),
    (update((TX, 1, 2), ("no.such", 1, 1)), 1),
    (update((TX, 1, 2), (TX, 2, 1)), 1),
    (update(), 2),
    *((UnregisterBrokerRequest(broker_id=broker), 0) for broker in (77, -1)),
    *((add_voter(), version) for version in (0, 1)),
    (add_voter(cluster_id="another"), 1),
    (add_voter(listeners=[]), 1),
    (add_voter(voter_id=-7), 1),
    (add_voter(directory=ZERO_UUID), 1),
    (remove_voter(), 0),
    (remove_voter(cluster_id="another"), 0),
    (remove_voter(voter_id=-7), 0),
    (remove_voter(directory=ZERO_UUID), 0),
    (ListConfigResourcesRequest(resource_types=[4]), 1),
    (ListConfigResourcesRequest(resource_types=[4, 4, 8]), 1),
    (ListConfigResourcesRequest(resource_types=[1]), 1),
]


@pytest.fixture(scope="module")
def brokers(apache_kafka: ApacheKafka) -> Iterator[tuple[str, str]]:
    with EmbeddedBroker(properties={"node.id": NODE_ID}) as ours:
        both = (apache_kafka.bootstrap_servers, ours.bootstrap_servers)
        for servers in both:
            with Admin(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic(TOPIC, partitions=2, replication_factor=1)])
        yield both


def test_answers_are_those_of_apache_kafka(brokers: tuple[str, str]) -> None:
    differing = []
    answers_of = []
    for servers in brokers:
        with RawClient(servers) as client:
            answers_of.append([_comparable(client.ask(request, version)) for request, version in QUESTIONS])
    for (request, version), *answers in zip(QUESTIONS, *answers_of, strict=True):
        if answers[0] != answers[1]:
            differing.append(f"{request} {version}\n  Kafka: {answers[0]}\n  ours:  {answers[1]}")
    assert not differing, "\n".join(differing)


def _comparable(answer: Any) -> Any:
    if dataclasses.is_dataclass(answer):
        fields = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
        return {name: _comparable(value) for name, value in fields.items() if name not in OF_THE_CLUSTER}
    if isinstance(answer, list):
        found = [_comparable(one) for one in answer]
        return sorted(found, key=repr)
    if isinstance(answer, str):
        return re.sub(r'the cluster id "[^"]*"', "the cluster id", answer)
    return answer
