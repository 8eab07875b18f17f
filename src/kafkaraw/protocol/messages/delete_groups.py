"""DeleteGroups (42): forget groups and their offsets (KIP-229)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class DeletableGroupResult:
    """What became of one."""

    group_id: string
    error_code: int16


@request(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """Delete groups without members; must reach each group's coordinator."""

    groups_names: list[string]


@response(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult]
