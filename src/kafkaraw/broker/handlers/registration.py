"""`@handles`: the file of an API says here which request it handles, who may send it, and how a large one is divided.

    @handles(
        CreatePartitionsRequest,
        authorize=authorize,
        permissions=(Permission(AclOperation.ALTER, ResourceType.TOPIC),),
    )
    def handle(
        state: BrokerState, context: RequestContext, request: CreatePartitionsRequest
    ) -> Reply[CreatePartitionsResponse]: ...

The type checker compares the handler with the classes of the request and of its response. `handlers.table` imports
every file of the package, and so registers it. This module must not name an API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from kafkaraw.broker.handlers.authorization import Call, client_of
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.parts import Divided, Handler
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.apis import Api, api_of
from kafkaraw.protocol.declare import RequestClass, Response

Q = TypeVar("Q")
R = TypeVar("R", bound=Response)


AnyHandler: TypeAlias = Handler[Any, Response]
Authorize: TypeAlias = Callable[[Call[Q, R], Q], Reply[R]]


@dataclass(frozen=True, slots=True)
class Permission:
    """One permission that an API takes.

    Attributes:
        when: when it takes it; empty for always.
    """

    operation: AclOperation
    resource_type: ResourceType
    when: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """An API that the broker serves.

    Attributes:
        api: the API.
        handle: its handler, behind its authorization.
        is_open: whether it takes no permission.
        permissions: what it takes, for the documentation. The authorization counts; the tests compare the two.
        note: what else the documentation says about them.
        divided: how large requests are divided, by the first version for which that is so; empty if they are not.
    """

    api: Api
    handle: AnyHandler
    is_open: bool
    permissions: tuple[Permission, ...]
    note: str
    divided: Mapping[int, Divided]


REGISTERED: Final[dict[int, Registration]] = {}
"""By API key. `handlers.table` fills it; ApiVersions offers these APIs and no others."""


def handles(
    request: RequestClass[Q, R],
    *,
    authorize: Authorize[Q, R] | None,
    permissions: tuple[Permission, ...] = (),
    note: str = "",
    divided: Mapping[int, Divided] | None = None,
) -> Callable[[Handler[Q, R]], Handler[Q, R]]:
    """Register a handler.

    Args:
        request: the class of the request.
        authorize: called instead of the handler if there is an authorizer; gives the handler what is permitted of the
            request. None leaves the API open to every client. There is no default, so that it is not forgotten.
        permissions: what `authorize` checks, for the documentation.
        note: what else the documentation says about them.
        divided: how large requests are divided, by the first version for which that is so.

    Raises:
        ValueError: the API has a handler already.
    """
    asked, _ = request.exchange()
    api = api_of(asked)

    def register(handler: Handler[Q, R]) -> Handler[Q, R]:
        if api.key in REGISTERED:
            raise ValueError(f"{api.name} has two handlers: {handler!r} is the second")
        handle: Handler[Q, R] = handler if authorize is None else authorized(api.name, handler, authorize)
        REGISTERED[api.key] = Registration(
            api=api,
            handle=handle,
            is_open=authorize is None,
            permissions=permissions,
            note=note,
            divided=divided or {},
        )
        return handler

    return register


def authorized(api: str, handler: Handler[Q, R], authorize: Authorize[Q, R]) -> Handler[Q, R]:
    """A handler behind its authorization."""

    def handle(state: BrokerState, context: RequestContext, request: Q, /) -> Reply[R]:
        authorizer = state.catalog.authorizer
        if authorizer is None:
            return handler(state, context, request)
        client = client_of(context)
        call: Call[Q, R] = Call(api, state, context, authorizer, client, lambda asked: handler(state, context, asked))
        return authorize(call, request)

    return handle
