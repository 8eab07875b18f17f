"""UpdateFeatures (57): raise and lower finalized features of the cluster (KIP-584)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string


@struct
class FeatureUpdateKey:
    """One feature.

    Attributes:
        max_version_level: the new level; below 1 removes the feature.
        allow_downgrade: in version 0: whether it may be lowered.
        upgrade_type: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
    """

    feature: string
    max_version_level: int16
    allow_downgrade: boolean = field(versions="0", default=False)
    upgrade_type: int8 = field(versions="1+", default=1)


@struct
class UpdatableFeatureResult:
    """What became of one feature.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    feature: string
    error_code: int16
    error_message: string | None


@request(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """Change features; must reach the controller (any broker passes it on).

    Version 1 can only validate (KIP-778), 2 has one error for all (KIP-1022).

    Attributes:
        timeout_ms: how long to wait, in milliseconds.
        validate_only: check, but change nothing.
    """

    timeout_ms: int32 = 60_000
    feature_updates: list[FeatureUpdateKey]
    validate_only: boolean = field(versions="1+", default=False)


@response(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
    results: list[UpdatableFeatureResult] = field(versions="0-1", default_factory=list, ignorable=True)
