"""Members of a group are replaced one after the other while records keep coming: every record is read, and committed.

On Apache Kafka and on our broker: from one group protocol to the other and back, with other clients among the members;
by 200 restarts; with members that die, and brokers that do. Members are processes, so all of this is for the long
runs; `tests/client/groups/test_group_changes.py` has the short form on virtual time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kafkaraw import Admin, GroupType
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka, free_ports, why_missing
from tests.interop.fleet import Fleet, Load

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PARTITIONS = 6
MODERN = "KIP-848"
LIKE_APACHES = {name: value for name, value in SINGLE_NODE.items() if name.startswith("group.")}
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
RESTARTS = 200


class Broker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...

    def restart(self, *, kill: bool) -> None: ...


class OurBroker:
    """Our broker in a process of its own, with data on disk."""

    def __init__(self, data_dir: Path) -> None:
        (port,) = free_ports(1)
        self.broker = EmbeddedBroker(port, data_dir, process=True, properties=LIKE_APACHES | AT_ONCE)
        self.broker.start()
        self.bootstrap_servers = self.broker.bootstrap_servers

    def restart(self, *, kill: bool) -> None:
        (self.broker.kill if kill else self.broker.stop)()
        self.broker.start()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurBroker]:
    made = OurBroker(tmp_path)
    yield made
    made.broker.stop()


@pytest.fixture
def apaches() -> Iterator[ApacheKafka]:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(properties=AT_ONCE) as kafka:
        yield kafka


@pytest.fixture(params=["our broker", "Apache Kafka"])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue("ours" if request.param == "our broker" else "apaches")
    return found


def type_of(servers: str, group: str) -> GroupType:
    with Admin(bootstrap_servers=servers) as admin:
        return admin.describe_groups([group])[group].group_type


def change_over(broker: Broker, clients: list[str], strategy: str) -> None:
    """All members go to the new protocol, one by one, and back."""
    servers, topic = broker.bootstrap_servers, f"roll-{uuid.uuid4().hex[:12]}"
    with Fleet(servers, topic, PARTITIONS) as fleet, Load(servers, topic, PARTITIONS) as load:
        for place, client in enumerate(clients):
            fleet.put(place, client, strategy)
        fleet.settle()
        assert type_of(servers, topic) is GroupType.CLASSIC
        for there, kind in ((MODERN, GroupType.CONSUMER), (strategy, GroupType.CLASSIC)):
            for place, client in enumerate(clients):
                fleet.remove(place)
                fleet.put(place, client, there)
                fleet.settle()
            assert type_of(servers, topic) is kind
        load.stop()
        fleet.read_everything()
        if set(clients) == {"ours"}:  # Java gives out records of partitions that it gives up, after its commit
            twice = fleet.read_twice()
            assert not twice, f"read twice, though nobody died: {twice}"


def roll(broker: Broker, strategy: str, restarts: int, *, deaths_every: int, broker_dies_at: int = -1) -> None:
    """Members restart one after the other."""
    servers, topic = broker.bootstrap_servers, f"roll-{uuid.uuid4().hex[:12]}"
    with Fleet(servers, topic, PARTITIONS) as fleet, Load(servers, topic, PARTITIONS) as load:
        for place in range(3):
            fleet.put(place, "ours", strategy)
        fleet.settle()
        for number in range(restarts):
            dies = deaths_every > 0 and number % deaths_every == deaths_every - 1
            fleet.remove(number % 3, kill=dies)
            if number == broker_dies_at:
                broker.restart(kill=True)
            fleet.put(number % 3, "ours", strategy)
            fleet.settle()
        load.stop()
        print(f"{restarts} restarts, {fleet.read_everything()} records read and committed")
        if deaths_every == 0 and broker_dies_at < 0:
            twice = fleet.read_twice()
            assert not twice, f"read twice, though nobody died: {twice}"


# A cooperative-sticky leader of confluent's writes bytes of its own into what Java's members get; brokers refuse to
# take such a group over, Apache Kafka's too.
@pytest.mark.parametrize(
    ("strategy", "clients"),
    [
        ("range", ["ours", "confluent", "java"]),
        ("cooperative-sticky", ["ours", "java", "ours"]),
        ("cooperative-sticky", ["ours", "ours", "ours"]),
    ],
)
def test_members_change_over_and_back(broker: Broker, strategy: str, clients: list[str]) -> None:
    change_over(broker, clients, strategy)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", MODERN])
def test_200_restarts_of_members_lose_nothing(broker: Broker, strategy: str) -> None:
    roll(broker, strategy, RESTARTS, deaths_every=0)


@pytest.mark.parametrize("strategy", ["cooperative-sticky", MODERN])
def test_members_and_the_broker_die_and_nothing_is_lost(broker: Broker, strategy: str) -> None:
    roll(broker, strategy, 20, deaths_every=4, broker_dies_at=10)
