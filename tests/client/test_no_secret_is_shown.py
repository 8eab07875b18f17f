"""Logs, errors and reprs of a whole session are searched for its passwords."""

from __future__ import annotations

import base64
import logging

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import make_credential
from kafkaraw.errors import AuthenticationError
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

RIGHT, WRONG = "Tr0ub4dor-and-3", "correct-horse-battery"


def shown_forms(secret: str) -> list[str]:
    """How it would look in a log: as text, in hex, in base64 (whatever stands before it)."""
    encoded = [base64.b64encode(b"\0" * pad + secret.encode()).decode()[4:-4] for pad in range(3)]
    return [secret, secret.encode().hex(), *encoded]


def assert_hidden(text: str) -> None:
    for form in (*shown_forms(RIGHT), *shown_forms(WRONG)):
        assert form not in text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_neither_logs_nor_errors_show_a_password(mechanism: str, caplog: pytest.LogCaptureFixture):
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": "ada"}
    with caplog.at_level(logging.DEBUG), EmbeddedBroker(users={"ada": RIGHT}) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, sasl_password=RIGHT, **settings) as producer:
            producer.send("t", b"x").result(10)
            assert_hidden(repr(producer))
        with pytest.raises(AuthenticationError) as refused:
            Admin(bootstrap_servers=servers, sasl_password=WRONG, **settings).list_topics()
        assert_hidden(repr(broker.config))
    assert "COMPLETE" in caplog.text
    assert "FAILED" in caplog.text
    error: BaseException | None = refused.value
    while error is not None:
        assert_hidden(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert_hidden(caplog.text)


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
