"""ApiVersions."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@struct
class ApiVersion:
    """Part of ApiVersions."""

    api_key: int16
    min_version: int16
    max_version: int16


@struct
class SupportedFeatureKey:
    """Part of ApiVersions."""

    name: string = field(versions="3+", default="")
    min_version: int16 = field(versions="3+", default=0)
    max_version: int16 = field(versions="3+", default=0)


@struct
class FinalizedFeatureKey:
    """Part of ApiVersions."""

    name: string = field(versions="3+", default="")
    max_version_level: int16 = field(versions="3+", default=0)
    min_version_level: int16 = field(versions="3+", default=0)


@request(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """ApiVersions request."""

    client_software_name: string = field(versions="3+", default="", ignorable=True)
    client_software_version: string = field(versions="3+", default="", ignorable=True)


@response(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """ApiVersions response."""

    error_code: int16
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(versions="3+", default_factory=list, tag=0, ignorable=True)
    finalized_features_epoch: int64 = field(versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(versions="3+", default_factory=list, tag=2, ignorable=True)
    zk_migration_ready: boolean = field(versions="3+", default=False, tag=3, ignorable=True)
