"""DeleteAcls (31): remove access control entries that match filters."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class DeleteAclsFilter:
    """Which entries to remove.

    Attributes:
        resource_name_filter: null for any.
        principal_filter: null for any.
        host_filter: null for any.
    """

    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8


@struct
class DeleteAclsMatchingAcl:
    """An entry that matched.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
    pattern_type: int8 = field(versions="1+", default=3)
    principal: string
    host: string
    operation: int8
    permission_type: int8


@struct
class DeleteAclsFilterResult:
    """What one filter removed.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None
    matching_acls: list[DeleteAclsMatchingAcl]


@request(api_key=31, versions="0-3", flexible="2+", removed="0")
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """Remove entries; must reach the controller (any broker passes it on).

    Version 1 has patterns (KIP-290), 3 user resources (KIP-373).
    """

    filters: list[DeleteAclsFilter]


@response(api_key=31, versions="0-3", flexible="2+", removed="0")
class DeleteAclsResponse(Response):
    """What was removed.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult]
