"""PushTelemetry (72): a client sends its metrics to the cluster (KIP-714)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import boolean, int8, int16, int32, uuid


@request(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    """Send metrics; any broker answers.

    Attributes:
        terminating: the last push of this client.
        compression_type: codec of `metrics`, as in GetTelemetrySubscriptions.
        metrics: OpenTelemetry metrics in Protobuf.
    """

    client_instance_id: uuid
    subscription_id: int32
    terminating: boolean
    compression_type: int8
    metrics: bytes


@response(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Response):
    """Whether they were taken.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
