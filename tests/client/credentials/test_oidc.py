"""Tokens by client credentials: what is asked, what is believed, and what is tried again; once over real HTTPS."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import logging
import random
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

import httpx
import pytest
import trustme

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.credentials.oidc import ANSWER_SIZE_MAX, Endpoint, EndpointTokens
from kafkaraw.client.credentials.source import CachedTokens
from kafkaraw.core.retry import Backoff
from kafkaraw.core.sasl.oauthbearer import expiry_ms, unsecured_token
from kafkaraw.errors import AuthenticationError, ConfigError, KafkaError, NetworkError, Stage
from kafkaraw.net import SystemClock
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.net.stream_server import stream_server

URL = "https://idp.example/token"
SECRET = "se+cret/4711"
Answer = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


def endpoint(**more: object) -> Endpoint:
    given = {"url": URL, "client_id": "me:too", "client_secret": SECRET, "scope": "kafka read", "urlencode": False}
    times = {"connect_timeout": 1, "read_timeout": 2, "backoff": Backoff(100, 1000)}
    return Endpoint(**given | times | {"tls": ssl.create_default_context} | more)


def good(lifetime_s: float = 3600, now_s: float = 1e9) -> httpx.Response:
    return httpx.Response(200, json={"access_token": unsecured_token("ada", now_s, lifetime_s), "expires_in": 9})


class Play:
    """An endpoint that answers as told, on virtual time."""

    def __init__(self, *answers: httpx.Response | Exception | float) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            answer = good()

        async def content() -> AsyncIterator[bytes]:
            yield answer.content

        return httpx.Response(answer.status_code, content=content())

    def run(self, timeout: float = 10, **more: object) -> tuple[str | KafkaError, float]:
        """The token or the error, and how long that took."""

        async def main(simulation: Simulation) -> tuple[str | KafkaError, float]:
            source = EndpointTokens(endpoint(**more), simulation.rng, simulation.clock, httpx.MockTransport(self))
            try:
                return (await source.token(timeout)).value, simulation.loop.time()
            except KafkaError as error:
                assert SECRET not in str(error)
                return error, simulation.loop.time()

        return run_virtual(main, seed=1)


def test_id_secret_and_scope_are_sent_as_the_grant_says():
    play = Play(good())
    assert play.run()[0] == unsecured_token("ada", 1e9)
    (request,) = play.asked
    assert (request.method, str(request.url)) == ("POST", URL)
    assert parse_qs(request.content.decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode() == f"me:too:{SECRET}"
    play = Play(good())
    play.run(urlencode=True, scope=None)
    encoded = base64.b64decode(play.asked[0].headers["authorization"].removeprefix("Basic ")).decode()
    assert encoded == "me%3Atoo:se%2Bcret%2F4711"
    assert parse_qs(play.asked[0].content.decode()) == {"grant_type": ["client_credentials"]}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302])
def test_a_refusal_is_an_authentication_error_at_once(status: int):
    body = {"error": "invalid_client", "error_description": "the secret was " + SECRET}
    play = Play(httpx.Response(status, json=body, headers={"location": "http://169.254.169.254/"}))
    error, took = play.run()
    assert isinstance(error, AuthenticationError)
    assert f"refuses a token for client 'me:too': HTTP status {status} (invalid_client)" in str(error)
    assert (len(play.asked), took) == (1, 0)


@pytest.mark.parametrize("trouble", [httpx.Response(503), httpx.Response(429), httpx.ConnectError("refused")])
def test_trouble_is_tried_again_with_growing_pauses(trouble: object):
    token, took = Play(trouble, trouble, trouble, good()).run()
    assert token == unsecured_token("ada", 1e9)
    assert 0.56 <= took <= 0.84  # 100, 200 and 400 ms, each more or less by a fifth


def test_trouble_without_end_is_a_network_error_within_the_time_for_the_login():
    play = Play(httpx.ConnectError("refused"))
    error, took = play.run(timeout=5)
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL
    assert "ConnectError: refused" in str(error)
    assert took <= 5
    assert 5 <= len(play.asked) <= 12


def test_the_time_that_is_up_does_not_hide_why_the_attempts_before_failed():
    error, took = Play(httpx.ConnectError("certificate verify failed"), 1e6).run(timeout=5)
    assert "certificate verify failed (2 attempts" in str(error)
    assert took == pytest.approx(4.75)


def test_an_endpoint_that_never_answers_ends_with_the_time_for_the_login():
    error, took = Play(1e6).run(timeout=5)
    assert isinstance(error, NetworkError)
    assert "no answer (1 attempts" in str(error)
    assert took == pytest.approx(4.75)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(200, text="<html>"), "without an access_token"),
        (httpx.Response(200, json=["x"]), "without an access_token"),
        (httpx.Response(200, json={"access_token": 7}), "without an access_token"),
        (httpx.Response(200, json={"access_token": "opaque"}), "no JSON Web Token"),
        (httpx.Response(200, json={"access_token": "a.b.c"}), "no JSON Web Token"),
        (httpx.Response(200, json={"access_token": "e30.e30.x"}), "'exp', the time of its end, is missing"),
        (httpx.Response(200, content=bytes(ANSWER_SIZE_MAX + 1)), "more than"),
    ],
)
def test_an_answer_that_is_no_token_is_refused(answer: httpx.Response, words: str):
    error, _ = Play(answer).run()
    assert isinstance(error, AuthenticationError)
    assert words in str(error)


@pytest.mark.parametrize(
    "claims", [{"exp": True}, {"exp": "9"}, {"exp": -1}, {"exp": 1e300}, {"exp": float("nan")}, {}]
)
def test_a_token_that_does_not_say_when_it_ends_is_refused(claims: object):
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    with pytest.raises(ValueError, match="exp"):
        expiry_ms(f"x.{payload}.y")


@pytest.mark.parametrize("token", ["x", "x.W10.y", "x.#.y", "x.e30"])
def test_what_is_no_token_has_no_end(token: str):
    with pytest.raises(ValueError, match="no JSON Web Token"):
        expiry_ms(token)


class Peer:
    """Keeps what an HTTP client sends and refuses it."""

    def __init__(self) -> None:
        self.received = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received += await reader.read(65536)
        writer.write(b"HTTP/1.1 401 no\r\ncontent-length: 0\r\n\r\n")
        writer.close()


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.mark.parametrize(
    ("url", "reaches_proxy"),
    [
        ("http://localhost:{own}/token", False),
        ("http://127.0.0.1:{own}/token", False),
        ("http://127.0.0.2:{own}/token", False),
        ("https://localhost:{own}/token", False),
        ("http://idp.invalid/token", False),  # as an allow-list may name it
        ("https://idp.invalid/token", True),
    ],
)
def test_a_proxy_of_the_environment_is_asked_for_https_to_other_machines_only(
    url: str, reaches_proxy: bool, monkeypatch: pytest.MonkeyPatch
):
    async def main() -> tuple[bytes, bytes]:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        proxy, own = Peer(), Peer()
        async with stream_server(proxy, "0.0.0.0") as proxy_port, stream_server(own, "0.0.0.0") as own_port:
            for name in PROXIES:
                for spelled in (name, name.lower()):
                    monkeypatch.setenv(spelled, f"http://127.0.0.1:{proxy_port}")
            source = EndpointTokens(endpoint(url=url.format(own=own_port)), random.Random(1), SystemClock())
            with pytest.raises(KafkaError):
                await source.token(0.5)
        return proxy.received, own.received

    received, direct = asyncio.run(main())
    secret = base64.b64encode(f"me:too:{SECRET}".encode())
    assert bool(received) == reaches_proxy
    assert secret not in received  # a tunnel for TLS, if anything
    assert (secret in direct) == (url.startswith("http:") and "{own}" in url)


def test_a_token_is_kept_for_four_fifths_of_its_life_and_fetched_once_for_many():
    async def main(simulation: Simulation) -> list[int]:
        now_s = simulation.clock.time_ms() / 1000
        play = Play(*(good(100, now_s + 80 * step) for step in range(5)))
        source = CachedTokens(
            EndpointTokens(endpoint(), simulation.rng, simulation.clock, httpx.MockTransport(play)), simulation.clock
        )
        counts = []
        for _ in range(3):
            await asyncio.gather(*(source.token(5) for _ in range(10)))
            counts.append(len(play.asked))
            await asyncio.sleep(40)
        return counts

    assert run_virtual(main, seed=1) == [1, 1, 2]


def test_a_token_that_comes_expired_blames_the_clocks():
    async def main(simulation: Simulation) -> None:
        play = Play(good(-10, simulation.clock.time_ms() / 1000))
        source = CachedTokens(
            EndpointTokens(endpoint(), simulation.rng, simulation.clock, httpx.MockTransport(play)), simulation.clock
        )
        with pytest.raises(AuthenticationError, match="clock"):
            await source.token(5)

    run_virtual(main, seed=1)


# -- over real HTTPS -----------------------------------------------------------------------------------------------


@contextmanager
def https_endpoint(authority: trustme.CA) -> Iterator[tuple[str, list[str]]]:
    """Gives unsecured tokens to those who know the secret."""
    expected = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
            good = self.headers["authorization"] == expected
            body = {"access_token": unsecured_token("ada", time.time())} if good else {"error": "invalid_client"}
            content = json.dumps(body).encode()
            self.send_response(200 if good else 401)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://localhost:{server.server_address[1]}/token", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_client_logs_in_with_a_token_from_an_https_endpoint(caplog: pytest.LogCaptureFixture):
    authority = trustme.CA()
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.unsecured.enable": "true",
    }
    with (
        caplog.at_level(logging.DEBUG),
        https_endpoint(authority) as (url, asked),
        EmbeddedBroker(properties=properties) as broker,
    ):
        settings = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": url,
            "sasl_oauthbearer_client_id": "me",
            "sasl_oauthbearer_client_secret": SECRET,
        }
        trusted = {"sasl_oauthbearer_cafile": authority.cert_pem.bytes().decode()}
        with Admin(**settings, **trusted) as admin:
            assert admin.list_topics() == []
        assert asked == ["grant_type=client_credentials"]
        with pytest.raises(AuthenticationError, match=r"HTTP status 401 \(invalid_client\)"):
            Admin(**settings | {"sasl_oauthbearer_client_secret": "wrong"}, **trusted).list_topics()
        with pytest.raises(NetworkError, match="CERTIFICATE_VERIFY_FAILED"):
            Admin(**settings, socket_connection_setup_timeout_ms=1500).list_topics()
    assert SECRET not in caplog.text
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in caplog.text


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.client.credentials.choice.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'kafkaraw\[oauth\]'"):
        Admin(
            bootstrap_servers="127.0.0.1:1",
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=URL,
            sasl_oauthbearer_client_id="me",
            sasl_oauthbearer_client_secret=SECRET,
        )
