"""A registry in memory, asked through its ASGI application: no socket, no thread of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from kafkaraw.net import SystemClock
from kafkaraw.schemas.server.app import AppSettings, create_app
from kafkaraw.schemas.server.languages import StandardLanguages
from kafkaraw.schemas.server.log import MemoryLog
from kafkaraw.schemas.server.service import RegistryService
from kafkaraw.schemas.server.state import State

Asker = Callable[..., tuple[int, Any]]


class Api:
    """Requests to a registry in memory."""

    def __init__(self, settings: AppSettings | None = None, **options: Any) -> None:
        self._runner = asyncio.Runner()
        languages = StandardLanguages()
        self.state = State(languages.guid_of)
        self.service = self._runner.run(self._make(languages, options))
        transport = httpx.ASGITransport(create_app(self.service, settings), raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://registry")

    async def _make(self, languages: StandardLanguages, options: dict[str, Any]) -> RegistryService:
        return RegistryService(MemoryLog(self.state, SystemClock()), languages, **options)

    def send(self, method: str, path: str, body: object = None, **options: Any) -> httpx.Response:
        """Return the whole answer."""
        if body is not None:
            options["json"] = body
        return self._runner.run(self._client.request(method, path, **options))

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of an answer; of an error, its status and code as well."""
        answer = self.send(method, path, body)
        found = answer.json() if answer.content else None
        if answer.is_error:
            return (answer.status_code, found["error_code"], found["message"])
        return found

    def close(self) -> None:
        """End the registry."""
        self._runner.run(self._client.aclose())
        self.service.close()
        self._runner.close()


@pytest.fixture
def make_api() -> Iterator[Callable[..., Api]]:
    """A function that makes a registry."""
    made: list[Api] = []

    def make(settings: AppSettings | None = None, **options: Any) -> Api:
        made.append(Api(settings, **options))
        return made[-1]

    yield make
    for api in made:
        api.close()


@pytest.fixture
def api(make_api: Callable[..., Api]) -> Api:
    """A registry in memory."""
    return make_api()
