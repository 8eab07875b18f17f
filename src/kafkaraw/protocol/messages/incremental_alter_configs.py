"""IncrementalAlterConfigs (44): change single settings of resources (KIP-339)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string


@struct
class AlterableConfig:
    """One change.

    Attributes:
        config_operation: 0 set, 1 delete (back to the default), 2 append to a list, 3 subtract from a list.
    """

    name: string
    config_operation: int8
    value: string | None


@struct
class AlterConfigsResource:
    """One resource."""

    resource_type: int8
    resource_name: string
    configs: list[AlterableConfig]


@struct
class AlterConfigsResourceResponse:
    """What became of one resource.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string


@request(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """Change settings; must reach the controller (any broker passes it on), for broker resources that broker.

    Attributes:
        validate_only: check, but change nothing.
    """

    resources: list[AlterConfigsResource]
    validate_only: boolean


@response(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]
