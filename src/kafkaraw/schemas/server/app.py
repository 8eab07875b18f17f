"""The registry as an ASGI application: routes, bodies, content types, authentication, and JSON for every error.

`create_app` returns an application for any ASGI server; it can be mounted in another application. A request of which
another instance must take care is sent on to the primary (`forwarding`). Start at `create_app` and `_ROUTES`.
Source: Confluent's rest.resources, its OpenAPI description, and rest-utils' exception mappers.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkaraw._version import __version__
from kafkaraw.light_classes import dataclass, field
from kafkaraw.schemas.json_codec import standard_load
from kafkaraw.schemas.server.api_errors import ApiError, forwarding_failed, unknown_leader
from kafkaraw.schemas.server.forwarding import (
    FORWARDED_HEADER,
    OFFSET_HEADER,
    Forwarder,
    PrimaryUnreachableError,
)
from kafkaraw.schemas.server.names import ANY_CONTEXT
from kafkaraw.schemas.server.paths import RequestPath
from kafkaraw.schemas.server.requests import SchemaRequest, bad_request, version_of
from kafkaraw.schemas.server.service import NotPrimaryError, Page, RegistryService, schema_types

log: logging.Logger = logging.getLogger(__name__)

V1_JSON: Final = "application/vnd.schemaregistry.v1+json"
_ANSWER_TYPES: Final = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
_REQUEST_TYPES: Final = (*_ANSWER_TYPES, "application/octet-stream")
_REALM: Final = 'Basic realm="Schema Registry"'
_ID_MAX: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"[+-]?0{0,100}[0-9]{1,10}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_REASONS: Final = {
    404: "HTTP 404 Not Found",
    405: "HTTP 405 Method Not Allowed",
    406: "HTTP 406 Not Acceptable",
    415: "HTTP 415 Unsupported Media Type",
}


@dataclass(frozen=True, slots=True)
class AppSettings:
    """How the application answers.

    Attributes:
        users: passwords by user name; every request must then authenticate. Empty: no authentication.
        body_bytes_max: a larger body is refused (413).
        body_timeout_s: how long a client may take to send a body.
        cluster_id: of the Kafka cluster, for `/v1/metadata/id`.
        group: of the instances, for `/v1/metadata/id`.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    body_bytes_max: int = 8 << 20
    body_timeout_s: float = 30.0
    cluster_id: str | None = None
    group: str = "schema-registry"


def create_app(
    service: RegistryService, settings: AppSettings | None = None, forwarder: Forwarder | None = None
) -> ASGIApp:
    """Return the REST API of a registry as an ASGI application.

    Args:
        service: the registry.
        settings: how the application answers.
        forwarder: sends requests on to the primary; None where there is one instance.
    """
    api = _Api(service, settings or AppSettings(), forwarder)
    routes = [Route(path, api.endpoint(handlers), methods=list(handlers)) for path, handlers in _ROUTES.items()]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    inner.router.redirect_slashes = False
    return _Front(inner, service, settings or AppSettings())


class _Front:
    """What happens before routing: authentication, contexts and aliases."""

    def __init__(self, inner: ASGIApp, service: RegistryService, settings: AppSettings) -> None:
        self._inner = inner
        self._service = service
        self._users = settings.users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if self._users and not _is_authenticated(self._users, scope):
            answer = _error(ApiError(401, 401, "Unauthorized"), scope)
            answer.headers["WWW-Authenticate"] = _REALM
            await answer(scope, receive, send)
            return
        try:
            path = RequestPath.parse(_raw_path(scope), scope["query_string"].decode("latin-1")).in_context()
        except ValueError as error:
            await _error(ApiError(400, 400, str(error)), scope)(scope, receive, send)
            return
        path = path.with_aliases(self._service.alias_of)
        inner = {
            **scope,
            "path": path.encoded_path,
            "raw_path": path.encoded_path.encode("ascii"),
            "root_path": "",
            "query_string": path.encoded_query.encode("ascii"),
        }
        await self._inner(inner, receive, send)


def _raw_path(scope: Scope) -> str:
    """Return the path as it stands in the request, without the part that leads to a mounted application."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    path: str = raw.decode("latin-1").partition("?")[0]
    skipped = [segment for segment in scope.get("root_path", "").split("/") if segment]
    segments = path.strip("/").split("/")
    if skipped and [unquote(segment) for segment in segments[: len(skipped)]] == skipped:
        segments = segments[len(skipped) :]
    return "/" + "/".join(segments)


def _is_authenticated(users: Mapping[str, str], scope: Scope) -> bool:
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, encoded = given.partition(b" ")
    if scheme.lower() != b"basic":
        return False
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        name = user.decode("utf-8")
    except (binascii.Error, ValueError):
        return False
    expected = users.get(name)
    # An unknown user takes as long as a wrong password.
    is_equal = hmac.compare_digest(password, (expected or "\0").encode("utf-8"))
    return bool(colon) and expected is not None and is_equal


class _Call:
    """A request, as handlers see it."""

    def __init__(self, request: Request, body: bytes) -> None:
        self._request = request
        self._body = body

    def text(self, name: str) -> str:
        """Return a part of the path."""
        value: str = self._request.path_params[name]
        return unquote(value)

    def number(self, name: str) -> int:
        """Return an id in the path; anything else leads to no resource."""
        value = self.text(name)
        # Longer numbers are out of range, and Python would not convert those of 5,000 digits.
        if _NUMBER.fullmatch(value) is None or abs(int(value)) > _ID_MAX:
            raise HTTPException(404)
        return int(value)

    def option(self, name: str) -> str | None:
        """Return a parameter of the query."""
        return self._request.query_params.get(name)

    def options(self, name: str) -> list[str]:
        """Return all values of a parameter of the query."""
        return self._request.query_params.getlist(name)

    def flag(self, name: str) -> bool:
        """Return a parameter of the query that is true or false."""
        return (self.option(name) or "").lower() == "true"

    @property
    def style(self) -> str:
        """The format that is asked for."""
        return self.option("format") or ""

    @property
    def page(self) -> Page:
        """The part of a list that is asked for."""
        return Page(self._integer("offset", 0), self._integer("limit", -1))

    def _integer(self, name: str, default: int) -> int:
        value = self.option(name)
        if value is None or value == "":
            return default
        if _NUMBER.fullmatch(value) is None or abs(int(value)) > _ID_MAX:
            raise HTTPException(404)
        return int(value)

    def json(self) -> object:
        """Return the body; None if it is empty."""
        if not self._body.strip():
            return None
        try:
            text = self._body.decode(json.detect_encoding(self._body))
            found = standard_load(text)
            if _SURROGATE.search(text) is not None:  # an escape can be half of a pair, which no record can have
                json.dumps(found, ensure_ascii=False).encode("utf-8")
            return found
        except UnicodeEncodeError as error:
            raise bad_request(f"the body has half a surrogate pair: {error.object[error.start]!r}") from error
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is no JSON: {error}") from error

    def schema(self) -> SchemaRequest:
        """Return the schema in the body."""
        return SchemaRequest.from_json(self.json())


_Handler = Callable[["_Api", _Call], Awaitable[Any]]


class _Api:
    """Answers requests.

    Args:
        service: the registry.
        settings: how the application answers.
        forwarder: sends requests on to the primary.
    """

    def __init__(self, service: RegistryService, settings: AppSettings, forwarder: Forwarder | None) -> None:
        self.service = service
        self.settings = settings
        self._forwarder = forwarder

    def endpoint(self, handlers: Mapping[str, _Handler]) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of one path."""

        async def answer(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            try:
                return await self._answer(request, handlers[method])
            except ApiError as error:
                return _error(error, request.scope)
            except ClientDisconnect:
                return Response(status_code=400)
            except HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 -- answered here, because Starlette would close the connection
                return await _internal_error(request, error)

        return answer

    async def _answer(self, request: Request, handler: _Handler) -> Response:
        media_type = _answer_type(request.headers.get("accept"))
        body = b""
        if request.method in ("POST", "PUT"):
            _check_request_type(request.headers)
            body = await self._body(request)
        try:
            answer = await handler(self, _Call(request, body))
        except NotPrimaryError as error:
            try:
                return await self._forwarded(request, body, error.url)
            except PrimaryUnreachableError as gone:
                answer = await self._answer_of_next(request, handler, body, gone, str(error.url))
                if isinstance(answer, Response):
                    return answer
        headers = {}
        if request.method not in ("GET", "HEAD"):
            headers[OFFSET_HEADER] = str(self.service.state.applied_offset)
        if isinstance(answer, _NoContent):
            return Response(status_code=204, headers=headers)
        content = answer.text if isinstance(answer, _PlainText) else _json(answer)
        return Response(content, media_type=media_type, headers=headers)

    async def _answer_of_next(
        self, request: Request, handler: _Handler, body: bytes, gone: Exception, url: str
    ) -> object:
        """Answer a request again when another instance, or this one, has become the primary."""
        if not await self.service.has_replaced(url):
            raise forwarding_failed(f"Error while forwarding the request to the leader: {gone}")
        try:
            return await handler(self, _Call(request, body))
        except NotPrimaryError as error:
            try:
                return await self._forwarded(request, body, error.url)
            except PrimaryUnreachableError as again:
                raise forwarding_failed(f"Error while forwarding the request to the leader: {again}") from again

    async def _body(self, request: Request) -> bytes:
        limit = self.settings.body_bytes_max
        large = ApiError(413, 413, f"the body is larger than {limit} bytes")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise large
                    parts.append(part)
        except TimeoutError:
            limit_s = f"{self.settings.body_timeout_s:g} s"
            raise ApiError(408, 408, f"the body was not received within {limit_s}") from None
        return b"".join(parts)

    async def _forwarded(self, request: Request, body: bytes, url: str | None) -> Response:
        if url is None or self._forwarder is None or FORWARDED_HEADER in request.headers:
            raise unknown_leader()
        status, content, media_type = await self._forwarder.send(url, request, body)
        return Response(content, status_code=status, media_type=media_type)


class _NoContent:
    """An answer without a body."""


class _PlainText:
    """An answer that is a schema's text, and no JSON around it."""

    def __init__(self, text: str) -> None:
        self.text = text


def _json(answer: object) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _error(error: ApiError, scope: Scope) -> Response:
    accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), None)
    try:
        media_type = _answer_type(accept)
    except ApiError:
        media_type = V1_JSON
    return Response(_json(error.to_json()), status_code=error.status, media_type=media_type)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    answer = _error(ApiError(status, status, _REASONS.get(status, f"HTTP {status}")), request.scope)
    for name, value in (getattr(error, "headers", None) or {}).items():
        answer.headers[name] = value
    return answer


async def _internal_error(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(ApiError(500, 500, "Internal Server Error"), request.scope)


def _check_request_type(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(415, 415, f"the body has the Content-Encoding {encoding!r}; send it without one")
    content_type = headers.get("content-type")
    if content_type is not None and content_type.partition(";")[0].strip().lower() not in ("", *_REQUEST_TYPES):
        raise ApiError(415, 415, _REASONS[415])


def _answer_type(accept: str | None) -> str:
    """Return the media type that a client prefers.

    Raises:
        ApiError: it accepts none that the registry has.
    """
    best, best_quality = None, 0.0
    for part in (accept or "*/*").split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        found = V1_JSON if name in ("*/*", "application/*") else name if name in _ANSWER_TYPES else None
        if found is not None and quality > best_quality:
            best, best_quality = found, quality
    if best is None:
        raise ApiError(406, 406, _REASONS[406])
    return best


# -- handlers


async def _root(api: _Api, call: _Call) -> object:
    return {}


async def _types(api: _Api, call: _Call) -> object:
    return schema_types()


async def _schemas(api: _Api, call: _Call) -> object:
    return api.service.all_schemas(
        call.option("subjectPrefix") or "",
        call.page,
        aliases=call.flag("aliases"),
        deleted=call.flag("deleted"),
        latest_only=call.flag("latestOnly"),
        rule_type=call.option("ruleType") or "",
    )


async def _schema_by_id(api: _Api, call: _Call) -> object:
    return await api.service.schema_by_id(
        call.number("id"),
        call.option("subject"),
        style=call.style,
        reference_style=call.option("referenceFormat") or "",
        with_max=call.flag("fetchMaxId"),
    )


async def _text_by_id(api: _Api, call: _Call) -> object:
    return _PlainText(await api.service.text_by_id(call.number("id"), call.option("subject"), style=call.style))


async def _subjects_by_id(api: _Api, call: _Call) -> object:
    return api.service.subjects_with_id(
        call.number("id"), call.option("subject"), call.page, deleted=call.flag("deleted")
    )


async def _versions_by_id(api: _Api, call: _Call) -> object:
    return api.service.versions_with_id(
        call.number("id"), call.option("subject"), call.page, deleted=call.flag("deleted")
    )


async def _schema_by_guid(api: _Api, call: _Call) -> object:
    return await api.service.schema_by_guid(call.text("guid"), style=call.style)


async def _ids_by_guid(api: _Api, call: _Call) -> object:
    return api.service.ids_of_guid(call.text("guid"))


async def _subjects(api: _Api, call: _Call) -> object:
    prefix = call.option("subjectPrefix")
    return api.service.subjects(
        ANY_CONTEXT if prefix is None else prefix,
        call.page,
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
    )


async def _lookup(api: _Api, call: _Call) -> object:
    return await api.service.lookup(
        call.text("subject"),
        call.schema(),
        normalized=call.flag("normalize"),
        deleted=call.flag("deleted"),
        style=call.style,
    )


async def _delete_subject(api: _Api, call: _Call) -> object:
    return await api.service.delete_subject(call.text("subject"), permanent=call.flag("permanent"))


async def _latest_with_metadata(api: _Api, call: _Call) -> object:
    wanted = dict(zip(call.options("key"), call.options("value"), strict=False))
    return await api.service.latest_with_metadata(
        call.text("subject"), wanted, deleted=call.flag("deleted"), style=call.style
    )


async def _versions(api: _Api, call: _Call) -> object:
    return api.service.versions(
        call.text("subject"),
        call.page,
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
        deleted_as_negative=call.flag("deletedAsNegative"),
    )


async def _register(api: _Api, call: _Call) -> object:
    return await api.service.register(
        call.text("subject"), call.schema(), normalized=call.flag("normalize"), force=call.flag("force")
    )


async def _version(api: _Api, call: _Call) -> object:
    return await api.service.version(
        call.text("subject"),
        version_of(call.text("version")),
        deleted=call.flag("deleted"),
        style=call.style,
        reference_style=call.option("referenceFormat") or "",
    )


async def _delete_version(api: _Api, call: _Call) -> object:
    return await api.service.delete_version(
        call.text("subject"), version_of(call.text("version")), permanent=call.flag("permanent")
    )


async def _version_text(api: _Api, call: _Call) -> object:
    return _PlainText(
        await api.service.version_text(
            call.text("subject"), version_of(call.text("version")), deleted=call.flag("deleted"), style=call.style
        )
    )


async def _referenced_by(api: _Api, call: _Call) -> object:
    return api.service.referenced_by(
        call.text("subject"), version_of(call.text("version")), call.page, deleted=call.flag("deleted")
    )


async def _compatibility(api: _Api, call: _Call) -> object:
    return await api.service.check_compatibility(
        call.text("subject"),
        call.schema(),
        version=None,
        normalized=call.flag("normalize"),
        verbose=call.flag("verbose"),
    )


async def _version_compatibility(api: _Api, call: _Call) -> object:
    return await api.service.check_compatibility(
        call.text("subject"),
        call.schema(),
        version=version_of(call.text("version")),
        normalized=call.flag("normalize"),
        verbose=call.flag("verbose"),
    )


def _setting_subject(call: _Call, has_subject: bool) -> str | None:
    return call.text("subject") if has_subject else None


def _config_handlers(has_subject: bool) -> dict[str, _Handler]:
    async def get(api: _Api, call: _Call) -> object:
        return api.service.config(_setting_subject(call, has_subject), in_scope=call.flag("defaultToGlobal"))

    async def put(api: _Api, call: _Call) -> object:
        return await api.service.update_config(_setting_subject(call, has_subject), call.json())

    async def delete(api: _Api, call: _Call) -> object:
        return await api.service.delete_config(_setting_subject(call, has_subject))

    return {"GET": get, "PUT": put, "DELETE": delete}


def _mode_handlers(has_subject: bool) -> dict[str, _Handler]:
    async def get(api: _Api, call: _Call) -> object:
        return api.service.mode(_setting_subject(call, has_subject), in_scope=call.flag("defaultToGlobal"))

    async def put(api: _Api, call: _Call) -> object:
        return await api.service.set_mode(_setting_subject(call, has_subject), call.json(), force=call.flag("force"))

    async def delete(api: _Api, call: _Call) -> object:
        return await api.service.delete_mode(_setting_subject(call, has_subject), recursive=call.flag("recursive"))

    return {"GET": get, "PUT": put, "DELETE": delete}


async def _contexts(api: _Api, call: _Call) -> object:
    return api.service.contexts(call.page, call.option("contextPrefix") or "")


async def _delete_context(api: _Api, call: _Call) -> object:
    await api.service.delete_context(call.text("context"))
    return _NoContent()


async def _metadata_id(api: _Api, call: _Call) -> object:
    clusters = {"kafka-cluster": api.settings.cluster_id, "schema-registry-cluster": api.settings.group}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def _metadata_version(api: _Api, call: _Call) -> object:
    return {"version": f"kafkaraw-{__version__}", "commitId": ""}


_IDS, _SUBJECT = "/schemas/ids/{id}", "/subjects/{subject}"
_VERSION = f"{_SUBJECT}/versions/{{version}}"
_ROUTES: Final[Mapping[str, Mapping[str, _Handler]]] = {
    "/": {"GET": _root, "POST": _root},
    "/schemas": {"GET": _schemas},
    "/schemas/types": {"GET": _types},
    _IDS: {"GET": _schema_by_id},
    f"{_IDS}/schema": {"GET": _text_by_id},
    f"{_IDS}/subjects": {"GET": _subjects_by_id},
    f"{_IDS}/versions": {"GET": _versions_by_id},
    "/schemas/guids/{guid}": {"GET": _schema_by_guid},
    "/schemas/guids/{guid}/ids": {"GET": _ids_by_guid},
    "/subjects": {"GET": _subjects},
    _SUBJECT: {"POST": _lookup, "DELETE": _delete_subject},
    f"{_SUBJECT}/metadata": {"GET": _latest_with_metadata},
    f"{_SUBJECT}/versions": {"GET": _versions, "POST": _register},
    _VERSION: {"GET": _version, "DELETE": _delete_version},
    f"{_VERSION}/schema": {"GET": _version_text},
    f"{_VERSION}/referencedby": {"GET": _referenced_by},
    f"/compatibility{_SUBJECT}/versions": {"POST": _compatibility},
    f"/compatibility{_VERSION}": {"POST": _version_compatibility},
    "/config": _config_handlers(False),
    "/config/{subject}": _config_handlers(True),
    "/mode": _mode_handlers(False),
    "/mode/{subject}": _mode_handlers(True),
    "/contexts": {"GET": _contexts},
    "/contexts/{context}": {"DELETE": _delete_context},
    "/v1/metadata/id": {"GET": _metadata_id},
    "/v1/metadata/version": {"GET": _metadata_version},
}
