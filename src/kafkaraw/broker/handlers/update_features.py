"""UpdateFeatures: change the level of a feature, or only validate the request.

Source: KIP-584, KIP-778, KIP-1022; org.apache.kafka.controller.FeatureControlManager.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkaraw.broker.features import FeatureChange
from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

ONE_ERROR_VERSION_MIN: Final = 2
"""From this version on, the response has no results of single features."""

_logger = logging.getLogger("kafkaraw.broker")


def _not_authorized(request: UpdateFeaturesRequest, message: str) -> UpdateFeaturesResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return UpdateFeaturesResponse(error_code=code, error_message=MESSAGES[code])


@handles(
    UpdateFeaturesRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: UpdateFeaturesRequest
) -> Reply[UpdateFeaturesResponse]:
    """Change all features of the request, or none."""
    features = state.controller.features
    changes = [
        FeatureChange(update.feature, update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    ]
    problem = features.problem(changes, state.catalog.controller_id)
    if problem is not None:
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=problem)
    if not request.validate_only:
        try:
            features.change(changes)
        except OSError as error:
            _logger.error("the features cannot be stored: %s", error)
            message = f"the features cannot be stored: {error.strerror}"
            return UpdateFeaturesResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=message)
    results = [
        UpdatableFeatureResult(feature=change.feature, error_code=ErrorCode.NONE, error_message="NONE")
        for change in changes
        if context.api_version < ONE_ERROR_VERSION_MIN
    ]
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)
