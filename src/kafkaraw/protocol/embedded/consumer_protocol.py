"""Subscriptions and assignments of classic consumers, inside JoinGroup and SyncGroup (KIP-429, KIP-792, KIP-881)."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int32, string


@struct
class TopicPartition:
    """Partitions of one topic."""

    topic: string = field(versions="1+", default="")
    partitions: list[int32] = field(versions="1+", default_factory=list)


@data(versions="0-3")
class ConsumerProtocolSubscription:
    """What a member wants to read; follows an int16 with its version, and newer versions are read as the newest known.

    Versions: 1 has owned partitions (KIP-429), 2 the generation (KIP-792), 3 the rack (KIP-881).

    Attributes:
        user_data: the assignor's own bytes, or null.
        owned_partitions: what it had before.
        generation_id: the generation in which it had them; -1 for none.
        rack_id: null for none.
    """

    topics: list[string]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(versions="1+", default_factory=list, ignorable=True)
    generation_id: int32 = field(versions="2+", default=-1, ignorable=True)
    rack_id: string | None = field(versions="3+", default=None, ignorable=True)


@struct
class ConsumerProtocolAssignmentTopicPartition:
    """Partitions of one topic."""

    topic: string
    partitions: list[int32]


@data(versions="0-3")
class ConsumerProtocolAssignment:
    """What a member shall read; follows an int16 with its version.

    Attributes:
        user_data: the assignor's own bytes, or null.
    """

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition]
    user_data: bytes | None = None
