"""Logins by OpenID Connect: with a provider in a process of its own, and with one whose tokens are wrong."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from kafkaraw.console.oidc import LOGIN_COOKIE, SESSION_COOKIE
from kafkaraw.console.settings import ConsoleSettings, OidcSettings
from kafkaraw.errors import ConfigError
from tests.console.running import cluster, post, running
from tests.net.test_listener import free_port
from tests.waiting import wait_until

HTML = {"accept": "text/html"}
CLIENT_ID = "console"
SECRET = "a secret of 32 bytes or more, for HMAC"


def settings(issuer: str, **more: Any) -> OidcSettings:
    return OidcSettings(
        **{"issuer": issuer, "client_id": CLIENT_ID, "client_secret": SECRET, "users": frozenset({"*"}), **more}
    )


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """A provider that others have written."""
    if find_spec("oidc_provider_mock") is None:
        pytest.skip("oidc-provider-mock is not installed: pip install -e '.[dev]'")
    port = free_port()
    users = [{"sub": "ada", "groups": ["admins"]}, {"sub": "eve", "groups": ["guests"]}]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true"]
    for user in users:
        command += ["--user-claims", json.dumps(user)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        try:
            address = f"http://localhost:{port}"
            assert wait_until(lambda: _answers(address), 30)
            yield address
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/.well-known/openid-configuration", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def log_in(client: httpx.Client, path: str, user: str) -> httpx.Response:
    """Follow a browser's way from a page to the provider, and return the answer that the callback gives."""
    begun = client.get(path, headers=HTML)
    assert begun.status_code == 302 and begun.headers["location"].startswith("/login?")
    to_provider = client.get(begun.headers["location"]).headers["location"]
    back = httpx.post(to_provider, data={"sub": user}, trust_env=False)
    assert back.status_code == 302, back.text
    address = urlsplit(back.headers["location"])
    return client.get(f"{address.path}?{address.query}")


def test_a_user_of_the_provider_logs_in_and_out(servers: str, issuer: str) -> None:
    with running(servers, oidc=settings(issuer, users=frozenset({"ada"})), allow_writes=True) as client:
        answer = log_in(client, "/c/test/topics?q=x", "ada")
        assert (answer.status_code, answer.headers["location"]) == (302, "/c/test/topics?q=x")
        cookie = next(each for each in answer.headers.get_list("set-cookie") if SESSION_COOKIE in each)
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie
        page = client.get("/c/test/topics?q=x", headers=HTML)
        assert page.status_code == 200 and "ada" in page.text and "Log out" in page.text
        assert post(client, "/c/test/topics", name="by-ada").status_code == 303
        session = client.cookies[SESSION_COOKIE]
        page = client.post("/logout")
        assert page.status_code == 200 and "You are logged out of the console" in page.text
        link = re.search(r'href="(http[^"]+)"', page.text)
        assert link is not None
        at_provider = httpx.get(html.unescape(link[1]), trust_env=False)
        assert at_provider.status_code == 200 and "End Session" in at_provider.text, at_provider.text
        assert "logged out" in client.get("/signed-out").text
        client.cookies.set(SESSION_COOKIE, session)
        assert client.get("/c/test/topics", headers=HTML).status_code == 302, "the session has ended on the server"


def test_a_user_who_is_not_allowed_gets_no_session(servers: str, issuer: str) -> None:
    with running(servers, oidc=settings(issuer, users=frozenset({"ada"}))) as client:
        answer = log_in(client, "/", "eve")
        assert answer.status_code == 403 and "&#39;eve&#39; may not" in answer.text.replace("'", "&#39;")
        assert SESSION_COOKIE not in client.cookies
        assert client.get("/c/test/", headers=HTML).status_code == 302


def test_without_a_session_nothing_is_shown(servers: str, issuer: str) -> None:
    with running(servers, oidc=settings(issuer)) as client:
        for path in ("/c/test/", "/static/console.js", "/c/test/topics/t/live"):
            assert client.get(path).status_code == 401, path
        assert client.post("/c/test/topics", data={"name": "t"}).status_code == 401
        client.cookies.set(SESSION_COOKIE, "guessed")
        assert client.get("/c/test/").status_code == 401
        assert client.get("/c/test/", headers={"host": "evil.example"}).status_code == 421


def test_a_login_belongs_to_the_browser_that_began_it(servers: str, issuer: str) -> None:
    with running(servers, oidc=settings(issuer)) as client:
        to_provider = client.get("/login").headers["location"]
        back = urlsplit(httpx.post(to_provider, data={"sub": "ada"}, trust_env=False).headers["location"])
        with httpx.Client(base_url=client.base_url, trust_env=False) as other:
            assert other.get(f"{back.path}?{back.query}").status_code == 403
        assert client.get("/login/callback?code=x&state=guessed").status_code == 403
        assert client.get(f"{back.path}?{back.query}").status_code == 302
        assert client.get(f"{back.path}?{back.query}").status_code == 403, "a code is used once"


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:1", "/\t/evil.example", "//[",
        "/\n/[", "///evil.example", "\\\\evil.example", " //evil.example", "/" + "x" * 3_000,
    ],
)  # fmt: skip
def test_a_login_leads_to_pages_of_the_console_only(servers: str, issuer: str, to: str) -> None:
    with running(servers, oidc=settings(issuer)) as client:
        to_provider = client.get("/login", params={"to": to}).headers["location"]
        back = urlsplit(httpx.post(to_provider, data={"sub": "ada"}, trust_env=False).headers["location"])
        assert client.get(f"{back.path}?{back.query}").headers["location"] == "/"


def test_a_refusal_of_the_provider_is_told(servers: str, issuer: str) -> None:
    with running(servers, oidc=settings(issuer)) as client:
        state = parse_qs(urlsplit(client.get("/login").headers["location"]).query)["state"][0]
        query = {"state": state, "error": "access_denied", "error_description": "<script>no</script>"}
        answer = client.get("/login/callback", params=query)
        assert answer.status_code == 403 and answer.headers["content-type"].startswith("text/plain")


def test_a_provider_that_is_away_is_told(servers: str) -> None:
    with running(servers, oidc=settings(f"http://127.0.0.1:{free_port()}")) as client:
        answer = client.get("/login")
        assert answer.status_code == 502 and "does not answer" in answer.text


# -- a provider whose tokens are wrong


class Provider:
    """A provider on a socket of its own, whose ID tokens are as a test wants them."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1"})
        self.keys = [self.key]
        self.claims: dict[str, Any] = {}
        self.asked: list[dict[str, list[str]]] = []
        self.more: dict[str, str] = {}
        self.sign: Callable[[dict[str, Any]], str] = lambda claims: jwt.encode(
            {"alg": "RS256", "kid": "1"}, claims, self.key
        )
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = provider.issuer
                if self.path == "/jwks":
                    self.answer({"keys": [each.as_dict(private=False) for each in provider.keys]})
                else:
                    self.answer(
                        {
                            "issuer": url,
                            "authorization_endpoint": f"{url}/authorize",
                            "token_endpoint": f"{url}/token",
                            "jwks_uri": f"{url}/jwks",
                            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none", "ES256"],
                            **provider.more,
                        }
                    )

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                provider.asked.append(parse_qs(body))
                self.answer({"id_token": provider.sign(provider.claims)})

            def answer(self, what: object) -> None:
                data = json.dumps(what).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

    def log_in(self, client: httpx.Client, **changes: Any) -> httpx.Response:
        """Log in with a token whose claims are changed; None leaves one out."""
        query = parse_qs(urlsplit(client.get("/login").headers["location"]).query)
        now = int(time.time())
        right = {"iss": self.issuer, "aud": CLIENT_ID, "sub": "u1", "preferred_username": "ada", "iat": now}
        claims = {**right, "exp": now + 60, "nonce": query["nonce"][0], **changes}
        self.claims = {name: value for name, value in claims.items() if value is not None}
        return client.get("/login/callback", params={"code": "c", "state": query["state"][0]})


@contextmanager
def wrong_provider() -> Iterator[Provider]:
    provider = Provider()
    threading.Thread(target=provider.server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()


def test_tokens_that_are_not_for_this_login_are_refused(servers: str) -> None:
    now = int(time.time())
    with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
        for changes in (
            {"nonce": "another"}, {"nonce": None}, {"aud": "another"}, {"aud": None}, {"iss": "https://evil.example"},
            {"exp": now - 3600}, {"exp": None}, {"iat": now + 3600}, {"sub": None},
            {"aud": [CLIENT_ID, "another"], "azp": "another"}, {"aud": [CLIENT_ID, "another"]},
        ):  # fmt: skip
            assert provider.log_in(client, **changes).status_code == 403, changes
            assert SESSION_COOKIE not in client.cookies
        assert provider.log_in(client).status_code == 302
        assert "code_verifier" in provider.asked[-1] and LOGIN_COOKIE in client.cookies


def test_a_session_is_new_with_each_login_and_ends_with_the_next_one(servers: str) -> None:
    with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
        sessions = ["planted"]
        client.cookies.set(SESSION_COOKIE, sessions[0])
        for _ in range(2):
            answer = provider.log_in(client)
            cookie = next(each for each in answer.headers.get_list("set-cookie") if SESSION_COOKIE in each)
            sessions.append(cookie.partition(";")[0].partition("=")[2])
            client.cookies.clear()
            client.cookies.set(SESSION_COOKIE, sessions[-1])
            assert client.get("/c/test/topics", headers=HTML).status_code == 200
        assert len(set(sessions)) == 3
        for ended in sessions[:2]:
            client.cookies.set(SESSION_COOKIE, ended)
            assert client.get("/c/test/topics", headers=HTML).status_code == 302


def test_a_token_or_answer_is_used_once(servers: str) -> None:
    with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
        first = parse_qs(urlsplit(client.get("/login").headers["location"]).query)
        assert provider.log_in(client).status_code == 302
        replayed = dict(provider.claims)
        provider.claims = replayed  # the nonce of the login before
        answer = client.get("/login/callback", params={"code": "c", "state": first["state"][0]})
        assert answer.status_code == 403 and "ID token is not valid" in answer.text
        again = client.get("/login/callback", params={"code": "c", "state": first["state"][0]})
        assert again.status_code == 403 and "not begun here" in again.text


def test_the_end_of_a_session_at_the_provider_is_offered_where_it_says_how(servers: str) -> None:
    for endpoint in ("", "javascript:alert(1)"):
        with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
            provider.more = {"end_session_endpoint": endpoint}
            assert provider.log_in(client).status_code == 302
            assert client.post("/logout").headers["location"] == "/signed-out"
    with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
        provider.more = {"end_session_endpoint": f'{provider.issuer}/end?a="><b>'}
        assert provider.log_in(client).status_code == 302
        page = client.post("/logout", headers={"sec-fetch-site": "cross-site"})
        assert page.status_code == 403, "the console ends no session for a form of another site"
        page = client.post("/logout")
        assert f"{provider.issuer}/end?a=&quot;&gt;&lt;b&gt;&amp;id_token_hint=" in page.text
        assert client.get("/c/test/topics", headers=HTML).status_code == 302


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def test_signatures_of_others_are_refused(servers: str) -> None:
    with wrong_provider() as provider, running(servers, oidc=settings(provider.issuer)) as client:
        other, curve = RSAKey.generate_key(2048), ECKey.generate_key("P-256")
        text = provider.key.as_pem(private=False).decode()
        forged: list[Callable[[dict[str, Any]], str]] = [
            lambda claims: jwt.encode({"alg": "RS256", "kid": "1"}, claims, other),
            lambda claims: jwt.encode({"alg": "ES256", "kid": "1"}, claims, curve),
            lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"]),
            lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(text.encode().hex())),
            lambda claims: f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
            lambda claims: "no.token",
        ]
        right = provider.sign
        for sign in forged:
            provider.sign = sign
            assert provider.log_in(client).status_code == 403
        provider.sign = right
        assert provider.log_in(client).status_code == 302


def test_members_of_a_group_may_use_the_console(servers: str) -> None:
    with wrong_provider() as provider:
        oidc = settings(provider.issuer, users=frozenset(), groups=frozenset({"admins"}))
        with running(servers, oidc=oidc) as client:
            for groups in (None, [], "guests", ["guests"], 7, [["admins"]]):
                assert provider.log_in(client, groups=groups).status_code == 403, groups
            assert provider.log_in(client, groups=["guests", "admins"]).status_code == 302


def test_an_address_that_is_not_verified_names_nobody(servers: str) -> None:
    with wrong_provider() as provider:
        oidc = settings(provider.issuer, users=frozenset({"ada@example.org"}), user_claim="email")
        with running(servers, oidc=oidc) as client:
            mail = {"email": "ada@example.org"}
            assert provider.log_in(client, **mail, email_verified=False).status_code == 403
            assert provider.log_in(client, **mail, email_verified=True).status_code == 302


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": "http://idp.example"}, "https://"),
        ({"client_id": ""}, "--oidc-client"),
        ({"users": frozenset()}, "who may use"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**{"issuer": "https://idp.example", **given})


def test_an_open_address_needs_the_url_that_browsers_use(servers: str) -> None:
    oidc = settings("https://idp.example")
    with pytest.raises(ConfigError, match="--public-url"):
        ConsoleSettings([cluster(servers)], host="0.0.0.0", oidc=oidc)
    with pytest.raises(ConfigError, match="choose one"):
        ConsoleSettings([cluster(servers)], oidc=oidc, users={"ada": "pw"})
    ConsoleSettings([cluster(servers)], host="0.0.0.0", oidc=oidc, public_url="https://console.example")
