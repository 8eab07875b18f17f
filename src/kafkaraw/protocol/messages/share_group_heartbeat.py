"""ShareGroupHeartbeat (76): membership of a share group (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string, uuid


@struct
class TopicPartitions:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[int32]


@struct
class Assignment:
    """The partitions that the member should read."""

    topic_partitions: list[TopicPartitions]


@request(api_key=76, versions="0-1", flexible="0+", removed="0")
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Join, stay or leave; must reach the group's coordinator.

    Attributes:
        member_id: made by the client.
        member_epoch: 0 to join, -1 to leave, else the current epoch.
        rack_id: null for none or no change.
        subscribed_topic_names: null for no change.
    """

    group_id: string
    member_id: string
    member_epoch: int32
    rack_id: string | None = None
    subscribed_topic_names: list[string] | None = None


@response(api_key=76, versions="0-1", flexible="0+", removed="0")
class ShareGroupHeartbeatResponse(Response):
    """What to read.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        member_epoch: grows with every new assignment.
        heartbeat_interval_ms: when to come again, in milliseconds.
        assignment: null when it has not changed.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None
