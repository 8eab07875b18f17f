"""The ASGI application: which address is which page. Start at `create_app`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkaraw.console import (
    dead_letters,
    downloads,
    faults,
    groups,
    messages,
    mirrors,
    overview,
    permission_changes,
    permissions,
    pipelines,
    queries,
    schema_changes,
    schemas,
    share_states,
    topics,
    transactions,
    wire,
)
from kafkaraw.console.access import Access
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.settings import ConsoleSettings
from kafkaraw.console.site import FOLDER, Handler, MissingError, Site, url
from kafkaraw.console.streams import EventStream, event
from kafkaraw.errors import InternalError, KafkaError

log: logging.Logger = logging.getLogger(__name__)

_PAGES: Final[tuple[tuple[str, Handler, tuple[str, ...]], ...]] = (
    ("/", overview.overview, ("GET",)),
    ("/topics", topics.topics, ("GET",)),
    ("/topics", topics.create, ("POST",)),
    ("/new-topic", topics.create_form, ("GET",)),
    ("/topics/{topic}", topics.topic_page, ("GET",)),
    ("/topics/{topic}/messages", messages.messages, ("GET",)),
    ("/topics/{topic}/search", messages.search, ("GET",)),
    ("/topics/{topic}/live", messages.live, ("GET",)),
    ("/topics/{topic}/record", messages.record, ("GET",)),
    ("/topics/{topic}/download", downloads.download, ("GET",)),
    ("/topics/{topic}/send", messages.compose, ("GET",)),
    ("/topics/{topic}/send", messages.send, ("POST",)),
    ("/topics/{topic}/config", topics.set_config, ("POST",)),
    ("/topics/{topic}/partitions", topics.add_partitions, ("POST",)),
    ("/topics/{topic}/{action:destruction}", topics.confirm, ("GET",)),
    ("/topics/{topic}/{action:destruction}", topics.destroy, ("POST",)),
    ("/groups", groups.groups, ("GET",)),
    ("/group", groups.group_page, ("GET",)),
    ("/group/reset", groups.reset_page, ("GET",)),
    ("/group/reset", groups.reset, ("POST",)),
    ("/group/delete", groups.confirm_delete, ("GET",)),
    ("/group/delete", groups.delete, ("POST",)),
    ("/group/deliveries", share_states.deliveries, ("GET",)),
    ("/transactions", transactions.transactions, ("GET",)),
    ("/transactions/abort", transactions.confirm, ("GET",)),
    ("/transactions/abort", transactions.abort, ("POST",)),
    ("/schemas", schemas.subjects, ("GET",)),
    ("/schema", schemas.subject, ("GET", "POST")),
    ("/new-schema", schema_changes.schema_form, ("GET",)),
    ("/schema/register", schema_changes.register, ("POST",)),
    ("/schema/level", schema_changes.set_level, ("POST",)),
    ("/schema/delete", schema_changes.confirm, ("GET",)),
    ("/schema/delete", schema_changes.delete, ("POST",)),
    ("/permissions", permissions.permissions, ("GET",)),
    ("/permissions/acl", permission_changes.acl_form, ("GET",)),
    ("/permissions/acl", permission_changes.create_acl, ("POST",)),
    ("/permissions/acl/delete", permission_changes.confirm_acl, ("GET",)),
    ("/permissions/acl/delete", permission_changes.delete_acl, ("POST",)),
    ("/permissions/user", permission_changes.user_form, ("GET",)),
    ("/permissions/user", permission_changes.set_user, ("POST",)),
    ("/permissions/user/delete", permission_changes.confirm_user, ("GET",)),
    ("/permissions/user/delete", permission_changes.delete_user, ("POST",)),
    ("/permissions/quota", permission_changes.quota_form, ("GET",)),
    ("/permissions/quota", permission_changes.set_quota, ("POST",)),
    ("/permissions/quota/delete", permission_changes.confirm_quota, ("GET",)),
    ("/permissions/quota/delete", permission_changes.remove_quota, ("POST",)),
    ("/sql", queries.sql_page, ("GET",)),
    ("/pipelines", pipelines.pipelines, ("GET",)),
    ("/pipeline", pipelines.pipeline_page, ("GET",)),
    ("/mirrors", mirrors.mirrors, ("GET",)),
    ("/mirrors/translate", mirrors.translate, ("GET",)),
    ("/wire", wire.wire, ("GET",)),
    ("/wire", wire.switch, ("POST",)),
    ("/wire/live", wire.live, ("GET",)),
    ("/wire/exchange", wire.exchange, ("GET",)),
    ("/wire/pcapng", wire.capture, ("GET",)),
    ("/faults", faults.show, ("GET",)),
    ("/faults", faults.change, ("POST",)),
    ("/dead-letters", dead_letters.dead_letters, ("GET",)),
    ("/dead-letters/confirm", dead_letters.confirm, ("GET",)),
    ("/dead-letters/confirm", dead_letters.act, ("POST",)),
)


class _Page:
    """An ASGI application that runs a handler, and shows its errors."""

    def __init__(self, site: Site, handler: Handler) -> None:
        self._site, self._handler = site, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response | EventStream:
        cluster = self._site.clusters.get(request.path_params["cluster"])
        try:
            if cluster is None:
                names = ", ".join(self._site.clusters)
                raise MissingError(f"there is no cluster {request.path_params['cluster']!r} here; there is {names}")
            found: Response | EventStream = await self._handler(request, self._site, cluster)
            return found
        except KafkaError as error:
            return await self._failed(request, cluster, error)
        except Exception as error:
            log.exception("page %r failed", request.url.path)
            text = f"the console failed: {type(error).__name__}; its log has the details"
            return await self._failed(request, cluster, InternalError(text))

    async def _failed(
        self, request: Request, cluster: ClusterConnection | None, error: KafkaError
    ) -> Response | EventStream:
        if request.headers.get("accept", "").startswith("text/event-stream"):  # scripts cannot read answers with errors
            return EventStream(_one_event(event("failed", {"error": str(error)})))
        return await self._site.failed(request, cluster, error)


async def _one_event(what: bytes) -> AsyncIterator[bytes]:
    yield what


def create_app(settings: ConsoleSettings) -> ASGIApp:
    """Return the console as an ASGI application, with everything that protects it.

    Raises:
        ConfigError: the audit log cannot be written.
    """
    site = Site(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await wire.start_all(site)
        yield
        await wire.stop_all(site)
        for history in site.history.values():
            if isinstance(history, groups.History) and history.task is not None:
                history.task.cancel()
        for each in site.clusters.values():
            await each.close()

    async def first_page(request: Request) -> Response:
        names = list(site.clusters)
        if len(names) == 1:
            return RedirectResponse(url("c", names[0]) + "/", 302)
        return site.page(request, "clusters.html", None, tab="")

    async def not_found(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        text = "there is no such page" if status == 404 else "this address does not take such requests"
        facts: dict[str, Any] = {"error": text, "checks": [], "is_away": False, "permission": "", "tab": ""}
        return site.page(request, "error.html", None, status=status, **facts)

    routes = [Route("/", first_page), Mount("/static", StaticFiles(directory=FOLDER / "static"))]
    for path, handler, methods in _PAGES:
        pattern = path.replace(":destruction}", "}")
        if pattern != path:
            for action in ("delete", "empty"):
                one = pattern.replace("{action}", action)
                routes.append(
                    Route(f"/c/{{cluster}}{one}", _Page(site, _with_action(handler, action)), methods=list(methods))
                )
            continue
        routes.append(Route(f"/c/{{cluster}}{path}", _Page(site, handler), methods=list(methods)))
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: not_found, 405: not_found})
    site.access = Access(app, settings)
    return site.access


def _with_action(handler: Handler, action: str) -> Handler:
    async def handle(request: Request, site: Site, cluster: ClusterConnection) -> Any:  # noqa: ANN401
        request.path_params["action"] = action
        return await handler(request, site, cluster)

    return handle
