"""Client quotas through the admin client, against a real broker on virtual time."""

from __future__ import annotations

import pytest

from kafkaraw.client.admin import QuotaEntity, QuotaName
from kafkaraw.errors import BrokerError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.client.virtual_cluster import VirtualCluster, on_cluster

ADA = QuotaEntity(user="ada")
ADA_APP = QuotaEntity(user="ada", client_id="app")
EVERY_CLIENT = QuotaEntity(client_id=QuotaName.DEFAULT)
ADDRESS = QuotaEntity(ip="10.0.0.1")


def test_what_is_set_is_described_and_removed():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            quotas = {
                ADA: {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
                ADA_APP: {"consumer_byte_rate": 2048.0},
                EVERY_CLIENT: {"controller_mutation_rate": 5.0},
                ADDRESS: {"connection_creation_rate": 10.0},
            }
            await admin.alter_client_quotas(quotas)
            assert await admin.describe_client_quotas() == quotas
            await admin.alter_client_quotas({ADA: {"request_percentage": None, "consumer_byte_rate": 7}})
            expected = {"producer_byte_rate": 1024.0, "consumer_byte_rate": 7.0}
            assert await admin.describe_client_quotas(ADA, strict=True) == {ADA: expected}

    on_cluster(play)


@pytest.mark.parametrize(
    ("matching", "strict", "found"),
    [
        (None, False, {ADA, ADA_APP, EVERY_CLIENT, ADDRESS}),
        (ADA, False, {ADA, ADA_APP}),
        (ADA, True, {ADA}),
        (QuotaEntity(client_id=QuotaName.ANY), False, {ADA_APP, EVERY_CLIENT}),
        (QuotaEntity(client_id=QuotaName.DEFAULT), False, {EVERY_CLIENT}),
        (QuotaEntity(ip=QuotaName.ANY), False, {ADDRESS}),
    ],
)
def test_a_filter_picks_entities(matching: QuotaEntity | None, strict: bool, found: set[QuotaEntity]):
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            rate = {"producer_byte_rate": 1}
            connections = {"connection_creation_rate": 1}
            await admin.alter_client_quotas({ADA: rate, ADA_APP: rate, EVERY_CLIENT: rate, ADDRESS: connections})
            assert set(await admin.describe_client_quotas(matching, strict=strict)) == found

    on_cluster(play)


def test_every_refused_entity_is_named_and_the_others_are_done():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match=r"user='ada'.*must be greater than 0.*ip='10.0.0.1'") as refused:
                await admin.alter_client_quotas(
                    {
                        ADA: {"producer_byte_rate": 0},
                        ADDRESS: {"producer_byte_rate": 1},
                        EVERY_CLIENT: {"producer_byte_rate": 1},
                    }
                )
            assert refused.value.code == ErrorCode.INVALID_REQUEST
            assert set(await admin.describe_client_quotas()) == {EVERY_CLIENT}

    on_cluster(play)


def test_a_filter_that_the_broker_does_not_take_is_an_error():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match="IP filter component"):
                await admin.describe_client_quotas(QuotaEntity(user="ada", ip="10.0.0.1"))

    on_cluster(play)


def test_quotas_are_not_set_for_any_name():
    async def play(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(UsageError, match="for a name"):
                await admin.alter_client_quotas({QuotaEntity(user=QuotaName.ANY): {"producer_byte_rate": 1}})
            await admin.alter_client_quotas({ADA: {"producer_byte_rate": 1}}, validate_only=True)
            assert await admin.describe_client_quotas() == {}

    on_cluster(play)
