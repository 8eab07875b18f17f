"""ListConfigResources (74): resources that have settings; version 0 lists client metrics only (KIP-1000, KIP-1142)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class ConfigResource:
    """One resource.

    Attributes:
        resource_type: as in the request.
    """

    resource_name: string
    resource_type: int8 = field(versions="1+", default=16, ignorable=True)


@request(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """List resources; any broker answers.

    Attributes:
        resource_types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group; empty for all.
    """

    resource_types: list[int8] = field(versions="1+", default_factory=list)


@response(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Response):
    """The resources.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    config_resources: list[ConfigResource]
