"""`@handles`: registers the handler of an API with its request class, its authorization, and how requests are divided.

    @handles(
        CreatePartitionsRequest,
        authorize=authorize,
        permissions=(Permission(AclOperation.ALTER, ResourceType.TOPIC),),
    )
    def handle(
        state: BrokerState, context: RequestContext, request: CreatePartitionsRequest
    ) -> Reply[CreatePartitionsResponse]: ...

The type checker compares the handler with the classes of the request and of its response. The handler of an API is in
the file of this package that has the name of the API's messages: `served_apis` finds the APIs by the names of the
files, and `handler_of` imports a file when the first request of its API arrives. No list of handlers exists, and this
module must not name an API.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from kafkaraw.broker import handlers
from kafkaraw.broker.handlers.authorization import Call, client_of
from kafkaraw.broker.handlers.chunked_requests import Divided, Handler, in_chunks
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.apis import API_TABLE, Api, api_of
from kafkaraw.protocol.declare import RequestClass, Response

Q = TypeVar("Q")
R = TypeVar("R", bound=Response)


AnyHandler: TypeAlias = Handler[Any, Response]
Authorize: TypeAlias = Callable[[Call[Q, R], Q], Reply[R]]


@dataclass(frozen=True, slots=True)
class Permission:
    """One permission that an API requires.

    Attributes:
        when: the condition under which it is required; empty for always.
    """

    operation: AclOperation
    resource_type: ResourceType
    when: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """An API that the broker serves.

    Attributes:
        api: the API.
        handle: its handler, wrapped by its authorization.
        is_open: whether it requires no permission.
        permissions: the required permissions, for the documentation. Tests compare them with the authorization.
        note: a note on the permissions, for the documentation.
        divided: how large requests are divided, by the first version to which it applies; empty if they are not.
    """

    api: Api
    handle: AnyHandler
    is_open: bool
    permissions: tuple[Permission, ...]
    note: str
    divided: Mapping[int, Divided]


REGISTERED: Final[dict[int, Registration]] = {}
"""By API key; those whose files are imported."""
_HANDLERS: Final[dict[int, AnyHandler]] = {}


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
        authorize: called instead of the handler if there is an authorizer; passes the permitted part of the request to
            the handler. None leaves the API open to every client. There is no default, so that it cannot be forgotten.
        permissions: the permissions that `authorize` checks, for the documentation.
        note: a note on the permissions, for the documentation.
        divided: how large requests are divided, by the first version to which it applies.

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
    """Wrap a handler by its authorization."""

    def handle(state: BrokerState, context: RequestContext, request: Q, /) -> Reply[R]:
        authorizer = state.catalog.authorizer
        if authorizer is None:
            return handler(state, context, request)
        client = client_of(context)
        call: Call[Q, R] = Call(api, state, context, authorizer, client, lambda asked: handler(state, context, asked))
        return authorize(call, request)

    return handle


@cache
def served_apis() -> Mapping[int, Api]:
    """Return the APIs that have a file in this package, by key; ApiVersions offers these and no others.

    No handler is imported.
    """
    files = {module.name for module in pkgutil.iter_modules(handlers.__path__)}
    return {api.key: api for api in API_TABLE if api.module in files}


def registration_of(api: Api) -> Registration:
    """Return the registration of an API of `served_apis`; the first call imports its file.

    Raises:
        ImportError: the file does not register a handler of the API.
    """
    if api.key not in REGISTERED:
        module = f"{handlers.__name__}.{api.module}"
        importlib.import_module(module)
        if api.key not in REGISTERED:
            raise ImportError(f"{module} registers no handler of {api.name}: use @handles({api.name}Request, ...)")
    return REGISTERED[api.key]


def handler_of(api: Api) -> AnyHandler:
    """Return the handler of an API of `served_apis`; the first call imports its file.

    A handler is wrapped by its authorization, and called with chunks of a large request. It takes the request class of
    its API.

    Raises: see `registration_of`.
    """
    handler = _HANDLERS.get(api.key)
    if handler is None:
        served = registration_of(api)
        handler = in_chunks(api.name, served.handle, served.divided) if served.divided else served.handle
        _HANDLERS[api.key] = handler
    return handler


def load_handlers() -> dict[int, AnyHandler]:
    """Import the files of all APIs, and return the handlers by API key, in the table that `handler_of` reads.

    For the documentation and for tests: a broker imports a handler when it needs it.
    """
    for api in served_apis().values():
        handler_of(api)
    return _HANDLERS
