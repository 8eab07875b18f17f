"""The log of decisions: its topic, what is noticed when the topic changes, and how large a decision may be."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.client.admin import ConfigResource, NewTopic
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.writing.decision import Decision, RowSum, SlotDecision, transactional_id
from kafkaraw.spark.writing.decisions import Decisions
from kafkaraw.spark.writing.outcomes import LogRecord, TransactionOwner
from tests.spark.writing.query import Query, forget_clients

BATCH = [0, 1, 2]
SLOTS_MANY = 100_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker
        forget_clients()


@pytest.fixture
def servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


def make_topic(servers: str, name: str, **settings: str) -> None:
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, configs=configs)])


def with_topic(servers: str, name: str) -> Query:
    return Query(servers, decisionsTopic=name)


# -- the topic


def test_a_missing_topic_is_created_compacted(servers: str) -> None:
    with_topic(servers, "made").run(0)
    resource = ConfigResource.topic("made")
    with Admin(bootstrap_servers=servers) as admin:
        configs = admin.describe_configs([resource])[resource]
    assert configs["cleanup.policy"].value == "compact"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes_decisions_is_refused(servers: str, policy: str) -> None:
    make_topic(servers, "deleting", cleanup_policy=policy, retention_ms="1000")
    with pytest.raises(UsageError, match=rf"decisionsTopic=deleting: this topic has cleanup.policy={policy}, and must"):
        with_topic(servers, "deleting").task(0, 0)


def test_a_topic_with_several_partitions_is_a_warning_and_partition_0_is_used(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("three", 3, configs={"cleanup.policy": "compact"})])
    query = with_topic(servers, "three")
    query.run(0)
    query.run(0)
    assert query.read() == BATCH
    assert "has 3 partitions; only partition 0 is used" in caplog.text


def test_on_a_cluster_a_created_topic_is_replicated_and_an_unsafe_one_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with EmbeddedCluster(3) as cluster:
        servers = cluster.bootstrap_servers
        with_topic(servers, "made").task(0, 0)
        resource = ConfigResource.topic("made")
        with Admin(bootstrap_servers=servers) as admin:
            replicas = admin.describe_topics(["made"])["made"].partitions[0].replica_nodes
            insync = admin.describe_configs([resource])[resource]["min.insync.replicas"].value
            admin.create_topics([NewTopic("single", 1, 1, configs={"cleanup.policy": "compact"})])
            admin.create_topics([NewTopic("unsafe", 1, 3, {"cleanup.policy": "compact", "min.insync.replicas": "1"})])
        assert (len(replicas), insync) == (3, "2")
        assert caplog.text == ""
        with_topic(servers, "single").task(0, 0)
        assert "decisionsTopic=single has replication factor 1 on a cluster of 3 brokers" in caplog.text
        with_topic(servers, "unsafe").task(0, 0)
        assert "decisionsTopic=unsafe has min.insync.replicas=1" in caplog.text
        forget_clients()


def test_on_two_brokers_the_warning_names_a_replication_factor_that_fits(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedCluster(2) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("single", 1, 1, configs={"cleanup.policy": "compact"})])
        with_topic(servers, "single").task(0, 0)
        assert "replication factor 1 on a cluster of 2 brokers" in caplog.text
        assert "the exactly-once queries cannot continue; use 2" in caplog.text
        forget_clients()


# -- a topic that changes under a query


def recreate(servers: str, topic: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, 1, configs={"cleanup.policy": "compact"})])


def test_a_process_that_has_read_a_decision_refuses_when_its_topic_is_created_again(servers: str) -> None:
    query = with_topic(servers, "again")
    for batch_id in range(6):
        query.run(batch_id)
    recreate(servers, "again")
    with pytest.raises(UsageError, match="batch 5 was decided before, and the topic of decisions has none about this"):
        query.run(6)
    forget_clients()  # a new process
    with pytest.raises(UsageError, match="has no decision about this query, and should have one about batch 5"):
        query.run(6)
    assert len(query.read()) == 18


def test_a_process_that_has_read_batch_0_refuses_it_in_a_topic_that_was_created_again(
    servers: str,
) -> None:
    query = with_topic(servers, "again")
    query.run(0)
    recreate(servers, "again")
    for _ in range(2):  # Spark runs a task that has failed again, in the same process
        with pytest.raises(UsageError, match="batch 0 was decided before"):
            query.run(0)
    other = with_topic(servers, "again")
    other.run(0)
    other.run(0)
    assert other.read() == BATCH


def test_the_decision_of_a_query_that_was_lost_with_the_topic_is_resolved(servers: str) -> None:
    query = with_topic(servers, "again")
    query.run(0)
    recreate(servers, "again")
    resolved = query.with_options(decisionsTopic="again", resolveBatches="1@none=write")
    resolved.run(1)
    resolved.run(1)
    resolved.run(2)
    assert query.read() == [*BATCH, 10, 11, 12, 20, 21, 22]


def test_a_topic_that_was_truncated_is_read_again_and_a_lost_decision_refused(servers: str) -> None:
    query = with_topic(servers, "cut")
    query.run(0)
    with Admin(bootstrap_servers=servers) as admin, query_decisions(query, "cut") as decisions:
        decisions.look(query.id)
        admin.alter_configs({ConfigResource.topic("cut"): {"cleanup.policy": "delete"}})
        admin.delete_records({TopicPartition("cut", 0): -1})
        admin.alter_configs({ConfigResource.topic("cut"): {"cleanup.policy": "compact"}})
        assert decisions.look(query.id).last is not None  # what was read stays known
        decisions._next_offset += 1_000  # as if an unclean election had cut the log off
        found = decisions.look(query.id)
        assert found.last is None
        assert found.lost is not None


def query_decisions(query: Query, topic: str) -> Decisions:
    decisions = Decisions(query.settings.client, topic)
    return Closing(decisions)  # type: ignore[return-value]


class Closing:
    """A `with` for decisions that no pool keeps."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def __enter__(self) -> Decisions:
        return self._decisions

    def __exit__(self, *_: object) -> None:
        self._decisions.close()


def test_decisions_are_found_after_deleted_records(servers: str) -> None:
    query = with_topic(servers, "front")
    query.run(0)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.topic("front"): {"cleanup.policy": "delete"}})
        admin.delete_records({TopicPartition("front", 0): 1})
        admin.alter_configs({ConfigResource.topic("front"): {"cleanup.policy": "compact"}})
    forget_clients()
    query.run(0)
    assert query.read() == BATCH


def test_a_decision_whose_marker_was_deleted_proves_nothing(servers: str) -> None:
    query = with_topic(servers, "front")
    query.run(0)
    query.tasks(1)  # the ids are taken over
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.topic("front"): {"cleanup.policy": "delete"}})
        admin.delete_records({TopicPartition("front", 0): 3})
        admin.alter_configs({ConfigResource.topic("front"): {"cleanup.policy": "compact"}})
    wanted = r"whether slot .*/0 of batch 0 is committed: its marker is gone.* resolveBatches to (0@\d+=write)"
    with pytest.raises(UsageError, match=wanted) as refusal:
        query.task(0, 0)
    found = re.search(wanted, str(refusal.value))
    assert found is not None
    for what in (found[1].replace("write", "skip"), found[1]):
        query.with_options(resolveBatches=what, decisionsTopic="front").run(0)
    assert query.read() == sorted(BATCH * 2)


def test_incomplete_and_deleted_decisions_are_ignored(servers: str) -> None:
    query = with_topic(servers, "left")
    query.run(0)
    with Producer(bootstrap_servers=servers, transactional_id="compaction") as producer:
        producer.init_transactions()
        for key, value in [(b"long#2", b'{"batch":1,"part":2,"slots":[]}'), (b"gone", b"{}"), (b"gone", None)]:
            producer.begin_transaction()
            producer.send("left", value, key, partition=0)
            producer.commit_transaction()
        producer.begin_transaction()
        producer.send("left", b"not ours", b"other", partition=0)
        producer.commit_transaction()
    with query_decisions(query, "left") as decisions:
        assert decisions.look("gone").last is None
        with pytest.raises(KafkaError, match=r"the record at offset \d+ about query other is no decision"):
            decisions.look("other")
        recreate(servers, "left")
        found = decisions.look(query.id)
        assert (found.last, found.lost is not None) == (None, True)


# -- size


def decision_of(query_id: str, slots_count: int) -> Decision:
    prefix = "kafkaraw-spark"
    slots = (
        SlotDecision(
            PreparedTransaction(transactional_id(prefix, query_id, number), 2**40 + number, 77, bumps_epochs=True),
            RowSum(10**9 + number, 2**64 - 1 - number),
        )
        for number in range(slots_count)
    )
    return Decision(query_id, 57, tuple(slots))


def test_a_decision_about_100_000_slots_is_written_and_read(servers: str) -> None:
    query = with_topic(servers, "large")
    wanted = decision_of("large-query", SLOTS_MANY)
    with query_decisions(query, "large") as writer, query_decisions(query, "large") as reader:
        writer.take_over("kafkaraw-spark", "large-query")
        writer.decide(wanted, writer.look("large-query"), "kafkaraw-spark")
        assert reader.look("large-query").last == wanted
        smaller = decision_of("large-query", 3)
        writer.take_over("kafkaraw-spark", "large-query")
        writer.decide(smaller, writer.look("large-query"), "kafkaraw-spark")
        assert reader.look("large-query").last == smaller


# -- closing


@pytest.mark.parametrize(
    "said", ['{"batch": 0}', '{"batch": 0, "transactions": 5}', '{"batch": "0", "transactions": []}']
)
def test_a_record_that_is_like_a_decision_of_the_first_format_is_refused(said: str) -> None:
    """By an error, and not by an assertion, which `python -O` removes."""
    record = LogRecord(7, b"query", said.encode(), TransactionOwner(-1, -1))
    with pytest.raises(KafkaError, match="the decision at offset 7 names no list of transactions, or no batch"):
        Decision.from_records([record])


def test_close_closes_all_clients_even_if_one_raises(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = with_topic(servers, "closing")
    decisions = Decisions(query.settings.client, "closing")
    decisions.take_over("kafkaraw-spark", query.id)
    decisions.look(query.id)
    closed: list[str] = []
    plain, plain_of_producer = Admin.close, Producer.close

    def close_admin(self: Admin) -> None:
        closed.append("admin")
        plain(self)

    def close_producer(self: Producer, timeout: float | None = None) -> None:
        plain_of_producer(self, timeout)
        raise KafkaError("the producer does not want to")

    with monkeypatch.context() as patch:
        patch.setattr(Admin, "close", close_admin)
        patch.setattr(Producer, "close", close_producer)
        with pytest.raises(KafkaError, match="does not want to"):
            decisions.close()
    assert closed == ["admin"]
    assert decisions._reader is None


def test_a_look_costs_one_fetch(servers: str) -> None:
    query = with_topic(servers, "fast")
    query.run(0)
    with query_decisions(query, "fast") as decisions:
        decisions.look(query.id)
        began_s = time.perf_counter()
        for _ in range(20):
            decisions.look(query.id)
        assert time.perf_counter() - began_s < 20 * 0.4  # none waits at the end of the log
