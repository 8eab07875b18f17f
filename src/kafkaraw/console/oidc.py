"""Logins by OpenID Connect: the authorization-code flow with PKCE, and sessions that are kept in memory.

The provider's addresses and keys come from its discovery document. An ID token counts if a key of the provider has
signed it, and issuer, audience, nonce and times are those that belong to this login; joserfc verifies them. A login
belongs to the browser that began it: a cookie must come back with the state. Of the provider's tokens only the ID token
is kept, which ends the user's session there. Must not know what pages show. Start at `Oidc.answer`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from kafkaraw.console.settings import OidcSettings
from kafkaraw.console.shown import visible
from kafkaraw.errors import KafkaError, NetworkError, Stage

if TYPE_CHECKING:
    import httpx

log: logging.Logger = logging.getLogger(__name__)

SESSION_COOKIE: Final = "kafkaraw_session"
LOGIN_COOKIE: Final = "kafkaraw_login"
LOGIN: Final = "/login"
CALLBACK: Final = "/login/callback"
LOGOUT: Final = "/logout"
SIGNED_OUT: Final = "/signed-out"
SESSION_S: Final = 8 * 3600
LOGIN_S: Final = 600
_SESSIONS_MAX: Final = 10_000
_LOGINS_MAX: Final = 1_000
_DISCOVERY_S: Final = 3600.0
_KEYS_S: Final = 30.0
"""Keys are asked for again after this time if one is missing."""
_TIMEOUT_S: Final = 10.0
_ANSWER_MAX_BYTES: Final = 1 << 20
_LEEWAY_S: Final = 60
_TO_MAX: Final = 2_000
_SIGNED_OUT_PAGE: Final = f"""<!doctype html><html lang="en"><title>Logged out</title><h1>Logged out</h1>
<p>You are logged out of the console.</p>
<ul><li><a href="{{}}">Log out of the identity provider, too</a>, which can end the sessions of other applications</li>
<li><a href="{LOGIN}">Log in again</a></li></ul></html>
"""
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""Signatures of the provider: not `none`, and none that everyone can make who knows the client's secret."""


class LoginRefusedError(KafkaError):
    """A login that does not count."""


@dataclass(frozen=True)
class _Login:
    """A login that was begun.

    Attributes:
        browser: what its cookie must be.
        nonce: what the ID token must have.
        verifier: of PKCE.
        redirect: the address that was given to the provider.
        to: where the reader wanted to go.
        until: when it ends, in seconds, monotonic.
    """

    browser: str
    nonce: str
    verifier: str
    redirect: str
    to: str
    until: float


@dataclass(frozen=True)
class _Session:
    """A user who has logged in.

    Attributes:
        user: the name.
        until: when it ends, in seconds, monotonic.
        id_token: by which the provider knows the session there.
    """

    user: str
    until: float
    id_token: str = field(repr=False)


class Oidc:
    """Logs users in.

    Args:
        settings: of the provider.
        public_url: the address under which browsers reach the console; empty for the one that they ask for.
    """

    def __init__(self, settings: OidcSettings, public_url: str) -> None:
        self._settings = settings
        self._public_url = public_url.rstrip("/")
        self._logins: dict[str, _Login] = {}
        self._sessions: dict[str, _Session] = {}
        self._facts: Mapping[str, Any] = {}
        self._facts_until = 0.0
        self._keys: Any = None
        self._keys_at = 0.0

    def user(self, request: Request) -> str | None:
        """Return the user of a request's session; None if it has none."""
        session = self._sessions.get(request.cookies.get(SESSION_COOKIE, ""))
        return session.user if session is not None and session.until > time.monotonic() else None

    def logout(self, request: Request) -> Response:
        """End a session; offer to end the one at the provider, if it says where."""
        session = self._sessions.pop(request.cookies.get(SESSION_COOKIE, ""), None)
        endpoint = str(self._facts.get("end_session_endpoint") or "")
        response: Response = RedirectResponse(SIGNED_OUT, 303)
        if session is not None and urlsplit(endpoint).scheme in ("https", "http"):
            query = urlencode({"id_token_hint": session.id_token, "client_id": self._settings.client_id})
            address = html.escape(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")
            response = HTMLResponse(_SIGNED_OUT_PAGE.format(address))
        response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax", secure=self._is_secure)
        return response

    def begin(self, request: Request) -> Response:
        """Answer a request without a session: redirect pages to the login; answer requests of scripts with 401."""
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{LOGIN}?{urlencode({'to': to[:_TO_MAX]})}", 302)
        return PlainTextResponse("The session has ended: load the page again to log in.", 401)

    async def answer(self, request: Request) -> Response | None:
        """Answer a request about logins; None if it is about something else."""
        path = request.url.path
        if path == SIGNED_OUT:
            return PlainTextResponse(f"You are logged out of the console. {LOGIN} logs in again.")
        if path not in (LOGIN, CALLBACK) or request.method != "GET":
            return None
        try:
            return await (self._start(request) if path == LOGIN else self._finish(request))
        except LoginRefusedError as error:
            log.warning("a login was refused: %r", str(error))
            return PlainTextResponse(f"The login was refused: {visible(str(error))}", 403)
        except KafkaError as error:
            log.warning("a login failed: %r", str(error))
            return PlainTextResponse(f"The login failed: {visible(str(error))}", 502)

    async def _start(self, request: Request) -> Response:
        facts = await self._discovered()
        now = time.monotonic()
        self._logins = {state: each for state, each in self._logins.items() if each.until > now}
        while len(self._logins) >= _LOGINS_MAX:
            del self._logins[next(iter(self._logins))]
        to = request.query_params.get("to", "/")
        state, browser = secrets.token_urlsafe(24), request.cookies.get(LOGIN_COOKIE) or secrets.token_urlsafe(24)
        redirect = (self._public_url or f"{request.url.scheme}://{request.url.netloc}") + CALLBACK
        login = _Login(
            browser,
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(48),
            redirect,
            to if _is_local(to) else "/",
            now + LOGIN_S,
        )
        self._logins[state] = login
        digest = hashlib.sha256(login.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": login.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        endpoint = str(facts["authorization_endpoint"])
        response = RedirectResponse(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", 302)
        response.set_cookie(
            LOGIN_COOKIE, browser, LOGIN_S, path=LOGIN, httponly=True, samesite="lax", secure=self._is_secure
        )
        return response

    async def _finish(self, request: Request) -> Response:
        given = request.query_params
        login = self._logins.get(given.get("state", ""))
        if login is None or login.until < time.monotonic():
            raise LoginRefusedError("it was not begun here, or took too long: load the console again")
        if not hmac.compare_digest(login.browser.encode(), request.cookies.get(LOGIN_COOKIE, "").encode()):
            raise LoginRefusedError("it was begun by another browser")
        del self._logins[given["state"]]
        if given.get("iss", self._settings.issuer) != self._settings.issuer:
            raise LoginRefusedError("another issuer has answered")
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "it sent no code"
            raise LoginRefusedError(f"the identity provider says: {why[:300]}")
        id_token = await self._id_token(given["code"], login)
        claims = await self._claims(id_token, login.nonce)
        user = self._allowed(claims)
        now = time.monotonic()
        self._sessions.pop(request.cookies.get(SESSION_COOKIE, ""), None)
        self._sessions = {key: each for key, each in self._sessions.items() if each.until > now}
        while len(self._sessions) >= _SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = _Session(user, now + SESSION_S, id_token)
        log.info("user %r has logged in", user)
        response = RedirectResponse(login.to, 302)
        response.set_cookie(
            SESSION_COOKIE, session, SESSION_S, path="/", httponly=True, samesite="lax", secure=self._is_secure
        )
        return response

    @property
    def _is_secure(self) -> bool:
        return self._public_url.startswith("https:")

    async def _id_token(self, code: str, login: _Login) -> str:
        facts, settings = await self._discovered(), self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect,
            "client_id": settings.client_id,
            "code_verifier": login.verifier,
        }
        basic: tuple[str, str] | None = None
        if settings.client_secret:
            ways = facts.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in ways:
                basic = (settings.client_id, settings.client_secret)
            else:
                form["client_secret"] = settings.client_secret
        answer = await self._asked(str(facts["token_endpoint"]), form, basic)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginRefusedError("the identity provider sent no ID token")
        return token

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Return what a valid ID token says.

        Raises:
            LoginRefusedError: it is not valid.
        """
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        facts = await self._discovered()
        offered = facts.get("id_token_signing_alg_values_supported", ["RS256"])
        algorithms = [each for each in _ALGORITHMS if each in offered]
        required = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            nonce={"essential": True, "value": nonce},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            try:
                found = jwt.decode(token, await self._key_set(), algorithms=algorithms)
            except (InvalidKeyIdError, ValueError):  # the provider has new keys
                found = jwt.decode(token, await self._key_set(is_missing=True), algorithms=algorithms)
            required.validate(found.claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise LoginRefusedError(f"the ID token is not valid: {error}") from error
        claims = dict(found.claims)
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != self._settings.client_id:
            raise LoginRefusedError("the ID token was made for another client")
        return claims

    def _allowed(self, claims: Mapping[str, Any]) -> str:
        settings = self._settings
        user = claims.get(settings.user_claim) or claims["sub"]
        if not isinstance(user, str) or (settings.user_claim == "email" and claims.get("email_verified") is False):
            raise LoginRefusedError("the identity provider has not verified the user's address")
        groups = claims.get(settings.groups_claim, [])
        groups = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        is_allowed = user in settings.users or "*" in settings.users
        if not is_allowed and not any(isinstance(each, str) and each in settings.groups for each in groups):
            raise LoginRefusedError(f"user {user!r} may not use this console")
        return user

    # -- the provider

    async def _discovered(self) -> Mapping[str, Any]:
        if not self._facts or self._facts_until < time.monotonic():
            address = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            facts = await self._asked(address)
            if facts.get("issuer") != self._settings.issuer:
                raise NetworkError(f"{address} is about another issuer: {facts.get('issuer')!r}", stage=Stage.CONNECT)
            missing = [name for name in ("authorization_endpoint", "token_endpoint", "jwks_uri") if not facts.get(name)]
            if missing:
                raise NetworkError(f"{address} names no {missing[0]}", stage=Stage.CONNECT)
            self._facts, self._facts_until = facts, time.monotonic() + _DISCOVERY_S
        return self._facts

    async def _key_set(self, *, is_missing: bool = False) -> Any:  # noqa: ANN401 - joserfc's
        from joserfc.jwk import KeySet

        now = time.monotonic()
        if self._keys is None or (is_missing and now - self._keys_at > _KEYS_S):
            facts = await self._discovered()
            self._keys = KeySet.import_key_set(await self._asked(str(facts["jwks_uri"])))  # type: ignore[arg-type]
            self._keys_at = now
        return self._keys

    async def _asked(
        self, address: str, form: Mapping[str, str] | None = None, basic: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON at an address of the provider."""
        import httpx

        auth = None if basic is None else httpx.BasicAuth(*basic)
        try:
            async with (
                httpx.AsyncClient(timeout=_TIMEOUT_S) as client,
                client.stream("GET" if form is None else "POST", address, data=form, auth=auth) as answer,
            ):
                body = await _body(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            text = f"the identity provider does not answer at {address}: {type(error).__name__}: {error}"
            raise NetworkError(text, stage=Stage.CONNECT) from error
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
            why = found.get("error_description") or found.get("error") if isinstance(found, dict) else None
            text = f"the identity provider answers {answer.status_code} at {address}"
            raise NetworkError(f"{text}: {str(why)[:300]}" if why else text, stage=Stage.CONNECT)
        return found


def _is_local(to: str) -> bool:
    """Return whether an address is a path of this console, however browsers read it."""
    try:
        return len(to) <= _TO_MAX and to.startswith("/") and to[1:2] not in ("/", "\\") and not urlsplit(to).netloc
    except ValueError:
        return False


async def _body(answer: httpx.Response) -> bytes:
    found = b""
    async for piece in answer.aiter_bytes():
        found += piece
        if len(found) > _ANSWER_MAX_BYTES:
            raise NetworkError("the identity provider's answer has more than 1 MiB", stage=Stage.CONNECT)
    return found
