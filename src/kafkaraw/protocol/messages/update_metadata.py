"""UpdateMetadata (6): the controller sends brokers the metadata of the cluster; removed in Kafka 4.0."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int8, int16, int32, int64, string, uuid


@struct
class UpdateMetadataPartitionState:
    """The state of one partition.

    Attributes:
        controller_epoch: grows with every new controller.
        leader: broker that leads; -1 for none, -2 while the topic is being deleted.
        leader_epoch: grows with every election; -1 when unknown.
        isr: brokers in sync.
        zk_version: version of this state in ZooKeeper.
    """

    topic_name: string = field(versions="0-4", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32
    leader: int32
    leader_epoch: int32
    isr: list[int32]
    zk_version: int32
    replicas: list[int32]
    offline_replicas: list[int32] = field(versions="4+", default_factory=list, ignorable=True)


@struct
class UpdateMetadataTopicState:
    """The partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string = field(versions="5+", default="")
    topic_id: uuid = field(versions="7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = field(versions="5+", default_factory=list)


@struct
class UpdateMetadataEndpoint:
    """An address of a broker.

    Attributes:
        security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    """

    port: int32 = field(versions="1+", default=0)
    host: string = field(versions="1+", default="")
    listener: string = field(versions="3+", default="", ignorable=True)
    security_protocol: int16 = field(versions="1+", default=0)


@struct
class UpdateMetadataBroker:
    """A live broker.

    Attributes:
        v0_host: its host in version 0.
        v0_port: its port in version 0.
        rack: the rack; null when unknown.
    """

    id: int32
    v0_host: string = field(versions="0", default="", ignorable=True)
    v0_port: int32 = field(versions="0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field(versions="1+", default_factory=list, ignorable=True)
    rack: string | None = field(versions="2+", default="", ignorable=True)


@request(api_key=6, versions="0-8", flexible="6+", removed="0-8")
class UpdateMetadataRequest(Request["UpdateMetadataResponse"]):
    """Spread metadata; sent by the controller of a ZooKeeper cluster to its brokers only.

    Versions: 1 has listeners, 2 racks, 3 listener names, 4 offline replicas, 5 groups by topic (KIP-380), 6 is
    flexible, 7 has topic ids (KIP-516), 8 comes from a KRaft controller (KIP-866).

    Attributes:
        type: 0 unknown, 1 incremental, 2 full.
        controller_epoch: grows with every new controller.
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
        ungrouped_partition_states: partitions, up to version 4.
        topic_states: partitions by topic, from version 5.
    """

    controller_id: int32
    is_k_raft_controller: boolean = field(versions="8+", default=False)
    type: int8 = field(versions="8+", default=0, tag=0)
    controller_epoch: int32
    broker_epoch: int64 = field(versions="5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(versions="0-4", default_factory=list)
    topic_states: list[UpdateMetadataTopicState] = field(versions="5+", default_factory=list)
    live_brokers: list[UpdateMetadataBroker]


@response(api_key=6, versions="0-8", flexible="6+", removed="0-8")
class UpdateMetadataResponse(Response):
    """Whether it was taken."""

    error_code: int16
