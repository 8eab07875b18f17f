"""StopReplica (5): the controller orders brokers to drop replicas; removed in Kafka 4.0."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@struct
class StopReplicaPartitionV0:
    """A partition, in version 0."""

    topic_name: string = field(versions="0", default="")
    partition_index: int32 = field(versions="0", default=0)


@struct
class StopReplicaTopicV1:
    """Partitions of a topic, in versions 1 and 2."""

    name: string = field(versions="1-2", default="")
    partition_indexes: list[int32] = field(versions="1-2", default_factory=list)


@struct
class StopReplicaPartitionState:
    """One partition to stop.

    Attributes:
        leader_epoch: the epoch of the decision; -1 for none.
        delete_partition: whether to delete the files too.
    """

    partition_index: int32 = field(versions="3+", default=0)
    leader_epoch: int32 = field(versions="3+", default=-1)
    delete_partition: boolean = field(versions="3+", default=False)


@struct
class StopReplicaTopicState:
    """Partitions of a topic, from version 3."""

    topic_name: string = field(versions="3+", default="")
    partition_states: list[StopReplicaPartitionState] = field(versions="3+", default_factory=list)


@struct
class StopReplicaPartitionError:
    """The answer for one partition."""

    topic_name: string
    partition_index: int32
    error_code: int16


@request(api_key=5, versions="0-4", flexible="2+", removed="0-4")
class StopReplicaRequest(Request["StopReplicaResponse"]):
    """Stop following, and delete if said so; sent by the controller of a ZooKeeper cluster to its brokers only.

    Versions: 1 groups by topic and has a broker epoch (KIP-380), 2 is flexible, 3 deletes per partition and has
    leader epochs (KIP-570), 4 comes from a KRaft controller (KIP-866).

    Attributes:
        controller_epoch: grows with every new controller.
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
        delete_partitions: whether to delete the files too, up to version 2.
        ungrouped_partitions: partitions in version 0.
        topics: partitions in versions 1 and 2.
        topic_states: partitions from version 3.
    """

    controller_id: int32
    is_k_raft_controller: boolean = field(versions="4+", default=False)
    controller_epoch: int32
    broker_epoch: int64 = field(versions="1+", default=-1, ignorable=True)
    delete_partitions: boolean = field(versions="0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(versions="0", default_factory=list)
    topics: list[StopReplicaTopicV1] = field(versions="1-2", default_factory=list)
    topic_states: list[StopReplicaTopicState] = field(versions="3+", default_factory=list)


@response(api_key=5, versions="0-4", flexible="2+", removed="0-4")
class StopReplicaResponse(Response):
    """What became of each partition."""

    error_code: int16
    partition_errors: list[StopReplicaPartitionError]
