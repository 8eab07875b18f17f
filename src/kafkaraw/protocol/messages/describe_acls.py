"""DescribeAcls (29): list access control entries that match a filter."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class AclDescription:
    """One entry."""

    principal: string
    host: string
    operation: int8
    permission_type: int8


@struct
class DescribeAclsResource:
    """The entries for one resource."""

    resource_type: int8
    resource_name: string
    pattern_type: int8 = field(versions="1+", default=3)
    acls: list[AclDescription]


@request(api_key=29, versions="0-3", flexible="2+", removed="0")
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """List entries; any broker answers.

    Version 1 has patterns (KIP-290), 3 user resources (KIP-373).

    Attributes:
        resource_type_filter: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
        resource_name_filter: null for any.
        pattern_type_filter: 1 any, 2 every pattern that matches the name, 3 literal, 4 prefixed.
        principal_filter: null for any.
        host_filter: null for any.
        operation: 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10
            describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-
            phase commit.
        permission_type: 1 any, 2 deny, 3 allow.
    """

    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8


@response(api_key=29, versions="0-3", flexible="2+", removed="0")
class DescribeAclsResponse(Response):
    """The entries, by resource.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
    resources: list[DescribeAclsResource]
