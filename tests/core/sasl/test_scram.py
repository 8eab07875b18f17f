"""SCRAM against the example of RFC 7677, and both halves against each other."""

from __future__ import annotations

import base64

import pytest

from kafkaraw.core.sasl.scram import ScramClient, ScramServer, make_credential
from kafkaraw.errors import AuthenticationError

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_client(password="pencil"):
    return ScramClient("SCRAM-SHA-256", "user", password, CLIENT_NONCE)


def rfc_server():
    credential = make_credential("SCRAM-SHA-256", "pencil", SALT)
    return ScramServer("SCRAM-SHA-256", {"user": credential}.get, SERVER_NONCE)


def test_the_client_says_what_the_example_of_the_rfc_says():
    client = rfc_client()
    assert client.step(None) == f"n,,n=user,r={CLIENT_NONCE}".encode()
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert not client.complete
    assert client.step(SERVER_FINAL) == b""
    assert client.complete


def test_the_server_says_what_the_example_of_the_rfc_says():
    server = rfc_server()
    assert server.step(f"n,,n=user,r={CLIENT_NONCE}".encode()) == SERVER_FIRST
    assert server.step(CLIENT_FINAL) == SERVER_FINAL
    assert server.user == "user"


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["ada", "a=b,c=2C", "Zoë"])
def test_both_halves_agree(name: str, user: str):
    server = ScramServer(name, {user: make_credential(name, "p,ä=ß", b"salt")}.get, "server")
    client = ScramClient(name, user, "p,ä=ß", "client")
    client.step(server.step(client.step(server.step(client.step(None)))))
    assert client.complete
    assert server.user == user


def test_a_wrong_password_is_refused_and_nobody_is_logged_in():
    server, client = rfc_server(), rfc_client("pencils")
    challenge = server.step(client.step(None))
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        server.step(client.step(challenge))
    assert server.user is None
    with pytest.raises(AuthenticationError, match="after the end"):
        server.step(CLIENT_FINAL)


def test_a_stranger_is_refused():
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        rfc_server().step(b"n,,n=eve,r=abc")


def test_nobody_logs_in_under_another_name():
    with pytest.raises(AuthenticationError, match="authorization id"):
        rfc_server().step(b"n,a=admin,n=user,r=abc")


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (f"r={CLIENT_NONCE},s=c2FsdA==,i=4096".encode(), "nonce"),
        (f"r={CLIENT_NONCE}x,s=c2FsdA==,i=4095".encode(), "4095 iterations"),
        (f"r={CLIENT_NONCE}x,s=c2FsdA==,i=999999999".encode(), "999999999 iterations"),
        (f"r={CLIENT_NONCE}x,s=c2FsdA==,i=-1".encode(), "no usable salt or iterations"),
        (f"r={CLIENT_NONCE}x,s=,i=4096".encode(), "no usable salt or iterations"),
        (b"e=unknown-user", "the broker refuses: unknown-user"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_challenge_that_is_not_safe_to_answer_is_refused(challenge: bytes, words: str):
    client = rfc_client()
    client.step(None)
    with pytest.raises(AuthenticationError, match=words):
        client.step(challenge)


@pytest.mark.parametrize("final", [b"v=AAAA", b"v=", b"", b"x=1"])
def test_a_server_that_does_not_know_the_password_is_found_out(final: bytes):
    client = rfc_client()
    client.step(None)
    client.step(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="does not know the password"):
        client.step(final)
    assert not client.complete


def test_names_and_passwords_are_taken_as_they_are_written():
    """Kafka has no SASLprep: what it would make the same stays different."""
    hashed = {make_credential("SCRAM-SHA-256", word, b"salt").stored_key for word in ("IX", "\u2168", "I\xadX", "ix")}
    assert len(hashed) == 4
    name = ScramClient("SCRAM-SHA-256", "\u2168,=", "x", "nonce").step(None)
    assert name == "n,,n=\u2168=2C=3D,r=nonce".encode()


@pytest.mark.parametrize(("iterations", "is_slow"), [(4_096, False), (8_192, False), (8_193, True), (262_144, True)])
def test_many_iterations_are_a_computation_of_their_own(iterations: int, is_slow: bool):
    server = ScramServer(
        "SCRAM-SHA-256", {"user": make_credential("SCRAM-SHA-256", "pencil", SALT, iterations)}.get, SERVER_NONCE
    )
    client = rfc_client()
    challenge = server.step(client.step(None))
    computation = client.computation(challenge)
    assert (computation is not None) == is_slow
    if computation is not None:
        computation()
    client.step(server.step(client.step(challenge)))
    assert client.complete
    assert client.computation(challenge) is None


def test_a_challenge_that_is_not_safe_to_answer_is_not_computed():
    client = rfc_client()
    client.step(None)
    for challenge in (SERVER_FIRST.replace(b"4096", b"262145"), SERVER_FIRST.replace(b"4096", b"999999999"), b"\xff"):
        assert client.computation(challenge) is None
        with pytest.raises(AuthenticationError):
            client.step(challenge)
