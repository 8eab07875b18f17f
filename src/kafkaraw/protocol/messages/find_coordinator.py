"""FindCoordinator (10): which broker looks after a group, a transactional id or a share partition."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class Coordinator:
    """One coordinator, or why there is none.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    key: string = field(versions="4+", default="")
    node_id: int32 = field(versions="4+", default=0)
    host: string = field(versions="4+", default="")
    port: int32 = field(versions="4+", default=0)
    error_code: int16 = field(versions="4+", default=0)
    error_message: string | None = field(versions="4+", default="", ignorable=True)


@request(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """Ask for coordinators; any broker answers.

    Versions: 1 knows transactional ids (KIP-98), 4 asks for many at once (KIP-699), 6 share partitions (KIP-932).

    Attributes:
        key: group or transactional id, up to version 3.
        key_type: 0 group, 1 transactional id, 2 share partition as group:topicId:partition.
        coordinator_keys: what `key` is, from version 4.
    """

    key: string = field(versions="0-3", default="")
    key_type: int8 = field(versions="1+", default=0)
    coordinator_keys: list[string] = field(versions="4+", default_factory=list)


@response(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Response):
    """Where the coordinators are; the single fields up to version 3, the list from 4.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        node_id: -1 when there is none.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16 = field(versions="0-3", default=0)
    error_message: string | None = field(versions="1-3", default="", ignorable=True)
    node_id: int32 = field(versions="0-3", default=0)
    host: string = field(versions="0-3", default="")
    port: int32 = field(versions="0-3", default=0)
    coordinators: list[Coordinator] = field(versions="4+", default_factory=list)
