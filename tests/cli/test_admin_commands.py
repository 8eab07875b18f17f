"""Commands that administer a cluster, `kafkaraw topics` to `partitions` and `-L`, run in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from kafkaraw import Admin, NewTopic, OffsetSpec, Producer, TopicPartition
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.cli import changes
from kafkaraw.cli.partition_moves import plan
from kafkaraw.errors import UsageError
from tests.cli.running import fill, make_topic, run

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """The addresses of a cluster of three brokers."""
    with EmbeddedCluster(3) as cluster:
        yield cluster.bootstrap_servers


def found(servers: str, command: str, *arguments: str) -> list[dict[str, object]]:
    rows = json.loads(run(servers, command, *arguments, "-o", "json").stdout)
    assert isinstance(rows, list)
    return rows


def test_topics_are_created_altered_described_and_deleted(servers: str) -> None:
    checked = run(servers, "topics create", "made", "-p", "2", "-c", "retention.ms=-1", "--dry-run")
    assert "Nothing was changed (--dry-run)." in checked.stderr
    assert "made" not in run(servers, "topics list", "-q").stdout.split()
    created = run(servers, "topics create", "made", "-p", "2", "-c", "retention.ms=-1")
    assert created.stderr == "Created 1 topic.\n"
    assert "TOPIC_ALREADY_EXISTS" in run(servers, "topics create", "made", code=1).stderr
    assert "exists already" in run(servers, "topics create", "made", "--if-not-exists").stderr

    run(servers, "topics alter", "made", "-p", "4", "--dry-run")
    (described,) = found(servers, "topics describe", "made")
    assert (described["partition_count"], described["configs"]) == (2, {"retention.ms": "-1"})
    run(servers, "topics alter", "made", "-p", "4")
    table = run(servers, "topics describe", "made").stdout.splitlines()
    assert table[0].split() == ["TOPIC", "TOPIC-ID", "PARTITION-COUNT", "REPLICATION-FACTOR", "CONFIGS"]
    assert table[-1].split() == ["made", "3", "0", "0", "0", "0", "-"]
    assert run(servers, "topics describe", "made", "--under-replicated-partitions").stdout == ""
    assert "INVALID_PARTITIONS" in run(servers, "topics alter", "made", "-p", "1", code=1).stderr

    assert "Give --yes to confirm" in run(servers, "topics delete", "made", code=2).stderr
    run(servers, "topics delete", "made", "--dry-run")
    assert run(servers, "topics delete", "made", "--yes").stderr == "Deleted 1 topic.\n"
    assert "no topic 'made' in this cluster" in run(servers, "topics delete", "made", "-y", code=1).stderr
    run(servers, "topics delete", "made", "-y", "--if-exists")


def test_a_user_at_a_terminal_is_asked(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "at_terminal", lambda: True)
    make_topic(servers, "asked")
    assert "Aborted" in run(servers, "topics delete", "asked", given=b"n\n", code=1).stderr
    assert run(servers, "topics delete", "asked", given=b"y\n").stderr.endswith("Deleted 1 topic.\n")


def test_offsets_are_shown_and_records_deleted_from_the_beginning(servers: str) -> None:
    make_topic(servers, "cut", partitions=2)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(6):
            producer.send("cut", b"x", partition=0, timestamp_ms=1000 * number)
    first = {"topic": "cut", "partition": 0}
    assert found(servers, "topics offsets", "cut:0") == [{**first, "earliest": 0, "latest": 6, "offsets": 6}]
    assert found(servers, "topics offsets", "cut:0", "--time", "2500") == [
        {**first, "offset": 3, "timestamp": "1970-01-01T00:00:03.000Z"}
    ]
    assert found(servers, "topics offsets", "cut", "--time", "max-timestamp")[1]["offset"] is None
    assert run(servers, "topics truncate", "cut:0", "--before", "2500", "--dry-run").stdout.split()[-6:] == [
        "cut", "0", "0", "3", "6", "3",
    ]  # fmt: skip
    with Admin(bootstrap_servers=servers) as admin:

        def start() -> object:
            at = admin.list_offsets({TopicPartition("cut", 0): OffsetSpec.EARLIEST})[TopicPartition("cut", 0)]
            return at and at.offset

        assert start() == 0
        run(servers, "topics truncate", "cut:0", "--before", "2500", "--yes")
        assert start() == 3
        run(servers, "topics truncate", "cut", "--all", "--yes")
        assert start() == 6
    assert "ends at offset 6" in run(servers, "topics truncate", "cut:0", "--before-offset", "7", "-y", code=1).stderr


def test_configs_are_shown_set_and_unset(servers: str) -> None:
    make_topic(servers, "tuned")
    assert "Nothing is set for topic 'tuned'" in run(servers, "configs get", "--topic", "tuned").stderr
    run(servers, "configs set", "--topic", "tuned", "retention.ms=5", "--dry-run")
    assert found(servers, "configs get", "--topic", "tuned") == []
    run(servers, "configs set", "-t", "tuned", "retention.ms=5", "cleanup.policy+=compact")
    values = {row["name"]: row["value"] for row in found(servers, "configs get", "--topic", "tuned")}
    assert values == {"cleanup.policy": "delete,compact", "retention.ms": "5"}
    run(servers, "configs unset", "-t", "tuned", "cleanup.policy", "retention.ms")
    (row,) = found(servers, "configs get", "-t", "tuned", "retention.ms", "--documentation", "--synonyms")
    assert row["source"] != "DYNAMIC_TOPIC"
    assert len(found(servers, "configs get", "--broker", "0", "--all")) > 10
    assert "INVALID_CONFIG" in run(servers, "configs set", "-t", "tuned", "bogus=1", code=1).stderr
    assert "has no setting 'bogus'" in run(servers, "configs get", "-t", "tuned", "bogus", code=1).stderr


def test_scram_credentials_are_set_and_removed(servers: str) -> None:
    set_ada = ("users set", "ada", "--password-stdin", "--mechanism", "scram-sha-256")
    run(servers, *set_ada, "--dry-run", given=b"secret\n")
    assert found(servers, "users list") == []
    assert "secret" not in run(servers, *set_ada, given=b"secret\n").output
    row = {"user": "ada", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
    assert found(servers, "users list") == [row]
    assert "Remove 1 credential? Give --yes" in run(servers, "users remove", "ada", code=2).stderr
    run(servers, "users remove", "ada", "--dry-run")
    assert found(servers, "users list", "ada") == [row]
    run(servers, "users remove", "ada", "--yes")
    assert "RESOURCE_NOT_FOUND" in run(servers, "users remove", "ada", "--yes", code=1).stderr
    assert "the password is empty" in run(servers, *set_ada, given=b"\n", code=1).stderr


def test_quotas_are_set_and_removed(servers: str) -> None:
    run(servers, "quotas set", "--user", "ada", "--client-defaults", "producer_byte_rate=1000", "--dry-run")
    assert found(servers, "quotas list") == []
    run(servers, "quotas set", "--user", "ada", "--client-defaults", "producer_byte_rate=1000")
    assert found(servers, "quotas list", "--user", "ada") == [
        {"user": "ada", "client_id": "<default>", "ip": None, "quota": "producer_byte_rate", "value": 1000.0}
    ]
    assert found(servers, "quotas list", "--user", "ada", "--strict") == []
    remove = ("quotas remove", "--user", "ada", "--client-defaults", "producer_byte_rate")
    assert "Give --yes" in run(servers, *remove, code=2).stderr
    run(servers, *remove, "--yes")
    assert found(servers, "quotas list") == []
    assert "INVALID_REQUEST" in run(servers, "quotas set", "--user", "ada", "bytes=1", code=1).stderr


def test_the_cluster_is_described(brokers: str) -> None:
    (info,) = found(brokers, "cluster info")
    assert info["brokers"] == 3
    nodes = found(brokers, "cluster brokers")
    assert [node["broker"] for node in nodes] == [0, 1, 2] and sum(bool(node["controller"]) for node in nodes) == 1
    quorum = json.loads(run(brokers, "cluster quorum", "-o", "json").stdout)
    assert quorum["leader_id"] in [node["node"] for node in quorum["nodes"] if node["status"] == "Leader"]
    assert "high watermark" in run(brokers, "cluster quorum").stdout
    assert "transaction.version" in [row["feature"] for row in found(brokers, "cluster features")]
    produce = [row for row in found(brokers, "cluster api-versions", "--broker", "1") if row["api"] == "Produce"]
    assert [(row["broker"], row["key"], row["usable"]) for row in produce] == [(1, 0, 13)]
    assert "no broker 9 runs" in run(brokers, "cluster api-versions", "--broker", "9", code=1).stderr
    assert yaml.safe_load(run(brokers, "cluster logdirs", "-o", "yaml").stdout) == found(brokers, "cluster logdirs")


def test_leaders_are_elected_and_replicas_moved_by_a_plan(brokers: str) -> None:
    with Admin(bootstrap_servers=brokers) as admin:
        admin.create_topics([NewTopic("moved", assignments={0: [0], 1: [1]})])

        def replicas() -> list[tuple[int, ...]]:
            return [each.replica_nodes for each in admin.describe_topics(["moved"])["moved"].partitions]

        assert "needs this election" in run(brokers, "partitions elect", "moved").stderr
        reassign = ("partitions reassign", "moved", "--to-brokers", "1,2")
        run(brokers, *reassign, "--dry-run")
        assert "Give --yes" in run(brokers, *reassign, code=2).stderr
        assert replicas() == [(0,), (1,)] and found(brokers, "partitions reassignments", "moved") == []
        assert run(brokers, *reassign, "--yes").stderr == "Began to reassign 1 partition.\n"
        while found(brokers, "partitions reassignments"):
            pass
        assert replicas() == [(2,), (1,)]
    assert "Nothing to move" in run(brokers, *reassign, "--yes").stderr
    assert "no broker 7 runs" in run(brokers, "partitions reassign", "moved", "--to-brokers", "7", code=1).stderr
    assert "4 replicas on 3 brokers" in run(
        brokers, "partitions reassign", "moved", "--replication-factor", "4", code=1
    ).stderr  # fmt: skip
    assert "No reassignment" in run(brokers, "partitions reassign", "moved", "--cancel", "-y").stderr


def test_a_plan_moves_few_replicas_spreads_them_and_uses_all_racks() -> None:
    keys = [TopicPartition("t", number) for number in range(6)]
    everything_on_one = dict.fromkeys(keys, (1,))
    spread = plan(everything_on_one, {1: None, 2: None, 3: None})
    assert sorted(replicas[0] for replicas in spread.values()) == [1, 1, 2, 2, 3, 3]
    assert plan(spread, {1: None, 2: None, 3: None}) == spread
    three = plan(spread, {1: "a", 2: "a", 3: "b", 4: "b"}, 2)
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in three.values())
    assert {key: replicas for key, replicas in plan({keys[0]: (1, 2, 3)}, {1: None, 2: None, 3: None}, 1).items()} == {
        keys[0]: (1,)
    }
    with pytest.raises(UsageError, match="would have 3 replicas on 2 brokers"):
        plan({keys[0]: (1, 2, 3)}, {1: None, 2: None})


def test_transactions_are_listed_described_and_aborted(servers: str) -> None:
    make_topic(servers, "paid")
    producer = Producer(bootstrap_servers=servers, transactional_id="load")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("paid", b"x").result(10)
        assert [row["state"] for row in found(servers, "transactions list")] == ["Ongoing"]
        assert found(servers, "transactions list", "--state", "CompleteCommit") == []
        (described,) = found(servers, "transactions describe", "load")
        assert described["partitions"] == ["paid-0"]
        (state,) = found(servers, "transactions describe-producers", "paid")
        assert state["start_offset"] == 0 and state["producer_id"] == described["producer_id"]
        none = run(servers, "transactions find-hanging", "paid", "--max-transaction-timeout", "0")
        assert none.stderr == "No hanging transaction in 1 partition.\n"
        run(servers, "transactions abort", "load", "--dry-run")
        assert "Give --yes" in run(servers, "transactions abort", "load", code=2).stderr
        assert [row["state"] for row in found(servers, "transactions list")] == ["Ongoing"]
        run(servers, "transactions abort", "load", "--yes")
        assert found(servers, "transactions describe", "load")[0]["state"] in ("PrepareAbort", "CompleteAbort", "Empty")
    finally:
        producer.close(0)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in run(servers, "transactions describe", "nobody", code=1).stderr
    at = ("transactions abort", "--topic", "paid", "--partition", "0", "--start-offset", "99")
    assert "no open transaction begins at offset 99" in run(servers, *at, "--yes", code=1).stderr


def test_metadata_is_that_of_kcat(servers: str) -> None:
    fill(servers, "seen", [b"x"])
    listed = run(servers, "-L", "-t", "seen").stdout
    assert listed.startswith(f"Metadata for seen (from broker -1: {servers}/bootstrap):\n 1 brokers:\n")
    assert "    partition 0, leader 0, replicas: 0, isrs: 0\n" in listed
    assert json.loads(run(servers, "metadata", "-J").stdout)["brokers"] == [{"id": 0, "name": servers}]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topics truncate t", "give one of --before-offset OFFSET"),
        ("topics create t -c x", "must be NAME=VALUE"),
        ("configs get", "give one of --topic"),
        ("configs get --topic a --broker 1", "give one of --topic"),
        ("configs set --topic a x", "must be NAME=VALUE, NAME+=VALUE"),
        ("users set ada", "use --password-stdin"),
        ("quotas set x=1", "give an entity"),
        ("quotas set --user a x=y", "must be QUOTA=NUMBER"),
        ("acls add --topic t", "no principal given"),
        ("acls add --topic t --allow-principal ada", "must be TYPE:NAME, such as User:ada"),
        ("acls add --allow-principal User:a", "no resource given"),
        (
            "acls add --topic t --allow-principal User:a --operation dance",
            "--operation dance: must be one of all, read",
        ),
        ("acls remove", "give options that select ACLs"),
        ("transactions abort", "give transactional ids"),
        ("transactions abort --topic t", "named by --topic, --partition and --start-offset together"),
        ("partitions elect", "give TOPIC or TOPIC:0,2"),
        ("partitions reassign t", "give --to-brokers"),
        ("partitions reassign t --to-brokers a", "must be ids of brokers"),
        ("topics list --json -o yaml", "--json and -o yaml exclude each other"),
    ],
)
def test_invalid_options_are_usage_errors(command: str, said: str) -> None:
    assert said in run(NOWHERE, command, code=2).stderr


@pytest.mark.parametrize(
    "command",
    ["topics list", "acls list", "users list", "quotas list", "cluster info",
     "cluster api-versions", "transactions list", "partitions reassignments", "groups list", "log-dirs describe", "-L"],
)  # fmt: skip
def test_a_cluster_that_does_not_answer_is_an_error_of_one_line(command: str) -> None:
    said = run(NOWHERE, command, code=1).stderr
    assert said.startswith(f"Error: cannot connect to {NOWHERE}") and said.count("\n") == 1
