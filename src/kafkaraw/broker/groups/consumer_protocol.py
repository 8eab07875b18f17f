"""The subscriptions and assignments of classic consumers as bytes, which the broker reads and writes in migrations.

Source: org.apache.kafka.clients.consumer.internals.ConsumerProtocol of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION_MAX: Final = 3
_VERSION_SIZE: Final = 2

M = TypeVar("M")


def version_of(data: bytes) -> int:
    """Return the version of the bytes; the newest known one if it is newer.

    Raises:
        ProtocolError: the bytes have no version.
    """
    if len(data) < _VERSION_SIZE:
        raise ProtocolError(f"the embedded consumer protocol has {len(data)} bytes, too few for a version")
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"the embedded consumer protocol has the version {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Read the subscription of a member.

    Raises:
        ProtocolError: it makes no sense.
    """
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Read the assignment of a member; an empty one has no bytes.

    Raises:
        ProtocolError: it makes no sense.
    """
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return _read(ConsumerProtocolAssignment, data)


def write_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """Return the bytes of an assignment in a version."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=sorted(numbers))
            for topic, numbers in sorted(partitions.items())
        ]
    )
    return version.to_bytes(_VERSION_SIZE, "big") + encode_message(message, version)


def _read(kind: type[M], data: bytes) -> M:
    return decode_message(kind, version_of(data), data, _VERSION_SIZE, allow_trailing_bytes=True)
