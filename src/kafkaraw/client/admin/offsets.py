"""Offsets of partitions for the admin client: both ends, by timestamp, and the ends of tiered storage.

Source: KIP-396, KIP-734, KIP-405, KIP-1005, KIP-1023; Kafka's Admin.listOffsets and ListOffsetsHandler.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, milliseconds
from kafkaraw.client.arguments import by_partition, timestamps_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.client.network.connection import Connection
from kafkaraw.core.cluster import ClusterView
from kafkaraw.errors import KafkaError, UnsupportedVersionError, UsageError
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaraw.records import TopicPartition

_LIST_OFFSETS_KEY: Final = 2
_NO_OFFSET: Final = -1
_ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}
_CONSUMER: Final = -1


class OffsetSpec(IntEnum):
    """A place in a partition; the numbers are those of ListOffsets requests. Any other place is a timestamp.

    Attributes:
        LATEST: the end: the high watermark, or with `read_committed` the last stable offset.
        EARLIEST: the log start offset.
        MAX_TIMESTAMP: the record with the largest timestamp (brokers from 3.0 on).
        EARLIEST_LOCAL: the first offset on the leader's own disk (from 3.6 on); EARLIEST without tiered storage.
        LATEST_TIERED: the last offset in tiered storage (from 3.9 on); there is none without tiered storage.
        EARLIEST_PENDING_UPLOAD: the first offset that is not in tiered storage yet (from 4.2 on).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_VERSION_MIN: Final = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


class OffsetAdmin:
    """The operations on offsets of partitions.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        if isolation_level not in _ISOLATION_LEVELS:
            known = ", ".join(map(repr, _ISOLATION_LEVELS))
            raise UsageError(f"list_offsets: isolation_level={isolation_level!r} must be one of {known}")
        wanted = _places(offsets)
        deadline = self._calls.deadline(timeout)
        cluster = self._calls.engine.cluster
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

        async def ask(node_id: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            share = {key: wanted[key] for key in keys}

            def for_version(connection: Connection) -> ListOffsetsRequest:
                _check_version(connection, share)
                return _request(share, cluster, _ISOLATION_LEVELS[isolation_level], deadline)

            answer = await self._calls.ask_node(node_id, for_version, deadline)
            failures: dict[TopicPartition, KafkaError] = {}
            for topic in answer.topics:
                for result in topic.partitions:
                    key = TopicPartition(topic.name, result.partition_index)
                    if result.error_code:
                        code, what = result.error_code, _what(key, wanted[key])
                        failures[key] = failure(code, None, what, resource=key.topic, operation="DESCRIBE")
                    elif result.offset == _NO_OFFSET:
                        found[key] = None
                    else:
                        found[key] = OffsetAndTimestamp(result.offset, result.timestamp, result.leader_epoch)
            return failures

        await self._calls.each_leader(wanted, ask, deadline, lambda key: _what(key, wanted[key]))
        return {key: found[key] for key in wanted if key in found}


def _places(offsets: Mapping[TopicPartition, OffsetSpec | int]) -> dict[TopicPartition, int]:
    """Take specs and timestamps by partition; a negative number is a spec only as an `OffsetSpec`."""
    given = by_partition(offsets, "list_offsets", "offset specs")
    specs = {key: spec for key, spec in given.items() if isinstance(spec, OffsetSpec)}
    timestamps = timestamps_of({key: at for key, at in given.items() if key not in specs}, "list_offsets")
    return {key: specs[key] if key in specs else timestamps[key] for key in given}


def _check_version(connection: Connection, places: Mapping[TopicPartition, int]) -> None:
    version = connection.version_for(_LIST_OFFSETS_KEY)
    for key, place in places.items():
        needed = _VERSION_MIN[OffsetSpec(place)] if place in _VERSION_MIN else 0
        if version < needed:
            raise UnsupportedVersionError(
                f"{_what(key, place)}: this needs ListOffsets {needed}, the broker has version {version}"
            )


def _request(
    places: Mapping[TopicPartition, int], cluster: ClusterView, isolation_level: int, deadline: Deadline
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for key, place in places.items():
        topic = topics.setdefault(key.topic, ListOffsetsTopic(name=key.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=key.partition,
                current_leader_epoch=cluster.leader_epoch_of(key),
                timestamp=place,
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=milliseconds(deadline),
    )


def _what(key: TopicPartition, place: int) -> str:
    shown = OffsetSpec(place).name if place < 0 else f"timestamp {place}"
    return f"find the offset of {shown} in {key.topic}-{key.partition}"
