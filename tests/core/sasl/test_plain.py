from __future__ import annotations

import pytest

from kafkaraw.core.sasl.plain import PlainClient, PlainServer
from kafkaraw.errors import AuthenticationError


def test_the_client_sends_name_and_password_once():
    client = PlainClient("ada", "s3cret")
    assert client.step(None) == b"\0ada\0s3cret"
    assert not client.complete
    client.step(b"")
    assert client.complete


@pytest.mark.parametrize("token", [b"\0ada\0s3cret", b"ada\0ada\0s3cret"])
def test_the_right_password_logs_in(token: bytes):
    server = PlainServer({"ada": "s3cret"})
    assert server.step(token) == b""
    assert server.user == "ada"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0ada\0wrong", "Invalid username or password"),
        (b"\0eve\0s3cret", "Invalid username or password"),
        (b"\0ada\0", "not specified"),
        (b"\0\0s3cret", "not specified"),
        (b"eve\0ada\0s3cret", "authorization id"),
        (b"ada s3cret", "expected 3 tokens, got 1"),
        (b"\0ada\0s3cret\0", "expected 3 tokens, got 4"),
        (b"\0\xff\0s3cret", "not UTF-8"),
    ],
)
def test_anything_else_is_refused(token: bytes, words: str):
    server = PlainServer({"ada": "s3cret"})
    with pytest.raises(AuthenticationError, match=words) as refused:
        server.step(token)
    assert server.user is None
    assert "s3cret" not in str(refused.value)


def test_what_plain_cannot_carry_is_refused():
    with pytest.raises(AuthenticationError, match="NUL"):
        PlainClient("a\0b", "x")
