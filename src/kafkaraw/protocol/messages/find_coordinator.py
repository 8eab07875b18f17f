"""FindCoordinator."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class Coordinator:
    """Part of FindCoordinator."""

    key: string = field(versions="4+", default="")
    node_id: int32 = field(versions="4+", default=0)
    host: string = field(versions="4+", default="")
    port: int32 = field(versions="4+", default=0)
    error_code: int16 = field(versions="4+", default=0)
    error_message: string | None = field(versions="4+", default="", ignorable=True)


@request(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """FindCoordinator request."""

    key: string = field(versions="0-3", default="")
    key_type: int8 = field(versions="1+", default=0)
    coordinator_keys: list[string] = field(versions="4+", default_factory=list)


@response(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """FindCoordinator response."""

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16 = field(versions="0-3", default=0)
    error_message: string | None = field(versions="1-3", default="", ignorable=True)
    node_id: int32 = field(versions="0-3", default=0)
    host: string = field(versions="0-3", default="")
    port: int32 = field(versions="0-3", default=0)
    coordinators: list[Coordinator] = field(versions="4+", default_factory=list)
