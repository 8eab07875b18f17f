"""PushTelemetry: take the metrics of a client.

Source: KIP-714; org.apache.kafka.server.ClientMetricsManager.
"""

from __future__ import annotations

import logging

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.telemetry.instances import IDLE_MS_MIN, ClientInstance
from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkaraw.records.compression import codec_by_id

_logger = logging.getLogger("kafkaraw.broker")


@handles(
    PushTelemetryRequest,
    authorize=None,
    note="open: every client may push its metrics",
)
def handle(state: BrokerState, context: RequestContext, request: PushTelemetryRequest) -> Reply[PushTelemetryResponse]:
    """Check the push, decode its metrics, and keep their values."""
    now_ms = state.clock.time_ms()
    try:
        instance = state.client_instances.push(
            request.client_instance_id,
            context.peer,
            context.client_attributes,
            now_ms,
            subscription_id=request.subscription_id,
            codec_id=request.compression_type,
            size_bytes=len(request.metrics),
            terminating=request.terminating,
        )
        if request.metrics and state.receives_telemetry:
            _take(state, instance, request, now_ms)
    except ApiError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse(error_code=ErrorCode.NONE)


def _take(state: BrokerState, instance: ClientInstance, request: PushTelemetryRequest, now_ms: int) -> None:
    from kafkaraw.core.telemetry.otlp import InvalidMetricsError, read_metrics  # only for metrics

    client = {name: value for name, value in instance.attributes.items() if value is not None}
    try:
        data = codec_by_id(request.compression_type).decompress(request.metrics, state.client_instances.push_bytes_max)
        points = read_metrics(bytes(data))
    except BatchTooLargeError as error:
        instance.last_error = ErrorCode.TELEMETRY_TOO_LARGE
        raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from error
    except (CorruptBatchError, InvalidMetricsError) as error:
        _logger.warning("metrics of client %r cannot be read: %s", client.get("client_id"), error)
        instance.last_error = ErrorCode.INVALID_RECORD
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    keep_ms = max(IDLE_MS_MIN, 3 * instance.interval_ms)
    state.controller.received_metrics.take(client, points, now_ms, keep_ms)
