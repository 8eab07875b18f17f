"""Topics, records and configurations that change, across implementations.

Every configuration of our broker is compared with Apache Kafka's own, and so are the answers to the same requests; our
admin client works on Apache Kafka; confluent-kafka, kafka-python and Apache Kafka's own tools work on our broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    Producer,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import BrokerError
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.messages.alter_configs import AlterableConfig as OldConfig
from kafkaraw.protocol.messages.alter_configs import AlterConfigsRequest
from kafkaraw.protocol.messages.alter_configs import AlterConfigsResource as OldResource
from kafkaraw.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaraw.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkaraw.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkaraw.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.broker.security.test_sasl_authenticator import Peer
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka
from tests.interop.java_tools import CONFIGS, SharedTools, shared_tools
from tests.kafka_python import closing_client

TOPICS = "org.apache.kafka.tools.TopicCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
BROKER = ConfigResource.broker(1)
SET, DELETE, APPEND, SUBTRACT = AlterOperation

# Where our configurations differ from Apache Kafka's, and why.
ADDRESSES = {"advertised.listeners", "listeners", "log.dirs", "controller.listener.names", "controller.quorum.voters"}
"""Where each of the two listens and keeps its data."""
OURS = {
    "listener.security.protocol.map": "ours has no listener for controllers, and names the protocols in another order",
    "sasl.enabled.mechanisms": "no Kerberos here: the default is none",
    "ssl.keystore.type": "stores of Java (JKS) cannot be read here: the default is PEM",
    "ssl.truststore.type": "stores of Java (JKS) cannot be read here: the default is PEM",
    "min.insync.replicas": "with eligible leader replicas, which ours has not, Kafka sets it for all when formatting",
}


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"node.id": 1, **KEEP_RECORDS}) as broker:
        yield broker


@pytest.fixture(scope="module")
def tools(apache_kafka: ApacheKafka) -> SharedTools:
    return shared_tools()


def shape(entry: ConfigEntry) -> tuple[object, ...]:
    """What is compared of a setting: everything but its documentation, which is our own."""
    layers = [(layer.name, layer.value, layer.source) for layer in entry.synonyms]
    return entry.value, entry.source, entry.kind, entry.is_read_only, entry.is_sensitive, layers


def described(servers: str, resource: ConfigResource) -> dict[str, ConfigEntry]:
    with Admin(bootstrap_servers=servers) as admin:
        return admin.describe_configs([resource], synonyms=True, documentation=True)[resource]


def test_every_configuration_of_a_broker_is_apache_kafkas(apache_kafka: ApacheKafka, our_broker: EmbeddedBroker):
    theirs = described(apache_kafka.bootstrap_servers, BROKER)
    ours = described(our_broker.bootstrap_servers, BROKER)
    assert set(ours) == set(theirs)
    assert all(entry.documentation for entry in ours.values())
    static = {name for name, entry in theirs.items() if entry.source is ConfigSource.STATIC_BROKER}
    assert static - {"broker.id"} <= ADDRESSES | set(OURS) | set(SINGLE_NODE)
    differing = {name for name in theirs if shape(ours[name]) != shape(theirs[name])}
    assert differing - ADDRESSES - set(OURS) - set(SINGLE_NODE) == set()
    assert set(OURS) - {"listener.security.protocol.map"} <= differing, "a difference is gone: take it off the list"
    for name in set(SINGLE_NODE) - ADDRESSES - set(OURS) - {"process.roles", "node.id"}:
        assert default(ours[name]) == default(theirs[name]), name


def default(entry: ConfigEntry) -> object:
    return [(layer.name, layer.value) for layer in entry.synonyms if layer.source is ConfigSource.DEFAULT]


# Their defaults are a broker's settings, with which Apache Kafka is started in all tests.
FOLLOW_THE_BROKER = {"min.insync.replicas"} | {
    name.removeprefix("group.") for name in SINGLE_NODE if name.startswith("group.")
}


@pytest.mark.parametrize(
    "resource", [ConfigResource.topic("plain"), ConfigResource.group("g"), ConfigResource.client_metrics("m")]
)
def test_every_setting_of_topics_groups_and_metrics_is_apache_kafkas(
    apache_kafka: ApacheKafka, our_broker: EmbeddedBroker, resource: ConfigResource
):
    found = []
    for servers in (apache_kafka.bootstrap_servers, our_broker.bootstrap_servers):
        with Admin(bootstrap_servers=servers) as admin:
            if "plain" not in {topic.name for topic in admin.list_topics()}:
                admin.create_topics(["plain"])
        found.append({name: shape(entry) for name, entry in described(servers, resource).items()})
    theirs, ours = found
    assert set(ours) == set(theirs)
    assert {name for name in theirs if ours[name] != theirs[name]} <= FOLLOW_THE_BROKER


# -- the same requests to both -------------------------------------------------------------------------------------


def alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def old_alter(kind: int, name: str, **configs: str | None) -> AlterConfigsRequest:
    rows = [OldConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = OldResource(resource_type=kind, resource_name=name, configs=rows)
    return AlterConfigsRequest(resources=[resource], validate_only=True)


def describe(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
    return DescribeConfigsRequest(resources=[resource])


def grow(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = True) -> CreatePartitionsRequest:
    rows = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if chosen is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in chosen],
        )
        for name, count, chosen in topics
    ]
    return CreatePartitionsRequest(topics=rows, timeout_ms=10_000, validate_only=validate_only)


def delete(topic: str, partition: int, offset: int) -> DeleteRecordsRequest:
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=5_000)


def pages(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


REQUESTS = [
    grow(("p", 3, None)), grow(("p", 2, None)), grow(("p", 0, None)), grow(("nope", 3, None)), grow(("p", 4, [[1]])),
    grow(("p", 3, [[]])), grow(("p", 3, [[1, 1]])), grow(("p", 3, [[99]])), grow(("p", 3, [[1]])), grow(("p", 3, [])),
    grow(("p", 3, None), ("p", 4, None)), grow(("p", 20_000, None)), grow(("bad name", 3, None)),
    delete("p", 0, 5), delete("p", 0, 3), delete("p", 0, 100), delete("p", 0, -2), delete("p", 9, 1),
    delete("nope", 0, 1), delete("compacted", 0, 0), delete("p", 0, -1), delete("p", 1, -1),
    DescribeClusterRequest(include_cluster_authorized_operations=True),
    DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2),
    DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=3),
    pages("p", "compacted"), pages("p", "compacted", limit=3), pages("p", "compacted", limit=2),
    pages("p", "compacted", limit=1, cursor=("p", 1)), pages("p", cursor=("p", -1)), pages("p", cursor=("a", 0)),
    pages("nope", "bad name"), pages("p", cursor=("p", 7)), pages("nope", "p", limit=2, cursor=("nope", 0)),
    *(describe(kind, name) for kind, name in [
        (2, ""), (2, "nope"), (2, "bad name"), (4, "7"), (4, "x"), (8, "7"), (8, ""), (16, ""), (32, ""), (99, "z")]),
    *(alter(2, "p", change) for change in [
        ("retention.ms", SET, "1000"), ("retention.ms", SET, "x"), ("retention.ms", SET, "-2"),
        ("max.message.bytes", SET, "99999999999"), ("segment.bytes", SET, "10"), ("preallocate", SET, "yes"),
        ("min.cleanable.dirty.ratio", SET, "2"), ("min.cleanable.dirty.ratio", SET, "z"),
        ("cleanup.policy", SET, "foo"), ("cleanup.policy", SET, ""), ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"), ("compression.type", SET, "foo"), ("compression.type", APPEND, "gzip"),
        ("nosuch.config", SET, "1"), ("nosuch.config", DELETE, None), ("nosuch.config", APPEND, "x"),
        ("retention.ms", SET, None), ("retention.ms", 9, "1"), ("remote.storage.enable", SET, "true"),
        ("leader.replication.throttled.replicas", SET, "zz"), ("compression.gzip.level", SET, "0"),
        ("compression.zstd.level", SET, "99"), ("internal.segment.bytes", SET, "99"),
        ("min.insync.replicas", SET, "0"), ("retention.ms", SET, " 1000 ")]),
    alter(2, "p", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    alter(2, "p", ("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")), alter(2, "p"),
    *(alter(2, name, ("retention.ms", SET, value)) for name, value in [("nope", "1"), ("nope", "x"), ("", "1")]),
    *(alter(4, "1", change) for change in [
        ("log.retention.ms", SET, "1000"), ("log.retention.ms", SET, "x"), ("log.retention.hours", SET, "1"),
        ("num.partitions", SET, "1"), ("nosuch.thing", SET, "1"), ("nosuch.thing", APPEND, "1"),
        ("ssl.keystore.location", SET, "/x"), ("log.cleanup.policy", APPEND, "compact"),
        ("log.cleaner.threads", APPEND, "1"), ("message.max.bytes", SET, "x"), ("log.segment.bytes", SET, "1"),
        ("log.message.timestamp.type", SET, "x"), ("log.retention.ms", 9, "1000")]),
    alter(4, "", ("listeners", SET, "PLAINTEXT://:1")), alter(4, "", ("max.connections", SET, "-10")),
    alter(4, "99", ("log.retention.ms", SET, "1")), alter(4, "x", ("log.retention.ms", SET, "1")),
    *(alter(8, "1", change) for change in [
        ("root", SET, "INFO"), ("root", SET, "foo"), ("root", DELETE, None), ("nosuch", SET, "INFO"),
        ("root", APPEND, "INFO")]),
    alter(8, "", ("root", SET, "INFO")), alter(8, "9", ("root", SET, "INFO")),
    *(alter(16, "m", change) for change in [
        ("interval.ms", SET, "1000"), ("interval.ms", SET, "1"), ("foo", SET, "1"), ("match", SET, "foo"),
        ("match", SET, "client_id=a[")]),
    *(alter(32, "g", change) for change in [
        ("consumer.session.timeout.ms", SET, "50000"), ("consumer.session.timeout.ms", SET, "1"),
        ("consumer.heartbeat.interval.ms", SET, "1"), ("foo", SET, "1")]),
    alter(32, "", ("consumer.session.timeout.ms", SET, "50000")), alter(16, "", ("interval.ms", SET, "1000")),
    alter(0, "z", ("a", SET, "1")), alter(99, "z", ("a", SET, "1")),
    old_alter(2, "p", retention_ms="1000"), old_alter(2, "p", retention_ms=None), old_alter(2, "p", retention_ms="x"),
    old_alter(2, "nope", retention_ms="1"), old_alter(4, "1", num_partitions="1"), old_alter(8, "1", root="INFO"),
]  # fmt: skip
"""In this order; each may need what the ones before it did."""

SKIPPED = {"throttle_time_ms", "cluster_id", "topic_id", "host", "port", "log_dir"}


def said(value: object) -> object:
    """An answer without what two brokers cannot have in common."""
    if isinstance(value, list):
        return [said(one) for one in value]
    if hasattr(type(value), "__dataclass_fields__"):
        names = [name for name in type(value).__dataclass_fields__ if name not in SKIPPED]
        return {name: said(getattr(value, name)) for name in names}
    return value


def prepare(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("p", 2), NewTopic("compacted", 2, configs={"cleanup.policy": "compact"})])
        for number in range(10):
            producer.send("p", b"%d" % number, partition=0)


def test_our_broker_says_what_apache_kafka_says(apache_kafka: ApacheKafka, our_broker: EmbeddedBroker):
    prepare(apache_kafka.bootstrap_servers)
    prepare(our_broker.bootstrap_servers)
    with Peer(apache_kafka.bootstrap_servers) as theirs, Peer(our_broker.bootstrap_servers) as ours:
        for number, request in enumerate(REQUESTS):
            version = api_of(request).supported.max
            assert said(ours.ask(request, version)) == said(theirs.ask(request, version)), (number, request)


# -- our admin client at both --------------------------------------------------------------------------------------


def wait_for(admin: Admin, resource: ConfigResource, name: str, value: str, source: ConfigSource) -> None:
    """Wait until a setting is as it was set: Apache Kafka's brokers act on it a little after the answer."""
    deadline = time.monotonic() + 20
    while True:
        (entry,) = admin.describe_configs([resource], names=[name])[resource].values()
        if (entry.value, entry.source) == (value, source):
            return
        assert time.monotonic() < deadline, entry
        time.sleep(0.05)  # there is no call that waits for it


@pytest.mark.parametrize("whose", ["apache_kafka", "our_broker"])
def test_our_admin_changes_topics_and_configurations(whose: str, request: pytest.FixtureRequest):
    servers = request.getfixturevalue(whose).bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics(["changing"])
        topic, p0 = ConfigResource.topic("changing"), TopicPartition("changing", 0)
        admin.create_partitions({"changing": NewPartitions(3, [[1], [1]])})
        assert len(admin.describe_topics(["changing"])["changing"].partitions) == 3
        for number in range(5):
            producer.send("changing", b"%d" % number, partition=0)
        producer.flush()
        assert admin.delete_records({p0: 2}) == {p0: 2}
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
            admin.delete_records({p0: 99})
        admin.alter_configs({topic: {"retention.ms": "123456"}})
        admin.alter_configs({topic: [ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND)]})
        wait_for(admin, topic, "retention.ms", "123456", ConfigSource.DYNAMIC_TOPIC)
        wait_for(admin, topic, "cleanup.policy", "delete,compact", ConfigSource.DYNAMIC_TOPIC)
        admin.alter_configs({BROKER: {"log.cleaner.backoff.ms": "14000"}})
        wait_for(admin, BROKER, "log.cleaner.backoff.ms", "14000", ConfigSource.DYNAMIC_BROKER)
        admin.alter_configs({BROKER: {"log.cleaner.backoff.ms": None}})
        cluster = admin.describe_cluster(authorized_operations=True)
        assert [broker.node_id for broker in cluster.brokers] == [1] and cluster.authorized_operations
        admin.delete_topics([admin.describe_topics(["changing"])["changing"].topic_id])
        deadline = time.monotonic() + 20
        while "changing" in {listed.name for listed in admin.list_topics()}:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # here, too, Apache Kafka's brokers come after its answer


# -- other clients at our broker -----------------------------------------------------------------------------------


def test_confluent_kafka_changes_topics_on_our_broker(our_broker: EmbeddedBroker):
    confluent = pytest.importorskip("confluent_kafka")
    admin_module = pytest.importorskip("confluent_kafka.admin")
    servers = our_broker.bootstrap_servers
    admin = admin_module.AdminClient({"bootstrap.servers": servers, "log_level": 3})
    admin.create_topics([admin_module.NewTopic("cf", 1, 1)])["cf"].result(20)
    admin.create_partitions([admin_module.NewPartitions("cf", 3)])["cf"].result(20)
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(5):
            producer.send("cf", b"x", partition=0)
    (done,) = admin.delete_records([confluent.TopicPartition("cf", 0, 3)]).values()
    assert done.result(20).low_watermark == 3
    resource = admin_module.ConfigResource("topic", "cf")
    resource.add_incremental_config(
        admin_module.ConfigEntry("retention.ms", "777", incremental_operation=admin_module.AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result(20)
    found = admin.describe_configs([admin_module.ConfigResource("topic", "cf")])
    (settings,) = [one.result(20) for one in found.values()]
    assert (settings["retention.ms"].value, settings["retention.ms"].is_default) == ("777", False)
    (broker,) = admin.describe_configs([admin_module.ConfigResource("broker", "1")]).values()
    assert broker.result(20)["ssl.key.password"].is_sensitive
    assert [node.id for node in admin.describe_cluster().result(20).nodes] == [1]
    assert len(admin.list_topics("cf", timeout=20).topics["cf"].partitions) == 3


def test_kafka_python_changes_topics_on_our_broker(our_broker: EmbeddedBroker):
    kafka = pytest.importorskip("kafka")
    admin_module = pytest.importorskip("kafka.admin")
    servers = our_broker.bootstrap_servers
    with closing_client(admin_module.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([admin_module.NewTopic("kp", 1, 1)])
        admin.create_partitions({"kp": admin_module.NewPartitions(3)})
        with Producer(bootstrap_servers=servers) as producer:
            for _ in range(5):
                producer.send("kp", b"x", partition=0)
        key = kafka.TopicPartition("kp", 0)
        assert "3" in str(admin.delete_records({key: 3}))
        admin.alter_configs([admin_module.ConfigResource("TOPIC", "kp", {"retention.ms": "777"})])
        assert "777" in str(admin.describe_configs([admin_module.ConfigResource("TOPIC", "kp")]))
        assert our_broker.bootstrap_servers.rpartition(":")[2] in str(admin.describe_cluster())
    with Admin(bootstrap_servers=servers) as ours:
        assert len(ours.describe_topics(["kp"])["kp"].partitions) == 3


def test_apache_kafkas_tools_change_topics_on_our_broker(
    our_broker: EmbeddedBroker, tools: SharedTools, tmp_path: Path
):
    servers = our_broker.bootstrap_servers
    at = ("--bootstrap-server", servers)
    tools.run(TOPICS, *at, "--create", "--topic", "jt", "--partitions", "1")
    tools.run(TOPICS, *at, "--alter", "--topic", "jt", "--partitions", "3")
    assert "PartitionCount: 3" in tools.run(TOPICS, *at, "--describe", "--topic", "jt")
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(5):
            producer.send("jt", b"x", partition=0)
    offsets = tmp_path / "offsets.json"
    part = {"topic": "jt", "partition": 0, "offset": 3}
    offsets.write_text(json.dumps({"version": 1, "partitions": [part]}))
    assert "low_watermark: 3" in tools.run(DELETE_RECORDS, *at, "--offset-json-file", str(offsets))
    topic = (*at, "--entity-type", "topics", "--entity-name", "jt")
    tools.run(CONFIGS, *topic, "--alter", "--add-config", "retention.ms=4242,cleanup.policy=[compact,delete]")
    described = tools.run(CONFIGS, *topic, "--describe")
    assert "retention.ms=4242" in described and "cleanup.policy=compact,delete" in described
    tools.run(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=4242" not in tools.run(CONFIGS, *topic, "--describe")
    everything = tools.run(CONFIGS, *at, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "log.retention.hours=168" in everything
    all_brokers = (*at, "--entity-type", "brokers", "--entity-default")
    tools.run(CONFIGS, *all_brokers, "--alter", "--add-config", "log.retention.ms=9")
    assert "log.retention.ms=9" in tools.run(CONFIGS, *all_brokers, "--describe")
    tools.run(CONFIGS, *all_brokers, "--alter", "--delete-config", "log.retention.ms")
    tools.run(TOPICS, *at, "--delete", "--topic", "jt")
    assert "jt" not in tools.run(TOPICS, *at, "--list").split()
