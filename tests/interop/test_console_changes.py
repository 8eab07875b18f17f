"""Changes in the console on both brokers: ACLs, users, quotas, share groups, transactions."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from kafkaraw import Admin, QuotaEntity
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.console_server import share_states
from tests.console import filling, seen
from tests.console.running import post, running
from tests.console.test_permissions import ACL
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka, why_missing
from tests.waiting import wait_until

WAIT_S = 40
OF_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    **filling.UNVERIFIED,
}


@pytest.fixture(scope="module", params=["Apache Kafka", "kafkaraw"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Brokers with an authorizer that take transactional batches without asking their coordinator."""
    if request.param == "kafkaraw":
        with EmbeddedBroker(properties=OF_ALL) as broker:
            yield broker.bootstrap_servers
        return
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(tmp_path_factory.mktemp("apache"), {**SINGLE_NODE, **OF_ALL}) as apache:
        yield apache.bootstrap_servers


@pytest.fixture(scope="module")
def client(servers: str) -> Iterator[httpx.Client]:
    with running(servers, of={"share_states": share_states}, allow_writes=True) as console:
        yield console


def shows(client: httpx.Client, *texts: str) -> bool:
    page = client.get("/c/test/permissions").text
    return all(text in page for text in texts)


def test_acls_are_created_and_deleted(client: httpx.Client, servers: str) -> None:
    assert post(client, "/c/test/permissions/acl", **ACL, operation_READ="1", operation_WRITE="1").status_code == 303
    assert wait_until(lambda: shows(client, "2 ACLs", "User:ada", "orders…"), WAIT_S)
    one = {**ACL, "operation": "READ", "host": "*"}
    assert post(client, "/c/test/permissions/acl/delete", **one, confirm="User:ada").status_code == 303
    with Admin(bootstrap_servers=servers) as admin:
        assert wait_until(lambda: [each.operation.name for each in admin.describe_acls()] == ["WRITE"], WAIT_S)


def test_users_are_created_and_deleted(client: httpx.Client) -> None:
    given = {"user": "ada", "password": "secret", "again": "secret", "mechanism": "SCRAM-SHA-256"}
    assert post(client, "/c/test/permissions/user", **given).status_code == 303
    assert wait_until(lambda: shows(client, "SCRAM-SHA-256 (4,096 iterations)"), WAIT_S)
    other = {**given, "mechanism": "SCRAM-SHA-512", "replace": "1", "iterations": "8192"}
    assert post(client, "/c/test/permissions/user", **other).status_code == 303
    assert wait_until(lambda: shows(client, "SCRAM-SHA-512 (8,192 iterations)"), WAIT_S)
    assert post(client, "/c/test/permissions/user/delete", user="ada", confirm="ada").status_code == 303
    assert wait_until(lambda: shows(client, "No user."), WAIT_S)


def test_quotas_are_set_and_removed(client: httpx.Client, servers: str) -> None:
    of, entity = {"user": "ada", "client-id": "etl"}, QuotaEntity("ada", "etl")
    with Admin(bootstrap_servers=servers) as admin:
        both = {"quota_producer_byte_rate": "1000", "quota_request_percentage": "12.5"}
        assert post(client, "/c/test/permissions/quota", **of, **both).status_code == 303
        wanted = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
        assert wait_until(lambda: admin.describe_client_quotas().get(entity) == wanted, WAIT_S)
        assert post(client, "/c/test/permissions/quota", **of, quota_request_percentage="5").status_code == 303
        assert wait_until(lambda: admin.describe_client_quotas().get(entity) == {"request_percentage": 5.0}, WAIT_S)
        name = "user ada, client-id etl"
        assert post(client, "/c/test/permissions/quota/delete", **of, confirm=name).status_code == 303
        assert wait_until(lambda: entity not in admin.describe_client_quotas(), WAIT_S)


def test_deliveries_of_a_share_group_are_counted_and_its_offsets_reset(client: httpx.Client, servers: str) -> None:
    filling.share_group(servers, "parcels", "couriers")
    seen.deliveries_are_counted(client, "couriers")
    seen.a_share_group_is_reset(client, servers, "couriers", "parcels")


def test_tasks_of_a_streams_group_are_shown(client: httpx.Client, servers: str) -> None:
    with filling.streams_group(servers, "lines", "words"):
        seen.tasks_are_shown(client, "words")


def test_an_open_transaction_is_shown_and_aborted(client: httpx.Client, servers: str) -> None:
    with filling.open_transaction(servers, "paid"):
        seen.an_open_transaction_is_aborted(client, "paid")


def test_a_hanging_transaction_is_found_and_aborted(client: httpx.Client, servers: str) -> None:
    producer = filling.hang(servers, "stuck")
    seen.a_hanging_transaction_is_found_and_aborted(client, servers, "stuck", producer)
