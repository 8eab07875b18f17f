"""One request under inspection: what guards ask about the client, and how they let the handler go on.

Source: kafka.server.AuthHelper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.broker.acl.authorizer import Authorizer, Client
from kafkaraw.broker.deferred import after
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")

DENIED_WITH: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What a client is told that lacks a right to a resource of that type."""

# Kafka's words for the codes, where it sends words along.
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}

_logger = logging.getLogger("kafkaraw.broker.authorizer")


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        api: its name, for the log.
        authorizer: decides.
        client: who asks.
        go_on: gives a request to the handler, and returns its answer.
    """

    api: str
    state: BrokerState
    context: RequestContext
    authorizer: Authorizer
    client: Client
    go_on: Callable[[object], object]

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, log_denial: bool = True
    ) -> bool:
        """Whether the client may do something to a resource; a denial is logged, unless it only hides something."""
        allowed = self.authorizer.allows(self.client, operation, resource_type, name)
        if not allowed and log_denial:
            _logger.info(
                "%r from %s may not %s %s %r: %s is refused",
                *self.client,
                operation.name,
                resource_type.name,
                name,
                self.api,
            )
        return allowed

    def allows_on_cluster(self, operation: AclOperation, *, log_denial: bool = True) -> bool:
        """Whether the client may do something to the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denial=log_denial)

    def divide(
        self, items: Iterable[Item], operation: AclOperation, name_of: Callable[[Item], str | None]
    ) -> tuple[list[Item], list[Item]]:
        """Parts of a request, by whether the client may do something to their topics.

        Args:
            items: the parts.
            operation: what it asks for.
            name_of: gives the topic of a part; None when there is none, which is the handler's to say.

        Returns:
            those that it may, those that it may not.
        """
        allowed: list[Item] = []
        refused: list[Item] = []
        known: dict[str | None, bool] = {None: True}
        for item in items:
            name = name_of(item)
            if name not in known:
                known[name] = self.allows(operation, ResourceType.TOPIC, name or "")
            (allowed if known[name] else refused).append(item)
        return allowed, refused

    def go_on_with(
        self,
        request: DataclassInstance,
        allowed: Sequence[object],
        refusals: Sequence[object],
        answer: object,
        *,
        parts: str = "topics",
        results: str = "topics",
    ) -> object:
        """What the handler says to the parts of a request that the client may ask for, with refusals for the others.

        Args:
            request: a dataclass.
            allowed: those parts of it.
            refusals: a result for each other part.
            answer: one without results, for a request of which nothing is left: the handler does not see it.
            parts: the field of the request.
            results: the field of the answer.
        """
        if not refusals:
            return self.go_on(request)

        def merge(response: object) -> object:
            getattr(response, results).extend(refusals)
            return response

        if not allowed:
            return merge(answer)
        return after(self.go_on(replace(request, **{parts: allowed})), merge)

    def topic_name(self, name: str | None, topic_id: bytes, by_id_from: int) -> str | None:
        """The topic that a part of a request means.

        Args:
            name: as it was given, in versions that name topics.
            topic_id: as it was given, in versions with ids.
            by_id_from: the first version with ids.

        Returns:
            its name; None for an id that no topic has.
        """
        if self.context.api_version < by_id_from:
            return name
        topic = self.state.catalog.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """What the client may do to a resource, as a field of bits."""
        return self.authorizer.authorized_operations(self.client, resource_type, name)

    def cluster_operations(self) -> int:
        """What the client may do to the cluster, as a field of bits; none when it may not even see it."""
        if not self.allows_on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def client_of(context: RequestContext) -> Client:
    """Who asks: the principal of the login, and the address as Java writes it, which is how entries name hosts."""
    return Client(context.principal, context.host)
