"""ApiVersions: the APIs and versions that this broker supports.

Source: KIP-35, KIP-511, KIP-1242; KAFKA-18659 for Produce.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.features import LEVELS
from kafkaraw.broker.handlers.context import UNKNOWN_SOFTWARE, RequestContext
from kafkaraw.broker.handlers.registration import handles, served_apis
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, Api
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

PRODUCE_KEY: Final = 0
API_VERSIONS_KEY: Final = 18
SOFTWARE_VERSION_MIN: Final = 3
ZERO_LEVEL_VERSION_MIN: Final = 4  # older clients refuse a feature whose lowest level is 0 (KAFKA-17011)
EPOCH_BUMP_END_TXN: Final = 5
ANY_NODE: Final = -1
TELEMETRY_APIS: Final = frozenset(("GetTelemetrySubscriptions", "PushTelemetry"))
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(
    ApiVersionsRequest,
    authorize=None,
    note="open: sent before authentication",
)
def handle(state: BrokerState, context: RequestContext, request: ApiVersionsRequest) -> Reply[ApiVersionsResponse]:
    """Return the table of APIs."""
    if context.api_version >= SOFTWARE_VERSION_MIN and not _names_itself(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if _is_misrouted(state, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=advertised(state, served_apis().values()))
    if state.offer.versions(API_BY_NAME["EndTxn"]).max >= EPOCH_BUMP_END_TXN:
        features = state.controller.features
        response.finalized_features_epoch = features.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
        ]
        if context.api_version >= ZERO_LEVEL_VERSION_MIN:
            response.supported_features = [
                SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in LEVELS.items()
            ]
    return response


def unsupported(state: BrokerState) -> ApiVersionsResponse:
    """Return the response to an unsupported version of ApiVersions; it is encoded as version 0."""
    own = advertised(state, [API_BY_KEY[API_VERSIONS_KEY]])
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


def advertised(state: BrokerState, apis: Iterable[Api]) -> list[ApiVersion]:
    """Return the rows of the table, in the order of the APIs.

    Those of telemetry are listed if metrics of clients are wanted: a client that sees them asks for its subscription
    again and again.

    Produce is offered since version 0, although versions below 3 are refused: otherwise librdkafka before 2.11 silently
    disables compression.
    """
    hidden = frozenset[str]() if state.offers_telemetry else TELEMETRY_APIS
    rows = ((api.key, state.offer.versions(api)) for api in apis if api.name not in hidden)
    return [
        ApiVersion(api_key=key, min_version=0 if key == PRODUCE_KEY else low, max_version=high)
        for key, (low, high) in rows
        if low <= high
    ]


def software_of(request: Request[Response]) -> tuple[str, str]:
    """Return the name and the version of the client; "unknown" for what it does not say."""
    if not isinstance(request, ApiVersionsRequest) or not _names_itself(request):
        return UNKNOWN_SOFTWARE
    return request.client_software_name, request.client_software_version


def _is_misrouted(state: BrokerState, request: ApiVersionsRequest) -> bool:
    """Return whether the client expects another broker, for example because a proxy maps an old address to this one."""
    other_cluster = request.cluster_id is not None and request.cluster_id != state.catalog.cluster_id
    return other_cluster or request.node_id not in (ANY_NODE, state.node_id)


def _names_itself(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)
