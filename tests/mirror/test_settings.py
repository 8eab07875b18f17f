"""The configuration of a mirror: MirrorMaker's names, and an error with the line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.mirror.interfaces import Delivery, OnLoss, StartAt
from kafkaraw.mirror.policies import IdentityReplicationPolicy
from kafkaraw.mirror.settings import MirrorSettings, read_mirror_settings

BASE = """\
clusters = east, west
east.bootstrap.servers = east1:9092,east2:9092
west.bootstrap.servers = west1:9092
east->west.enabled = true
"""


def settings(tmp_path: Path, more: str = "", base: str = BASE, name: str = "mirror.properties") -> MirrorSettings:
    path = tmp_path / name
    path.write_text(base + more)
    return read_mirror_settings(path)


def problem(tmp_path: Path, more: str = "", base: str = BASE, name: str = "mirror.properties") -> str:
    with pytest.raises(ConfigError) as raised:
        settings(tmp_path, more, base, name)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_defaults_are_those_of_mirrormaker_apart_from_delivery(tmp_path: Path) -> None:
    flow = settings(tmp_path).flow(None)
    assert flow.name == "east->west"
    assert flow.copy.delivery is Delivery.EXACTLY_ONCE
    assert (flow.copy.read_committed, flow.copy.on_loss, flow.copy.start_at) == (True, OnLoss.FAIL, None)
    assert flow.copy.refresh_topics_interval_s == 600
    assert (flow.offsets.checkpoints_interval_s, flow.offsets.group_offsets_interval_s) == (60, None)
    assert (flow.offsets.heartbeats_interval_s, flow.offsets.offset_lag_max) == (1, 100)
    assert flow.offsets.offset_syncs_in_source
    assert flow.topics.replication_factor is None
    assert flow.route.remote_topic("orders") == "east.orders"


def test_a_property_of_a_flow_overrides_the_one_of_all_flows(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "topics = orders\nwest->east.enabled = true\nwest->east.topics = payments\n"
        "replication.policy.separator = _\nsync.group.offsets.enabled = true\n"
        "east->west.sync.group.offsets.interval.seconds = 5\n",
    )
    assert [flow.name for flow in found.flows] == ["east->west", "west->east"]
    east, west = found.flows
    assert (east.route.selects("orders"), east.route.selects("payments")) == (True, False)
    assert (west.route.selects("orders"), west.route.selects("payments")) == (False, True)
    assert east.route.remote_topic("orders") == "east_orders"
    assert (east.offsets.group_offsets_interval_s, west.offsets.group_offsets_interval_s) == (5, 60)


def test_properties_of_clients_reach_the_clients_of_their_cluster(tmp_path: Path) -> None:
    flow = settings(
        tmp_path,
        "security.protocol = SSL\nwest.security.protocol = PLAINTEXT\neast.consumer.fetch.min.bytes = 7\n"
        "west.producer.linger.ms = 9\neast->west.producer.batch.size = 1000\neast.consumer.auto.offset.reset = latest\n"
        "east.consumer.isolation.level = read_uncommitted\neast.client.id = mirror\n",
    ).flow("east->west")
    assert flow.copy.source["security_protocol"] == "SSL"
    assert flow.copy.source["client_id"] == "mirror"
    assert flow.copy.target["security_protocol"] == "PLAINTEXT"
    assert flow.copy.consumer == {"fetch_min_bytes": 7}
    assert flow.copy.producer == {"linger_ms": 9, "batch_size": 1000}
    assert (flow.copy.start_at, flow.copy.read_committed) == (StartAt.LATEST, False)


def test_yaml_has_the_same_names(tmp_path: Path) -> None:
    text = """\
clusters: [east, west]
east:
  bootstrap.servers: [east1:9092]
west.bootstrap:
  servers: west1:9092
east->west:
  enabled: true
  topics:
    - orders
    - pay.*
  emit:
    heartbeats.enabled: false
"""
    flow = settings(tmp_path, base=text, name="mirror.yml").flow("east->west")
    assert [flow.route.selects(name) for name in ("orders", "pay-a", "else")] == [True, True, False]
    assert flow.offsets.heartbeats_interval_s is None
    assert problem(tmp_path, "topicz: a\n", text, "mirror.yml") == (
        "mirror.yml, line 13: topicz: unknown property; did you mean topics?"
    )


@pytest.mark.parametrize(
    ("more", "delivery"),
    [
        ("exactly.once.source.support = disabled", Delivery.AT_LEAST_ONCE),
        ("west.exactly.once.source.support = enabled", Delivery.EXACTLY_ONCE),
        ("delivery = at-least-once", Delivery.AT_LEAST_ONCE),
        ("exactly.once.support = required", Delivery.EXACTLY_ONCE),
    ],
)
def test_the_properties_of_exactly_once(tmp_path: Path, more: str, delivery: Delivery) -> None:
    assert settings(tmp_path, more).flow(None).copy.delivery is delivery


def test_names_of_kafka_connect_are_without_effect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings(
        tmp_path, "tasks.max = 4\noffset.storage.replication.factor = 1\neast.group.id = mm2\ntopic.filter.class=\n"
    )
    assert "without effect here: east.group.id, offset.storage.replication.factor, tasks.max" in caplog.text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("topicz = a", "line 5: topicz: unknown property; did you mean topics?"),
        ("enabled = true", "line 5: enabled: each flow has its own: write east->west.enabled"),
        ("east->west.topicz = a", "line 5: east->west.topicz: unknown property; did you mean topics?"),
        (
            "\n# x\neast->north.topics = a",
            "line 7: east->north.topics: clusters has east, west, and a flow is one of them",
        ),
        ("east->east.enabled = true", "line 5: east->east.enabled: a cluster cannot be mirrored onto itself"),
        ("east.topics = a", "line 5: east.topics: this is a property of a flow: write topics, or east->OTHER.topics"),
        (
            "east.consumer.fetch.min.bites = 1",
            "line 5: east.consumer.fetch.min.bites: unknown property 'fetch.min.bites'; did",
        ),
        ("east.consumer.fetch.min.bytes = x", "line 5: east.consumer.fetch.min.bytes: "),
        (
            "consumer.fetch.min.bytes = 1",
            "line 5: consumer.fetch.min.bytes: MirrorMaker ignores this without a cluster: ",
        ),
        ("topics = a(", "line 5: topics: 'a(' is no regex that Python has"),
        ("refresh.topics.interval.seconds = soon", "must be a whole number from 1 on"),
        ("emit.heartbeats.enabled = yes", "line 5: emit.heartbeats.enabled = yes: must be true or false"),
        (
            "replication.policy.class = com.acme.Policy",
            "must be org.apache.kafka.connect.mirror.DefaultReplicationPolicy or",
        ),
        ("replication.policy.separator = :", "a topic cannot have ':' in its name"),
        ("topics.blacklist = a", "line 5: topics.blacklist: Kafka 4 has removed this name: use topics.exclude"),
        ("transforms = a", "line 5: transforms: records are copied as they are"),
        ("topic.filter.class = com.acme.Filter", "topic.filter.class: properties name no code here"),
        ("topics = a\ntopics = b", "line 6: topics has another value in line 5: remove one of them"),
        (
            "east.consumer.auto.offset.reset = none",
            "line 5: east.consumer.auto.offset.reset = none: must be earliest or latest",
        ),
        (
            "delivery = exactly-once\nexactly.once.source.support = disabled",
            "line 5: delivery = exactly-once contradicts",
        ),
        ("delivery = at-least-once\nexactly.once.support = required", "contradicts exactly.once.support = required"),
        (
            "exactly.once.support = required\neast.consumer.isolation.level = read_uncommitted",
            "line 5: exactly.once.support = required needs consumer.isolation.level = read_committed",
        ),
        (
            "emit.offset-syncs.enabled = false\noffset-syncs.topic.location = target",
            "line 6: offset-syncs.topic.location: there is no such topic with emit.offset-syncs.enabled=false",
        ),
        (
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
            "sync.topic.deletions.enabled = true",
            "line 6: sync.topic.deletions.enabled: with IdentityReplicationPolicy",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, more: str, text: str) -> None:
    assert text in problem(tmp_path, more)


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ("", "mirror.properties: the property clusters is missing: add clusters = east, west"),
        ("clusters = east", "line 1: clusters: must name two clusters or more"),
        ("clusters = east, e/st", "'e/st' must have letters"),
        (
            BASE.replace("true", "false"),
            "no flow is enabled: add east->west.enabled = true or west->east.enabled = true",
        ),
        (BASE.replace("west.boot", "#"), "west.bootstrap.servers is missing: add west.bootstrap.servers = HOST:PORT"),
        (
            BASE.replace("west1:9092", "east1:9092,east2:9092"),
            "east->west would mirror a cluster onto itself: both have the bootstrap servers",
        ),
    ],
)
def test_a_configuration_that_cannot_run_says_what_it_lacks(tmp_path: Path, base: str, text: str) -> None:
    assert text in problem(tmp_path, base=base)


def test_several_mistakes_are_named_together(tmp_path: Path) -> None:
    assert len(problem(tmp_path, "topicz = a\ngroupz = b\n").splitlines()) == 2


def test_the_identity_policy_is_known_by_its_class(tmp_path: Path) -> None:
    name = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    policy = settings(tmp_path, f"east->west.replication.policy.class = {name}").flow(None).route.policy
    assert isinstance(policy, IdentityReplicationPolicy)


def test_values_are_looked_up_where_providers_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEST", "west9:9092")
    (tmp_path / "secrets").write_text("east=east9:9092\n")
    providers = (
        "config.providers = env, file\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    base = BASE.replace("west1:9092", "${env:WEST}").replace(
        "east1:9092,east2:9092", f"${{file:{tmp_path}/secrets:east}}"
    )
    flow = settings(tmp_path, providers, base).flow(None)
    assert "east9" in str(flow.copy.source["bootstrap_servers"])
    assert "west9" in str(flow.copy.target["bootstrap_servers"])
    assert "line 3: west.bootstrap.servers: ${env:EAST}: the environment variable 'EAST' is not set" in problem(
        tmp_path, providers, base.replace(":WEST", ":EAST")
    )
    assert problem(tmp_path, providers.replace("EnvVar", "Own"), base).startswith(
        "mirror.properties, line 6: config.providers.env.class must be one of "
    )


def test_a_flow_is_chosen_by_name_if_there_are_several(tmp_path: Path) -> None:
    found = settings(tmp_path, "west->east.enabled = true")
    with pytest.raises(ConfigError, match="has 2 flows: choose one with --flow: east->west, west->east"):
        found.flow(None)
    with pytest.raises(ConfigError, match="has no enabled flow 'a->b'; it has east->west, west->east"):
        found.flow("a->b")
