"""ControlledShutdown (7): a broker asks to hand over its leaderships before it stops; gone since Kafka 4.0."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: string
    partition_index: int32


@request(api_key=7, versions="0-3", flexible="3+", removed="0-3")
class ControlledShutdownRequest(Request["ControlledShutdownResponse"]):
    """Ask for leave; sent by a broker to the controller of a ZooKeeper cluster.

    Version 0 has a request header without client id.

    Attributes:
        broker_id: the broker that wants to stop.
        broker_epoch: its epoch; -1 when unknown.
    """

    broker_id: int32
    broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)


@response(api_key=7, versions="0-3", flexible="3+", removed="0-3")
class ControlledShutdownResponse(Response):
    """What still hangs on the broker.

    Attributes:
        remaining_partitions: partitions that it still leads.
    """

    error_code: int16
    remaining_partitions: list[RemainingPartition]
