"""Logs, errors and reprs of a whole session are searched for its passwords."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import time
import traceback

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Producer
from kafkaraw.broker import BrokerConfig, EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import make_credential
from kafkaraw.errors import AuthenticationError, ConfigError
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

RIGHT, WRONG = "Tr0ub4dor-and-3", "correct-horse-battery"


def shown_forms(secret: str) -> list[str]:
    """How it would look in a log: as text, in hex, in base64 (whatever stands before it)."""
    encoded = [base64.b64encode(b"\0" * pad + secret.encode()).decode()[4:-4] for pad in range(3)]
    return [secret, secret.encode().hex(), *encoded]


def assert_hidden(text: str) -> None:
    for form in (*shown_forms(RIGHT), *shown_forms(WRONG)):
        assert form not in text


def login_settings(mechanism: str, secret: str) -> dict[str, object]:
    settings: dict[str, object] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": lambda: token(secret)}
    return settings | {"sasl_username": "ada", "sasl_password": secret}


def token(secret: str) -> str:
    """An unsigned token with the secret in its claims; one that has expired when the secret is the wrong one."""
    now_s = int(time.time())
    claims = {"sub": "ada", "iat": now_s - 60, "exp": now_s + (3600 if secret == RIGHT else -30), "jti": secret}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])


def broker_for(mechanism: str) -> EmbeddedBroker:
    if mechanism == "OAUTHBEARER":
        properties = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": mechanism,
            "sasl.oauthbearer.unsecured.enable": "true",
        }
        return EmbeddedBroker(properties=properties)
    return EmbeddedBroker(users={"ada": RIGHT})


@pytest.mark.parametrize("wire_log", [False, True])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_logs_errors_reprs_and_metrics_of_a_session_show_no_secret(
    mechanism: str, wire_log: bool, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG if wire_log else logging.WARNING, "kafkaraw.wire")
    caplog.set_level(logging.DEBUG)
    with broker_for(mechanism) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, **login_settings(mechanism, RIGHT)) as producer:
            producer.send("t", b"x").result(10)
            assert_hidden(f"{producer!r} {vars(producer)!r} {producer.metrics()!r}")
        with pytest.raises(AuthenticationError) as refused:
            Admin(bootstrap_servers=servers, **login_settings(mechanism, WRONG)).list_topics()
        assert_hidden(repr(broker.config))
    assert "COMPLETE" in caplog.text
    assert "FAILED" in caplog.text
    assert ("SaslAuthenticate" in caplog.text) is wire_log
    assert_hidden("".join(traceback.format_exception(refused.value)))
    assert_hidden(caplog.text)


@pytest.mark.parametrize("secret", [RIGHT, WRONG])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_doctor_tells_no_secret(mechanism: str, secret: str, form: list[str]):
    with broker_for(mechanism) as broker:
        given = {**login_settings(mechanism, secret), "sasl_username": "ada"}
        options = [word for name, value in given.items() for word in ("-X", f"{name}={value}")]
        result = CliRunner().invoke(main, ["doctor", "-b", broker.bootstrap_servers, *options, *form])
    assert result.exit_code == (0 if secret == RIGHT else 13), result.output
    assert_hidden(result.output)


@pytest.mark.parametrize("kind", [ProducerConfig, ConsumerConfig, AdminConfig])
def test_no_configuration_shows_what_is_secret_in_it(kind: type[ClientConfig]):
    """Settings that sound as if they held a secret are all declared as secret, and a wrong one is not shown either."""
    suspicious = ("password", "secret", "keyfile", "jaas")
    for it in dataclasses.fields(kind):
        if any(word in it.name for word in suspicious):
            assert not it.repr, it.name
            with pytest.raises(ConfigError) as refused:
                parse(kind, {"bootstrap_servers": "b:1", it.name: [RIGHT]})
            assert_hidden(str(refused.value))


def test_a_java_configuration_that_is_refused_shows_no_secret():
    for text in (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="{RIGHT}',
        f'com.example.Unknown required password="{RIGHT}";',
    ):
        with pytest.raises(ConfigError) as refused:
            Admin.from_properties({"bootstrap.servers": "b:1", "sasl.jaas.config": text})
        assert_hidden("".join(traceback.format_exception(refused.value)))


def test_a_broker_that_does_not_start_shows_no_secret():
    for properties in (
        {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "NONE"},
        {"listeners": "PLAINTEXT://127.0.0.1:0"},
        {"listeners": "SSL://127.0.0.1:0", "ssl.key.password": RIGHT, "ssl.keystore.key": WRONG},
    ):
        with pytest.raises(ConfigError) as refused:
            BrokerConfig.parse(properties, {"ada": RIGHT})
        assert_hidden("".join(traceback.format_exception(refused.value)))


def test_reprs_show_no_secret():
    config = parse(
        ProducerConfig,
        {
            "bootstrap_servers": "b:1",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "ada",
            "sasl_password": RIGHT,
            "ssl_certfile": WRONG,
            "ssl_keyfile": WRONG,
            "ssl_password": WRONG,
        },
    )
    token = PlainClient("ada", RIGHT).step(None)
    shown = [
        config,
        PlainClient("ada", RIGHT),
        OAuthBearerClient(RIGHT),
        make_credential("SCRAM-SHA-256", RIGHT, RIGHT.encode()),
        SaslAuthenticateRequest(auth_bytes=token),
        SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=token),
    ]
    assert_hidden(" ".join(map(repr, shown)))
    assert "ada" in repr(config)
