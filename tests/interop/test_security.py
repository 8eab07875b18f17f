"""Logging in across implementations: our client at Apache Kafka, other clients and Kafka's own tools at our broker.

One Apache Kafka, one broker of ours and one JVM of tools serve all tests; `logins` has the settings.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from kafkaraw import (
    Admin,
    BrokerError,
    Consumer,
    DelegationToken,
    NewTopic,
    Producer,
    ScramPassword,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.java_names import known_names
from kafkaraw.errors import AuthenticationError, KafkaError, NetworkError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.security.test_sasl_authenticator import Peer
from tests.cases import Cases
from tests.interop import logins
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing
from tests.interop.clients import Aiokafka, Confluent, KafkaPython, Sample
from tests.interop.java_client import JavaClient
from tests.interop.java_tools import CONFIGS, SharedTools, run_tool, shared_tools, why_no_java_client
from tests.interop.logins import LISTENER_PROTOCOLS, MECHANISMS, PASSWORD, USER, WAYS, Keys, Way, as_pkcs8, pem
from tests.rotation import rotating

MODULES = "org.apache.kafka.common.security"
TOOLS = "org.apache.kafka.tools"
UNUSUAL_NAME, UNUSUAL_PASSWORD = "ada,=", "pässwörd ﬁ²\u00a0\u0301ÅÅ"
"""With characters that SASLprep would change: a ligature, a power, a hard space, a combining accent, an Ångström."""
REAUTH_MS = 1500
PLAIN_REAUTH_MS = 60_000


def ours_round_trip(servers: str, topic: str, **settings: object) -> None:
    with Admin(bootstrap_servers=servers, **settings) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    with Producer(bootstrap_servers=servers, **settings) as producer:
        producer.send(topic, b"hello").result(20)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert next(iter(consumer)).value == b"hello"


def topic_of(way: Way) -> str:
    return str(way).replace(" ", "-")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def keys(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.issued_by(authority, tmp_path_factory.mktemp("keys"))


def token_round_trip(servers: str) -> None:
    """Create a delegation token, authenticate with it, renew it, and let it expire."""
    by_password = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }
    with Admin(bootstrap_servers=servers, **by_password) as admin:
        token = admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.requester, token.renewers) == (f"User:{USER}", f"User:{USER}", ("User:bob",))
        assert token.max_ms == token.issued_ms + 3_600_000
        assert token.expires_ms <= token.max_ms
        assert token.password not in repr(token)
        assert once_known(lambda: admin.renew_delegation_token(token.hmac)) <= token.max_ms
        for owners in (None, [f"User:{USER}"], ["User:bob"]):
            found = wait_for_token(admin, token.token_id, owners)
            assert (found.hmac, found.owner) == (token.hmac, token.owner)
        assert admin.describe_delegation_tokens(["User:eve"]) == []
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            by_token = by_password | {"sasl_mechanism": mechanism, "sasl_username": token.token_id}
            by_token |= {"sasl_password": token.password, "sasl_token_auth": True}
            with Admin(bootstrap_servers=servers, **by_token) as other:
                assert other.describe_cluster().brokers
                with pytest.raises(BrokerError) as refused:
                    other.create_delegation_token()
                assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        with pytest.raises(BrokerError) as refused:
            admin.renew_delegation_token(b"of no token")
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        of_bob = admin.create_delegation_token(owner="User:bob")  # nobody is denied without an authorizer
        assert (of_bob.owner, of_bob.requester) == ("User:bob", f"User:{USER}")
        admin.expire_delegation_token(token.hmac)
        deadline = time.monotonic() + 20
        while token.token_id in {one.token_id for one in admin.describe_delegation_tokens()}:
            assert time.monotonic() < deadline
        with pytest.raises(BrokerError) as refused:
            admin.expire_delegation_token(token.hmac)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def once_known(act: Callable[[], int]) -> int:
    """Do something with a token as soon as the broker knows it: those of Apache Kafka learn of it after the answer."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return act()
        except BrokerError as error:
            if error.code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND or time.monotonic() > deadline:
                raise


def wait_for_token(admin: Admin, token_id: str, owners: list[str] | None) -> DelegationToken:
    deadline = time.monotonic() + 20
    while True:
        for token in admin.describe_delegation_tokens(owners):
            if token.token_id == token_id:
                return token
        assert time.monotonic() < deadline


# -- our client at Apache Kafka ------------------------------------------------------------------------------------


def kafka_properties(ports: dict[str, int], authority: trustme.CA, folder: Path) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    store, trusted = folder / "broker.pem", folder / "trusted.pem"
    store.write_text(as_pkcs8(certificate.private_key_pem) + pem(*certificate.cert_chain_pems))
    trusted.write_text(pem(authority.cert_pem))
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER"
        ),
        "listener.security.protocol.map": f"{LISTENER_PROTOCOLS},RENEWED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    modules = {
        "plain": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="sesame";',
        "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
    }
    unsecured = f"{MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    for listener in ("login", "both", "renewed"):
        for mechanism, module in modules.items():
            properties[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = module
        properties[f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class"] = unsecured
    properties["listener.name.login.plain.connections.max.reauth.ms"] = str(PLAIN_REAUTH_MS)
    for mechanism in modules:
        properties[f"listener.name.renewed.{mechanism}.connections.max.reauth.ms"] = str(REAUTH_MS)
    return properties


@pytest.fixture(scope="module")
def secure_kafka(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of each listener of an Apache Kafka that knows our user."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    names = ("PLAINTEXT", "CONTROLLER", "LOGIN", "TLS", "MUTUAL", "BOTH", "RENEWED")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    properties = kafka_properties(ports, authority, tmp_path_factory.mktemp("stores"))
    properties["delegation.token.secret.key"] = "for tests"
    kafka = ApacheKafka(properties=properties, ports=(ports["PLAINTEXT"], ports["CONTROLLER"]))
    with kafka:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            for mechanism in MECHANISMS[1:3]:
                admin.alter_user_scram_credentials([ScramPassword(USER, mechanism, PASSWORD)])
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def test_delegation_tokens_at_apache_kafka(secure_kafka: dict[str, str]) -> None:
    token_round_trip(secure_kafka["LOGIN"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_our_client_logs_in_to_apache_kafka(secure_kafka: dict[str, str], keys: Keys, way: Way) -> None:
    ours_round_trip(secure_kafka[way.listener], topic_of(way), **logins.ours(way, keys))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_apache_kafkas_refusal_is_passed_on_in_its_own_words(
    secure_kafka: dict[str, str], keys: Keys, mechanism: str
) -> None:
    settings = logins.ours(Way("LOGIN", mechanism), keys, "wrong")
    with pytest.raises(AuthenticationError, match=r"Authentication failed.*invalid|Invalid username"):
        Admin(bootstrap_servers=secure_kafka["LOGIN"], **settings).list_topics()


@pytest.mark.timeout(300)
def test_apache_kafka_turns_a_client_without_a_certificate_away(secure_kafka: dict[str, str], keys: Keys) -> None:
    with pytest.raises(NetworkError):
        Admin(bootstrap_servers=secure_kafka["MUTUAL"], **logins.ours(Way("TLS", tls=True), keys)).list_topics()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("listener", "tls"), [("PLAINTEXT", True), ("TLS", False)])
def test_a_listener_of_apache_kafka_that_speaks_the_other_is_recognised(
    secure_kafka: dict[str, str], keys: Keys, listener: str, tls: bool
) -> None:
    settings = logins.ours(Way(listener, tls=tls), keys)
    with pytest.raises(KafkaError, match="TLS"):
        Admin(bootstrap_servers=secure_kafka[listener], **settings).list_topics(timeout=10)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_our_login_is_renewed_at_apache_kafka_on_the_same_connection(
    secure_kafka: dict[str, str], keys: Keys, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = logins.ours(Way("RENEWED", mechanism), keys)
    topic = f"renewed-{mechanism}"
    caplog.set_level(logging.DEBUG, "kafkaraw.core")
    sent = 0
    with Producer(bootstrap_servers=secure_kafka["RENEWED"], **settings) as producer:
        while caplog.text.count("state to REAUTH_INITIAL") < 2:
            producer.send(topic, str(sent).encode()).result(20)
            sent += 1
        connections = sum(node.get("connections_opened", 0) for node in producer.metrics().values())
    assert caplog.text.count("state to SEND_APIVERSIONS_REQUEST") == connections <= 2
    assert "FAILED" not in caplog.text
    with Consumer(bootstrap_servers=secure_kafka["PLAINTEXT"], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): sent}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("by", ["our client", "Kafka's own tool"])
def test_passwords_of_scram_are_taken_as_they_are_written(secure_kafka: dict[str, str], by: str) -> None:
    """Apache Kafka has no SASLprep: what is not ASCII is hashed as it stands, and so it is here."""
    servers, name = secure_kafka["PLAINTEXT"], f"{UNUSUAL_NAME} {by}"
    if by == "our client":
        with Admin(bootstrap_servers=servers) as admin:
            admin.alter_user_scram_credentials([ScramPassword(name, "SCRAM-SHA-256", UNUSUAL_PASSWORD)])
    else:
        change = f"SCRAM-SHA-256=[password={UNUSUAL_PASSWORD}]"
        address = ("--bootstrap-server", servers, "--entity-type", "users", "--entity-name", name)
        run_tool(CONFIGS, *address, "--alter", "--add-config", change)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": name}
    with Admin(bootstrap_servers=secure_kafka["LOGIN"], sasl_password=UNUSUAL_PASSWORD, **login) as admin:
        admin.list_topics()


@pytest.mark.timeout(300)
def test_apache_kafka_takes_no_names_beyond_ascii_for_scram(secure_kafka: dict[str, str]) -> None:
    with Admin(bootstrap_servers=secure_kafka["PLAINTEXT"]) as admin:
        admin.alter_user_scram_credentials([ScramPassword("jörg", "SCRAM-SHA-256", PASSWORD)])
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "jörg"}
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        Admin(bootstrap_servers=secure_kafka["LOGIN"], sasl_password=PASSWORD, **login).list_topics()


# -- other clients at our broker -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def our_broker(authority: trustme.CA) -> Iterator[dict[str, str]]:
    """The address of each listener of our broker."""
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    names = ("PLAINTEXT", "LOGIN", "TLS", "MUTUAL", "BOTH")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": LISTENER_PROTOCOLS,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.unsecured.enable": "true",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
        "ssl.truststore.certificates": pem(authority.cert_pem),
        "listener.name.mutual.ssl.client.auth": "required",
        "delegation.token.secret.key": "for tests",
        "group.initial.rebalance.delay.ms": "0",
    }
    with EmbeddedBroker(properties=properties, users={USER: PASSWORD}):
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def test_delegation_tokens_at_our_broker(our_broker: dict[str, str]) -> None:
    token_round_trip(our_broker["LOGIN"])


@pytest.mark.parametrize("broker", ["secure_kafka", "our_broker"])
def test_sasl_extensions_go_with_an_oauth_token(request: pytest.FixtureRequest, keys: Keys, broker: str) -> None:
    addresses: dict[str, str] = request.getfixturevalue(broker)
    settings = logins.ours(Way("LOGIN", "OAUTHBEARER"), keys)
    settings["sasl_oauthbearer_extensions"] = {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    with Admin(bootstrap_servers=addresses["LOGIN"], **settings) as admin:
        admin.list_topics()


CLIENTS = {
    "confluent-kafka": (Confluent, logins.librdkafka),
    "kafka-python": (KafkaPython, logins.kafka_python),
    "aiokafka": (Aiokafka, logins.aiokafka),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_another_client_logs_in_to_our_broker_and_writes_and_reads(
    our_broker: dict[str, str], keys: Keys, name: str
) -> None:
    """In every way, and in all of them at the same time."""
    make, settings_for = CLIENTS[name]
    with Admin(bootstrap_servers=our_broker["PLAINTEXT"]) as admin:
        admin.create_topics([NewTopic(f"{name}-{topic_of(way)}", 1) for way in WAYS])

    def values_that_return(way: Way) -> list[bytes | None]:
        client, servers, topic = make(settings_for(way, keys)), our_broker[way.listener], f"{name}-{topic_of(way)}"
        sample = Sample(b"key", b"hello")
        client.produce(servers, topic, [sample], codec="none", acks="all", idempotent=name != "kafka-python")
        return [received.sample.value for received in client.consume(servers, topic, 1, 1)]

    with ThreadPoolExecutor(len(WAYS)) as pool:
        returned = {str(way): pool.submit(values_that_return, way) for way in WAYS}
    with Cases() as case:
        for way, values in returned.items():
            with case(way):
                assert values.result() == [b"hello"]


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    return shared_tools()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", rotating(WAYS, 3), ids=str)
def test_javas_tools_log_in_to_our_broker(
    our_broker: dict[str, str], keys: Keys, tools: SharedTools, tmp_path: Path, way: Way
) -> None:
    config = logins.as_file(logins.java(way, keys), tmp_path / "client.properties")
    to, topic = ("--bootstrap-server", our_broker[way.listener]), f"java-{topic_of(way)}"
    admin = (*to, "--command-config", config)
    assert f"Created topic {topic}" in tools.run(f"{TOOLS}.TopicCommand", *admin, "--create", "--topic", topic)
    assert topic in tools.run(f"{TOOLS}.TopicCommand", *admin, "--list").split()
    assert "Produce(0)" in tools.run(f"{TOOLS}.BrokerApiVersionsCommand", *admin)
    tools.run(f"{TOOLS}.ConsoleProducer", *to, "--command-config", config, "--topic", topic, given="hello\n")
    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "1")
    read = tools.run(f"{TOOLS}.consumer.ConsoleConsumer", *to, "--command-config", config, *place)
    assert read == "hello\n"


@pytest.mark.parametrize("way", [way for way in WAYS if way.mechanism != "OAUTHBEARER"], ids=str)
def test_the_file_of_javas_tools_serves_our_client(
    our_broker: dict[str, str], keys: Keys, tmp_path: Path, way: Way
) -> None:
    file = logins.as_file(logins.java(way, keys), tmp_path / "client.properties")
    with Admin.from_properties(file, bootstrap_servers=our_broker[way.listener]) as admin:
        admin.list_topics()


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
    others = ("listener.name.mutual", "listener.name.both", "listener.name.renewed")
    named = {name: value for name, value in named.items() if not name.startswith(others)}
    with EmbeddedBroker(properties=named, users={USER: PASSWORD}) as broker:
        ours = conversation(broker.bootstrap_servers, RENEWALS[case])
    assert ours == conversation(secure_kafka["LOGIN"], RENEWALS[case])


# -- Java's names ----------------------------------------------------------------------------------------------------


def test_every_name_of_javas_clients_is_known(tmp_path: Path) -> None:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    names = JavaClient().setting_names()
    assert {kind: len(own) > 50 for kind, own in names.items()} == dict.fromkeys(
        ("producer", "consumer", "admin"), True
    )
    assert set().union(*names.values()) - known_names() == set()
