"""AlterPartition (56): a leader asks the controller to change the in-sync replicas (KIP-497)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int8, int16, int32, int64, string, uuid


@struct
class BrokerState:
    """A broker in one incarnation.

    Attributes:
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
    """

    broker_id: int32 = field(versions="3+", default=0)
    broker_epoch: int64 = field(versions="3+", default=-1)


@struct
class AlterPartitionRequestPartitionData:
    """The change for one partition.

    Attributes:
        leader_epoch: grows with every election; -1 when unknown.
        new_isr: broker ids, up to version 2.
        new_isr_with_epochs: brokers with their epochs, from version 3.
        leader_recovery_state: 0 recovered, 1 recovering from an unclean election.
        partition_epoch: version of the state that the leader knows.
    """

    partition_index: int32
    leader_epoch: int32
    new_isr: list[int32] = field(versions="0-2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = field(versions="3+", default_factory=list)
    leader_recovery_state: int8 = field(versions="1+", default=0)
    partition_epoch: int32


@struct
class AlterPartitionRequestTopicData:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string = field(versions="0-1", default="", ignorable=True)
    topic_id: uuid = field(versions="2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


@struct
class AlterPartitionResponsePartitionData:
    """The state of one partition now.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
        isr: brokers in sync.
        leader_recovery_state: 0 recovered, 1 recovering.
        partition_epoch: version of this state.
    """

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    isr: list[int32]
    leader_recovery_state: int8 = field(versions="1+", default=0, ignorable=True)
    partition_epoch: int32


@struct
class AlterPartitionResponseTopicData:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string = field(versions="0-1", default="", ignorable=True)
    topic_id: uuid = field(versions="2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


@request(api_key=56, versions="0-3", flexible="0+", removed="0-1")
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    """Change in-sync replicas; sent by a leader to the controller.

    Versions: 1 has leader recovery (KIP-704), 2 topic ids, 3 broker epochs (KIP-903).

    Attributes:
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
    """

    broker_id: int32
    broker_epoch: int64 = -1
    topics: list[AlterPartitionRequestTopicData]


@response(api_key=56, versions="0-3", flexible="0+", removed="0-1")
class AlterPartitionResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    topics: list[AlterPartitionResponseTopicData]
