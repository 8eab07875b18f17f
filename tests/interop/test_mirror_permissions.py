"""Two Apache Kafka clusters with authorizers: ACLs are copied as by MirrorMaker 2; refusals stop single partitions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.client.admin import AclBinding, AclBindingFilter, ConfigResource, ResourcePattern
from kafkaraw.mirror.interfaces import Delivery
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import MirrorSettings, read_mirror_settings
from kafkaraw.mirror.topics import MirrorTopics
from kafkaraw.mirror.verification import verify_topic
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.records import TopicPartition
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.interop.java_tools import why_no_java_client
from tests.interop.test_mirror_copies import consumer_of
from tests.interop.test_mirror_records import answers
from tests.waiting import wait_until

pytestmark = pytest.mark.soak

AUTHORIZES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:broker",
}
OPERATIONS = (
    AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
    AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
)  # fmt: skip


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    missing = why_missing() or why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(properties=AUTHORIZES) as east, ApacheKafka(properties=AUTHORIZES) as west:
        yield east.bootstrap_servers, west.bootstrap_servers


def settings(folder: Path, clusters: Sequence[str], topics: str, *more: str) -> MirrorSettings:
    path = folder / "mirror.properties"
    lines = [
        "clusters = east, west",
        f"east.bootstrap.servers = {clusters[0]}",
        f"west.bootstrap.servers = {clusters[1]}",
        "east->west.enabled = true",
        f"east->west.topics = {topics}",
        *more,
    ]
    path.write_text("\n".join(lines) + "\n")
    return read_mirror_settings(path)


def every_acl() -> list[AclBinding]:
    """All operations, allowed and denied, on topics that are copied and on others, by name and by prefix."""
    patterns = [
        ResourcePattern(ResourceType.TOPIC, name, kind)
        for name, kind in (
            ("orders", PatternType.LITERAL),
            ("payments.eu", PatternType.LITERAL),
            ("others", PatternType.LITERAL),
            ("west.orders", PatternType.LITERAL),
            ("__consumer_offsets", PatternType.LITERAL),
            ("ord", PatternType.PREFIXED),
            ("*", PatternType.LITERAL),
        )
    ]
    found = [
        AclBinding(pattern, f"User:{kind.name}", operation, kind)
        for pattern, operation, kind in itertools.product(
            patterns, OPERATIONS, (AclPermissionType.ALLOW, AclPermissionType.DENY)
        )
    ]
    host = AclBinding(patterns[0], "User:host", AclOperation.READ, host="127.0.0.9")
    return [*found, host, AclBinding(ResourcePattern(ResourceType.GROUP, "orders"), "User:g", AclOperation.READ)]


def test_acls_are_copied_as_by_mirrormaker(clusters: tuple[str, str], tmp_path: Path) -> None:
    with Admin(bootstrap_servers=clusters[0]) as east, Admin(bootstrap_servers=clusters[1]) as west:
        east.create_topics([NewTopic("orders", 1), NewTopic("payments.eu", 1), NewTopic("others", 1)])
        acls = every_acl()
        east.create_acls(acls)
        assert wait_until(lambda: len(east.describe_acls(AclBindingFilter())) == len(acls), 30)

        answers("acls", *clusters)
        expected = settled(lambda: set(west.describe_acls(AclBindingFilter())))
        assert expected
        west.delete_acls([AclBindingFilter()])
        assert wait_until(lambda: not west.describe_acls(AclBindingFilter()), 30)

        mirror = settings(tmp_path, clusters, "orders, payments.*")
        asyncio.run(refresh(mirror))
        assert settled(lambda: set(west.describe_acls(AclBindingFilter()))) == expected

        east.delete_acls([AclBindingFilter()])
        west.delete_acls([AclBindingFilter()])
        assert wait_until(lambda: not east.describe_acls(AclBindingFilter()), 30)
        assert wait_until(lambda: not west.describe_acls(AclBindingFilter()), 30)


def settled(look: Callable[[], set[AclBinding]]) -> set[AclBinding]:
    """Return what a broker knows once it does not learn more."""
    found: list[set[AclBinding]] = [look()]

    def is_settled() -> bool:
        found.append(look())
        return bool(found[-1]) and found[-1] == found[-2]

    assert wait_until(is_settled, 30, every_s=0.5)
    return found[-1]


async def refresh(mirror: MirrorSettings) -> None:
    run = MirrorRun(mirror.flows[0], mirror.topology)
    async with run.clients.admin(of_source=True) as source, run.clients.admin(of_source=False) as target:
        await MirrorTopics(source, target, mirror.flows[0], mirror.topology).refresh()


@pytest.mark.parametrize("delivery", list(Delivery))
def test_refused_partitions_stop_alone_and_continue_by_themselves(
    clusters: tuple[str, str], tmp_path: Path, delivery: Delivery
) -> None:
    """A record that is too large, one without a key, a topic that may not be written to, and a copy that is deleted."""
    prefix = f"refused-{delivery.value}-"
    names = ("large", "keys", "denied", "plain", "deleted")
    large, keys, denied, plain, deleted = (prefix + name for name in names)
    configs = {large: {"max.message.bytes": "5000"}, keys: {"cleanup.policy": "compact"}}
    with Admin(bootstrap_servers=clusters[0]) as east, Admin(bootstrap_servers=clusters[1]) as west:
        east.create_topics([NewTopic(prefix + name, 2) for name in names])
        west.create_topics(
            [NewTopic(f"east.{each}", 2, configs=configs.get(each, {})) for each in (large, keys, denied)]
        )
        topic = ResourcePattern(ResourceType.TOPIC, f"east.{denied}")
        west.create_acls(
            [
                AclBinding(topic, "User:ANONYMOUS", AclOperation.WRITE, AclPermissionType.DENY),
                AclBinding(topic, "User:*", AclOperation.ALL),
            ]
        )
        assert wait_until(lambda: is_denied(west, f"east.{denied}"), 30)
        fill(clusters[0], [large, denied, plain, deleted, keys], 0)
        with Producer(bootstrap_servers=clusters[0], compression_type="none") as producer:
            producer.send(large, bytes(20_000), b"k", partition=1)
            producer.send(keys, b"without a key", partition=1)
        fill(clusters[0], [large, denied, plain, deleted, keys], 50)
        mirror = settings(
            tmp_path,
            clusters,
            f"{prefix}.*",
            f"delivery = {delivery.value}",
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "refresh.topics.interval.seconds = 2",
            "replication.factor = 1",
        )

        async def copy() -> None:
            run = MirrorRun(mirror.flows[0], mirror.topology)
            task = asyncio.create_task(run.run())

            async def until(condition: Callable[[], bool]) -> None:
                async with asyncio.timeout(90):
                    while run.flow is None or not condition():
                        if task.done():
                            await task
                        await asyncio.sleep(0.1)

            def position(topic: str, partition: int) -> int:
                assert run.flow is not None
                found = run.flow.positions.get(TopicPartition(topic, partition))
                return -1 if found is None else found.offset

            refused = {
                TopicPartition(large, 1), TopicPartition(keys, 1), TopicPartition(denied, 0), TopicPartition(denied, 1)
            }  # fmt: skip
            await until(lambda: run.flow is not None and run.flow.stopped.keys() >= refused)
            await until(lambda: position(plain, 0) == position(plain, 1) == position(deleted, 0) == 50)
            await until(lambda: position(large, 0) == 50 and position(keys, 0) == 50)
            assert run.flow is not None
            texts = {of: each.refusal.text for of, each in run.flow.stopped.items()}
            assert "max.message.bytes" in texts[TopicPartition(large, 1)]
            assert "at offset 25" in texts[TopicPartition(large, 1)]
            assert "without a key" in texts[TopicPartition(keys, 1)]
            assert f"WRITE on topic 'east.{denied}'" in texts[TopicPartition(denied, 0)]
            async with run.clients.admin(of_source=False) as admin:
                await admin.delete_topics([f"east.{deleted}"])
                await until(lambda: position(deleted, 0) == 50)
                await admin.alter_configs(
                    {
                        ConfigResource.topic(f"east.{large}"): {"max.message.bytes": "100000"},
                        ConfigResource.topic(f"east.{keys}"): {"cleanup.policy": "delete"},
                    }
                )
                await admin.delete_acls([AclBindingFilter(resource_name=f"east.{denied}")])
            await asyncio.to_thread(fill, clusters[0], [plain, deleted], 100)
            await until(lambda: run.flow is not None and not run.flow.stopped and position(deleted, 1) == 75)
            await until(lambda: position(large, 1) == position(keys, 1) == 51 and position(denied, 0) == 50)
            run.stop()
            await task

        asyncio.run(copy())
    for topic_name in (large, keys, denied, plain, deleted):
        reports = asyncio.run(
            verify_topic(consumer_of(clusters[0]), consumer_of(clusters[1]), (topic_name, f"east.{topic_name}"))
        )
        allowed = set() if delivery is Delivery.EXACTLY_ONCE else {"REPEATED", "MOVED"}
        for report in reports:
            assert {kind.name for kind in report.counts} <= allowed, report
            assert report.source_count == report.equal_count if not allowed else True


def is_denied(admin: Admin, topic: str) -> bool:
    """Return whether the broker denies writing; to try it would give the copy a record that is not the mirror's."""
    allowed = admin.describe_topics([topic], authorized_operations=True)[topic].authorized_operations
    return allowed is not None and AclOperation.WRITE not in allowed


def fill(servers: str, topics: Sequence[str], first: int) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=20, batch_size=2_000) as producer:
        for topic in topics:
            for number in range(first, first + 50):
                producer.send(topic, b"value %d" % number, b"key %d" % number, partition=number % 2)
