"""Authorization of one request: checks of the client's permissions, and the call of the handler.

The `authorize` function of an API removes the entries of the request that the client is not permitted to do, lets the
handler answer the rest, and adds the errors of denied entries to the response, as Kafka does. Handlers therefore do not
know ACLs. A broker without an authorizer does not use this module. Only the authenticated principal counts, not fields
of the request. Start at `Call.go_on`.

Source: kafka.server.AuthHelper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kafkaraw.broker.acl.authorizer import Authorizer, Client
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.replies import Reply, after_response
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Q = TypeVar("Q")
R = TypeVar("R", bound=Response)

DENIED_WITH: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""Resource type -> the error code for a missing permission."""

# Kafka's texts for the codes, where it sends one.
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}

_logger = logging.getLogger("kafkaraw.broker.authorizer")


def is_allowed(
    authorizer: Authorizer,
    client: Client,
    api: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    log_denial: bool = True,
) -> bool:
    """Return whether a client may do something to a resource.

    Args:
        authorizer: decides.
        client: the client that sent the request.
        api: name of the API, for the log.
        operation: what the client does.
        resource_type: the type of the resource.
        name: of the resource.
        log_denial: log it if the client may not; a denial that only hides something is not logged.
    """
    allowed = authorizer.allows(client, operation, resource_type, name)
    if not allowed and log_denial:
        _logger.info(
            "%r from %s is denied %s on %s %r: %s is not authorized",
            *client,
            operation.name,
            resource_type.name,
            name,
            api,
        )
    return allowed


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, R]):
    """One request.

    Attributes:
        api: name of the API, for the log.
        authorizer: decides about permissions.
        client: the client that sent the request.
        handle: calls the handler with a request, and returns its reply.
    """

    api: str
    state: BrokerState
    context: RequestContext
    authorizer: Authorizer
    client: Client
    handle: Callable[[Q], Reply[R]]

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, log_denial: bool = True
    ) -> bool:
        """Whether the client may do something to a resource; a denial is logged, unless it only hides something."""
        return is_allowed(self.authorizer, self.client, self.api, operation, resource_type, name, log_denial=log_denial)

    def allows_on_cluster(self, operation: AclOperation, *, log_denial: bool = True) -> bool:
        """Whether the client may do something to the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denial=log_denial)

    def may_describe_topic(self, name: str, *, log_denial: bool = True) -> bool:
        """Whether the client may know that a topic exists."""
        return self.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_denial=log_denial)

    def may_create_topic(self, name: str) -> bool:
        """Whether the client may create a topic: CREATE on the cluster, or on the topic."""
        on_cluster = self.allows_on_cluster(AclOperation.CREATE, log_denial=False)
        return on_cluster or self.allows(AclOperation.CREATE, ResourceType.TOPIC, name)

    def may_read_group(self, group_id: str) -> bool:
        """Whether the client may be a member of a group, and commit its offsets."""
        return self.allows(AclOperation.READ, ResourceType.GROUP, group_id)

    def may_describe_group(self, group_id: str, *, log_denial: bool = True) -> bool:
        """Whether the client may know that a group exists."""
        return self.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id, log_denial=log_denial)

    def may_write_transactions(self, transactional_id: str | None) -> bool:
        """Whether the client may write transactions of a transactional id; False without one."""
        return transactional_id is not None and self.allows(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )

    def may_describe_transaction(self, transactional_id: str, *, log_denial: bool = True) -> bool:
        """Whether the client may know the state of a transactional id."""
        return self.allows(
            AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, log_denial=log_denial
        )

    def divide(
        self, items: Iterable[Item], operation: AclOperation, name_of: Callable[[Item], str | None]
    ) -> tuple[list[Item], list[Item]]:
        """Divide the entries of a request by whether the client is permitted an operation on their topics.

        Args:
            items: the entries.
            operation: what the request does to their topics.
            name_of: returns the topic of an entry; None if there is none, which the handler refuses.

        Returns:
            The permitted entries, and the others.
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

    def go_on(self, request: Q, merge: Callable[[R], R] | None = None) -> Reply[R]:
        """Call the handler, and add the errors of denied entries to its response.

        Args:
            request: the client's request with the permitted entries.
            merge: adds the errors of denied entries to the response.
        """
        reply = self.handle(request)
        return reply if merge is None else after_response(reply, merge)

    def go_on_with(
        self,
        request: Q,
        allowed: Sequence[object],
        denied: Sequence[object],
        answer: R,
        *,
        entries: str = "topics",
        results: str = "topics",
    ) -> Reply[R]:
        """Call the handler with the permitted entries of a request, and add errors for the others.

        Args:
            request: a dataclass.
            allowed: its permitted entries.
            denied: a result for each other entry.
            answer: a response without results, for a request without permitted entries: the handler does not see it.
            entries: the field of the request.
            results: the field of the response.
        """
        if not denied:
            return self.handle(request)

        def merge(response: R) -> R:
            getattr(response, results).extend(denied)
            return response

        if not allowed:
            return merge(answer)
        return self.go_on(_replaced(request, **{entries: allowed}), merge)

    def topic_name(self, name: str | None, topic_id: bytes, by_id_from: int) -> str | None:
        """Return the topic of an entry of a request.

        Args:
            name: the topic name, in versions with names.
            topic_id: the topic id, in versions with ids.
            by_id_from: the first version with ids.

        Returns:
            the name of the topic; None for an unknown id.
        """
        if self.context.api_version < by_id_from:
            return name
        topic = self.state.catalog.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The authorized operations of the client on a resource, as a bit field."""
        return self.authorizer.authorized_operations(self.client, resource_type, name)

    def cluster_operations(self) -> int:
        """The authorized operations of the client on the cluster, as a bit field; 0 without DESCRIBE."""
        if not self.allows_on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def on_cluster(operation: AclOperation, refuse: Callable[[Q, str], R]) -> Callable[[Call[Q, R], Q], Reply[R]]:
    """Return the `authorize` function of an API that requires one permission on the cluster.

    Args:
        operation: the required operation.
        refuse: creates the response to a refused request, with an error message.
    """

    def authorize(call: Call[Q, R], request: Q) -> Reply[R]:
        if call.allows_on_cluster(operation):
            return call.go_on(request)
        return refuse(request, f"Request {call.api} is not authorized: it requires {operation.name} on the cluster.")

    return authorize


def client_of(context: RequestContext) -> Client:
    """The authenticated principal, and the host as in ACLs: the address as Java writes it."""
    return Client(context.principal, context.host)


def _replaced(request: Q, **changes: Any) -> Q:  # noqa: ANN401 - the values of any fields
    message: DataclassInstance = request  # type: ignore[assignment] # every declared message is a dataclass
    return replace(message, **changes)  # type: ignore[return-value]
