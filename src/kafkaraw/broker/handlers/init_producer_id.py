"""InitProducerId: allocate a producer id and epoch for an idempotent or transactional producer.

Without a transactional id, each request returns a new id with epoch 0, even if the producer already has an id.
Source: KIP-98, KIP-360; org.apache.kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import NO_PRODUCER, Outcome, ProducerIdAndEpoch
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_VERSION_MIN: Final = 4

_logger = logging.getLogger("kafkaraw.broker")
NONE: Final = -1


def authorize(
    call: Call[InitProducerIdRequest, InitProducerIdResponse], request: InitProducerIdRequest
) -> Reply[InitProducerIdResponse]:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    if request.transactional_id is not None:
        if call.may_write_transactions(request.transactional_id):
            return call.go_on(request)
        return _no_producer_id(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if call.authorizer.allows_any(call.client, AclOperation.WRITE, ResourceType.TOPIC) or call.allows_on_cluster(
        AclOperation.IDEMPOTENT_WRITE
    ):
        return call.go_on(request)
    return _no_producer_id(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _no_producer_id(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


@handles(
    InitProducerIdRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "with a transactional id"),
        Permission(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "without one"),
        Permission(AclOperation.WRITE, ResourceType.TOPIC, "or, on any topic, without one"),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: InitProducerIdRequest
) -> Reply[InitProducerIdResponse]:
    """Return a producer id and epoch."""
    had = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if (had.producer_id == NO_PRODUCER.producer_id) != (had.epoch == NO_PRODUCER.epoch):
        return _response(context, Outcome(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is None:
        return _response(context, _new_identity(state))
    name, timeout_ms, expected = (
        request.transactional_id,
        request.transaction_timeout_ms,
        had if had != NO_PRODUCER else None,
    )
    if not name:
        return _response(context, Outcome(ErrorCode.INVALID_REQUEST))
    if request.enable2_pc:  # as in Kafka with transaction.two.phase.commit.enable=false
        return _response(context, Outcome(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if request.keep_prepared_txn:
        return _response(context, Outcome(ErrorCode.UNSUPPORTED_VERSION))
    try:
        coordinator = state.transactions.coordinator(name)
    except ApiError as error:
        return _response(context, Outcome(error.code))
    return answered(
        lambda done: coordinator.init_producer_id(
            name, timeout_ms, expected, lambda outcome: done(_response(context, outcome))
        )
    )


def _new_identity(state: BrokerState) -> Outcome:
    try:
        return Outcome(ErrorCode.NONE, ProducerIdAndEpoch(state.producer_ids.take(), 0))
    except (OSError, ConfigError) as error:
        _logger.error("cannot reserve producer ids: %s", error)
        return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _response(context: RequestContext, outcome: Outcome) -> InitProducerIdResponse:
    code = fenced_code(outcome.code, knows_fenced=context.api_version >= FENCED_VERSION_MIN)
    return InitProducerIdResponse(
        error_code=code, producer_id=outcome.identity.producer_id, producer_epoch=outcome.identity.epoch
    )


def fenced_code(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Return the error code for a fenced producer; older clients do not know PRODUCER_FENCED (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and not knows_fenced else code
