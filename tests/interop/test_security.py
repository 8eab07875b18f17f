"""Logging in across implementations: our client at Apache Kafka, other clients at our broker."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import AuthenticationError, NetworkError
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.test_login import Peer
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing

USER, PASSWORD = "ada", "opensesame-4711"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
MODULES = "org.apache.kafka.common.security"
PLAIN_REAUTH_MS = 60_000


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def as_pkcs8(key: trustme.Blob) -> str:
    """The form of private key that Java reads."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return serialization.load_pem_private_key(key.bytes(), None).private_bytes(*form).decode()


def unsecured_token() -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 5, "exp": now + 600})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


def our_settings(mechanism: str, password: str = PASSWORD) -> dict[str, object]:
    login: dict[str, object] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return login | {"sasl_oauth_token_provider": unsecured_token}
    return login | {"sasl_username": USER, "sasl_password": password}


def our_round_trip(servers: str, topic: str, **settings: object) -> None:
    with Admin(bootstrap_servers=servers, **settings) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    with Producer(bootstrap_servers=servers, **settings) as producer:
        producer.send(topic, b"hello").result(20)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert next(iter(consumer)).value == b"hello"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


# -- our client at Apache Kafka ------------------------------------------------------------------------------------


def kafka_properties(ports: dict[str, int], authority: trustme.CA, folder: Path) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    store, trusted = folder / "broker.pem", folder / "trusted.pem"
    store.write_text(as_pkcs8(certificate.private_key_pem) + pem(*certificate.cert_chain_pems))
    trusted.write_text(pem(authority.cert_pem))
    plain = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="sesame";'
    oauth = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    unsecured = f"{MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,MUTUAL:SSL"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.login.plain.sasl.jaas.config": plain,
        "listener.name.login.plain.connections.max.reauth.ms": str(PLAIN_REAUTH_MS),
        "listener.name.login.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.login.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.login.oauthbearer.sasl.jaas.config": oauth,
        "listener.name.login.oauthbearer.sasl.server.callback.handler.class": unsecured,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "listener.name.mutual.ssl.client.auth": "required",
    }


@pytest.fixture(scope="module")
def secure_kafka(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of each listener of an Apache Kafka that knows our user."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    names = ("PLAINTEXT", "CONTROLLER", "LOGIN", "TLS", "MUTUAL")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    properties = kafka_properties(ports, authority, tmp_path_factory.mktemp("stores"))
    kafka = ApacheKafka(properties=properties, ports=(ports["PLAINTEXT"], ports["CONTROLLER"]))
    with kafka:
        add_scram_user(kafka.bootstrap_servers)
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def add_scram_user(servers: str) -> None:
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    admin = AdminClient({"bootstrap.servers": servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(30)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_our_client_logs_in_to_apache_kafka(secure_kafka: dict[str, str], mechanism: str) -> None:
    our_round_trip(secure_kafka["LOGIN"], f"from-{mechanism}", **our_settings(mechanism))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_apache_kafkas_refusal_is_passed_on_in_its_own_words(secure_kafka: dict[str, str], mechanism: str) -> None:
    with pytest.raises(AuthenticationError, match=r"Authentication failed.*invalid|Invalid username"):
        Admin(bootstrap_servers=secure_kafka["LOGIN"], **our_settings(mechanism, "wrong")).list_topics()


@pytest.mark.timeout(300)
def test_our_client_speaks_tls_with_apache_kafka(secure_kafka: dict[str, str], authority: trustme.CA) -> None:
    tls = {"security_protocol": "SSL", "ssl_cadata": pem(authority.cert_pem)}
    our_round_trip(secure_kafka["TLS"], "over-tls", **tls)
    mine = authority.issue_cert("client@example.org")
    identity = {"ssl_certfile": pem(*mine.cert_chain_pems), "ssl_keyfile": pem(mine.private_key_pem)}
    our_round_trip(secure_kafka["MUTUAL"], "over-mutual-tls", **tls, **identity)
    with pytest.raises(NetworkError):
        Admin(bootstrap_servers=secure_kafka["MUTUAL"], **tls).list_topics()


# -- other clients at our broker -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def our_broker(authority: trustme.CA) -> Iterator[dict[str, str]]:
    """The address of each listener of our broker."""
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    ports = dict(zip(("LOGIN", "BOTH"), free_ports(2), strict=True))
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,BOTH:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.unsecured.enable": "true",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
    }
    with EmbeddedBroker(properties=properties, users={USER: PASSWORD}):
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_librdkafka_logs_in_to_our_broker(our_broker: dict[str, str], mechanism: str) -> None:
    from confluent_kafka.admin import AdminClient

    settings: dict[str, object] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (unsecured_token(), time.time() + 600)
    else:
        settings |= {"sasl.username": USER, "sasl.password": PASSWORD}
    admin = AdminClient({"bootstrap.servers": our_broker["LOGIN"], **settings})
    admin.poll(0)  # serves the token callback
    assert admin.list_topics(timeout=20).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_to_our_broker_inside_tls(
    our_broker: dict[str, str], authority: trustme.CA, tmp_path: Path, mechanism: str
) -> None:
    from kafka import KafkaProducer

    (tmp_path / "ca.pem").write_text(pem(authority.cert_pem))
    producer = KafkaProducer(
        bootstrap_servers=our_broker["BOTH"],
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        ssl_cafile=str(tmp_path / "ca.pem"),
    )
    assert producer.send("from-kafka-python", b"hello").get(20).offset >= 0
    producer.close()


# -- the same bytes at both ----------------------------------------------------------------------------------------

ADA, BOB, WRONG = (f"\0{user}\0{word}".encode() for user, word in ((USER, PASSWORD), ("bob", "sesame"), (USER, "x")))
SHAKE, SCRAM, GSSAPI = (SaslHandshakeRequest(mechanism=name) for name in ("PLAIN", "SCRAM-SHA-256", "GSSAPI"))
RENEWALS = {
    "as the same user": [SHAKE, ADA, SHAKE, ADA, MetadataRequest(topics=[])],
    "as another user": [SHAKE, ADA, SHAKE, BOB, MetadataRequest(topics=[])],
    "with a wrong password": [SHAKE, ADA, SHAKE, WRONG, MetadataRequest(topics=[])],
    "by another mechanism": [SHAKE, ADA, SCRAM, b"n,,n=ada,r=nonce"],
    "by a mechanism that is not enabled": [SHAKE, ADA, GSSAPI, b""],
    "twice within a second": [SHAKE, ADA, SHAKE, ADA, SHAKE],
    "without a handshake": [SHAKE, ADA, ADA],
}


def conversation(servers: str, steps: list[object]) -> list[object]:
    """What a broker answers to each step; None once it has closed the connection."""
    answers: list[object] = []
    with Peer(servers) as peer:
        for step in steps:
            message = SaslAuthenticateRequest(auth_bytes=step) if isinstance(step, bytes) else step
            try:
                answer = peer.ask(message, 1)
            except (ConnectionError, TimeoutError):
                answer = None
            answers.append(_told(answer))
    return answers


def _told(answer: object) -> object:
    match answer:
        case SaslAuthenticateResponse():
            return answer.error_code, answer.error_message, answer.session_lifetime_ms
        case SaslHandshakeResponse():
            return answer.error_code, sorted(answer.mechanisms)
    return None if answer is None else type(answer).__name__


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", RENEWALS)
def test_a_renewed_login_is_answered_as_by_apache_kafka(
    secure_kafka: dict[str, str], authority: trustme.CA, tmp_path: Path, case: str
) -> None:
    """Our broker is given the same properties, those of the controller apart."""
    (port,) = free_ports(1)
    named = kafka_properties({"LOGIN": port}, authority, tmp_path)
    named = {name: value for name, value in named.items() if not name.startswith("listener.name.mutual")}
    with EmbeddedBroker(properties=named, users={USER: PASSWORD}) as broker:
        ours = conversation(broker.bootstrap_servers, RENEWALS[case])
    assert ours == conversation(secure_kafka["LOGIN"], RENEWALS[case])
