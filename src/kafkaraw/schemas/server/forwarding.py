"""Sends requests that write on to the primary, and waits until this instance has read what the primary wrote.

Source: Confluent's KafkaSchemaRegistry.forward...RequestToLeader.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import httpx
from starlette.requests import Request

from kafkaraw.schemas.server.api_errors import forwarding_failed

FORWARDED_HEADER: Final = "X-Forward"
"""Marks a request that was sent on once, as Confluent's registry does, so that it is not sent on again."""
OFFSET_HEADER: Final = "X-Schema-Registry-Offset"
"""Of an answer to a write: the offset that the primary had read. Another instance answers when it has read it, too."""
_PASSED_ON: Final = ("accept", "authorization", "content-type", "x-request-id")
_READ_BACK_S: Final = 2.0
_CONNECT_S: Final = 5.0
"""A primary whose machine is gone answers nothing, not even that the connection is refused."""


class PrimaryUnreachableError(Exception):
    """No connection to the primary: it has not got the request, which may be sent to another one."""


class Forwarder:
    """Sends requests to the primary.

    Args:
        wait_for: waits until this instance has read an offset, for a number of seconds.
        timeout_s: for connecting to the primary and for its answer.
        verify: for a primary with TLS: its certificate is checked with this context; None uses the system's.
    """

    def __init__(
        self,
        wait_for: Callable[[int, float], Awaitable[None]],
        timeout_s: float = 60.0,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._wait_for = wait_for
        self._timeout_s = timeout_s
        self._verify = verify
        self._client: httpx.AsyncClient | None = None

    async def send(self, url: str, request: Request, body: bytes) -> tuple[int, bytes, str | None]:
        """Send a request on.

        Returns:
            status, body and media type of the answer.

        Raises:
            PrimaryUnreachableError: there is no connection to the primary.
            ApiError: the primary does not answer.
        """
        headers = {name: value for name, value in request.headers.items() if name in _PASSED_ON}
        headers[FORWARDED_HEADER] = "true"
        target = url.rstrip("/") + request.scope["raw_path"].decode("ascii")
        query = request.scope["query_string"].decode("ascii")
        try:
            answer = await self._opened().request(
                request.method, f"{target}?{query}" if query else target, content=body, headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise PrimaryUnreachableError(f"{url} cannot be reached: {str(error) or type(error).__name__}") from error
        except httpx.HTTPError as error:
            text = f"Error while forwarding the request to the leader {url}: {str(error) or type(error).__name__}"
            raise forwarding_failed(text) from error
        offset = answer.headers.get(OFFSET_HEADER, "")
        if offset.lstrip("-").isdigit():
            await self._wait_for(int(offset), _READ_BACK_S)
        return answer.status_code, answer.content, answer.headers.get("content-type")

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:  # only here: most instances are the primary and need none
            verify = True if self._verify is None else self._verify
            # The primary is one of us: no proxy of the environment is between.
            timeout = httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, _CONNECT_S))
            self._client = httpx.AsyncClient(timeout=timeout, verify=verify, trust_env=False)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
