"""Which topics are copied, and what the target lacks: MirrorMaker's rules, with few requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkaraw.client.admin import AclBinding, ConfigChange, ConfigEntry, NewTopic, ResourcePattern
from kafkaraw.mirror.policies import (
    CONFIGS_EXCLUDED,
    TOPICS_EXCLUDED,
    IdentityReplicationPolicy,
    NameFilter,
    ReplicationPolicy,
    TopicRoute,
    Topology,
)
from kafkaraw.mirror.settings import TopicSettings
from kafkaraw.mirror.topics import ClusterTopics, MirrorTopics, TopicChanges, planned
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.config_codes import AlterOperation, ConfigSource, ConfigType
from tests.mirror.test_offset_service import Clusters, on_clusters

AUTHORIZES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ROUTE = TopicRoute("east", "west", ReplicationPolicy(), NameFilter((".*",), TOPICS_EXCLUDED))


def settings(**more: object) -> TopicSettings:
    chosen: dict[str, object] = {
        "route": ROUTE,
        "replication_factor": None,
        "configs_excluded": NameFilter(CONFIGS_EXCLUDED),
        "uses_source_defaults": False,
        "sync_configs_interval_s": 600.0,
        "sync_acls_interval_s": 600.0,
        "deletes_topics": False,
    }
    return TopicSettings(**{**chosen, **more})  # type: ignore[arg-type]


def plan(source: ClusterTopics, target: ClusterTopics, brokers_count: int = 3, **more: object) -> TopicChanges:
    chosen = settings(**more)
    return planned(chosen, Topology([chosen.route]), source, target, brokers_count)


def entry(name: str, value: str, source: ConfigSource = ConfigSource.DYNAMIC_TOPIC, **more: bool) -> ConfigEntry:
    flags = {"is_read_only": False, "is_sensitive": False, **more}
    return ConfigEntry(name, value, source, ConfigType.STRING, **flags)


def configs(topic: str, *entries: ConfigEntry) -> Mapping[str, Mapping[str, ConfigEntry]]:
    return {topic: {each.name: each for each in entries}}


def test_new_topics_are_created_with_partitions_and_configurations_that_are_not_defaults() -> None:
    found = configs(
        "orders",
        entry("retention.ms", "7"),
        entry("segment.bytes", "9", ConfigSource.DEFAULT),
        entry("min.insync.replicas", "2"),
        entry("max.message.bytes", "5", ConfigSource.STATIC_BROKER),
        entry("flush.ms", "6", is_read_only=True),
        entry("secret", "x", is_sensitive=True),
    )
    source = ClusterTopics({"orders": 4, "__consumer_offsets": 50, "mm2-offset-syncs.west.internal": 1}, found)
    changes = plan(source, ClusterTopics({}))
    assert changes.create == (NewTopic("east.orders", 4, 2, {"retention.ms": "7"}),)
    assert changes.copied == {"orders": "east.orders"}
    assert plan(source, ClusterTopics({}), uses_source_defaults=True).create[0].configs == {
        "retention.ms": "7",
        "segment.bytes": "9",
    }


@pytest.mark.parametrize(("given", "brokers_count", "factor"), [(None, 3, 2), (None, 1, 1), (3, 1, 3), (-1, 3, -1)])
def test_the_replication_factor_is_the_given_one_or_fits_the_target(
    given: int | None, brokers_count: int, factor: int
) -> None:
    changes = plan(ClusterTopics({"orders": 1}), ClusterTopics({}), brokers_count, replication_factor=given)
    assert changes.create[0].replication_factor == factor


def test_partitions_are_added_and_never_removed() -> None:
    source = ClusterTopics({"grown": 4, "equal": 2, "shrunk": 1})
    target = ClusterTopics({"east.grown": 2, "east.equal": 2, "east.shrunk": 3})
    changes = plan(source, target)
    assert (changes.grow, changes.create) == ({"east.grown": 4}, ())


def test_configurations_that_differ_are_set_and_those_that_are_defaults_again_are_deleted() -> None:
    source = configs(
        "orders",
        entry("retention.ms", "7"),
        entry("flush.ms", "1"),
        entry("segment.bytes", "9", ConfigSource.DEFAULT),
        entry("cleanup.policy", "delete", ConfigSource.DEFAULT),
        entry("min.insync.replicas", "2"),
    )
    target = configs(
        "east.orders",
        entry("retention.ms", "8", ConfigSource.DEFAULT),
        entry("flush.ms", "1"),
        entry("segment.bytes", "10"),
        entry("cleanup.policy", "delete", ConfigSource.DEFAULT),
        entry("min.insync.replicas", "1"),
    )
    changes = plan(ClusterTopics({"orders": 1}, source), ClusterTopics({"east.orders": 1}, target))
    assert changes.alter == {
        "east.orders": (
            ConfigChange("retention.ms", "7"),
            ConfigChange("segment.bytes", None, AlterOperation.DELETE),
        )
    }
    from_source = plan(
        ClusterTopics({"orders": 1}, source), ClusterTopics({"east.orders": 1}, target), uses_source_defaults=True
    )
    assert ConfigChange("segment.bytes", "9") in from_source.alter["east.orders"]


def acl(
    name: str, operation: AclOperation, permission: AclPermissionType = AclPermissionType.ALLOW, **more: object
) -> AclBinding:
    pattern = ResourcePattern(
        more.get("resource", ResourceType.TOPIC),
        name,
        more.get("kind", PatternType.LITERAL),  # type: ignore[arg-type]
    )
    return AclBinding(pattern, "User:ada", operation, permission)


def test_acls_are_copied_apart_from_those_that_allow_writing() -> None:
    deny = AclPermissionType.DENY
    source = [
        acl("orders", AclOperation.READ),
        acl("orders", AclOperation.WRITE),
        acl("orders", AclOperation.ALL),
        acl("orders", AclOperation.WRITE, deny),
        acl("orders", AclOperation.ALL, deny),
        acl("orders", AclOperation.DESCRIBE),
        acl("*", AclOperation.READ),
        acl("ord", AclOperation.READ, kind=PatternType.PREFIXED),
        acl("__consumer_offsets", AclOperation.READ),
        acl("orders", AclOperation.READ, resource=ResourceType.GROUP),
    ]
    there = [acl("east.orders", AclOperation.DESCRIBE)]
    changes = plan(ClusterTopics({"orders": 1}, acls=source), ClusterTopics({"east.orders": 1}, acls=there))
    assert changes.acls == (
        acl("east.orders", AclOperation.READ),
        acl("east.orders", AclOperation.WRITE, deny),
        acl("east.orders", AclOperation.ALL, deny),
    )
    assert not plan(ClusterTopics({"orders": 1}, acls=source), ClusterTopics({"east.orders": 1}))


def test_topics_are_deleted_only_if_asked_and_only_copies_whose_sources_are_gone() -> None:
    target = ClusterTopics(
        {"east.orders": 1, "east.gone": 1, "gone": 1, "north.gone": 1, "east.checkpoints.internal": 1}
    )
    source = ClusterTopics({"orders": 1})
    assert plan(source, target).delete == ()
    assert plan(source, target, deletes_topics=True).delete == ("east.gone",)
    assert plan(ClusterTopics({}), target, deletes_topics=True).delete == ()


def test_topics_that_would_be_copied_in_a_circle_are_left_out_with_the_reason() -> None:
    policy = IdentityReplicationPolicy()
    east = TopicRoute("east", "west", policy, NameFilter((".*",)))
    west = TopicRoute("west", "east", policy, NameFilter(("orders",)))
    changes = planned(
        settings(route=east), Topology([east, west]), ClusterTopics({"orders": 1, "payments": 1}), ClusterTopics({}), 1
    )
    assert changes.copied == {"payments": "payments"}
    assert changes.problems["orders"].startswith("it would be copied in a circle, east -> west -> east: exclude it")


def test_a_name_that_would_be_too_long_is_left_out_with_the_reason() -> None:
    changes = plan(ClusterTopics({"x" * 245: 1}), ClusterTopics({}))
    assert list(changes.problems.values()) == ["the name of its copy would have 250 characters, and 249 are allowed"]
    assert not changes


def test_a_refresh_without_changes_asks_each_cluster_for_its_topics_and_the_target_for_what_bears_on_batches(
    tmp_path: Path,
) -> None:
    async def test(clusters: Clusters) -> None:
        flow = clusters.settings.flows[0]
        async with clusters.clients.admin(of_source=True) as source, clusters.clients.admin(of_source=False) as target:
            topics = MirrorTopics(source, target, flow, clusters.settings.topology)
            (copied,) = await topics.refresh()
            assert (copied.source, copied.target) == ("orders", "east.orders")
            assert copied.target_config["message.timestamp.type"] == "CreateTime"
            before = len(clusters.east.requests())  # both clusters are on one network
            await topics.refresh()
            found = Counter(type(each).__name__ for each in clusters.east.requests()[before:])
        assert found == {"MetadataRequest": 2, "DescribeConfigsRequest": 1}

    on_clusters(test, tmp_path)


def test_a_topic_whose_configuration_cannot_be_read_is_copied_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(clusters: Clusters) -> None:
        flow = clusters.settings.flows[0]
        await clusters.east.create("payments")
        async with clusters.clients.admin(of_source=True) as source, clusters.clients.admin(of_source=False) as target:
            topics = MirrorTopics(source, target, flow, clusters.settings.topology)
            await topics.refresh()
            denied = AclBinding(
                ResourcePattern(ResourceType.TOPIC, "east.orders"), "User:*", AclOperation.DESCRIBE_CONFIGS,
                AclPermissionType.DENY,
            )  # fmt: skip
            allowed = AclBinding(denied.pattern, "User:*", AclOperation.ALL)
            await target.create_acls([denied, allowed])
            found = {each.source: each.target_config for each in await topics.refresh()}
        assert found["orders"] == {}
        assert found["payments"]["cleanup.policy"] == "delete"

    on_clusters(test, tmp_path, target_properties=AUTHORIZES)
    assert "DESCRIBE_CONFIGS on topic 'east.orders'" in caplog.text
