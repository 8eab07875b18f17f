"""ListGroups (16): the groups that a broker coordinates."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class ListedGroup:
    """One group.

    Attributes:
        protocol_type: `consumer` for consumers.
        group_state: its state, from version 4.
        group_type: its type, from version 5.
    """

    group_id: string
    protocol_type: string
    group_state: string = field(versions="4+", default="", ignorable=True)
    group_type: string = field(versions="5+", default="", ignorable=True)


@request(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """Ask for groups; every broker knows its own ones only.

    Versions: 4 filters by state (KIP-518), 5 by type (KIP-848).

    Attributes:
        states_filter: states wanted; empty for all.
        types_filter: types wanted: classic, consumer, share, streams; empty for all.
    """

    states_filter: list[string] = field(versions="4+", default_factory=list)
    types_filter: list[string] = field(versions="5+", default_factory=list)


@response(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Response):
    """The groups.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16
    groups: list[ListedGroup]
