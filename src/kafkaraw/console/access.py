"""What stands in front of every page: names of hosts, logins, tokens against forged requests, and headers.

A page of another site can send requests to 127.0.0.1 through the reader's browser, also under a name that it has had
resolved to 127.0.0.1. So a console without logins answers only to names of this machine, every change needs a token
that only its own pages have, and the Content-Security-Policy allows the console's own script only. Must not know what
pages show. Start at `Access`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import logging
import secrets
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kafkaraw.console.oidc import LOGOUT, Oidc
from kafkaraw.console.settings import ConsoleSettings

log: logging.Logger = logging.getLogger(__name__)

COOKIE: Final = "kafkaraw_console"
TOKEN_FIELD: Final = "token"
BODY_MAX_BYTES: Final = 4 << 20
_UNAUTHORIZED: Final = 401
_WRONG_PASSWORD_S: Final = 0.5
GUESSES_MAX: Final = 4
"""While 4 wrong passwords of a user from one address wait for an answer, the console answers 429 to the next ones."""
_SAFE: Final = ("GET", "HEAD")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_SALT: Final = secrets.token_bytes(16)


class Access:
    """ASGI middleware that lets in whom the settings allow.

    Args:
        app: the pages.
        settings: of the console.
    """

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self._app = app
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._passwords = {name: _digest(password) for name, password in settings.users.items()}
        self._guesses: Counter[tuple[str, str]] = Counter()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._oidc = None if settings.oidc is None else Oidc(settings.oidc, settings.public_url)
        self._hosts = {*_LOCAL_NAMES, host.lower(), *(each.lower() for each in settings.allowed_hosts)}
        if settings.public_url:
            self._hosts.add((urlsplit(settings.public_url).hostname or "").lower())
        self._cookie_ending = "; Path=/; HttpOnly; SameSite=Strict"
        if settings.public_url.startswith("https:"):
            self._cookie_ending += "; Secure"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope)
        cookie = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
        refusal = await self._login_page(request) or self._refusal(request)
        scope["state"]["token"] = self._token(cookie, scope["state"].get("user", ""))
        scope["state"]["cookie"] = cookie
        is_new = COOKIE not in request.cookies

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                if not request.url.path.startswith("/static/"):
                    headers.append((b"cache-control", b"no-store"))
                if is_new and refusal is None:
                    headers.append((b"set-cookie", f"{COOKIE}={cookie}{self._cookie_ending}".encode()))
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        if refusal is not None and refusal.status_code == _UNAUTHORIZED:
            guess = self._guess_of(request)
            if guess is not None:
                await self._wait(guess)
        await (refusal or self._app)(scope, receive, with_headers)

    async def _wait(self, guess: tuple[str, str]) -> None:
        """Let a wrong password wait."""
        self._guesses[guess] += 1
        try:
            await asyncio.sleep(_WRONG_PASSWORD_S)
        finally:
            self._guesses[guess] -= 1
            if not self._guesses[guess]:
                del self._guesses[guess]

    def _guess_of(self, request: Request) -> tuple[str, str] | None:
        """Return whose password is given, and where from; all users that do not exist are one; None if none is."""
        if not self._passwords or "authorization" not in request.headers:
            return None
        user = _given(request)[0]
        return request.client.host if request.client else "", user if user in self._passwords else ""

    def is_valid(self, request: Request, token: str) -> bool:
        """Return whether a form has the token of the page that it came from."""
        return hmac.compare_digest(token.encode(), str(request.state.token).encode())

    def _token(self, cookie: str, user: str) -> str:
        return hmac.new(self._secret, f"{cookie}\0{user}".encode(), hashlib.sha256).hexdigest()

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is not let in; otherwise note the user."""
        request.scope.setdefault("state", {})["user"] = ""
        host = request.headers.get("host", "")
        if not self._is_for_any_host and not self._is_known(request):
            text = (
                f"This console answers to {', '.join(sorted(self._hosts))} only. Start it with --allowed-host {host!r}."
            )
            return PlainTextResponse(text, 421)
        if not _is_asked_here(request):
            return PlainTextResponse("This request comes from the page of another site, which may only link here.", 403)
        if self._settings.has_login:
            guess = self._guess_of(request)
            if guess is not None and self._guesses[guess] >= GUESSES_MAX:
                text = "Too many wrong passwords are given at once: try again later."
                return PlainTextResponse(text, 429, {"retry-after": "1"})
            user = self._user(request)
            if user is None:
                return self._login(request)
            request.scope["state"]["user"] = user
        if request.method not in _SAFE and not _is_own_page(request, host):
            log.warning("a request of another site was refused: %s %r", request.method, request.url.path)
            return PlainTextResponse("This request comes from the page of another site.", 403)
        return None

    async def _login_page(self, request: Request) -> Response | None:
        """Answer a request about logins by OpenID Connect; None if it is about something else."""
        if self._oidc is None or (not self._settings.public_url and not self._is_known(request)):
            return None
        request.scope.setdefault("state", {})["user"] = ""
        if request.url.path == LOGOUT and request.method == "POST":
            return self._oidc.logout(request) if _is_own_page(request, request.headers.get("host", "")) else None
        return await self._oidc.answer(request)

    @property
    def _is_for_any_host(self) -> bool:
        """Whether names of hosts need not be known: a page of another site would have no login under its own name.

        The header of a proxy is no such login where programs of this machine are the proxy: scripts can send it.
        """
        settings = self._settings
        if self._oidc is not None:
            return bool(settings.public_url)
        return settings.has_login and not (settings.user_header is not None and settings.is_local)

    def _is_known(self, request: Request) -> bool:
        """Return whether a request names one of the console's hosts."""
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.lower() in self._hosts

    def _login(self, request: Request) -> Response:
        if self._oidc is not None:
            return self._oidc.begin(request)
        if self._passwords:
            challenge = {"www-authenticate": 'Basic realm="kafkaraw console", charset="UTF-8"'}
            return PlainTextResponse("A user name and a password are needed.", 401, challenge)
        return PlainTextResponse(f"The proxy has not named the user in {self._settings.user_header}.", 401)

    def _user(self, request: Request) -> str | None:
        if self._oidc is not None:
            return self._oidc.user(request)
        name = self._settings.user_header
        if name is not None and request.client is not None and self._is_proxy(request.client.host):
            user = request.headers.get(name)
            if user:
                return user
        user, password = _given(request)
        expected = self._passwords.get(user, b"")
        is_right = hmac.compare_digest(expected, _digest(password))  # as long for users that do not exist
        return user if is_right else None

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._settings.proxies)


def _digest(password: str) -> bytes:
    """Return what is kept and compared; each request is checked, so that it must be quick."""
    return hmac.digest(_SALT, password.encode(), "sha256")


def _given(request: Request) -> tuple[str, str]:
    """Return the name and the password that a request gives; empty if it gives none."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:  # no Base64, or no UTF-8
        return "", ""
    return user, password


def _is_asked_here(request: Request) -> bool:
    """Return whether the console's pages or the reader ask for a page; other sites may link to it, not embed it.

    What only reads can cost much: a query of another site's page would take the place of the reader's.
    """
    site = request.headers.get("sec-fetch-site", "none")
    return site in ("same-origin", "none") or request.headers.get("sec-fetch-dest", "document") == "document"


def _is_own_page(request: Request, host: str) -> bool:
    """Return whether the browser says that a request comes from a page of this console."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()
