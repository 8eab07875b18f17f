"""SCRAM credentials that clients set, remove and ask about, in Kafka's words."""

from __future__ import annotations

import dataclasses

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.security.scram_credentials import SCRAM_FILE, ScramCredentials
from kafkaraw.core.sasl.scram import make_credential, salted_password
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaraw.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.support import ask, make_state
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

SHA_256, SHA_512 = 1, 2
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


def upsert(
    user: str, password: str = "opensesame", mechanism: int = SHA_256, iterations: int = 4096, **changes: object
):
    salt = b"salt of " + user.encode()
    salted = salted_password(NAMES.get(mechanism, NAMES[SHA_256]), password, salt, max(1, iterations))
    made = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    return dataclasses.replace(made, **changes)


def delete(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(state, *changes) -> dict[str, tuple[ErrorCode, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    results = ask(state, request).results
    assert len({result.user for result in results}) == len(results)
    return {result.user: (ErrorCode(result.error_code), result.error_message) for result in results}


def describe(state, *users: str) -> dict[str, object]:
    answer = ask(state, DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None))
    assert answer.error_code == 0
    return {
        result.user: {info.mechanism: info.iterations for info in result.credential_infos}
        if result.error_code == 0
        else (ErrorCode(result.error_code), result.error_message)
        for result in answer.results
    }


DONE = (ErrorCode.NONE, None)


def test_what_is_set_is_what_a_password_gives():
    state = make_state()
    assert alter(state, upsert("ada", "opensesame", SHA_512, 5000)) == {"ada": DONE}
    found = state.sasl_servers.credentials.find("SCRAM-SHA-512", "ada")
    assert found == make_credential("SCRAM-SHA-512", "opensesame", b"salt of ada", 5000)
    assert state.sasl_servers.credentials.find("SCRAM-SHA-256", "ada") is None


def test_credentials_outlive_the_broker():
    storage = MemoryStorage()
    state = make_state(storage)
    alter(state, upsert("ada"), upsert("bob"))
    alter(state, delete("bob"))
    state.close()
    again = make_state(storage)
    assert describe(again) == {"ada": {SHA_256: 4096}}
    assert again.sasl_servers.credentials.find("SCRAM-SHA-256", "ada") is not None


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (upsert("ada", iterations=4095), (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")),
        (upsert("ada", iterations=16_385), (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")),
        (upsert(""), (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")),
        (upsert("ada", mechanism=0), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        (delete("ada", mechanism=9), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        (
            delete("ada"),
            (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        ),
    ],
)
def test_a_bad_change_is_refused_and_the_others_are_made(change, refusal):
    state = make_state()
    assert alter(state, change, upsert("bob", iterations=16_384)) == {change.name: refusal, "bob": DONE}
    assert describe(state) == {"bob": {SHA_256: 16_384}}


def test_a_user_can_be_changed_once_in_a_request_only():
    state = make_state()
    alter(state, upsert("ada"))
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    assert alter(state, upsert("bob"), upsert("bob", mechanism=SHA_512)) == {"bob": twice}
    assert alter(state, delete("ada"), upsert("ada")) == {"ada": twice}
    assert describe(state) == {"ada": {SHA_256: 4096}}


def test_describe_returns_all_users_or_those_in_the_request():
    state = make_state()
    alter(state, upsert("ada"), upsert("bob", iterations=8192))
    alter(state, upsert("ada", mechanism=SHA_512))
    assert describe(state) == {"ada": {SHA_256: 4096, SHA_512: 4096}, "bob": {SHA_256: 8192}}
    assert describe(state, "bob") == {"bob": {SHA_256: 8192}}
    assert describe(state, "eve", "bob", "bob") == {
        "eve": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: eve"),
        "bob": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
        ),
    }


def test_a_user_given_at_the_start_can_be_changed_and_removed():
    given = ScramCredentials({"ada": "first"}, ["PLAIN", "SCRAM-SHA-256"], lambda: b"s", lambda text: None)
    assert given.find("SCRAM-SHA-256", "ada") == make_credential("SCRAM-SHA-256", "first", b"s")
    given.alter([], [upsert("ada", "second", salt=b"s")])
    assert given.find("SCRAM-SHA-256", "ada") != make_credential("SCRAM-SHA-256", "first", b"s")
    given.alter([delete("ada")], [])
    assert given.find("SCRAM-SHA-256", "ada") is None


def test_what_cannot_be_written_down_does_not_count():
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    credentials = ScramCredentials({}, [], lambda: b"s", full)
    (outcome,) = credentials.alter([], [upsert("ada")])
    assert outcome.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert credentials.find("SCRAM-SHA-256", "ada") is None


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1, "credentials": [{"user": "ada"}]}', '{"version": 7}'])
def test_a_damaged_file_is_named(text: str):
    storage = MemoryStorage()
    storage.write_text("", SCRAM_FILE, text)
    with pytest.raises(ConfigError, match=SCRAM_FILE):
        make_state(storage)


def test_neither_repr_nor_file_shows_a_salted_password():
    change = upsert("ada")
    assert repr(bytes(change.salted_password)) not in repr(change)
    saved: list[str] = []
    credentials = ScramCredentials({"bob": "opensesame"}, ["SCRAM-SHA-256"], lambda: b"s", saved.append)
    credentials.alter([], [change])
    assert change.salted_password.hex() not in saved[0]
    assert "opensesame" not in repr(credentials) + saved[0]


def test_all_nodes_of_a_cluster_know_a_credential_and_so_does_the_next_cluster():
    async def play(nodes: VirtualNodes) -> None:
        alter(nodes.cluster.nodes[0].state, upsert("ada"))
        assert describe(nodes.cluster.nodes[2].state) == {"ada": {SHA_256: 4096}}
        alter(nodes.cluster.nodes[2].state, upsert("bob"))
        await nodes.cluster.stop()
        again = nodes.new_cluster()
        await again.start()
        assert set(describe(again.nodes[1].state)) == {"ada", "bob"}
        await again.stop()

    on_nodes(play)
