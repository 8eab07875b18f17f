"""What all pages share: templates, the clusters, limits, the audit log, and how errors are shown.

Must not know single pages. Start at `Site.page`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kafkaraw._version import __version__
from kafkaraw.console.access import BODY_MAX_BYTES, TOKEN_FIELD, Access
from kafkaraw.console.audit import Audit
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.providers import Faults
from kafkaraw.console.settings import Check, ConsoleSettings
from kafkaraw.console.shown import duration_text, size_text, time_text, visible
from kafkaraw.console.streams import STREAMS_MAX, StreamLimit
from kafkaraw.errors import AuthorizationError, KafkaError, RetriableError, UnknownTopicError, UsageError

log: logging.Logger = logging.getLogger(__name__)

FOLDER: Final = Path(__file__).parent
_FORM_S: Final = 30.0
SEARCHES_MAX: Final = 2
"""A search uses all it gets: more of them would only take turns."""
_READINGS_MAX: Final = 4
_DOWNLOADS_MAX: Final = 8
"""Each of them may have 64 MiB of records in memory."""
_MISSING: Final = ("GROUP_ID_NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INVALID_TOPIC_EXCEPTION")
_OF_REGISTRIES: Final = {401: 403, 403: 403, 404: 404, 409: 400, 422: 400}

Handler: TypeAlias = Callable[[Request, "Site", ClusterConnection], Awaitable[Any]]


class MissingError(UsageError):
    """What the address names is not there (any more)."""


class Site:
    """The console.

    Args:
        settings: of the console.

    Attributes:
        settings: as given.
        clusters: by name.
        audit: the audit log.
        streams: how many pages are live.
        searches: how many searches run.
        downloads: how many files are sent.
        readings: pages that read records take turns.
        history: what pages have seen before, by any key.
        faults: of embedded brokers, and of taps, by cluster; all pages tell which are active.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings: ConsoleSettings = settings
        self.clusters: dict[str, ClusterConnection] = {each.name: ClusterConnection(each) for each in settings.clusters}
        self.audit: Audit = Audit(settings.audit_file)
        self.streams: StreamLimit = StreamLimit("live pages", STREAMS_MAX)
        self.searches: StreamLimit = StreamLimit("searches and queries", SEARCHES_MAX)
        self.downloads: StreamLimit = StreamLimit("downloads", _DOWNLOADS_MAX)
        self.readings: asyncio.Semaphore = asyncio.Semaphore(_READINGS_MAX)
        self.history: dict[tuple[str, ...], Any] = {}
        self.faults: dict[str, Faults] = {
            each.name: each.faults for each in settings.clusters if each.faults is not None
        }
        self.access: Access | None = None
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            size=size_text,
            when=time_text,
            duration=duration_text,
            safe_text=_safe_text,
            number=number_text,
            with_page=_with_page,
        )
        self._templates.globals.update(version=__version__, url=url, settings=settings, faults=self.faults)

    def text(self, template: str, **context: object) -> str:
        """Return a piece of a page."""
        return self._templates.get_template(template).render(**context)

    def page(
        self,
        request: Request,
        template: str,
        cluster: ClusterConnection | None,
        *,
        status: int = 200,
        **context: object,
    ) -> Response:
        """Return a page."""
        state = request.state
        text = self._templates.get_template(template).render(
            status=status,
            cluster=cluster,
            clusters=list(self.clusters.values()),
            token=getattr(state, "token", ""),
            user=getattr(state, "user", ""),
            path=request.url.path,
            query=dict(request.query_params),
            **context,
        )
        return HTMLResponse(text, status)

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that makes a change.

        Raises:
            UsageError: the console makes no changes, or the form is not one of its own.
        """
        if not self.settings.allow_writes:
            raise UsageError("this console changes nothing: it runs without --allow-writes")
        return await self.fields(request)

    async def fields(self, request: Request) -> dict[str, str]:
        """Return the fields of a form.

        Raises:
            UsageError: the form is too large, or not one of this console.
        """
        body = b""
        try:
            async with asyncio.timeout(_FORM_S):
                async for piece in request.stream():
                    body += piece
                    if len(body) > BODY_MAX_BYTES:
                        raise UsageError(f"the form has more than {BODY_MAX_BYTES >> 20} MiB")
        except TimeoutError:
            raise UsageError(f"the form did not arrive within {_FORM_S:.0f} s") from None
        try:
            found = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1_000))
        except ValueError as error:
            raise UsageError(f"the form cannot be read: {error}") from error
        assert self.access is not None
        if not self.access.is_valid(request, found.pop(TOKEN_FIELD, "")):
            raise UsageError("the form is not one of this console, or the console was restarted: load the page again")
        return found

    def changed(self, cluster: ClusterConnection, to: str) -> Response:
        """Return what a browser gets after a change: the page to look at."""
        cluster.forget()
        return RedirectResponse(to, 303)

    async def failed(self, request: Request, cluster: ClusterConnection | None, error: KafkaError) -> Response:
        """Return the page of an error."""
        status = status_of(error)
        checks: list[Check] = []
        is_away = isinstance(error, RetriableError) and status == 503
        if is_away and cluster is not None and cluster.settings.diagnose is not None:
            checks = list(await cluster.settings.diagnose())
        facts: dict[str, Any] = {"error": visible(str(error)), "checks": checks, "is_away": is_away}
        return self.page(
            request, "error.html", cluster, status=status, tab="", permission=permission_of(error), **facts
        )


def status_of(error: KafkaError) -> int:
    """Return the status of HTTP for an error."""
    if isinstance(error, AuthorizationError):
        return 403
    if hasattr(error, "status"):  # of a schema registry
        return _OF_REGISTRIES.get(error.status, 502)
    if isinstance(error, UnknownTopicError | MissingError) or getattr(error, "name", "") in _MISSING:
        return 404
    if isinstance(error, UsageError):
        return 400
    return 503 if isinstance(error, RetriableError) else 502


def permission_of(error: BaseException) -> str:
    """Return which permission is missing; empty if the error is another one."""
    if isinstance(error, AuthorizationError):
        name = f" {error.resource_name!r}" if error.resource_name else ""
        who = error.principal or "the console's user"
        return visible(f"{who} needs {error.operation or 'more permissions'} on {error.resource_type}{name}")
    if isinstance(error, KafkaError):
        inner = [each for each in error.failures.values() if each is not error]
        return next((found for each in inner if (found := permission_of(each))), "")
    return ""


def number_text(value: int | float | None) -> str:
    """Return a number for readers."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def url(*parts: object, **query: object) -> str:
    """Return an address of the console: the parts of the path are quoted, queries without a value are left out."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given)}" if given else path


def _safe_text(value: object) -> str:
    return visible(str(value))


def _with_page(query: Mapping[str, str], number: int) -> str:
    return urlencode({**query, "page": number})


def number_of(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a whole number of a query.

    Raises:
        UsageError: it is none, or out of range.
    """
    text = query.get(name, "").strip().replace(",", "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
        raise UsageError(f"{name}={text[:40]!r} must be a whole number from 0 to {most:,}")
    return int(text)
