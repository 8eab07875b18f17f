from __future__ import annotations

import base64
import json
import time

import pytest

from kafkaraw.core.sasl.oauthbearer import (
    INVALID_TOKEN,
    OAuthBearerClient,
    UnsecuredOAuthBearerServer,
    UnsecuredRules,
    read_client_first,
    read_unsecured_token,
    unsecured_token,
)
from kafkaraw.errors import AuthenticationError

NOW_S = 1_700_000_000.0


def token(header=None, claims=None, signature=""):
    parts = [header or {"alg": "none"}, claims or {"sub": "ada", "exp": NOW_S + 60}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, signature])


def test_the_client_says_what_rfc_7628_says():
    client = OAuthBearerClient("abc.def.", {"logicalCluster": "x"})
    assert client.step(None) == b"n,,\x01auth=Bearer abc.def.\x01logicalCluster=x\x01\x01"
    client.step(b"")
    assert client.complete


def test_both_halves_agree():
    server = UnsecuredOAuthBearerServer(NOW_S)
    client = OAuthBearerClient(unsecured_token("ada", NOW_S), {"k": "v"})
    client.step(server.step(client.step(None)))
    assert client.complete
    assert server.user == "ada"


def test_a_refusal_is_acknowledged_and_then_final():
    server, client = UnsecuredOAuthBearerServer(NOW_S + 7200), OAuthBearerClient(unsecured_token("ada", NOW_S))
    challenge = server.step(client.step(None))
    assert challenge == INVALID_TOKEN
    acknowledgement = client.step(challenge)
    assert acknowledgement == b"\x01"
    with pytest.raises(AuthenticationError, match="has expired"):
        server.step(acknowledgement)
    assert not client.complete
    assert server.user is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (token(signature="c2ln"), "has a signature"),
        (token(header={"alg": "HS256"}), "algorithm"),
        (token(claims={"exp": NOW_S + 60}), "no subject"),
        (token(claims={"sub": "ada"}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": True}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": float("nan")}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": float("inf")}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": -float("inf")}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": 10**400}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": -1}), "no time of expiry"),
        (token(claims={"sub": "ada", "exp": NOW_S}), "has expired"),
        ("a.b", "not an unsecured token"),
        ("a.b.", "no JSON Web Signature"),
        ("W10.W10.", "no JSON Web Signature"),
    ],
)
def test_a_token_that_proves_nothing_is_refused(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        read_unsecured_token(text, NOW_S, UnsecuredRules())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer a\x01\x01\x01",
        b"n,,\x01auth=Bearer a\x01more\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01m\xc3\xb6re=1\x01auth=Bearer a\x01\x01",
        b"n,a=b,c,\x01auth=Bearer a\x01\x01",
    ],
)
def test_a_message_of_another_form_is_refused(first: bytes):
    with pytest.raises(AuthenticationError, match="expected form"):
        UnsecuredOAuthBearerServer(NOW_S).step(first)


def test_what_is_no_bearer_token_is_not_sent():
    with pytest.raises(AuthenticationError, match="no bearer token"):
        OAuthBearerClient("a\x01b")


def test_the_pairs_around_the_token_may_be_any():
    for first in (
        b"n,a=ada,\x01host=b=c\x01auth=Bearer abc\x01port=\x01\x01",
        b"n,a=ada,\x01auth=bearer   abc\x01\x01",
    ):
        assert read_client_first(first) == ("ada", "abc")


@pytest.mark.parametrize(
    "first",
    [
        b"n,,\x01" + b"auth=Bearer a\x01" * 30_000,
        b"n,,\x01" + b"a=\x01" * 150_000 + b"!\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * 500_000 + b"!\x01\x01",
        b"n,a=" + b"a" * 500_000,
    ],
)
def test_the_largest_message_of_another_form_is_refused_in_linear_time(first: bytes):
    began_s = time.process_time()
    with pytest.raises(AuthenticationError, match="expected form"):
        read_client_first(first)
    assert time.process_time() - began_s < 1
