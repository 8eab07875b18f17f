"""The metadata quorum for the admin client: its leader, voters and observers, and changes of the voters.

Source: KIP-595, KIP-836, KIP-853, KIP-1186; Kafka's Admin.describeMetadataQuorum, addRaftVoter and removeRaftVoter.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, milliseconds
from kafkaraw.client.arguments import instance_of, list_of
from kafkaraw.errors import StaleMetadataError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kafkaraw.protocol.messages.add_raft_voter import Listener as VoterListener
from kafkaraw.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from kafkaraw.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

_METADATA_TOPIC: Final = "__cluster_metadata"


class RaftVoterEndpoint(NamedTuple):
    """An address of a voter."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the metadata log.

    Attributes:
        replica_id: the id of its node.
        directory_id: the id of its metadata directory; zero if the node does not return it.
        log_end_offset: its log end offset; -1 if unknown.
        last_fetch_ms: when it fetched last, in milliseconds since 1970; None for the leader, or if unknown.
        last_caught_up_ms: when it last had all records of the leader, in milliseconds since 1970; None if unknown.
    """

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    """The quorum of controllers that keeps the metadata of a cluster.

    Attributes:
        leader_id: the id of the active controller.
        leader_epoch: the epoch of the leader.
        high_watermark: the offset after the last committed record.
        voters: the controllers.
        observers: other nodes that read the metadata log, such as brokers.
        endpoints: the addresses of the voters, by id; empty from brokers before 3.9.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftVoterEndpoint, ...]]


class QuorumAdmin:
    """The operations on the metadata quorum.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> MetadataQuorum:
        deadline = self._calls.deadline(timeout)
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
                )
            ]
        )

        async def once() -> MetadataQuorum:
            return _quorum(await self._calls.ask_any(request, deadline))

        return await self._calls.retry(once, deadline)

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        deadline = self._calls.deadline(timeout)
        addresses = list_of(
            endpoints, RaftVoterEndpoint, "add_raft_voter", "RaftVoterEndpoint('CONTROLLER', 'localhost', 9093)"
        )
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=milliseconds(deadline),
            voter_id=voter_id,
            voter_directory_id=instance_of(directory_id, Uuid, "add_raft_voter", "Uuid.parse('...')"),
            listeners=[VoterListener(name=one.listener, host=one.host, port=one.port) for one in addresses],
        )

        async def once() -> None:
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                what = f"add voter {voter_id} with directory {directory_id}"
                raise failure(answer.error_code, answer.error_message, what, operation="ALTER")

        await self._calls.retry(once, deadline)

    async def remove_raft_voter(
        self, voter_id: int, directory_id: Uuid, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        deadline = self._calls.deadline(timeout)
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=voter_id,
            voter_directory_id=instance_of(directory_id, Uuid, "remove_raft_voter", "Uuid.parse('...')"),
        )

        async def once() -> None:
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                what = f"remove voter {voter_id} with directory {directory_id}"
                raise failure(answer.error_code, answer.error_message, what, operation="ALTER")

        await self._calls.retry(once, deadline)


def _quorum(answer: DescribeQuorumResponse) -> MetadataQuorum:
    what = "describe the metadata quorum"
    if answer.error_code:
        raise failure(answer.error_code, answer.error_message, what, operation="DESCRIBE")
    partitions = [one for topic in answer.topics for one in topic.partitions if topic.topic_name == _METADATA_TOPIC]
    if not partitions:
        raise StaleMetadataError(f"{what}: the broker's answer leaves out {_METADATA_TOPIC}; try again")
    found = partitions[0]
    if found.error_code:
        raise failure(found.error_code, found.error_message, what, operation="DESCRIBE")
    return MetadataQuorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        _replicas(found.current_voters),
        _replicas(found.observers),
        {
            node.node_id: tuple(RaftVoterEndpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in answer.nodes
        },
    )


def _replicas(states: Sequence[ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            one.replica_id,
            one.replica_directory_id or ZERO_UUID,
            one.log_end_offset,
            one.last_fetch_timestamp if one.last_fetch_timestamp >= 0 else None,
            one.last_caught_up_timestamp if one.last_caught_up_timestamp >= 0 else None,
        )
        for one in states
    )
