"""Configurations: described with where values come from, altered whole or not at all, by the broker they belong to."""

from __future__ import annotations

import pytest

from kafkaraw.client.admin import AsyncAdmin, ConfigChange, ConfigResource
from kafkaraw.errors import BrokerError, UnsupportedVersionError, UsageError
from kafkaraw.protocol.config_codes import AlterOperation, ConfigSource, ConfigType
from tests.client.virtual_cluster import VirtualCluster, on_cluster

TOPIC = ConfigResource.topic("t")


async def value(admin: AsyncAdmin, resource: ConfigResource, name: str) -> str | None:
    return (await admin.describe_configs([resource], names=[name]))[resource][name].value


def test_every_setting_of_a_topic_is_described():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", retention_ms="5")
        async with cluster.admin() as admin:
            found = (await admin.describe_configs([TOPIC]))[TOPIC]
        assert len(found) > 30
        own, default = found["retention.ms"], found["segment.bytes"]
        assert (own.value, own.source, own.kind, own.is_default) == (
            "5",
            ConfigSource.DYNAMIC_TOPIC,
            ConfigType.LONG,
            False,
        )
        assert (default.value, default.is_default, default.synonyms, default.documentation) == (
            "1073741824",
            True,
            (),
            None,
        )

    on_cluster(life)


def test_synonyms_and_documentation_are_returned_on_request():
    async def life(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            broker = ConfigResource.broker(0)
            found = await admin.describe_configs([broker], names=["num.partitions"], synonyms=True, documentation=True)
        entry = found[broker]["num.partitions"]
        assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
            ("3", ConfigSource.STATIC_BROKER),
            ("1", ConfigSource.DEFAULT),
        ]
        assert entry.documentation and entry.is_read_only

    on_cluster(life, num_partitions=3)


def test_settings_are_set_taken_back_and_edited_as_lists():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            await admin.alter_configs({TOPIC: {"retention.ms": "5", "flush.messages": "7"}})
            assert await value(admin, TOPIC, "retention.ms") == "5"
            await admin.alter_configs({TOPIC: {"retention.ms": None}})
            assert await value(admin, TOPIC, "retention.ms") == "604800000"
            assert await value(admin, TOPIC, "flush.messages") == "7"
            await admin.alter_configs({TOPIC: [ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND)]})
            assert await value(admin, TOPIC, "cleanup.policy") == "delete,compact"

    on_cluster(life)


def test_validating_changes_nothing():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            await admin.alter_configs({TOPIC: {"retention.ms": "5"}}, validate_only=True)
            assert await value(admin, TOPIC, "retention.ms") == "604800000"

    on_cluster(life)


def test_brokers_groups_and_subscriptions_are_altered_in_one_call():
    async def life(cluster: VirtualCluster) -> None:
        group, metrics = ConfigResource.group("g"), ConfigResource.client_metrics("m")
        async with cluster.admin() as admin:
            await admin.alter_configs(
                {
                    ConfigResource.broker(): {"message.max.bytes": "5000"},
                    ConfigResource.broker(0): {"max.connections": "99"},
                    group: {"consumer.session.timeout.ms": "50000"},
                    metrics: {"interval.ms": "1000"},
                }
            )
            found = await admin.describe_configs([ConfigResource.broker(0), ConfigResource.broker(), group, metrics])
        assert found[ConfigResource.broker(0)]["max.connections"].source is ConfigSource.DYNAMIC_BROKER
        assert found[ConfigResource.broker()]["message.max.bytes"].value == "5000"
        assert found[group]["consumer.session.timeout.ms"].value == "50000"
        assert found[metrics]["interval.ms"].value == "1000"

    on_cluster(life)


def test_each_resource_that_failed_is_named_and_the_others_are_altered():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match=r"INVALID_CONFIG.*topic 't'.*Not a number.*UNKNOWN_TOPIC.*'nope'"):
                await admin.alter_configs(
                    {
                        TOPIC: {"retention.ms": "x"},
                        ConfigResource.topic("nope"): {"retention.ms": "1"},
                        ConfigResource.broker(): {"message.max.bytes": "5000"},
                    }
                )
            assert await value(admin, ConfigResource.broker(0), "message.max.bytes") == "5000"

    on_cluster(life)


def test_a_secret_has_no_value_and_is_not_shown_by_a_change():
    async def life(cluster: VirtualCluster) -> None:
        broker = ConfigResource.broker(0)
        async with cluster.admin() as admin:
            found = (await admin.describe_configs([broker], names=["ssl.key.password"]))[broker]["ssl.key.password"]
        assert (found.value, found.is_sensitive) == (None, True)

    on_cluster(life, ssl_key_password="opensesame")
    assert "opensesame" not in repr(ConfigChange("ssl.key.password", "opensesame"))


def test_wrong_resources_and_changes_raise():
    async def life(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            with pytest.raises(UsageError, match=r"ConfigResource\.topic\('t'\)"):
                await admin.describe_configs(["t"])
            with pytest.raises(UsageError, match="named by its id"):
                await admin.describe_configs([ConfigResource(ConfigResource.broker(1).kind, "one")])
            with pytest.raises(UsageError, match=r"describe_configs: there is no broker 9; those that run are \[0\]"):
                await admin.describe_configs([ConfigResource.broker(9), ConfigResource.topic("t")])
            with pytest.raises(UsageError, match="alter_configs: there is no broker 9"):
                await admin.alter_configs({ConfigResource.broker_logger(9): {"root": "INFO"}})
            with pytest.raises(BrokerError, match="INVALID_REQUEST"):
                await admin.alter_configs({TOPIC: [ConfigChange("retention.ms")]})

    on_cluster(life)


def test_a_broker_that_is_too_old_to_alter_single_settings_is_named():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            with pytest.raises(UnsupportedVersionError, match="IncrementalAlterConfigs"):
                await admin.alter_configs({TOPIC: {"retention.ms": "1"}})

    on_cluster(life, max_versions="2.0")
