"""InitProducerId: hand out producer ids for idempotent producers.

Each call gives a new id at epoch 0, also to a producer that has one already.
Transactional ids are refused: this broker has no transaction coordinator, and says so in FindCoordinator too.
Source: KIP-98; org.apache.kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1

_logger = logging.getLogger("kafkaraw.broker")


def handle(state: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give a new id, at epoch 0.

    Without a transactional id Kafka gives a new id each time, whatever id the producer had.
    """
    if request.transactional_id is not None:
        return _refused(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        producer_id = state.producer_ids.take()
    except (OSError, ConfigError) as error:
        _logger.error("cannot reserve producer ids: %s", error)
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
