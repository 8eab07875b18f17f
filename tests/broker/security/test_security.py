"""Properties of one listener and one mechanism, login modules, and clients known by their certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from kafkaraw import Admin
from kafkaraw.broker import BrokerConfig, EmbeddedBroker
from kafkaraw.broker.security.mechanisms import UNSECURED_HANDLER
from kafkaraw.core.sasl.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import AuthenticationError, AuthorizationError, ConfigError, NetworkError
from tests.broker.security.certificates import truststore
from tests.broker.security.test_sasl_authenticator import tls

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}
INSIDE = "listener.name.inside."
OUTSIDE = "listener.name.outside."


def users(**passwords: str) -> str:
    return f"{PLAIN_MODULE} required " + " ".join(f'user_{name}="{word}"' for name, word in passwords.items()) + ";"


def logins(properties: dict[str, object], listener: str = "INSIDE", **given: str):
    return BrokerConfig.parse({**TWO, **properties}, given).security.listeners[listener].sasl


def test_each_listener_has_the_users_of_its_login_module():
    inside, outside = (
        {INSIDE + "plain.sasl.jaas.config": users(ada="a")},
        {OUTSIDE + "plain.sasl.jaas.config": users(bob="b")},
    )
    assert logins(inside | outside).passwords == {"ada": "a"}
    assert logins(inside | outside, "OUTSIDE").passwords == {"bob": "b"}
    assert logins(inside, ada="given", eve="e").passwords == {"ada": "a", "eve": "e"}


def test_each_listener_may_have_mechanisms_of_its_own():
    properties = {
        INSIDE + "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        INSIDE + "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        OUTSIDE + "plain.sasl.jaas.config": users(bob="b"),
    }
    assert logins(properties).mechanisms == ("SCRAM-SHA-512",)
    assert logins(properties, "OUTSIDE").mechanisms == ("PLAIN",)


def test_the_most_specific_session_lifetime_applies():
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms": 1000,
        INSIDE + "connections.max.reauth.ms": 2000,
        INSIDE + "plain.connections.max.reauth.ms": 3000,
    }
    assert logins(properties, ada="a").reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000}
    assert logins(properties, "OUTSIDE", ada="a").reauth_ms == {"PLAIN": 1000, "SCRAM-SHA-256": 1000}


def test_unsecured_tokens_are_taken_where_kafkas_handler_is_named():
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        INSIDE + "oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER,
        INSIDE + "oauthbearer.sasl.jaas.config": f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="broker" '
        'unsecuredValidatorRequiredScope="write read" unsecuredValidatorAllowableClockSkewMs="3000";',
        OUTSIDE + "sasl.oauthbearer.unsecured.enable": True,
    }
    rules = logins(properties).unsecured
    assert (rules.required_scope, rules.clock_skew_ms, rules.principal_claim) == ("write read", 3000, "sub")
    assert logins(properties, "OUTSIDE").unsecured.required_scope == ""


JAAS = INSIDE + "plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"sasl.jaas.config": users(ada="a")}, "say for which listener and mechanism"),
        ({INSIDE + "sasl.jaas.config": users(ada="a")}, "put the mechanism before it"),
        ({"listener.name.insde.plain.sasl.jaas.config": users(ada="a")}, "no listener has the name insde"),
        ({INSIDE + "ssl.client.outh": "required"}, "did you mean 'ssl.client.auth'"),
        ({INSIDE + "num.partitions": 3}, "unknown property of a listener"),
        ({JAAS: f"{SCRAM_MODULE} required;"}, "for PLAIN use"),
        ({JAAS: f'{PLAIN_MODULE} required usr_ada="a";'}, "options not known here: usr_ada"),
        ({JAAS: f'{PLAIN_MODULE} required user_ada="";'}, "needs a name and a password"),
        ({JAAS: f'{PLAIN_MODULE} required username="broker" password="x";'}, "every authentication would fail"),
        ({JAAS: users(ada="a")}, "PLAIN has no users.*listener.name.outside.plain.sasl.jaas.config"),
        (
            {INSIDE + "scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            "SCRAM-SHA-256 is not among the sasl.enabled.mechanisms",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "SCRAM-SHA-512 has no users"),
        (
            {INSIDE + "oauthbearer.sasl.server.callback.handler.class": "com.example.Mine"},
            "must be one of: org.apache.kafka.*OAuthBearerUnsecuredValidator",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.unsecured.enable": True,
                INSIDE + "oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required "
                'unsecuredValidatorAllowableClockSkewMs="soon";',
            },
            "the clock skew is a number",
        ),
    ],
)
def test_what_is_half_configured_or_misspelt_does_not_start(properties: dict[str, object], words: str):
    with pytest.raises(ConfigError, match=words):
        BrokerConfig.parse({**TWO, **properties})


def test_users_of_a_login_module_can_authenticate():
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users(ada="opensesame"),
    }
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ada"}
    with EmbeddedBroker(properties=properties) as broker:
        assert "opensesame" not in repr(broker.config)
        with Admin(bootstrap_servers=broker.bootstrap_servers, sasl_password="opensesame", **login) as admin:
            assert admin.list_topics() == []
        with (
            Admin(bootstrap_servers=broker.bootstrap_servers, sasl_password="wrong", **login) as admin,
            pytest.raises(AuthenticationError),
        ):
            admin.list_topics()


def test_users_of_event_hubs_can_authenticate():
    """Such a user is always called `$ConnectionString`, and has a password with signs of its own."""
    password = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=bm8gc2VjcmV0=="
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "$ConnectionString"}
    with (
        EmbeddedBroker(users={"$ConnectionString": password}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, sasl_password=password, **login) as admin,
    ):
        assert admin.list_topics() == []


def test_a_token_without_the_scope_is_refused():
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.unsecured.enable": True,
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required "
        'unsecuredValidatorRequiredScope="write";',
    }
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    with (
        EmbeddedBroker(properties=properties) as broker,
        Admin(
            bootstrap_servers=broker.bootstrap_servers,
            sasl_oauth_token_provider=lambda: unsecured_token("ada", 1_900_000_000, 3600),
            **login,
        ) as admin,
        pytest.raises(AuthenticationError, match="scope"),
    ):
        admin.list_topics()


# -- certificates --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def admin_with(broker: EmbeddedBroker, authority: trustme.CA, identity: str | None) -> Admin:
    settings = {"security_protocol": "SSL", "ssl_cadata": authority.cert_pem.bytes().decode()}
    if identity is not None:
        mine = authority.issue_cert(identity, common_name=identity, organization_name="Example")
        settings["ssl_certfile"] = mine.cert_chain_pems[0].bytes().decode()
        settings["ssl_keyfile"] = mine.private_key_pem.bytes().decode()
    return Admin(bootstrap_servers=broker.bootstrap_servers, **settings)


def mutual(authority: trustme.CA, **changes: str) -> dict[str, object]:
    """One listener with TLS, on which only the super users may create topics."""
    certificate = authority.issue_cert("127.0.0.1")
    return {
        **tls(),
        "ssl.keystore.certificate.chain": certificate.cert_chain_pems[0].bytes().decode(),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
        "ssl.truststore.certificates": authority.cert_pem.bytes().decode(),
        "ssl.client.auth": "requested",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def may_create(broker: EmbeddedBroker, authority: trustme.CA, identity: str | None) -> bool:
    with admin_with(broker, authority, identity) as admin:
        try:
            admin.create_topics([f"by-{identity}"], validate_only=True)
        except AuthorizationError:
            return False
        return True


def test_a_certificates_subject_is_the_user(authority: trustme.CA):
    properties = mutual(
        authority, super_users="User:ada;User:ANONYMOUS", ssl_principal_mapping_rules="RULE:CN=(\\w+).*/$1/"
    )
    with EmbeddedBroker(properties=properties) as broker:
        assert may_create(broker, authority, "ada")
        assert not may_create(broker, authority, "bob")
        assert may_create(broker, authority, None), "who shows no certificate is User:ANONYMOUS"


def test_without_rules_the_whole_subject_is_the_user(authority: trustme.CA):
    properties = mutual(authority, super_users="User:ada")
    with EmbeddedBroker(properties=properties) as broker:
        assert not may_create(broker, authority, "ada")
        assert not may_create(broker, authority, None)


def test_a_certificate_that_no_rule_matches_is_turned_away(authority: trustme.CA, caplog: pytest.LogCaptureFixture):
    properties = mutual(authority, ssl_principal_mapping_rules="RULE:CN=ada.*/ada/")
    with (
        EmbeddedBroker(properties=properties) as broker,
        admin_with(broker, authority, "bob") as admin,
        pytest.raises(NetworkError),
    ):
        admin.list_topics(timeout=5)
    assert "no rule of ssl.principal.mapping.rules is for the certificate of CN=bob" in caplog.text


def test_a_listener_that_requires_certificates_wants_one(authority: trustme.CA):
    with EmbeddedBroker(properties=mutual(authority, ssl_client_auth="required", super_users="User:x")) as broker:
        with admin_with(broker, authority, None) as admin, pytest.raises(NetworkError):
            admin.list_topics(timeout=5)
        with admin_with(broker, authority, "ada") as admin:
            assert admin.list_topics() == []


def test_with_sasl_ssl_certificates_are_required_by_listener_property_only(authority: trustme.CA):
    base = {
        **mutual(authority),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
    }
    open_one = BrokerConfig.parse(base, {"ada": "a"}).security.tls_of("SASL_SSL")
    closed = BrokerConfig.parse(base | {"listener.name.sasl_ssl.ssl.client.auth": "required"}, {"ada": "a"})
    assert (open_one.verify_mode, closed.security.tls_of("SASL_SSL").verify_mode) == (0, 2)


def test_keys_and_certificates_may_be_pkcs12(authority: trustme.CA, tmp_path: Path):
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

    mine = authority.issue_cert("127.0.0.1")
    key = load_pem_private_key(mine.private_key_pem.bytes(), None)
    certificate = x509.load_pem_x509_certificate(mine.cert_chain_pems[0].bytes())
    lock = BestAvailableEncryption(b"changeit")
    (tmp_path / "key.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, lock))
    (tmp_path / "trusted.p12").write_bytes(truststore(authority.cert_pem.bytes(), "changeit"))
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(tmp_path / "key.p12"),
        "ssl.keystore.password": "changeit",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(tmp_path / "trusted.p12"),
        "ssl.truststore.password": "changeit",
        "ssl.client.auth": "required",
    }
    with EmbeddedBroker(properties=properties) as broker, admin_with(broker, authority, "ada") as admin:
        assert admin.list_topics() == []
    with pytest.raises(ConfigError, match="neither PEM nor a PKCS12 store that this password opens"):
        BrokerConfig.parse(properties | {"ssl.keystore.password": "wrong"})
