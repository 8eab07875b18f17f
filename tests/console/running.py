"""A console on a socket of its own, in a thread, and a client that asks it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from kafkaraw.console.serving import Console
from kafkaraw.console.settings import ClusterSettings, ConsoleSettings

START_S = 20
HOSTILE_TEXTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP",
    "{{ 7 * 7 }}",
    "</textarea><b>",
)


def cluster(servers: str, **settings: Any) -> ClusterSettings:
    """The settings of a cluster that needs no authentication."""
    client = {"bootstrap_servers": servers}
    return ClusterSettings(
        **{"name": "test", "client": client, "consumer": client, "option": f"-b {servers}", **settings}
    )


@contextmanager
def running(servers: str, *, of: dict[str, Any] | None = None, **settings: Any) -> Iterator[httpx.Client]:
    """Run a console, and return a client with its address.

    Args:
        servers: of the cluster.
        of: settings of the cluster.
        settings: of the console.
    """
    given = {"clusters": [cluster(servers, **(of or {}))], **settings}
    console = Console(ConsoleSettings(**given))
    is_started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(console.run(is_started.set)), daemon=True)
    thread.start()
    assert is_started.wait(START_S)
    port = httpx.URL(console.url).port
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
            yield client
    finally:
        console.stop()
        thread.join(START_S)
        assert not thread.is_alive()


def token_of(client: httpx.Client, path: str = "/c/test/new-topic") -> str:
    """The token of a page's forms."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', client.get(path).text)
    assert found is not None
    return found[1]


def post(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form, as a page of the console does."""
    return client.post(path, data={"token": token_of(client), **fields})


def events(client: httpx.Client, path: str, **query: str) -> list[tuple[str, Any]]:
    """All events of a stream that ends."""
    text = client.get(path, params=query, headers={"accept": "text/event-stream"}).text
    found = []
    for block in text.split("\n\n"):
        if block.strip():
            name, *lines = block.splitlines()
            data = "\n".join(line.removeprefix("data: ") for line in lines)
            found.append((name.removeprefix("event: "), json.loads(data) if data.startswith("{") else data))
    return found
