"""Metadata."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int16, int32, string, uuid


@struct
class MetadataRequestTopic:
    """Part of Metadata."""

    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    name: string | None = field(nullable="10+")


@struct
class MetadataResponseBroker:
    """Part of Metadata."""

    node_id: int32
    host: string
    port: int32
    rack: string | None = field(versions="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """Part of Metadata."""

    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field(versions="5+", default_factory=list, ignorable=True)


@struct
class MetadataResponseTopic:
    """Part of Metadata."""

    error_code: int16
    name: string | None = field(nullable="12+")
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    is_internal: boolean = field(versions="1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field(versions="8+", default=-2_147_483_648)


@request(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Metadata request."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: boolean = field(versions="4+", default=True)
    include_cluster_authorized_operations: boolean = field(versions="8-10", default=False)
    include_topic_authorized_operations: boolean = field(versions="8+", default=False)


@response(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """Metadata response."""

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: string | None = field(versions="2+", default=None, ignorable=True)
    controller_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field(versions="8-10", default=-2_147_483_648)
    error_code: int16 = field(versions="13+", default=0, ignorable=True)
