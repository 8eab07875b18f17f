"""Delegation tokens: who may create, renew, expire and see them, their times, their logins, and where they are stored.

`tests/interop/test_token_answers.py` compares the answers with Apache Kafka's.
"""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

import pytest

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.security.delegation_tokens import TOKENS_FILE, DelegationTokens, TokenSettings
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError, ConfigError
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkaraw.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkaraw.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkaraw.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.support import NOW_MS, FixedClock, ask, make_state
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

ADA, BOB, EVE = "User:ada", "User:bob", "User:eve"
LOGIN, PLAINTEXT = "LOGIN", "PLAINTEXT"
SECRET = "a secret of the cluster"
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "delegation.token.expiry.time.ms": 1000,
    "delegation.token.max.lifetime.ms": 5000,
    "delegation.token.expiry.check.interval.ms": 10_000,
}
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,LOGIN://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.login.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
NO_CODE, EXPIRED = ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_EXPIRED


def state_with_tokens(
    storage: MemoryStorage | None = None, clock: FixedClock | None = None, **more: Any
) -> BrokerState:
    return make_state(storage, clock=clock, **{**SETTINGS, **LISTENERS, **more})


def create(state: BrokerState, principal: str = ADA, *renewers: str, owner: str | None = None, **how: Any) -> Any:
    named = [CreatableRenewers(principal_type="User", principal_name=name.removeprefix("User:")) for name in renewers]
    request = CreateDelegationTokenRequest(renewers=named, max_lifetime_ms=how.pop("lifetime_ms", -1))
    if owner is not None:
        request.owner_principal_type, _, request.owner_principal_name = owner.partition(":")
    return ask(state, request, principal=principal, **{"listener": LOGIN, **how})


def renew(state: BrokerState, hmac: bytes, principal: str = ADA, period_ms: int = -1) -> tuple[ErrorCode, int]:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = ask(state, request, principal=principal, listener=LOGIN)
    return ErrorCode(answer.error_code), answer.expiry_timestamp_ms


def expire(state: BrokerState, hmac: bytes, principal: str = ADA, period_ms: int = -1) -> tuple[ErrorCode, int]:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = ask(state, request, principal=principal, listener=LOGIN)
    return ErrorCode(answer.error_code), answer.expiry_timestamp_ms


def seen(state: BrokerState, principal: str = ADA) -> set[str]:
    answer = ask(state, DescribeDelegationTokenRequest(owners=None), principal=principal, listener=LOGIN)
    assert answer.error_code == 0
    return {token.token_id for token in answer.tokens}


def test_a_token_is_renewed_up_to_its_maximum_lifetime():
    clock = FixedClock()
    state = state_with_tokens(clock=clock)
    token = create(state)
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        NOW_MS,
        NOW_MS + 1000,
        NOW_MS + 5000,
    )
    assert create(state, lifetime_ms=400).expiry_timestamp_ms == NOW_MS + 400
    assert create(state, lifetime_ms=9000).max_timestamp_ms == NOW_MS + 5000
    clock.now_ms += 800
    assert renew(state, token.hmac, period_ms=500) == (NO_CODE, NOW_MS + 1300)
    assert renew(state, token.hmac, period_ms=9000) == (NO_CODE, NOW_MS + 1800)
    for _ in range(5):
        clock.now_ms += 800
        renew(state, token.hmac)
    assert renew(state, token.hmac) == (NO_CODE, NOW_MS + 5000)
    clock.now_ms = NOW_MS + 5001
    assert renew(state, token.hmac) == (EXPIRED, 0)


def test_an_expired_token_stays_until_the_next_check_for_expired_tokens():
    clock = FixedClock()
    state = state_with_tokens(clock=clock)
    token = create(state)
    clock.now_ms += 1001
    assert renew(state, token.hmac) == expire(state, token.hmac, period_ms=1) == (EXPIRED, 0)
    assert seen(state) == {token.token_id}
    clock.now_ms += 10_000
    assert seen(state) == set()
    assert renew(state, token.hmac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_owner_and_renewers_may_renew_and_expire_a_token_and_its_requester_may_not():
    state = state_with_tokens()
    token = create(state, BOB, EVE, owner=ADA)
    assert (token.principal_name, token.token_requester_principal_name) == ("ada", "bob")
    for act in (renew, expire):
        assert act(state, token.hmac, BOB, 10) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        assert act(state, token.hmac, EVE, 10) == act(state, token.hmac, ADA, 10) == (NO_CODE, NOW_MS + 10)
    assert expire(state, token.hmac, EVE, -1) == (NO_CODE, NOW_MS)
    assert expire(state, token.hmac, EVE, -1) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def permit(state: BrokerState, principal: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
    assert state.catalog.authorizer is not None
    acl = Acl(kind, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)
    state.change_acls(state.catalog.authorizer, add=[acl])


def test_tokens_for_another_owner_need_create_tokens():
    state = state_with_tokens(**{"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"})
    assert create(state, BOB).error_code == 0
    assert create(state, BOB, owner=ADA).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    permit(state, BOB, AclOperation.CREATE_TOKENS, ResourceType.USER, ADA)
    assert create(state, BOB, owner=ADA).error_code == create(state, "User:root", owner=ADA).error_code == 0
    assert create(state, BOB, owner=EVE).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_a_token_is_seen_by_owner_requester_renewers_and_with_either_permission():
    state = state_with_tokens(**{"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"})
    own, other = create(state, ADA, BOB), create(state, "User:root", owner=ADA)
    assert seen(state, ADA) == seen(state, "User:root") == {own.token_id, other.token_id}
    assert (seen(state, BOB), seen(state, EVE), seen(state, "User:carl")) == ({own.token_id}, set(), set())
    permit(state, EVE, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, other.token_id)
    permit(state, "User:carl", AclOperation.DESCRIBE_TOKENS, ResourceType.USER, ADA)
    assert seen(state, EVE) == {other.token_id}
    assert seen(state, "User:carl") == {own.token_id, other.token_id}


@pytest.mark.parametrize("how", [{"listener": PLAINTEXT}, {"by_token": True}], ids=str)
def test_connections_without_a_login_or_with_one_by_token_may_not_ask_for_tokens(how: dict[str, Any]):
    state = state_with_tokens()
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(state, **how).error_code == refused
    for request in (
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
        DescribeDelegationTokenRequest(owners=None),
    ):
        assert ask(state, request, principal=ADA, **{"listener": LOGIN, **how}).error_code == refused


def test_without_a_secret_key_there_are_no_tokens():
    state = state_with_tokens(**{"delegation.token.secret.key": ""})
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(state).error_code == renew(state, b"x")[0] == expire(state, b"x")[0] == disabled
    answer = ask(state, DescribeDelegationTokenRequest(owners=[]), principal=ADA, listener=LOGIN)
    assert answer.error_code == disabled


# -- logins --------------------------------------------------------------------------------------------------------


def log_in(state: BrokerState, token_id: str, hmac: bytes, *, token: bool = True) -> Any:
    server = state.sasl_servers.mechanism(LOGIN, "SCRAM-SHA-256")
    client = ScramClient("SCRAM-SHA-256", token_id, b64encode(hmac).decode(), "nonce", token=token)
    challenge: bytes | None = None
    while not client.complete:
        answer = client.step(challenge)
        if client.complete:
            break
        challenge = server.step(answer)
    return server


def test_scram_authenticates_the_owner_of_a_token_until_it_expires():
    clock = FixedClock()
    state = state_with_tokens(clock=clock)
    token = create(state, BOB, owner=ADA)
    server = log_in(state, token.token_id, token.hmac)
    assert (server.user, server.token_authenticated, server.expires_ms) == ("ada", True, NOW_MS + 1000)
    assert state.sasl_servers.lifetime_ms(LOGIN, server) == 1000
    clock.now_ms += 1500
    assert state.sasl_servers.lifetime_ms(LOGIN, log_in(state, token.token_id, token.hmac)) == 0
    expire(state, token.hmac)
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        log_in(state, token.token_id, token.hmac)


@pytest.mark.parametrize("how", ["wrong HMAC", "no such token", "not as a token"])
def test_scram_refuses_what_is_no_token_in_the_words_for_a_wrong_password(how: str):
    state = state_with_tokens()
    token = create(state)
    token_id = "nobody" if how == "no such token" else token.token_id
    hmac = b"wrong" if how == "wrong HMAC" else token.hmac
    with pytest.raises(AuthenticationError, match="due to invalid credentials with SASL mechanism SCRAM-SHA-256"):
        log_in(state, token_id, hmac, token=how != "not as a token")


# -- storage -------------------------------------------------------------------------------------------------------


def test_tokens_outlive_the_broker_and_their_secrets_are_not_stored():
    storage = MemoryStorage()
    state = state_with_tokens(storage)
    token, ended = create(state, ADA, BOB), create(state)
    expire(state, ended.hmac)
    state.close()
    text = storage.read_text(ROOT, TOKENS_FILE)
    assert text is not None
    assert token.token_id in text
    for secret in (SECRET, token.hmac.hex(), b64encode(token.hmac).decode()):
        assert secret not in text + repr(state.controller.tokens) + repr(state.config.tokens)
    again = state_with_tokens(storage)
    assert seen(again) == {token.token_id}
    assert log_in(again, token.token_id, token.hmac).user == "ada"
    assert renew(again, token.hmac, BOB)[0] == NO_CODE
    again.close()
    with_another_key = state_with_tokens(storage, **{"delegation.token.secret.key": "another"})
    with pytest.raises(AuthenticationError):
        log_in(with_another_key, token.token_id, token.hmac)


def test_a_token_that_cannot_be_stored_is_not_created():
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    rng = random.Random(1)
    tokens = DelegationTokens(TokenSettings(SECRET, 10, 10, 10), lambda: "id", lambda: rng.randbytes(9), full)
    with pytest.raises(ApiError) as refused:
        tokens.create(ADA, ADA, [], -1, NOW_MS)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert tokens.all(NOW_MS) == []


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1, "tokens": [{"owner": "ada"}]}', '{"version": 7}'])
def test_a_damaged_file_is_named(text: str):
    storage = MemoryStorage()
    storage.write_text(ROOT, TOKENS_FILE, text)
    with pytest.raises(ConfigError, match=TOKENS_FILE):
        state_with_tokens(storage)


def test_all_nodes_of_a_cluster_share_tokens_and_the_next_cluster_has_them():
    async def play(nodes: VirtualNodes) -> None:
        first, last = nodes.cluster.nodes[0].state, nodes.cluster.nodes[2].state
        token = first.controller.tokens.create(ADA, ADA, [], -1, nodes.simulation.clock.time_ms())
        hmac = first.controller.tokens.hmac_of(token.token_id)
        now_ms = nodes.simulation.clock.time_ms()
        login = last.controller.tokens.login("SCRAM-SHA-256", token.token_id, now_ms)
        assert login is not None
        assert login.user == "ada"
        await nodes.cluster.stop()
        again = nodes.new_cluster()
        await again.start()
        assert again.nodes[1].state.controller.tokens.renew(hmac, ADA, 10, now_ms) == now_ms + 10
        await again.stop()

    on_nodes(play, **SETTINGS)
