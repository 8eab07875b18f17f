"""Log directories for the admin client: what is in them, and moves of replicas between those of one broker.

Source: KIP-113, KIP-827, KIP-1066; Kafka's Admin.describeLogDirs, describeReplicaLogDirs and alterReplicaLogDirs.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.arguments import instance_of, list_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, StaleMetadataError, UsageError
from kafkaraw.light_classes import NamedTuple, dataclass, replace
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:  # few programs ask for log directories: the messages are imported on first use
    from kafkaraw.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from kafkaraw.protocol.messages.describe_log_dirs import DescribeLogDirsResult

_EXAMPLE: Final = "TopicPartitionReplica('orders', 0, 1)"


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on a broker."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory.

    Attributes:
        size_bytes: the size of its log, in bytes.
        offset_lag: how far it is behind, in offsets: behind the high watermark; as a future replica, behind the current
            one.
        is_future: whether it is a copy that replaces the current replica once it has caught up.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory.

    Attributes:
        path: where it is on the broker.
        error: why it cannot be used; None if it can.
        replicas: the replicas in it.
        total_bytes: the size of its volume, in bytes; None from brokers before 3.3.
        usable_bytes: the free space of its volume, in bytes; None from brokers before 3.3.
        is_cordoned: whether it gets no new replicas.
    """

    path: str
    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class ReplicaLogDir:
    """Where a replica is on its broker, and where it is being moved to.

    Attributes:
        path: the log directory of the replica; None if the broker has no such replica.
        offset_lag: how far it is behind the high watermark, in offsets; None if the broker has no such replica.
        future_path: the directory to which it is being moved; None if it is not moved.
        future_offset_lag: how far the copy there is behind the replica, in offsets; None if it is not moved.
    """

    path: str | None = None
    offset_lag: int | None = None
    future_path: str | None = None
    future_offset_lag: int | None = None


class LogDirAdmin:
    """The operations on log directories.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        deadline = self._calls.deadline(timeout)
        nodes = None if brokers is None else _ids(brokers)
        known = self._calls.engine.cluster.brokers
        if nodes is None or any(node_id not in known for node_id in nodes):
            await self._calls.engine.refresh_brokers(timeout=deadline.remaining)
        return await self._describe(
            dict.fromkeys(self._calls.engine.cluster.brokers if nodes is None else nodes), "describe_log_dirs", deadline
        )

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDir]:
        wanted = list_of(replicas, TopicPartitionReplica, "describe_replica_log_dirs", _EXAMPLE)
        topics: dict[int, dict[str, list[int]] | None] = {}
        for replica in dict.fromkeys(wanted):
            of_broker = topics.setdefault(replica.broker, {})
            if of_broker is not None:
                of_broker.setdefault(replica.topic, []).append(replica.partition)
        deadline = self._calls.deadline(timeout)
        await self._calls.engine.refresh_brokers(timeout=deadline.remaining)
        found = await self._describe(topics, "describe_replica_log_dirs", deadline)
        return {replica: _replica_log_dir(replica, found[replica.broker]) for replica in wanted}

    async def _describe(
        self, topics: Mapping[int, Mapping[str, list[int]] | None], call: str, deadline: Deadline
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """Ask brokers for partitions by topic; None is all that a broker has."""
        from kafkaraw.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

        found: dict[int, tuple[LogDirDescription, ...]] = {}

        async def once(nodes: Sequence[int]) -> dict[int, KafkaError]:
            async def ask(node_id: int) -> KafkaError | None:
                error = self._calls.unknown_broker(call, node_id)
                if error is not None:
                    return error
                wanted = topics[node_id]
                request = DescribeLogDirsRequest(
                    topics=None
                    if wanted is None
                    else [DescribableLogDirTopic(topic=name, partitions=parts) for name, parts in wanted.items()]
                )
                try:
                    answer = await self._calls.ask_node(node_id, request, deadline)
                except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                    return error
                if answer.error_code:
                    return failure(answer.error_code, None, f"describe the log directories of broker {node_id}")
                found[node_id] = tuple(_directory(result) for result in answer.results)
                return None

            outcomes = await asyncio.gather(*map(ask, nodes))
            return {node: error for node, error in zip(nodes, outcomes, strict=True) if error is not None}

        await self._calls.each(topics, once, deadline)
        return dict(sorted(found.items()))

    async def alter_replica_log_dirs(
        self, destinations: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> None:
        if not isinstance(destinations, Mapping):
            raise UsageError(
                f"alter_replica_log_dirs({destinations!r}): give a dict, as in "
                "{TopicPartitionReplica('orders', 0, 1): '/disk2/kafka'}"
            )
        wanted: dict[TopicPartitionReplica, str] = {}
        for replica, path in destinations.items():
            instance_of(replica, TopicPartitionReplica, "alter_replica_log_dirs", _EXAMPLE)
            wanted[replica] = instance_of(path, str, "alter_replica_log_dirs", "'/disk2/kafka'")
        deadline = self._calls.deadline(timeout)
        engine = self._calls.engine

        async def once(replicas: Sequence[TopicPartitionReplica]) -> dict[TopicPartitionReplica, KafkaError]:
            failures: dict[TopicPartitionReplica, KafkaError] = {}

            async def ask(broker: int, of_broker: Sequence[TopicPartitionReplica]) -> None:
                if broker not in engine.cluster.brokers:
                    error = UsageError(f"alter_replica_log_dirs: there is no broker {broker} that runs")
                    failures.update(dict.fromkeys(of_broker, error))
                    return
                try:
                    answer = await self._calls.ask_node(broker, _moves(of_broker, wanted), deadline)
                except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                    failures.update(dict.fromkeys(of_broker, error))
                    return
                for topic in answer.results:
                    for part in topic.partitions:
                        if part.error_code:
                            replica = TopicPartitionReplica(topic.topic_name, part.partition_index, broker)
                            what = f"move {replica.topic}-{replica.partition} on broker {broker} to {wanted[replica]}"
                            failures[replica] = failure(part.error_code, None, what, operation="ALTER")

            by_broker: dict[int, list[TopicPartitionReplica]] = {}
            for replica in replicas:
                by_broker.setdefault(replica.broker, []).append(replica)
            await asyncio.gather(*(ask(broker, of_broker) for broker, of_broker in by_broker.items()))
            return failures

        await engine.refresh_brokers(timeout=deadline.remaining)
        await self._calls.each(wanted, once, deadline)


def _ids(brokers: Iterable[int]) -> list[int]:
    return list_of(brokers, int, "describe_log_dirs", "1, 2")


def _directory(result: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, part.partition_index): ReplicaInfo(
            part.partition_size, part.offset_lag, part.is_future_key
        )
        for topic in result.topics
        for part in topic.partitions
    }
    error = failure(result.error_code, None, f"use {result.log_dir}") if result.error_code else None
    return LogDirDescription(
        result.log_dir,
        error,
        replicas,
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        result.is_cordoned,
    )


def _replica_log_dir(replica: TopicPartitionReplica, directories: Iterable[LogDirDescription]) -> ReplicaLogDir:
    key = TopicPartition(replica.topic, replica.partition)
    found = ReplicaLogDir()
    for directory in directories:
        info = directory.replicas.get(key)
        if info is None:
            continue
        if info.is_future:
            found = replace(found, future_path=directory.path, future_offset_lag=info.offset_lag)
        else:
            found = replace(found, path=directory.path, offset_lag=info.offset_lag)
    return found


def _moves(
    replicas: Sequence[TopicPartitionReplica], wanted: Mapping[TopicPartitionReplica, str]
) -> AlterReplicaLogDirsRequest:
    from kafkaraw.protocol.messages.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    by_path: dict[str, dict[str, list[int]]] = {}
    for replica in replicas:
        by_path.setdefault(wanted[replica], {}).setdefault(replica.topic, []).append(replica.partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=parts) for name, parts in topics.items()],
            )
            for path, topics in by_path.items()
        ]
    )
