"""AlterConfigs (33): replace all settings of a resource; use IncrementalAlterConfigs instead."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string


@struct
class AlterableConfig:
    """One setting."""

    name: string
    value: string | None


@struct
class AlterConfigsResource:
    """One resource.

    Attributes:
        resource_type: as in DescribeConfigs.
    """

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


@request(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """Replace settings, clearing those that are not named.

    Any broker answers for topics; a broker's own settings must be changed there.

    Attributes:
        validate_only: check, but change nothing.
    """

    resources: list[AlterConfigsResource]
    validate_only: boolean


@response(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]
