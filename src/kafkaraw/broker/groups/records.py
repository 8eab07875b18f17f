"""The records of `__consumer_offsets`, as messages and as bytes, in Apache Kafka's formats.

A record is a pair of messages from `protocol.embedded`: its key, and its value or None for a tombstone. This module
selects the version to write, and encodes and decodes records.
Source: org.apache.kafka.coordinator.group.{GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde} of Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.embedded.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kafkaraw.protocol.embedded.group_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkaraw.protocol.embedded.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kafkaraw.protocol.embedded.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

_VERSION: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
_EXPIRING_VERSION: Final = 1
"""Version of a committed offset with an expiry time; later versions have no field for it."""


class GroupRecord(NamedTuple):
    """One record.

    Attributes:
        key: one of the key messages.
        value: its value; None for a tombstone.
    """

    key: Any
    value: Any | None


@dataclass(frozen=True, slots=True)
class _Kind:
    number: int
    key: type[Any]
    value: type[Any]
    version: int = 0


_KINDS: Final = (
    _Kind(0, LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    _Kind(1, OffsetCommitKey, OffsetCommitValue, 4),
    _Kind(2, GroupMetadataKey, GroupMetadataValue, 3),
    _Kind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _Kind(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    _Kind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    _Kind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    _Kind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    _Kind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    _Kind(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    _Kind(11, ShareGroupMetadataKey, ShareGroupMetadataValue),
    _Kind(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    _Kind(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    _Kind(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    _Kind(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    _Kind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    _Kind(17, StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    _Kind(19, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    _Kind(20, StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    _Kind(21, StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    _Kind(22, StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    _Kind(23, StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
_BY_NUMBER: Final = {kind.number: kind for kind in _KINDS}
_BY_KEY: Final = {kind.key: kind for kind in _KINDS}
SHARE_KEYS: Final = tuple(kind.key for kind in _KINDS if kind.key.__name__.startswith("ShareGroup"))
"""The keys of the records of share groups."""


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value."""
    kind = _BY_KEY[type(record.key)]
    key = _VERSION.pack(kind.number) + encode_message(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    expires = isinstance(record.value, OffsetCommitValue) and record.value.expire_timestamp >= 0
    version = _EXPIRING_VERSION if expires else kind.version
    return key, _VERSION.pack(version) + encode_message(record.value, version)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record; return None for a record type that this broker does not know, such as those of streams groups.

    Raises:
        ProtocolError: its bytes are invalid.
        struct.error: it is shorter than a version number.
    """
    (number,) = _VERSION.unpack_from(key)
    kind = _BY_NUMBER.get(number)
    if kind is None:
        return None
    decoded_key = decode_message(kind.key, _KEY_VERSION, key, _VERSION.size)
    if value is None:
        return GroupRecord(decoded_key, None)
    (version,) = _VERSION.unpack_from(value)
    return GroupRecord(decoded_key, decode_message(kind.value, version, value, _VERSION.size))
