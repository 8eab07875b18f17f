"""DescribeCluster (60): brokers or controllers of the cluster (KIP-700)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string


@struct
class DescribeClusterBroker:
    """One node.

    Attributes:
        rack: the rack; null when unknown.
        is_fenced: alive, but not allowed to serve yet.
    """

    broker_id: int32
    host: string
    port: int32
    rack: string | None = None
    is_fenced: boolean = field(versions="2+", default=False)


@request(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """Ask about the cluster; any broker answers, or any controller about controllers.

    Version 1 can ask controllers (KIP-919), 2 has fenced brokers (KIP-1073).

    Attributes:
        endpoint_type: 1 brokers, 2 controllers.
    """

    include_cluster_authorized_operations: boolean
    endpoint_type: int8 = field(versions="1+", default=1)
    include_fenced_brokers: boolean = field(versions="2+", default=False)


@response(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Response):
    """The cluster.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        endpoint_type: 1 brokers, 2 controllers.
        cluster_id: id of the cluster; null when unknown.
        controller_id: -1 when unknown.
        cluster_authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    endpoint_type: int8 = field(versions="1+", default=1)
    cluster_id: string
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = -2_147_483_648
