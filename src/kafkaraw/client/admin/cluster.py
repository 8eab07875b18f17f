"""The cluster for the admin client: its brokers, its controller, and brokers that are gone for good."""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.network.connection import Connection
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation
from kafkaraw.protocol.declare import Request
from kafkaraw.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.protocol.messages.unregister_broker import UnregisterBrokerRequest

_DESCRIBE_CLUSTER_KEY = 60
NOT_TOLD = -(1 << 31)
"""The value of the field of authorized operations when the request did not ask for them."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster.

    Attributes:
        cluster_id: the id of the cluster; None when the broker does not return it.
        controller_id: the broker to send changes to; -1 when unknown.
        brokers: the running brokers, by id.
        authorized_operations: the operations on the cluster that this client may do; None when not requested.
    """

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerNode, ...]
    authorized_operations: frozenset[AclOperation] | None = None


class ClusterAdmin:
    """The operations on the cluster itself.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_cluster(
        self, *, authorized_operations: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        deadline = self._calls.deadline(timeout)

        def for_version(connection: Connection) -> Request[MetadataResponse | DescribeClusterResponse]:
            try:
                connection.version_for(_DESCRIBE_CLUSTER_KEY)
            except UnsupportedVersionError:  # brokers before 2.8: a Metadata response has the same fields
                return MetadataRequest(topics=[], include_cluster_authorized_operations=authorized_operations)
            return DescribeClusterRequest(include_cluster_authorized_operations=authorized_operations)

        async def once() -> ClusterDescription:
            answer = await self._calls.ask_any(for_version, deadline)
            return _of_metadata(answer) if isinstance(answer, MetadataResponse) else _of_cluster(answer)

        return await self._calls.retry(once, deadline)

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        deadline = self._calls.deadline(timeout)

        async def once() -> None:
            answer = await self._calls.ask_controller(UnregisterBrokerRequest(broker_id=broker), deadline)
            if answer.error_code:
                what = f"unregister broker {broker}"
                raise failure(answer.error_code, answer.error_message, what, operation="ALTER")

        await self._calls.retry(once, deadline)


def _of_cluster(found: DescribeClusterResponse) -> ClusterDescription:
    if found.error_code:
        raise failure(found.error_code, found.error_message, "describe the cluster")
    brokers = [BrokerNode(one.broker_id, one.host, one.port, one.rack) for one in found.brokers]
    return _description(found.cluster_id, found.controller_id, brokers, found.cluster_authorized_operations)


def _of_metadata(found: MetadataResponse) -> ClusterDescription:
    brokers = [BrokerNode(one.node_id, one.host, one.port, one.rack) for one in found.brokers]
    return _description(found.cluster_id, found.controller_id, brokers, found.cluster_authorized_operations)


def _description(
    cluster_id: str | None, controller_id: int, brokers: list[BrokerNode], operations: int
) -> ClusterDescription:
    return ClusterDescription(
        cluster_id,
        controller_id,
        tuple(sorted(brokers, key=lambda broker: broker.node_id)),
        None if operations == NOT_TOLD else operations_in(operations),
    )


def operations_in(bits: int) -> frozenset[AclOperation]:
    """Return the operations in a bit field of authorized operations (KIP-430)."""
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
