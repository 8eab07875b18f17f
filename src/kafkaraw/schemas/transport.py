"""HTTP to a registry: one attempt of a call at one URL, over httpx, with credentials and limits.

A connection pool belongs to one event loop (`Transport.is_usable`). Redirects are followed on the same host only,
answers are bounded and not compressed, and proxies of the environment are used as for token endpoints: for https to
other machines. Must not retry; `schemas.client` does. Start at `Transport.send`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import ssl
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

from kafkaraw._version import __version__
from kafkaraw.client.credentials.oidc import Endpoint, EndpointTokens, is_loopback, may_use_proxies
from kafkaraw.client.credentials.source import CachedTokens, ProvidedTokens, TokenSource
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import AuthenticationError, ConfigError, NetworkError
from kafkaraw.net import SystemClock
from kafkaraw.net.tls import client_context
from kafkaraw.schemas.errors import (
    NotARegistryError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnavailableError,
)
from kafkaraw.schemas.registry_config import RegistryConfig
from kafkaraw.schemas.rest import ACCEPTED, MEDIA_TYPE, Answer, Call, redirect_of

if TYPE_CHECKING:
    import httpx

log: logging.Logger = logging.getLogger(__name__)

REDIRECTS_MAX: Final = 3
_CONNECTIONS_MAX: Final = 16


class Transport:
    """Connections to the URLs of a registry, and its credentials.

    Args:
        config: the settings.
        rng: source of jitter.

    Raises:
        ConfigError: httpx is not installed, or a certificate cannot be read.
    """

    def __init__(self, config: RegistryConfig, rng: RandomSource) -> None:
        self._config = config
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._process_id = os.getpid()
        self._httpx = _load_httpx()
        self._http: httpx.AsyncClient = self._httpx.AsyncClient(
            verify=_tls_of(config),
            timeout=None,  # each attempt has a deadline
            limits=self._httpx.Limits(max_connections=_CONNECTIONS_MAX, max_keepalive_connections=4),
            trust_env=all(map(may_use_proxies, config.url)),
            follow_redirects=False,
        )
        self._tokens = self._token_source()
        self._headers = self._constant_headers()
        self._warn_of_plain_http()

    @property
    def is_usable(self) -> bool:
        """Whether this is still the loop and the process in which the connections were opened."""
        return self._loop is asyncio.get_running_loop() and self._process_id == os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether the connections belong to the parent process, which goes on using them."""
        return self._process_id != os.getpid()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, url: str, call: Call[Any], timeout: float) -> Answer:
        """Send a call and return the answer; redirects on the same host are followed.

        Args:
            url: the registry's URL.
            call: the call.
            timeout: of a token that is needed first, in seconds; the caller bounds the whole.

        Raises:
            RegistryUnavailableError: no answer: it cannot be reached, or the connection broke.
            RegistryError: it is no registry, its certificate is not trusted, or the answer is too large.
        """
        try:
            answer, location = await self._send_with_token(url + call.path, call, timeout)
            for _ in range(REDIRECTS_MAX):
                if location is None:
                    return answer
                target = redirect_of(call, answer, location)
                answer, location = await self._send_with_token(target, call, timeout)
        except (self._httpx.HTTPError, OSError) as error:  # errors of TLS come through as they are
            self._raise_failure(error, url, call)
        if location is not None:
            raise NotARegistryError(
                f"cannot {call.about}: {url} redirects more than {REDIRECTS_MAX} times; give the registry's own URL",
                url=url,
            )
        return answer

    async def _send_with_token(self, url: str, call: Call[Any], timeout: float) -> tuple[Answer, str | None]:
        answer, location = await self._send_once(url, call, timeout)
        if answer.status == 401 and self._config.oauth_token_endpoint_url is not None:
            self._tokens = self._token_source()  # the token may have been revoked before its end
            answer, location = await self._send_once(url, call, timeout)
        return answer, location

    async def _send_once(self, url: str, call: Call[Any], timeout: float) -> tuple[Answer, str | None]:
        headers = dict(self._headers)
        if self._tokens is not None:
            headers["authorization"] = f"Bearer {await self._token(self._tokens, timeout)}"
        content = None
        if call.body is not None:
            headers["content-type"] = MEDIA_TYPE
            content = json.dumps(call.body, ensure_ascii=False, separators=(",", ":")).encode()
        # The registry repeats the query in no answer; a redirect's URL has its own.
        params = None if urlsplit(url).query else call.query
        request = self._http.build_request(call.method, url, params=params, headers=headers, content=content)
        response = await self._http.send(request, stream=True)
        try:
            answer = Answer(
                url.partition("?")[0],
                response.status_code,
                response.headers.get("content-type", ""),
                await self._content_of(response, call, url),
            )
        finally:
            await response.aclose()
        return answer, response.headers.get("location", "") if response.is_redirect else None

    async def _content_of(self, response: httpx.Response, call: Call[Any], url: str) -> bytes:
        content = bytearray()
        size_max = self._config.answer_size_max
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > size_max:
                raise RegistryError(
                    f"cannot {call.about}: {url.partition('?')[0]} answers with more than {size_max} bytes; ask for "
                    "less, or raise answer_size_max",
                    status=response.status_code,
                    url=url.partition("?")[0],
                )
        return bytes(content)

    # -- credentials

    def _constant_headers(self) -> dict[str, str]:
        config = self._config
        headers = dict(config.headers) | {
            "accept": ACCEPTED,
            "accept-encoding": "identity",  # the size of a compressed answer would be known too late
            "user-agent": f"kafkaraw/{__version__}",
        }
        if config.basic_auth is not None:
            user = f"{config.basic_auth.username}:{config.basic_auth.password}"
            headers["authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        elif isinstance(config.bearer_token, str):
            headers["authorization"] = f"Bearer {config.bearer_token}"
        if config.bearer_logical_cluster is not None:
            headers["target-sr-cluster"] = config.bearer_logical_cluster
        if config.bearer_identity_pool is not None:
            headers["confluent-identity-pool-id"] = config.bearer_identity_pool
        return headers

    def _token_source(self) -> TokenSource | None:
        config = self._config
        if callable(config.bearer_token):
            return ProvidedTokens(config.bearer_token, "bearer_token")
        if config.oauth_token_endpoint_url is None:
            return None
        seconds = config.request_timeout_ms / 1000
        endpoint = Endpoint(
            url=config.oauth_token_endpoint_url,
            client_id=config.oauth_client_id or "",
            client_secret=config.oauth_client_secret or "",
            scope=config.oauth_scope,
            urlencode=False,
            connect_timeout=seconds,
            read_timeout=seconds,
            backoff=Backoff(config.retry_backoff_ms, max(config.retry_backoff_ms, config.retry_backoff_max_ms)),
            tls=lambda: client_context(trusted=config.oauth_cafile),
        )
        clock = SystemClock()
        return CachedTokens(EndpointTokens(endpoint, self._rng, clock), clock)

    async def _token(self, source: TokenSource, timeout: float) -> str:
        try:
            token = (await source.token(timeout)).value
        except AuthenticationError as error:
            raise RegistryAuthenticationError(f"no token for the registry: {error}") from error
        except NetworkError as error:
            raise RegistryUnavailableError(f"no token for the registry: {error}") from error
        if not token or not token.isascii() or not token.isprintable():
            raise RegistryAuthenticationError(
                "the token for the registry is empty or has characters that a header cannot have; check its source"
            )
        return token

    def _warn_of_plain_http(self) -> None:
        is_secret = self._tokens is not None or "authorization" in self._headers
        for url in self._config.url:
            parts = urlsplit(url)
            if is_secret and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                log.warning("credentials travel in the clear to %s: use https", url)

    # -- what went wrong

    def _raise_failure(self, error: httpx.HTTPError | OSError, url: str, call: Call[Any]) -> NoReturn:
        causes = _causes_of(error)
        start = f"cannot {call.about} at {url}"
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise RegistryError(
                    f"{start}: its certificate is not accepted: {cause.verify_message}; ssl_cafile names the "
                    "authorities to trust",
                    url=url,
                ) from error
            if isinstance(cause, ssl.SSLError):
                raise RegistryUnavailableError(
                    f"{start}: TLS fails: {cause.reason or cause}; does it speak https, and does it want a client "
                    "certificate (ssl_certfile)?",
                    url=url,
                ) from error
        if isinstance(error, self._httpx.LocalProtocolError):
            raise RegistryError(
                f"{start}: the request has an invalid header; check the settings headers and bearer_"
            ) from None
        numbers = [it.errno for it in causes if isinstance(it, OSError) and it.errno is not None and it.errno > 0]
        reason = os.strerror(numbers[0]) if numbers else str(error) or type(error).__name__
        hint = "is the registry running, and is this its URL?"
        if isinstance(error, self._httpx.RemoteProtocolError):
            hint = "is this the port of a schema registry, and does it speak http rather than https?"
        raise RegistryUnavailableError(f"{start}: {reason}; {hint}", url=url) from error


def _causes_of(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and len(found) < 10:
        found.append(step)
        step = step.__cause__ or step.__context__
    return found


def _load_httpx() -> Any:  # noqa: ANN401 - the module
    try:
        return import_module("httpx")
    except ImportError:
        raise ConfigError("a schema registry needs the package httpx: pip install 'kafkaraw[schemas]'") from None


def _tls_of(config: RegistryConfig) -> ssl.SSLContext | bool:
    if not any(url.startswith("https:") for url in config.url):
        return False  # no TLS: the authorities of the system need not be read
    if config.ssl_context is not None:
        return config.ssl_context
    return client_context(
        trusted=config.ssl_cafile,
        certificate=config.ssl_certfile,
        key=config.ssl_keyfile,
        password=config.ssl_password,
        check_hostname=config.ssl_check_hostname,
    )
