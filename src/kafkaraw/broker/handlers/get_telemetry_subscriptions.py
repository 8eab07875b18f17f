"""GetTelemetrySubscriptions: which metrics a client has to push, and how often.

Source: KIP-714; org.apache.kafka.server.ClientMetricsManager.
"""

from __future__ import annotations

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.telemetry.instances import ACCEPTED_CODECS
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


@handles(
    GetTelemetrySubscriptionsRequest,
    authorize=None,
    note="open: every client may be asked for its metrics",
)
def handle(
    state: BrokerState, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> Reply[GetTelemetrySubscriptionsResponse]:
    """Return what the subscriptions that match the client ask for."""
    instances = state.client_instances
    try:
        instance_id, instance = instances.subscribe(
            request.client_instance_id, context.peer, context.client_attributes, state.clock.time_ms()
        )
    except ApiError as error:
        return GetTelemetrySubscriptionsResponse(
            error_code=error.code,
            client_instance_id=ZERO_UUID,
            subscription_id=0,
            accepted_compression_types=[],
            push_interval_ms=0,
            telemetry_max_bytes=0,
            delta_temporality=False,
            requested_metrics=[],
        )
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=instances.push_bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
