"""GSSAPI against a stand-in for the package: the exchange of RFC 4752, and what is said when it fails."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kafkaraw import Admin
from kafkaraw.client.credentials.kerberos import KerberosCredentials, load_gssapi
from kafkaraw.core.sasl.conversation import SaslConversation, SaslState
from kafkaraw.errors import AuthenticationError, ConfigError
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeResponse


class GSSError(Exception):
    pass


class Context:
    """Kerberos' exchange, with words for tokens."""

    def __init__(self, name: str, usage: str) -> None:
        if "nobody" in name:
            raise GSSError("Server not found in Kerberos database")
        self.name, self.usage, self.complete = name, usage, False

    def step(self, token: bytes | None = None) -> bytes | None:
        if token is None:
            return b"ticket for " + self.name.encode()
        if token != b"proof":
            raise GSSError("token was invalid")
        self.complete = True
        return None

    def unwrap(self, message: bytes) -> SimpleNamespace:
        if not message.startswith(b"signed:"):
            raise GSSError("message was modified")
        return SimpleNamespace(message=message.removeprefix(b"signed:"))

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=b"signed:" + message)


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("gssapi")
    package.exceptions = SimpleNamespace(GSSError=GSSError)
    package.NameType = SimpleNamespace(hostbased_service="host")
    package.Name = lambda text, name_type: f"{text}/{name_type}"
    package.SecurityContext = lambda name, usage: Context(name, usage)
    monkeypatch.setitem(sys.modules, "gssapi", package)


def begun(host: str = "broker.example") -> SaslConversation:
    mechanism = asyncio.run(KerberosCredentials("kafka", load_gssapi()).mechanism(host, 5))
    conversation = SaslConversation("b:1")
    conversation.versions_asked()
    conversation.begin(mechanism, 1)
    conversation.next_request()
    conversation.receive(SaslHandshakeResponse(error_code=0, mechanisms=["GSSAPI"]))
    return conversation


def answered(conversation: SaslConversation, token: bytes) -> bytes | None:
    response = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=token)
    conversation.receive(response)
    request = conversation.next_request()
    assert request is None or isinstance(request, SaslAuthenticateRequest)
    return None if request is None else request.auth_bytes


def test_the_exchange_ends_without_a_security_layer(gssapi: None):
    conversation = begun()
    assert conversation.next_request() == SaslAuthenticateRequest(auth_bytes=b"ticket for kafka@broker.example/host")
    assert answered(conversation, b"proof") == b""
    assert answered(conversation, b"signed:\x07\x00\xff\xff") == b"signed:\x01\0\0\0"
    assert answered(conversation, b"") is None
    assert conversation.state is SaslState.COMPLETE


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([b"forged"], "token was invalid"),
        ([b"proof", b"forged"], "message was modified"),
        ([b"proof", b"signed:\x06\0\0\0"], "insists on a security layer"),
        ([b"proof", b"signed:\x01"], "insists on a security layer"),
    ],
)
def test_a_broker_that_cannot_prove_itself_is_refused(gssapi: None, tokens: list[bytes], words: str):
    conversation = begun()
    conversation.next_request()
    with pytest.raises(AuthenticationError, match=words):
        for token in tokens:
            answered(conversation, token)
    assert conversation.state is SaslState.FAILED


def test_a_missing_kerberos_ticket_is_named_in_the_error(gssapi: None):
    with pytest.raises(AuthenticationError, match=r"no Kerberos ticket for kafka@nobody.*klist"):
        begun("nobody")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafkaraw\[gssapi\]'"):
        Admin(bootstrap_servers="127.0.0.1:1", security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
