"""LeaderAndIsr (4): the controller assigns leaders and followers to brokers; removed in Kafka 4.0."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int8, int16, int32, int64, string, uuid


@struct
class LeaderAndIsrPartitionState:
    """The state of one partition.

    Attributes:
        controller_epoch: grows with every new controller.
        leader: broker that leads; -1 for none, -2 while the topic is being deleted.
        leader_epoch: grows with every election.
        isr: brokers in sync.
        partition_epoch: version of this state.
        adding_replicas: brokers being added by a reassignment.
        removing_replicas: brokers being removed by one.
        is_new: whether the partition has just been created.
        leader_recovery_state: 0 recovered, 1 recovering from an unclean election.
    """

    topic_name: string = field(versions="0-1", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32
    leader: int32
    leader_epoch: int32
    isr: list[int32]
    partition_epoch: int32
    replicas: list[int32]
    adding_replicas: list[int32] = field(versions="3+", default_factory=list, ignorable=True)
    removing_replicas: list[int32] = field(versions="3+", default_factory=list, ignorable=True)
    is_new: boolean = field(versions="1+", default=False, ignorable=True)
    leader_recovery_state: int8 = field(versions="6+", default=0)


@struct
class LeaderAndIsrTopicState:
    """The partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string = field(versions="2+", default="")
    topic_id: uuid = field(versions="5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = field(versions="2+", default_factory=list)


@struct
class LeaderAndIsrLiveLeader:
    """Address of a leader."""

    broker_id: int32
    host_name: string
    port: int32


@struct
class LeaderAndIsrPartitionError:
    """The answer for one partition."""

    topic_name: string = field(versions="0-4", default="", ignorable=True)
    partition_index: int32
    error_code: int16


@struct
class LeaderAndIsrTopicError:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid = field(versions="5+", default=ZERO_UUID)
    partition_errors: list[LeaderAndIsrPartitionError] = field(versions="5+", default_factory=list)


@request(api_key=4, versions="0-7", flexible="4+", removed="0-7")
class LeaderAndIsrRequest(Request["LeaderAndIsrResponse"]):
    """Hand out leadership; sent by the controller of a ZooKeeper cluster to its brokers only.

    Versions: 1 knows new partitions, 2 groups by topic and has a broker epoch (KIP-380), 3 reassignment (KIP-455),
    4 is flexible, 5 has topic ids (KIP-516), 6 leader recovery (KIP-704), 7 comes from a KRaft controller
    (KIP-866).

    Attributes:
        controller_id: broker id of the controller.
        is_k_raft_controller: whether the controller runs KRaft.
        controller_epoch: grows with every new controller.
        broker_epoch: of the broker addressed; -1 when unknown.
        type: 0 unknown, 1 incremental, 2 full.
        ungrouped_partition_states: partitions, up to version 1.
        topic_states: partitions by topic, from version 2.
        live_leaders: addresses of the leaders named.
    """

    controller_id: int32
    is_k_raft_controller: boolean = field(versions="7+", default=False)
    controller_epoch: int32
    broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)
    type: int8 = field(versions="5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(versions="0-1", default_factory=list)
    topic_states: list[LeaderAndIsrTopicState] = field(versions="2+", default_factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader]


@response(api_key=4, versions="0-7", flexible="4+", removed="0-7")
class LeaderAndIsrResponse(Response):
    """What became of each partition."""

    error_code: int16
    partition_errors: list[LeaderAndIsrPartitionError] = field(versions="0-4", default_factory=list)
    topics: list[LeaderAndIsrTopicError] = field(versions="5+", default_factory=list)
