"""SCRAM credentials through the admin client, against a real broker on virtual time."""

from __future__ import annotations

import pytest

from kafkaraw.client.admin import ScramPassword, ScramRemoval
from kafkaraw.core.sasl.scram import make_credential
from kafkaraw.errors import BrokerError, UsageError
from kafkaraw.protocol import decode_request
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.client.virtual_cluster import VirtualCluster, on_cluster

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def sent(cluster: VirtualCluster) -> list[AlterUserScramCredentialsRequest]:
    messages = [decode_request(memoryview(one.data)[4:])[1] for one in cluster.network.history if one.by == "client"]
    return [message for message in messages if isinstance(message, AlterUserScramCredentialsRequest)]


def test_what_is_set_is_found_described_and_removed():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            await admin.alter_user_scram_credentials(
                [ScramPassword("ada", SHA_256, "opensesame"), ScramPassword("bob", SHA_512, "sesame", 8192)]
            )
            every = {"ada": {SHA_256: 4096}, "bob": {SHA_512: 8192}}
            assert await admin.describe_user_scram_credentials() == every
            assert await admin.describe_user_scram_credentials(["bob"]) == {"bob": {SHA_512: 8192}}
            assert await admin.describe_user_scram_credentials([]) == {}
            await admin.alter_user_scram_credentials([ScramRemoval("ada", SHA_256)])
            assert list(await admin.describe_user_scram_credentials()) == ["bob"]

    on_cluster(play)


def test_the_password_is_hashed_with_a_fresh_salt_and_never_sent():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            for user in ("ada", "bob"):
                await admin.alter_user_scram_credentials([ScramPassword(user, SHA_256, "opensesame")])
        salts = {bytes(request.upsertions[0].salt) for request in sent(cluster)}
        assert len(salts) == 2
        assert all(len(salt) == 24 for salt in salts)
        assert not any(b"opensesame" in one.data for one in cluster.network.history)
        found = cluster.node.state.sasl_servers.credentials.find(SHA_256, "ada")
        assert found == make_credential(SHA_256, "opensesame", found.salt)

    on_cluster(play)


def test_every_refused_user_is_named_and_the_others_are_done():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match="'ada': Too few iterations") as refused:
                await admin.alter_user_scram_credentials(
                    [
                        ScramPassword("ada", SHA_256, "opensesame", 100),
                        ScramPassword("bob", SHA_256, "sesame"),
                        ScramRemoval("eve", SHA_256),
                    ]
                )
            assert "'eve': Attempt to delete" in str(refused.value)
            assert refused.value.code in (ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.RESOURCE_NOT_FOUND)
            assert list(await admin.describe_user_scram_credentials()) == ["bob"]

    on_cluster(play)


def test_two_changes_for_a_user_are_left_to_the_broker_to_refuse():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError) as refused:
                await admin.alter_user_scram_credentials(
                    [ScramPassword("ada", SHA_256, "a"), ScramPassword("ada", SHA_512, "a")]
                )
            assert refused.value.code == ErrorCode.DUPLICATE_RESOURCE

    on_cluster(play)


def test_asking_about_a_stranger_is_an_error():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match="'eve'") as refused:
                await admin.describe_user_scram_credentials(["eve"])
            assert refused.value.code == ErrorCode.RESOURCE_NOT_FOUND

    on_cluster(play)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (ScramPassword("ada", "PLAIN", "x"), "not a SCRAM mechanism"),
        (ScramRemoval("ada", "SHA"), "not a SCRAM mechanism"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(change, words: str):
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(UsageError, match=words):
                await admin.alter_user_scram_credentials([change])
        assert cluster.network.history == []

    on_cluster(play)


def test_repr_does_not_show_the_password():
    assert "opensesame" not in repr(ScramPassword("ada", SHA_256, "opensesame"))
