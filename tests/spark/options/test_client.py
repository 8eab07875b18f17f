"""Options `kafka.*` are the client's settings, and messages name them as the user wrote them."""

from __future__ import annotations

import ssl

import pytest
import trustme

from kafkaraw.errors import ConfigError
from kafkaraw.net import tls
from kafkaraw.net.tls import client_context
from kafkaraw.spark.options.parsing import parse_options
from tests.spark.options.parsed import error_of, parse


def test_client_settings_are_named_as_in_java():
    options = parse(kafka__linger__ms="7", kafka__compression__type="zstd", kafka__fetch__max__bytes="1000000")
    assert (
        options.client.items() >= {"linger_ms": "7", "compression_type": "zstd", "fetch_max_bytes": "1000000"}.items()
    )


def test_client_settings_are_translated_from_java_names():
    options = parse_options(
        {
            "subscribe": "t",
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="ada" password="s3cret";',
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.metrics.num.samples": "3",
        }
    )
    assert options.client == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "ada",
        "sasl_password": "s3cret",
        "ssl_check_hostname": "false",
    }


def test_the_brokers_must_be_named():
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_options({"subscribe": "t"})


def test_incomplete_credentials_and_java_classes_are_refused():
    servers = {"subscribe": "t", "kafka.bootstrap.servers": "a:1"}
    with pytest.raises(ConfigError, match=r"kafka.sasl.mechanism='PLAIN' needs username in kafka.sasl.jaas.config and"):
        parse_options(servers | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"})
    with pytest.raises(ConfigError, match=r"^kafka.partitioner.class is not accepted .* have a column `partition`"):
        parse_options(servers | {"kafka.partitioner.class": "com.example.Mine"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl.jaas.config": "x"}, "kafka.sasl.jaas.config: is not of the form"),
        (
            {"sasl.jaas.config": "x.ScramLoginModule required;", "sasl.mechanism": "PLAIN"},
            "kafka.sasl.jaas.config: ScramLoginModule is for SCRAM-SHA-256 and SCRAM-SHA-512, but kafka.sasl.mechanism",
        ),
        (
            {"sasl.jaas.config": 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";'},
            "kafka.sasl.jaas.config: unsigned tokens",
        ),
        ({"ssl.endpoint.identification.algorithm": "no"}, "kafka.ssl.endpoint.identification.algorithm='no': must be"),
        ({"ssl.truststore.location": "none.p12"}, "kafka.ssl.truststore.location: none.p12: No such file"),
        ({"ssl.keystore.key": "x"}, "kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key belong together"),
        ({"ssl.protocol": "SSLv3"}, "kafka.ssl.protocol is not accepted with this value: TLS is Python's own"),
        (
            {"sasl.login.callback.handler.class": "Mine"},
            "kafka.sasl.login.callback.handler.class is not accepted with this value: kafka.sasl.oauthbearer.token",
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"},
            "kafka.sasl.mechanism='OAUTHBEARER' needs kafka.sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_refused_java_settings_are_reported_with_an_alternative(options, message):
    said = error_of({f"kafka.{name}": text for name, text in options.items()})
    assert said.startswith(message)
    assert "function" not in said
    assert "ssl_context" not in said


def test_conflicting_settings_are_reported_with_the_names_of_the_user(tmp_path):
    store = tmp_path / "ca.pem"
    store.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(
        ConfigError, match=r"^kafka.ssl.truststore.location: no effect with kafka.security.protocol='PLA"
    ):
        parse(subscribe="t", kafka__ssl__truststore__location=str(store))
    with pytest.raises(ConfigError, match=r"^kafka.ssl.truststore.location: the trusted certificates cannot be used: "):
        parse(subscribe="t", kafka__ssl__truststore__location=str(store), kafka__security__protocol="SSL")
    with pytest.raises(ConfigError, match=r"^kafka.retry.backoff.max.ms=1 must be at least kafka.retry.backoff.ms=100"):
        parse(subscribe="t", kafka__retry__backoff__max__ms="1")


def test_tasks_receive_the_content_of_a_store_not_its_path(tmp_path):
    authority = trustme.CA()
    trusted, mine = tmp_path / "ca.pem", tmp_path / "me.pem"
    trusted.write_bytes(authority.cert_pem.bytes())
    mine.write_bytes(authority.issue_cert("ada@example.org").private_key_and_cert_chain_pem.bytes())
    stores = {"kafka__ssl__truststore__location": str(trusted), "kafka__ssl__keystore__location": str(mine)}
    client = parse(subscribe="t", kafka__security__protocol="SSL", **stores).client
    assert (client["ssl_cadata"], client["ssl_certfile"]) == (trusted.read_text(), mine.read_text())
    assert not any(str(tmp_path) in text for text in client.values())


def test_certificates_are_loaded_once_for_all_kinds_of_clients(tmp_path, monkeypatch):
    store = tmp_path / "ca.pem"
    store.write_bytes(trustme.CA().cert_pem.bytes())
    loaded: list[object] = []

    def load(**given: object) -> ssl.SSLContext:
        loaded.append(given)
        return client_context(**given)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(tls, "client_context", load)
    parse(subscribe="t", kafka__ssl__truststore__location=str(store), kafka__security__protocol="SSL")
    assert len(loaded) == 1
