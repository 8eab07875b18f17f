"""SaslSettings that end, and how they are renewed on the connection (KIP-368)."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.security.sasl_authenticator import AuthenticationState, SaslAuthenticator, SaslServers
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.support import NOW_MS, FixedClock

PROPERTIES = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "sasl.oauthbearer.unsecured.enable": True,
}
USERS = {"ada": "opensesame", "bob": "sesame"}
ADA, BOB, WRONG = b"\0ada\0opensesame", b"\0bob\0sesame", b"\0ada\0wrong"
METADATA = (3, "Metadata")


def make_login(**properties: object) -> tuple[SaslAuthenticator, SimpleNamespace]:
    time = SimpleNamespace(now=100.0)
    config = BrokerConfig.parse({**PROPERTIES, **properties}, USERS)
    rng = random.Random(1)
    shared = Controller(config, MemoryStorage(), rng)
    accounts = SaslServers(config.security, FixedClock(), rng, shared.credentials, shared.tokens)
    return SaslAuthenticator(accounts, "SASL_PLAINTEXT", "127.0.0.1:1", lambda: time.now), time


def limited(**properties: object) -> tuple[SaslAuthenticator, SimpleNamespace]:
    return make_login(**{"connections.max.reauth.ms": 3000, **properties})


def shake(login: SaslAuthenticator, mechanism: str = "PLAIN", version: int = 1) -> ErrorCode | None:
    answer = login.answer(version, SaslHandshakeRequest(mechanism=mechanism))
    return None if answer is None else ErrorCode(answer.error_code)


def give(login: SaslAuthenticator, token: bytes):
    return login.answer(2, SaslAuthenticateRequest(auth_bytes=token))


def log_in(login: SaslAuthenticator, token: bytes = ADA, mechanism: str = "PLAIN"):
    assert shake(login, mechanism) == ErrorCode.NONE
    return give(login, token)


def test_a_session_has_no_lifetime_by_default():
    login, time = make_login()
    assert log_in(login).session_lifetime_ms == 0
    time.now += 1e9
    login.check_allowed(*METADATA)
    assert shake(login) is None, "there is nothing to renew: refused like any handshake after a login"


def test_the_response_has_the_session_lifetime():
    login, _ = limited()
    assert log_in(login).session_lifetime_ms == 3000
    assert login.state is AuthenticationState.COMPLETE


def test_only_the_last_response_of_several_has_the_session_lifetime():
    login, _ = limited()
    shake(login, "SCRAM-SHA-256")
    client = ScramClient("SCRAM-SHA-256", "ada", "opensesame", "nonce")
    first = give(login, client.step(None))
    last = give(login, client.step(first.auth_bytes))
    assert (first.session_lifetime_ms, last.session_lifetime_ms) == (0, 3000)


def test_a_request_after_the_end_closes_the_connection():
    login, time = limited()
    log_in(login)
    time.now += 3
    login.check_allowed(*METADATA)
    time.now += 0.001
    with pytest.raises(CloseConnectionError, match="Metadata after the session of user ada expired"):
        login.check_allowed(*METADATA)


def test_reauthentication_starts_a_new_session_lifetime():
    login, time = limited()
    log_in(login)
    for _ in range(3):
        time.now += 4
        login.check_allowed(17, "SaslHandshake")
        assert log_in(login).session_lifetime_ms == 3000
        login.check_allowed(*METADATA)
    assert login.user == "ada"


def test_while_it_is_renewed_nothing_else_may_be_asked():
    login, _ = limited()
    log_in(login)
    shake(login)
    with pytest.raises(CloseConnectionError):
        login.check_allowed(*METADATA)


def test_a_renewal_for_another_user_is_refused_in_kafkas_words():
    login, _ = limited()
    log_in(login)
    refused = log_in(login, BOB)
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    expected = "Cannot change principals during re-authentication from User.ada: User.bob"
    assert refused.error_message == expected
    assert login.state is AuthenticationState.FAILED
    assert login.user == "ada"


def test_a_renewal_by_another_mechanism_is_closed_after_its_handshake():
    login, _ = limited()
    log_in(login)
    assert shake(login, "SCRAM-SHA-256") == ErrorCode.NONE
    with pytest.raises(CloseConnectionError, match="another mechanism"):
        login.check_allowed(36, "SaslAuthenticate")


def test_a_renewal_by_a_mechanism_that_is_not_enabled_is_closed_without_an_answer():
    login, _ = limited()
    log_in(login)
    with pytest.raises(CloseConnectionError, match="'GSSAPI' is not enabled"):
        shake(login, "GSSAPI")
    assert login.state is AuthenticationState.FAILED


def test_a_renewal_with_a_wrong_password_fails():
    login, _ = limited()
    log_in(login)
    assert log_in(login, WRONG).error_message == "Authentication failed: Invalid username or password"
    assert login.state is AuthenticationState.FAILED


def test_scram_names_the_renewal_in_its_refusal():
    login, _ = limited()
    shake(login, "SCRAM-SHA-256")
    client = ScramClient("SCRAM-SHA-256", "ada", "opensesame", "nonce")
    give(login, client.step(give(login, client.step(None)).auth_bytes))
    shake(login, "SCRAM-SHA-256")
    stranger = give(login, ScramClient("SCRAM-SHA-256", "eve", "x", "nonce").step(None))
    assert stranger.error_message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_session_is_not_reauthenticated_twice_within_a_second():
    login, time = limited()
    log_in(login)
    log_in(login)
    time.now += 0.9
    assert shake(login) is None
    time.now += 0.1
    assert shake(login) == ErrorCode.NONE


def test_bare_tokens_renew_too():
    login, time = limited()
    shake(login, version=0)
    assert login.take(ADA) == b""
    time.now += 5
    shake(login, version=0)
    assert login.takes_bare_token
    with pytest.raises(AuthenticationError, match="Cannot change principals"):
        login.take(BOB)


@pytest.mark.parametrize(("reauth_ms", "lifetime_ms"), [(0, 2000), (3000, 2000), (1000, 1000)])
def test_the_expiry_of_a_token_limits_the_session(reauth_ms: int, lifetime_ms: int):
    login, time = limited(**{"connections.max.reauth.ms": reauth_ms})
    token = unsecured_token("ada", NOW_MS / 1000, 2)
    answer = log_in(login, f"n,,\x01auth=Bearer {token}\x01\x01".encode(), "OAUTHBEARER")
    assert answer.session_lifetime_ms == lifetime_ms
    time.now += lifetime_ms / 1000 + 0.001
    with pytest.raises(CloseConnectionError):
        login.check_allowed(*METADATA)
