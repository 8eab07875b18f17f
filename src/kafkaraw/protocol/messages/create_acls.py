"""CreateAcls (30): add access control entries."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class AclCreation:
    """One entry.

    Attributes:
        resource_type: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
        resource_pattern_type: 3 literal, 4 prefixed.
        operation: as in DescribeAcls.
        permission_type: 2 deny, 3 allow.
    """

    resource_type: int8
    resource_name: string
    resource_pattern_type: int8 = field(versions="1+", default=3)
    principal: string
    host: string
    operation: int8
    permission_type: int8


@struct
class AclCreationResult:
    """What became of one.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None


@request(api_key=30, versions="0-3", flexible="2+", removed="0")
class CreateAclsRequest(Request["CreateAclsResponse"]):
    """Add entries; must reach the controller (any broker passes it on).

    Version 1 has patterns (KIP-290), 3 user resources (KIP-373).
    """

    creations: list[AclCreation]


@response(api_key=30, versions="0-3", flexible="2+", removed="0")
class CreateAclsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[AclCreationResult]
