"""Share groups with delivery counts, streams groups with tasks, and transactions that are open or hang."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from kafkaraw import AclBinding, AclOperation, Admin, Producer, ResourcePattern, ResourceType
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.console_server import share_states
from kafkaraw.console.share_states import _hash_of
from tests.console import filling, seen
from tests.console.running import HOSTILE_TEXTS, post, running
from tests.console.test_permissions import SECURED, login


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    at_once = {"group.streams.assignment.interval.ms": 0, "group.streams.initial.rebalance.delay.ms": 0}
    with EmbeddedBroker(properties={**filling.UNVERIFIED, **at_once}) as found:
        yield found.bootstrap_servers


@pytest.fixture(scope="module")
def client(broker: str) -> Iterator[httpx.Client]:
    with running(broker, of={"share_states": share_states}, allow_writes=True) as found:
        yield found


def test_deliveries_of_a_share_group_are_counted_and_its_offsets_reset(client: httpx.Client, broker: str) -> None:
    filling.share_group(broker, "parcels", "couriers")
    seen.deliveries_are_counted(client, "couriers")
    seen.a_share_group_is_reset(client, broker, "couriers", "parcels")


def test_a_group_that_is_no_share_group_counts_nothing(client: httpx.Client, broker: str) -> None:
    with filling.streams_group(broker, "lines", "words"):
        answer = client.get("/c/test/group/deliveries", params={"id": "words"})
        assert answer.status_code == 400 and "is no share group" in answer.text
        seen.tasks_are_shown(client, "words")


def test_java_hashes_choose_the_partition() -> None:
    """Values of String.hashCode: of "", "a", one with a negative hash, and the one whose hash has no absolute value."""
    texts = ("", "a", "orders:AAAAAAAAAAAAAAAAAAAAAQ:0", "polygenelubricants")
    assert [_hash_of(text) for text in texts] == [0, 97, _java(texts[2]), 0]


def _java(text: str) -> int:
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) % 2**32
    return abs(found - 2**32 if found >= 2**31 else found)


def test_an_open_transaction_is_shown_and_aborted(client: httpx.Client, broker: str) -> None:
    with filling.open_transaction(broker, "paid"):
        seen.an_open_transaction_is_aborted(client, "paid")


def test_a_hanging_transaction_is_found_and_aborted(client: httpx.Client, broker: str) -> None:
    producer = filling.hang(broker, "stuck")
    seen.a_hanging_transaction_is_found_and_aborted(client, broker, "stuck", producer)


def test_hanging_transactions_of_too_many_partitions_are_not_looked_for(
    client: httpx.Client, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filling.hang(broker, "many")
    monkeypatch.setattr("kafkaraw.console.transactions.PARTITIONS_MAX", 0)
    answer = client.get("/c/test/transactions", params={"hanging": "1"})
    assert answer.status_code == 400 and "give a topic" in answer.text
    page = client.get("/c/test/transactions", params={"hanging": "1", "topic": "many", "minutes": "0"}).text
    assert "1 in 1 partitions" in page


def test_hostile_transactional_ids_are_escaped(client: httpx.Client, broker: str) -> None:
    for text in HOSTILE_TEXTS:
        with Producer(bootstrap_servers=broker, transactional_id=text) as producer:
            producer.init_transactions()
        pages = [
            client.get("/c/test/transactions", params={"all": "1"}).text,
            client.get("/c/test/transactions/abort", params={"id": text}).text,
            client.get("/c/test/transactions/abort", params={"topic": text}).text,
        ]
        for page in pages:
            for part in ("<script>alert", "<img src=x", "</textarea><b>"):
                assert part not in page


def test_missing_permissions_are_named() -> None:
    with EmbeddedBroker(users={"root": "pw", "eve": "pw"}, properties=SECURED) as secured:
        servers = secured.bootstrap_servers
        settings = login(servers, "eve")
        filling_as = login(servers, "root")
        with Admin(**filling_as) as admin:
            allowed = (AclOperation.READ, AclOperation.DESCRIBE)
            patterns = (ResourcePattern(ResourceType.GROUP, "shared"), ResourcePattern(ResourceType.TOPIC, "shared"))
            admin.create_acls([AclBinding(each, "User:eve", what) for each in patterns for what in allowed])
            admin.create_topics(["shared"])
            from kafkaraw import ShareConsumer

            with ShareConsumer(**filling_as, group_id="shared") as consumer:
                consumer.subscribe(["shared"])
                consumer.poll(1)
        of = {"client": settings, "consumer": settings, "share_states": share_states}
        with running(servers, of=of, allow_writes=True) as client:
            page = client.get("/c/test/group/deliveries", params={"id": "shared"})
            assert page.status_code == 200 and "cannot be read: User:eve needs" in page.text, page.text
            assert "__share_group_state" in page.text
            answer = post(client, "/c/test/transactions/abort", id="any", confirm="any")
            assert answer.status_code == 403 and "transactional id" in answer.text.lower(), answer.text
