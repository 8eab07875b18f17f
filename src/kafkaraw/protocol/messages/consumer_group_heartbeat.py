"""ConsumerGroupHeartbeat (68): membership, subscription and assignment of the new group protocol in one (KIP-848)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
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
    """The partitions that the member should own."""

    topic_partitions: list[TopicPartitions]


@request(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """Join, stay or leave; must reach the group's coordinator.

    A field that has not changed since the last heartbeat is null. Version 1 has regular expressions and member ids
    made by the client (KIP-1082).

    Attributes:
        member_id: made by the client from version 1.
        member_epoch: 0 to join, -1 to leave, -2 to leave and come back (static), else the current epoch.
        instance_id: name of a static member; null for none or no change.
        rack_id: null for none or no change.
        rebalance_timeout_ms: how long it may take to give partitions up, in milliseconds; -1 for no change.
        subscribed_topic_names: null for no change.
        subscribed_topic_regex: in RE2 syntax; null for none or no change.
        server_assignor: uniform or range; null for the broker's choice or no change.
        topic_partitions: partitions that it owns; null for no change.
    """

    group_id: string
    member_id: string
    member_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: string | None = field(versions="1+", default=None)
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


@response(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Response):
    """What to own.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        member_id: null when it has not changed.
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
