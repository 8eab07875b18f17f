"""BrokerHeartbeat (63): a broker keeps its registration with the controller alive (KIP-631)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import boolean, int16, int32, int64, uuid


@request(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    """Stay in the cluster; sent by a broker to the controller.

    Attributes:
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
        current_metadata_offset: how far the broker has read the metadata log.
        want_fence: wishes to be fenced.
        want_shut_down: wishes to stop.
        offline_log_dirs: ids of directories that have failed (KIP-858).
        cordoned_log_dirs: ids of directories that take no new partitions (KIP-1066); null when unknown.
    """

    broker_id: int32
    broker_epoch: int64 = -1
    current_metadata_offset: int64
    want_fence: boolean
    want_shut_down: boolean
    offline_log_dirs: list[uuid] = field(versions="1+", default_factory=list, tag=0)
    cordoned_log_dirs: list[uuid] | None = field(versions="2+", default=None, tag=1)


@response(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Response):
    """What the controller thinks of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        is_caught_up: has read enough of the metadata log.
        is_fenced: is fenced.
        should_shut_down: may stop now.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    is_caught_up: boolean = False
    is_fenced: boolean = True
    should_shut_down: boolean
