"""GetTelemetrySubscriptions (71): which metrics the cluster wants from a client (KIP-714)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import boolean, int8, int16, int32, string, uuid


@request(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    """Ask what to send; any broker answers.

    Attributes:
        client_instance_id: id of the client; zero at first, then what the broker gave.
    """

    client_instance_id: uuid


@response(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Response):
    """What to send.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        accepted_compression_types: 1 gzip, 2 snappy, 3 lz4, 4 zstd, 0 none, the preferred one first.
        push_interval_ms: how often, in milliseconds.
        telemetry_max_bytes: largest push in bytes.
        delta_temporality: send differences instead of totals.
        requested_metrics: prefixes of names; one empty prefix for all, none for none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: boolean
    requested_metrics: list[string]
