"""Our client and our broker, logging in and speaking TLS over real sockets."""

from __future__ import annotations

import logging
import ssl
import time

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import AuthenticationError, ConfigError, KafkaError, NetworkError

PASSWORD = "opensesame-4711"
USERS = {"ada": PASSWORD}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def login(mechanism="SCRAM-SHA-512", password=PASSWORD, protocol="SASL_PLAINTEXT"):
    return {
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_username": "ada",
        "sasl_password": password,
    }


def round_trip(servers: str, **settings) -> None:
    with Admin(bootstrap_servers=servers, **settings) as admin:
        admin.create_topics([NewTopic("t", 1)])
    with Producer(bootstrap_servers=servers, **settings) as producer:
        producer.send("t", b"hello").result(10)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert next(iter(consumer)).value == b"hello"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def stranger():
    return trustme.CA()


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(users=USERS) as broker:
        yield broker


def pem(*blobs) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def tls_properties(authority, protocol="SSL", client_auth="none") -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    return {
        "listeners": f"{protocol}://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem(authority.cert_pem),
        "ssl.client.auth": client_auth,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_by_each_mechanism(mechanism: str):
    with EmbeddedBroker(users=USERS) as broker:
        round_trip(broker.bootstrap_servers, **login(mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_refused_login_is_one_clear_error_and_shows_no_secret(broker, mechanism, caplog: pytest.LogCaptureFixture):
    wrong = "not-the-password"
    with caplog.at_level(logging.DEBUG), pytest.raises(AuthenticationError, match="Authentication failed") as refused:
        Admin(bootstrap_servers=broker.bootstrap_servers, **login(mechanism, wrong)).list_topics()
    assert "SASL_AUTHENTICATION_FAILED" in str(refused.value)
    assert "Set SASL client state to FAILED" in caplog.text
    assert wrong not in caplog.text + str(refused.value)
    assert PASSWORD not in caplog.text + str(refused.value)
    assert caplog.text.count("state to SEND_APIVERSIONS_REQUEST") == 1


def test_a_refused_login_is_not_hidden_behind_other_servers(broker):
    servers = f"127.0.0.1:1,{broker.bootstrap_servers}"
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        Admin(bootstrap_servers=servers, **login(password="wrong")).list_topics()


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are():
    properties = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    with (
        EmbeddedBroker(users=USERS, properties=properties) as broker,
        pytest.raises(
            AuthenticationError, match=r"PLAIN, but SCRAM-SHA-256, SCRAM-SHA-512 \(UNSUPPORTED_SASL_MECHANISM\)"
        ),
    ):
        Admin(bootstrap_servers=broker.bootstrap_servers, **login("PLAIN")).list_topics()


def test_a_client_that_does_not_log_in_is_turned_away(broker):
    with pytest.raises(NetworkError, match=r"does it require authentication .*security_protocol"):
        Admin(bootstrap_servers=broker.bootstrap_servers).list_topics()


def test_a_login_at_a_listener_without_one_says_so():
    with EmbeddedBroker() as open_broker, pytest.raises(AuthenticationError, match="has no authentication"):
        Admin(bootstrap_servers=open_broker.bootstrap_servers, **login()).list_topics()


def test_tls_by_pem_text_and_a_login_inside_it(authority):
    with EmbeddedBroker(properties=tls_properties(authority, "SASL_SSL"), users=USERS) as broker:
        settings = login("PLAIN", protocol="SASL_SSL")
        round_trip(broker.bootstrap_servers, ssl_cadata=pem(authority.cert_pem), **settings)


def test_an_unknown_authority_is_refused(authority, stranger):
    with (
        EmbeddedBroker(properties=tls_properties(authority)) as broker,
        pytest.raises(NetworkError, match=r"CERTIFICATE_VERIFY_FAILED.*authority that signed .*ssl_cafile") as refused,
    ):
        settings = {"security_protocol": "SSL", "ssl_cadata": pem(stranger.cert_pem)}
        Admin(bootstrap_servers=broker.bootstrap_servers, **settings).list_topics()
    assert refused.value.stage == "TLS"


def test_a_certificate_for_another_host_is_refused_unless_that_is_switched_off(authority):
    certificate = authority.issue_cert("elsewhere.example")
    properties = tls_properties(authority) | {
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
    }
    settings = {"security_protocol": "SSL", "ssl_cadata": pem(authority.cert_pem)}
    with EmbeddedBroker(properties=properties) as broker:
        with pytest.raises(NetworkError, match=r"CERTIFICATE_VERIFY_FAILED.*dial a name that the certificate has"):
            Admin(bootstrap_servers=broker.bootstrap_servers, **settings).list_topics()
        round_trip(broker.bootstrap_servers, ssl_check_hostname=False, **settings)


def test_a_client_shows_its_certificate_where_one_is_asked_for(authority, stranger, tmp_path):
    settings = {"security_protocol": "SSL", "ssl_cadata": pem(authority.cert_pem)}
    mine = authority.issue_cert("client@example.org")
    files = {"ssl_certfile": tmp_path / "cert.pem", "ssl_keyfile": tmp_path / "key.pem"}
    files["ssl_certfile"].write_text(pem(*mine.cert_chain_pems))
    files["ssl_keyfile"].write_text(pem(mine.private_key_pem))
    with EmbeddedBroker(properties=tls_properties(authority, client_auth="required")) as broker:
        round_trip(broker.bootstrap_servers, **settings, **{name: str(path) for name, path in files.items()})
        with pytest.raises(NetworkError):
            Admin(bootstrap_servers=broker.bootstrap_servers, **settings).list_topics()
        theirs = stranger.issue_cert("client@example.org")
        with pytest.raises(NetworkError):
            Admin(
                bootstrap_servers=broker.bootstrap_servers,
                ssl_certfile=pem(*theirs.cert_chain_pems),
                ssl_keyfile=pem(theirs.private_key_pem),
                **settings,
            ).list_topics()


def test_an_address_must_be_in_the_certificate_as_an_address(authority):
    settings = {"security_protocol": "SSL", "ssl_cadata": pem(authority.cert_pem)}
    for name, good in (("127.0.0.1", True), ("127.0.0.2", False), ("localhost", False)):
        certificate = authority.issue_cert(name)
        properties = tls_properties(authority) | {
            "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
            "ssl.keystore.key": pem(certificate.private_key_pem),
        }
        with EmbeddedBroker(properties=properties) as broker:
            if good:
                round_trip(broker.bootstrap_servers, **settings)
                continue
            with pytest.raises(NetworkError, match="CERTIFICATE_VERIFY_FAILED"):
                Admin(bootstrap_servers=broker.bootstrap_servers, **settings).list_topics()


def test_a_context_of_ones_own_decides_everything_about_tls(authority, stranger):
    context = ssl.create_default_context(cadata=pem(authority.cert_pem))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with EmbeddedBroker(properties=tls_properties(authority)) as broker:
        round_trip(broker.bootstrap_servers, security_protocol="SSL", ssl_context=context)
        other = ssl.create_default_context(cadata=pem(stranger.cert_pem))
        with pytest.raises(NetworkError, match="CERTIFICATE_VERIFY_FAILED"):
            Admin(bootstrap_servers=broker.bootstrap_servers, security_protocol="SSL", ssl_context=other).list_topics()
    with pytest.raises(ConfigError, match="ssl_context excludes ssl_cafile"):
        Admin(bootstrap_servers="a:1", security_protocol="SSL", ssl_context=context, ssl_cafile="ca.pem")
    with pytest.raises(ConfigError, match=r"must be an ssl\.SSLContext"):
        Admin(bootstrap_servers="a:1", security_protocol="SSL", ssl_context="ca.pem")


def test_a_password_that_does_not_open_the_key_is_an_error_that_shows_neither(authority):
    mine = authority.issue_cert("client@example.org")
    key = load_pem_private_key(mine.private_key_pem.bytes(), None)
    lock = BestAvailableEncryption(PASSWORD.encode())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode()
    for password in (None, "not-this-one"):
        with pytest.raises(ConfigError, match="its password if it has one") as refused:
            Admin(
                bootstrap_servers="a:1",
                security_protocol="SSL",
                ssl_certfile=pem(*mine.cert_chain_pems),
                ssl_keyfile=encrypted,
                ssl_password=password,
            )
        assert "not-this-one" not in str(refused.value)
        assert "PRIVATE" not in str(refused.value)


def test_plaintext_and_tls_that_meet_are_recognised(authority, broker):
    with (
        EmbeddedBroker(properties=tls_properties(authority)) as encrypted,
        pytest.raises(KafkaError, match="TLS"),
    ):
        Admin(bootstrap_servers=encrypted.bootstrap_servers).list_topics()
    settings = {"security_protocol": "SSL", "ssl_cadata": pem(authority.cert_pem)}
    with pytest.raises(NetworkError, match=r"check that this port speaks TLS .*security_protocol"):
        Admin(bootstrap_servers=broker.bootstrap_servers, **settings).list_topics()


def test_oauth_tokens_come_from_the_provider():
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.unsecured.enable": "true",
    }
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    with EmbeddedBroker(properties=properties) as broker:
        servers = broker.bootstrap_servers
        round_trip(servers, sasl_oauth_token_provider=lambda: unsecured_token("ada", time.time()), **settings)
        with pytest.raises(AuthenticationError, match="has expired"):
            Admin(
                bootstrap_servers=servers, sasl_oauth_token_provider=lambda: unsecured_token("ada", 1), **settings
            ).list_topics()
        with pytest.raises(AuthenticationError, match="must return the token as text"):
            Admin(bootstrap_servers=servers, sasl_oauth_token_provider=lambda: None, **settings).list_topics()


def test_a_broker_process_gets_its_users_and_does_not_show_them():
    with EmbeddedBroker(users=USERS, process=True) as broker:
        round_trip(broker.bootstrap_servers, **login())
        with open(f"/proc/{broker.process_id}/cmdline", "rb") as arguments:
            assert PASSWORD.encode() not in arguments.read()
        assert PASSWORD not in repr(broker.config)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        (login() | {"sasl_password": None}, "needs sasl_password"),
        ({"sasl_password": PASSWORD}, "no effect with security_protocol='PLAINTEXT'"),
        ({"ssl_cafile": "x"}, "no effect with security_protocol='PLAINTEXT'"),
        (login() | {"sasl_password": 4711}, r"sasl_password=\[hidden\]"),
        ({"security_protocol": "SSL", "ssl_keyfile": "x"}, "ssl_certfile, which is missing"),
        ({"security_protocol": "SSL", "ssl_cafile": "x", "ssl_cadata": "y"}, "give one of them"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        ({"security_protocol": "SSL", "ssl_cafile": "/no/such/file"}, "No such file"),
    ],
)
def test_half_of_a_protection_is_an_error(settings, words: str):
    with pytest.raises(ConfigError, match=words) as refused:
        Admin(bootstrap_servers="127.0.0.1:1", **settings)
    assert PASSWORD not in str(refused.value)
