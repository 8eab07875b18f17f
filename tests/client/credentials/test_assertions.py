"""Client assertions (KIP-1258): what is signed and sent, and what is said about keys and files that do not fit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from joserfc import jwt
from joserfc.jwk import import_key

from kafkaraw import Admin
from kafkaraw.client.credentials.assertions import ASSERTION_SIZE_MAX, FileAssertions, SignedAssertions
from kafkaraw.errors import AuthenticationError, ConfigError
from tests.client.credentials.test_oidc import URL, Play, good

NOW_S = 1_800_000_000.5
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
P256_KEY = ec.generate_private_key(ec.SECP256R1())
KEYS = {"RS256": RSA_KEY, "ES256": P256_KEY}
CLAIMS = {"aud": URL, "iss": "flights", "sub": "flights"}

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def pem(path: Path, key: Key, encryption: KeySerializationEncryption | None = None) -> str:
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()))
    return str(path)


def signing(path: str, **more: object) -> SignedAssertions:
    given = {"key_path": path, "algorithm": "RS256", "claims": CLAIMS, "lifetime_s": 300, "leeway_s": 60, "new_id": str}
    return SignedAssertions(**given | more)


def verified(assertion: str, key: Key) -> tuple[dict[str, object], dict[str, object]]:
    """Header and claims, when another implementation accepts the signature."""
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    kind = "RSA" if isinstance(key, rsa.RSAPrivateKey) else "EC"
    token = jwt.decode(assertion, import_key(public, kind), algorithms=list(KEYS))
    return dict(token.header), dict(token.claims)


@pytest.mark.parametrize("algorithm", KEYS)
def test_an_assertion_has_the_claims_and_a_signature_that_others_verify(tmp_path: Path, algorithm: str):
    assertions = signing(pem(tmp_path / "key.pem", KEYS[algorithm]), algorithm=algorithm)
    header, claims = verified(assertions.assertion(NOW_S), KEYS[algorithm])
    assert header == {"alg": algorithm, "typ": "JWT"}
    assert claims == {**CLAIMS, "iat": 1_800_000_000, "exp": 1_800_000_300, "nbf": 1_799_999_940}


def test_the_template_adds_fields_and_does_not_replace_what_settings_say(tmp_path: Path):
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "7", "alg": "none"}, "payload": {"iss": "other", "tenant": 1}}))
    assertions = signing(
        pem(tmp_path / "key.pem", RSA_KEY), template_path=str(template), has_id=True, new_id=iter("ab").__next__
    )
    header, claims = verified(assertions.assertion(NOW_S), RSA_KEY)
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "7"}
    assert (claims["iss"], claims["tenant"], claims["jti"]) == ("flights", 1, "a")
    assert verified(assertions.assertion(NOW_S), RSA_KEY)[1]["jti"] == "b"


def test_files_are_read_for_each_assertion(tmp_path: Path):
    key = tmp_path / "key.pem"
    assertions = signing(pem(key, RSA_KEY))
    verified(assertions.assertion(NOW_S), RSA_KEY)
    rotated = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem(key, rotated)
    verified(assertions.assertion(NOW_S), rotated)
    file = tmp_path / "assertion"
    for text in ("a.b.c", "d.e.f"):
        file.write_text(f"{text}\n")
        assert FileAssertions(str(file)).assertion(NOW_S) == text


def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path):
    path = pem(tmp_path / "key.pem", RSA_KEY, BestAvailableEncryption(b"open sesame"))
    verified(signing(path, passphrase="open sesame").assertion(NOW_S), RSA_KEY)
    with pytest.raises(
        AuthenticationError, match="is encrypted: set sasl_oauthbearer_assertion_private_key_passphrase"
    ):
        signing(path).assertion(NOW_S)
    with pytest.raises(AuthenticationError, match="check the file and its passphrase") as caught:
        signing(path, passphrase="wrong").assertion(NOW_S)
    assert "wrong" not in str(caught.value)
    plain = pem(tmp_path / "plain.pem", RSA_KEY)
    with pytest.raises(AuthenticationError, match="is not encrypted: leave out"):
        signing(plain, passphrase="open sesame").assertion(NOW_S)
    assert "open sesame" not in repr(signing(path, passphrase="open sesame"))


def test_a_key_of_another_kind_than_the_algorithm_is_refused(tmp_path: Path):
    with pytest.raises(AuthenticationError, match="needs an RSA key"):
        signing(pem(tmp_path / "ec.pem", P256_KEY)).assertion(NOW_S)
    with pytest.raises(AuthenticationError, match="needs an elliptic curve key on P-256"):
        signing(pem(tmp_path / "384.pem", ec.generate_private_key(ec.SECP384R1())), algorithm="ES256").assertion(NOW_S)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"secret", "has no JWT"),
        (b"a.b.c d", "has no JWT"),
        (b"a..c", "has no JWT"),
        (b"\xff.b.c", "is no text"),
        (b"a" * (ASSERTION_SIZE_MAX + 1), "more than"),
    ],
)
def test_a_file_without_an_assertion_is_named_and_not_quoted(tmp_path: Path, content: bytes | None, words: str):
    path = tmp_path / "assertion"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuthenticationError, match=words) as caught:
        FileAssertions(str(path)).assertion(NOW_S)
    assert "sasl_oauthbearer_assertion_file" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"header": 1}', '{"claims": {}}'])
def test_a_template_of_another_form_is_refused(tmp_path: Path, content: str):
    template = tmp_path / "template.json"
    template.write_text(content)
    with pytest.raises(AuthenticationError, match="sasl_oauthbearer_assertion_template_file"):
        signing(pem(tmp_path / "key.pem", RSA_KEY), template_path=str(template)).assertion(NOW_S)


def test_the_assertion_is_sent_in_place_of_the_secret(tmp_path: Path):
    path = tmp_path / "assertion"
    path.write_text("a.b.c")
    play = Play(good())
    play.run(assertions=FileAssertions(str(path)), client_secret="")
    (request,) = play.asked
    assert "authorization" not in request.headers
    assert parse_qs(request.content.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka read"],
        "client_id": ["me:too"],
        "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
        "client_assertion": ["a.b.c"],
    }


def test_an_unreadable_assertion_ends_the_login_before_anything_is_sent(tmp_path: Path):
    play = Play(good())
    error, took = play.run(assertions=FileAssertions(os.fspath(tmp_path / "none")))
    assert isinstance(error, AuthenticationError)
    assert (play.asked, took) == ([], 0)


def test_java_names_of_assertions_are_accepted(tmp_path: Path):
    key = pem(tmp_path / "key.pem", RSA_KEY)
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.oauthbearer.assertion.private.key.file": key,
        "sasl.oauthbearer.assertion.algorithm": "RS256",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "120",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
    }
    with Admin.from_properties(properties):
        pass
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.assertion\.claim\.exp\.seconds"):
        Admin.from_properties(properties | {"sasl.oauthbearer.assertion.claim.exp.seconds": "0"})
