"""Share consumers of other clients do on our broker what they do on Apache Kafka: same deliveries, same results.

librdkafka's (confluent-kafka; its share consumer is a preview), franz-go's, Java's and ours, each alone in a group.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, ConfigResource, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka, why_missing
from tests.interop.share_members import CLIENTS, JAVA_MODES, ShareMember
from tests.rotation import rotating

APACHE, OURS = "Apache Kafka", "our broker"
VALUES = (b"a", b"release", b"c", b"reject", b"e")
WAIT_SECONDS = 60.0
LIKE_APACHES = {name: value for name, value in SINGLE_NODE.items() if name.startswith(("group.", "share."))}
CASES = [(client, broker) for client in CLIENTS for broker in (APACHE, OURS)]


@pytest.fixture
def servers(broker: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if broker == APACHE:
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap_servers
    else:
        with EmbeddedBroker(properties=LIKE_APACHES) as ours:
            yield ours.bootstrap_servers


def share_topic(servers: str) -> str:
    """Return a topic with records, and a group of its name that begins at the first one."""
    name = f"clients-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.alter_configs({ConfigResource.group(name): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
        for value in VALUES:
            producer.send(name, value, partition=0)
    return name


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("client", "broker"), rotating(CASES, 3))
def test_client_accepts_releases_and_rejects(client: str, servers: str) -> None:
    if client in JAVA_MODES and (missing := why_missing()) is not None:
        pytest.skip(missing)
    topic = share_topic(servers)
    with ShareMember(client, servers, topic, topic) as member:
        deadline = time.monotonic() + WAIT_SECONDS
        while sum(each.what in ("accepted", "rejected") for each in member.confirmations) < len(VALUES):
            assert time.monotonic() < deadline, (member.deliveries, member.confirmations)
            time.sleep(0.02)
        member.leave()
    confirmed = sorted((each.place.offset, each.what, each.error) for each in member.confirmations)
    deliveries = sorted((each.place.offset, each.count) for each in member.deliveries)
    if client in JAVA_MODES:  # it accepts everything, and does not tell how often a record was delivered
        assert confirmed == [(offset, "accepted", "") for offset in range(len(VALUES))]
        assert deliveries == [(offset, None) for offset in range(len(VALUES))]
    else:
        whats = ["accepted", "accepted", "released", "accepted", "rejected", "accepted"]
        assert confirmed == [(offset, what, "") for offset, what in zip((0, 1, 1, 2, 3, 4), whats, strict=True)]
        assert deliveries == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1), (4, 1)]
    with Admin(bootstrap_servers=servers) as admin:
        (offsets,) = admin.list_share_group_offsets([topic])[topic].values()
        assert offsets.lag == 0
        (group,) = admin.describe_groups([topic]).values()
        assert group.members == ()
