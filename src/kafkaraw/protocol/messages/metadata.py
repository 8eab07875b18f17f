"""Metadata (3): the brokers of a cluster, its topics, and the leaders of their partitions."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int16, int32, string, uuid


@struct
class MetadataRequestTopic:
    """A topic by name or, from version 12, by id.

    Attributes:
        topic_id: zero when the name is given.
        name: null when the id is given.
    """

    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    name: string | None = field(nullable="10+")


@struct
class MetadataResponseBroker:
    """A broker, at the address of the listener that was asked.

    Attributes:
        rack: the rack; null when unknown.
    """

    node_id: int32
    host: string
    port: int32
    rack: string | None = field(versions="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """A partition.

    Attributes:
        leader_id: broker that leads it; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown; unreliable before version 9 (KAFKA-9212).
        replica_nodes: brokers that hold it, the preferred leader first.
        isr_nodes: those that are in sync.
        offline_replicas: those that cannot be used.
    """

    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field(versions="5+", default_factory=list, ignorable=True)


@struct
class MetadataResponseTopic:
    """A topic.

    Attributes:
        name: null only for an unknown id.
        topic_id: id of the topic, which survives no deletion; zero for none.
        is_internal: true for topics of Kafka's own, as __consumer_offsets.
        topic_authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    error_code: int16
    name: string | None = field(nullable="12+")
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    is_internal: boolean = field(versions="1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field(versions="8+", default=-2_147_483_648)


@request(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"]):
    """Ask for topics and brokers; any broker answers.

    Versions: 1 has racks and the controller, 4 may forbid the creation of topics (KIP-204), 5 offline replicas, 7
    leader epochs, 8 allowed operations (KIP-430), 10 topic ids (KIP-516), 12 asking by topic id, 13 asks the client
    to start anew (KIP-1102).

    Attributes:
        topics: topics wanted; null for all, empty for none (in version 0 empty means all).
        allow_auto_topic_creation: whether asking may create a missing topic, if the broker is set up so.
    """

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: boolean = field(versions="4+", default=True)
    include_cluster_authorized_operations: boolean = field(versions="8-10", default=False)
    include_topic_authorized_operations: boolean = field(versions="8+", default=False)


@response(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Response):
    """The cluster as this broker knows it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        cluster_id: id of the cluster, or null.
        controller_id: broker to send administration to; -1 for unknown.
        cluster_authorized_operations: bits of allowed operations; -2147483648 when not asked for.
        error_code: REBOOTSTRAP_REQUIRED asks the client to start anew.
    """

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: string | None = field(versions="2+", default=None, ignorable=True)
    controller_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field(versions="8-10", default=-2_147_483_648)
    error_code: int16 = field(versions="13+", default=0, ignorable=True)
