"""What a listener with a login lets through before it is complete."""

from __future__ import annotations

import socket
import struct

import pytest
import trustme

from kafkaraw.broker import BrokerConfig, EmbeddedBroker
from kafkaraw.core.sasl.scram import ScramClient, salted_password
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.produce import ProduceRequest
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"ada": "opensesame"}
RIGHT, WRONG = b"\0ada\0opensesame", b"\0ada\0wrong"


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(users=USERS) as broker:
        yield broker


class Peer:
    """A client that sends what it likes."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self._incoming = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._incoming.close()
        self.socket.close()

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def frame(self) -> bytes | None:
        """The next frame; None when the broker has closed."""
        try:
            size = self._incoming.read(4)
            return self._incoming.read(int.from_bytes(size, "big")) if size else None
        except ConnectionResetError:
            return None

    def ask(self, message, version: int):
        self.send_frame(encode_request(RequestHeader(api_of(message).key, version, 1), message))
        frame = self.frame()
        return None if frame is None else decode_response(frame, api_of(message).key, version)[1]


@pytest.mark.parametrize("message", [MetadataRequest(topics=[]), ProduceRequest(acks=1, timeout_ms=1, topic_data=[])])
def test_a_request_before_authentication_closes_the_connection(broker, message):
    with Peer(broker.bootstrap_servers) as peer:
        assert peer.ask(message, 9) is None
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert peer.ask(message, 9) is None


def test_a_token_without_a_handshake_closes_the_connection(broker):
    with Peer(broker.bootstrap_servers) as peer:
        assert peer.ask(SaslAuthenticateRequest(auth_bytes=RIGHT), 2) is None


def test_requests_are_answered_after_authentication(broker):
    with Peer(broker.bootstrap_servers) as peer:
        assert peer.ask(ApiVersionsRequest(), 0).error_code == 0
        assert peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert peer.ask(SaslAuthenticateRequest(auth_bytes=RIGHT), 2).error_code == 0
        assert peer.ask(MetadataRequest(topics=[]), 9).brokers
        again = peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_refused_token_is_answered_and_then_the_connection_is_closed(broker):
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        refused = peer.ask(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == "Authentication failed: Invalid username or password"
        assert peer.frame() is None


def test_old_clients_send_bare_tokens_after_the_handshake_of_version_0(broker):
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        peer.send_frame(RIGHT)
        assert peer.frame() == b""
        assert peer.ask(MetadataRequest(topics=[]), 9).brokers
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        peer.send_frame(WRONG)
        assert peer.frame() is None


def test_cve_2022_34917_a_large_frame_before_authentication_closes_the_connection(broker):
    with Peer(broker.bootstrap_servers) as peer:
        peer.socket.sendall(struct.pack(">i", 524_289))
        assert peer.frame() is None


def test_frames_may_be_large_after_authentication(broker):
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        peer.ask(SaslAuthenticateRequest(auth_bytes=RIGHT), 2)
        peer.send_frame(encode_request(RequestHeader(3, 9, 1), MetadataRequest(topics=[])) + bytes(600_000))
        assert peer.frame() is not None


def test_a_changed_credential_applies_to_the_next_authentication(broker):
    """Set with one byte too many at the end of the request, as librdkafka does it."""
    salted = salted_password("SCRAM-SHA-256", "sesame", b"salt", 4096)
    change = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted)
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[change])
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        peer.ask(SaslAuthenticateRequest(auth_bytes=RIGHT), 2)
        peer.send_frame(encode_request(RequestHeader(51, 0, 1), request) + b"\0")
        (result,) = decode_response(peer.frame(), 51, 0)[1].results
        assert (result.user, result.error_code) == ("bob", 0)
    with Peer(broker.bootstrap_servers) as peer:
        peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        client = ScramClient("SCRAM-SHA-256", "bob", "sesame", "nonce")
        challenge = peer.ask(SaslAuthenticateRequest(auth_bytes=client.step(None)), 2).auth_bytes
        client.step(peer.ask(SaslAuthenticateRequest(auth_bytes=client.step(challenge)), 2).auth_bytes)
        assert client.complete


def tls(**changes: str) -> dict[str, str]:
    certificate = trustme.CA().issue_cert("localhost")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.certificate.chain": certificate.cert_chain_pems[0].bytes().decode(),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
    }
    properties.update({name.replace("_", "."): value for name, value in changes.items()})
    return {name: value for name, value in properties.items() if value}


LOGIN = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}


@pytest.mark.parametrize(
    ("properties", "users", "words"),
    [
        (LOGIN, {}, "no mechanism is enabled"),
        (LOGIN | {"sasl.enabled.mechanisms": "PLAIN"}, {}, "PLAIN has no users"),
        (LOGIN | {"sasl.enabled.mechanisms": "GSSAPI"}, USERS, "must be one of: PLAIN"),
        (LOGIN | {"sasl.enabled.mechanisms": "OAUTHBEARER"}, {}, "cannot check signatures"),
        (LOGIN, {"ada": ""}, "needs a name and a password"),
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, USERS, "no listener requires SASL"),
        ({"listeners": "SSL://127.0.0.1:0"}, {}, "give its certificate"),
        (tls(ssl_keystore_key=""), {}, "go together"),
        (tls(ssl_keystore_key="-----BEGIN X-----"), {}, "cannot be used"),
        (tls(ssl_client_auth="required"), {}, "ssl.client.auth=required needs ssl.truststore"),
        (tls(ssl_keystore_type="JKS"), {}, "only Java reads JKS; convert it: keytool"),
        (
            tls(ssl_truststore_location="/nowhere.pem"),
            {},
            "ssl.truststore.location: /nowhere.pem cannot be read: No such",
        ),
    ],
)
def test_cve_2026_33557_what_is_half_configured_does_not_start(properties, users, words: str):
    with pytest.raises(ConfigError, match=words):
        BrokerConfig.parse(properties, users)
