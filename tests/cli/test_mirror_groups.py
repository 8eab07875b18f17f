"""`kafkaraw mirror translate`, `failover`, `failback`, `status` and `topics`, with a mirror of two embedded brokers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.client.admin import AclBinding, ResourcePattern
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.mirror.clients import FlowClients
from kafkaraw.mirror.offset_syncs import OffsetSync
from kafkaraw.mirror.positions import Position
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import MirrorFlow, read_mirror_settings
from kafkaraw.mirror.status import flow_status
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType

ROWS = 60
ORDERS = [TopicPartition("orders", number) for number in range(2)]
COPIES = [TopicPartition("east.orders", number) for number in range(2)]
FEW = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


class Mirror:
    """Two clusters, east and west, and the configuration of a mirror between them."""

    def __init__(self, east: str, west: str, path: Path) -> None:
        self.east, self.west, self.path = east, west, path
        self.more = ""

    def configure(self, more: str = "", *, east: str | None = None) -> None:
        self.path.write_text(
            f"clusters = east, west\neast.bootstrap.servers = {east or self.east}\n"
            f"west.bootstrap.servers = {self.west}\neast->west.enabled = true\n"
            f"emit.heartbeats.interval.seconds = 1\nemit.checkpoints.interval.seconds = 1\n{more}"
        )

    def fill(self, first: int = 0, count: int = ROWS, *, aborted: bool = False) -> None:
        """Write records with markers of transactions among them, so that offsets of the copy differ."""
        with Producer(bootstrap_servers=self.east, transactional_id="filler") as producer:
            producer.init_transactions()
            for number in range(first, first + count):
                if number % 10 == 0:
                    producer.begin_transaction()
                producer.send("orders", b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
                if number % 10 == 9:
                    producer.flush()  # an abort drops what is not sent
                    (producer.abort_transaction if aborted else producer.commit_transaction)()

    def copy(self) -> None:
        """Run the flows until everything is copied, and offsets are written."""
        mirror = read_mirror_settings(self.path)

        async def copy_of(flow: MirrorFlow) -> None:
            status = await flow_status(flow, mirror, FlowClients(flow.copy))
            ends = {
                each.source: each.end for each in status.partitions if each.end and each.source.topic != "heartbeats"
            }
            run = MirrorRun(flow, mirror.topology)
            task = asyncio.create_task(run.run())
            mappings = run.offsets.mappings
            async with asyncio.timeout(30):
                while not all(of in mappings and mappings[of].source_end == end for of, end in ends.items()):
                    if task.done():
                        await task
                    await asyncio.sleep(0.02)
            run.stop()
            await task

        async def every() -> None:
            await asyncio.gather(*(copy_of(flow) for flow in mirror.flows))

        asyncio.run(every())

    def run(self, *arguments: str) -> Result:
        result = CliRunner().invoke(main, ["mirror", *arguments, "-m", str(self.path)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        result = self.run(*arguments, "-o", "json")
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    def commit(self, servers: str, offsets: dict[TopicPartition, int], group: str = "billing") -> None:
        with Admin(bootstrap_servers=servers) as admin:
            admin.alter_group_offsets(group, offsets)

    def committed(self, servers: str, group: str = "billing") -> dict[TopicPartition, int]:
        with Admin(bootstrap_servers=servers) as admin:
            return {of: at.offset for of, at in admin.list_group_offsets([group])[group].items()}

    def value_at(self, servers: str, partition: TopicPartition, offset: int) -> bytes | None:
        """Return the value of the next record at a position, None at the end."""
        with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            if offset >= consumer.end_offsets([partition])[partition]:
                return None
            batches = consumer.poll(5)
            return next((record.value for batch in batches.values() for record in batch), None)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    with EmbeddedBroker(properties=FEW) as east, EmbeddedBroker(properties=FEW) as west:
        with Admin(bootstrap_servers=east.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", partitions=2)])
        made = Mirror(east.bootstrap_servers, west.bootstrap_servers, tmp_path / "mirror.properties")
        made.configure()
        yield made


def test_offsets_are_translated_to_the_same_records_and_a_failover_and_its_way_back_move_the_group(
    mirror: Mirror,
) -> None:
    mirror.fill(aborted=True)
    mirror.fill(ROWS)
    mirror.commit(mirror.east, {ORDERS[0]: 47, ORDERS[1]: 40})
    mirror.copy()
    rows = mirror.rows("translate", "billing")
    assert [row["how"] for row in rows] == ["exact", "exact"]
    for row, origin, copy in zip(rows, ORDERS, COPIES, strict=True):
        assert row["new_offset"] != row["offset"]
        assert mirror.value_at(mirror.east, origin, row["offset"]) == mirror.value_at(
            mirror.west, copy, row["new_offset"]
        )

    dry = mirror.run("failover", "billing", "--dry-run")
    assert (dry.exit_code, mirror.committed(mirror.west)) == (0, {})
    assert "Nothing was changed (--dry-run)." in dry.stderr
    moved = mirror.run("failover", "billing")
    assert "Set 2 offsets of group 'billing' in west." in moved.stderr
    assert mirror.committed(mirror.west) == {copy: row["new_offset"] for copy, row in zip(COPIES, rows, strict=True)}

    mirror.commit(mirror.west, {COPIES[0]: rows[0]["new_offset"] + 5})
    assert [row["how"] for row in mirror.rows("translate", "billing", "--back")] == ["exact", "exact"]
    back = mirror.run("failback", "billing")
    assert "Set 1 offset of group 'billing' in east; as far already: 1." in back.stderr
    there = mirror.committed(mirror.east)
    assert there[ORDERS[1]] == 40
    assert mirror.value_at(mirror.east, ORDERS[0], there[ORDERS[0]]) == mirror.value_at(
        mirror.west, COPIES[0], rows[0]["new_offset"] + 5
    )


def test_offsets_survive_a_restart_of_the_mirror_and_inactive_groups_follow(mirror: Mirror) -> None:
    mirror.configure("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
    mirror.fill()
    mirror.copy()
    mirror.fill(ROWS)
    mirror.commit(mirror.east, {ORDERS[0]: 12, ORDERS[1]: 50})
    mirror.copy()
    assert [row["how"] for row in mirror.rows("translate", "billing")] == ["exact", "exact"]
    assert mirror.committed(mirror.west) == {
        COPIES[number]: row["new_offset"] for number, row in enumerate(mirror.rows("translate", "billing"))
    }


def test_without_the_source_the_last_checkpoints_are_used(mirror: Mirror) -> None:
    mirror.fill()
    mirror.commit(mirror.east, {ORDERS[0]: 12})
    mirror.copy()
    exact = mirror.rows("translate", "billing")[0]["new_offset"]
    with socket.socket() as listener:  # its port is closed later
        listener.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    mirror.configure(east=closed, more="east.bootstrap.timeout.ms = 300\n")
    result = mirror.run("failover", "billing", "-o", "json")
    assert result.exit_code == 0, result.output
    assert "Warning: east does not answer, so its last checkpoints are used" in result.stderr
    assert [(row["how"], row["new_offset"]) for row in json.loads(result.stdout)] == [("checkpoint", exact)]
    assert mirror.committed(mirror.west) == {COPIES[0]: exact}
    assert "has no checkpoint of nobody" in mirror.run("translate", "nobody").stderr


def test_a_group_with_members_is_not_moved(mirror: Mirror) -> None:
    mirror.fill()
    mirror.commit(mirror.east, {ORDERS[0]: 12})
    mirror.copy()
    with Consumer(bootstrap_servers=mirror.east, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(5)
        refused = mirror.run("failover", "billing")
        assert (refused.exit_code, mirror.committed(mirror.west)) == (1, {})
        assert "group 'billing' has members in east, which go on reading: stop them" in refused.stderr
        assert mirror.run("failover", "billing", "--force").exit_code == 0
    with Consumer(bootstrap_servers=mirror.west, group_id="billing") as consumer:
        consumer.subscribe(["east.orders"])
        consumer.poll(5)
        refused = mirror.run("failover", "billing")
        assert refused.exit_code == 1
        assert "group 'billing' has members in west: stop them" in refused.stderr


def test_copies_of_other_tools_are_translated_by_offset_syncs_or_timestamps(mirror: Mirror) -> None:
    mirror.fill()
    with Admin(bootstrap_servers=mirror.west) as admin, Producer(bootstrap_servers=mirror.west) as producer:
        admin.create_topics([NewTopic("east.orders", partitions=2)])
        for number in range(ROWS):
            producer.send("east.orders", b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
    mirror.commit(mirror.east, {ORDERS[0]: 12, ORDERS[1]: 12})
    assert [row["how"] for row in mirror.rows("translate", "billing")] == ["unknown", "unknown"]
    refused = mirror.run("failover", "billing")
    assert refused.exit_code == 1
    assert "offset 12 of orders [0] of group 'billing' cannot be translated" in refused.stderr
    rows = mirror.rows("translate", "billing", "--timestamp")
    assert [row["how"] for row in rows] == ["timestamp", "timestamp"]
    for row, origin, copy in zip(rows, ORDERS, COPIES, strict=True):
        assert mirror.value_at(mirror.east, origin, 12) == mirror.value_at(mirror.west, copy, row["new_offset"])
    with Producer(bootstrap_servers=mirror.east) as producer:
        sync = OffsetSync(ORDERS[0], 6, 5)
        producer.send("mm2-offset-syncs.west.internal", sync.value, sync.key, partition=0)
    rows = mirror.rows("translate", "billing", "--timestamp")
    assert [row["how"] for row in rows] == ["offset-sync", "timestamp"]
    assert rows[0]["new_offset"] == 6


def test_a_group_of_both_directions_goes_to_the_other_side_as_a_whole(mirror: Mirror) -> None:
    mirror.configure("west->east.enabled = true\n")
    mirror.fill()
    with Admin(bootstrap_servers=mirror.west) as admin, Producer(bootstrap_servers=mirror.west) as producer:
        admin.create_topics([NewTopic("returns", partitions=1)])
        for number in range(9):
            producer.send("returns", b"%d" % number)
    mirror.copy()
    mirror.commit(mirror.east, {ORDERS[0]: 12, TopicPartition("west.returns", 0): 4})
    rows = mirror.rows("translate", "billing", "--flow", "east->west")
    assert [(row["topic"], row["to_topic"], row["how"]) for row in rows] == [
        ("orders", "east.orders", "exact"),
        ("west.returns", "returns", "exact"),
    ]
    assert rows[1]["new_offset"] == 4
    assert "choose one with --flow: east->west, west->east" in mirror.run("translate", "billing").stderr


def test_the_status_has_positions_lag_and_heartbeats(mirror: Mirror) -> None:
    mirror.fill()
    (before,) = mirror.rows("status")
    assert (before["topics"], before["begun"], before["heartbeat"]) == (1, 0, None)
    mirror.copy()
    mirror.fill(ROWS, 10)
    (flow,) = mirror.rows("status")
    assert flow["flow"] == "east->west"
    assert flow["lag"] >= 12
    assert [row["copy"] for row in flow["partitions"] if row["topic"] == "orders"] == ["east.orders"] * 2
    table = mirror.run("status", "--partitions").stdout.splitlines()
    assert " ".join(table[0].split()) == "FLOW TOPIC PARTITION COPY POSITION END-OFFSET LAG COPY-END-OFFSET"
    behind = mirror.run("status", "--lag-max", "3")
    assert (behind.exit_code, "lags by 6 offsets" in behind.stderr) == (1, True), behind.output


def test_the_status_names_partitions_that_a_cluster_refuses(mirror: Mirror) -> None:
    mirror.fill()
    mirror.copy()
    of, group = TopicPartition("east.orders", 0), "kafkaraw-mirror.east->west"
    with Admin(bootstrap_servers=mirror.west) as admin:
        found = admin.list_group_offsets([group])[group][of]
        position = Position.parse(found.offset, found.leader_epoch, found.metadata)._replace(
            refusal="writing orders-0 at offset 7: MESSAGE_TOO_LARGE"
        )
        admin.alter_group_offsets(group, {of: OffsetAndMetadata(position.offset, position.metadata)})
    result = mirror.run("status", "--partitions", "-o", "json")
    assert result.exit_code == 1
    assert "Error: east->west: writing orders-0 at offset 7: MESSAGE_TOO_LARGE" in result.stderr
    (flow,) = mirror_documents(result)
    refused = [row["refusal"] for row in flow["partitions"] if row["topic"] == "orders"]
    assert refused == [position.refusal, None]


def mirror_documents(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_topics_are_created_as_planned_and_circles_are_named(mirror: Mirror) -> None:
    rows = mirror.rows("topics", "--dry-run")
    assert [(row["change"], row["topic"]) for row in rows] == [("create", "east.orders")]
    with Admin(bootstrap_servers=mirror.west) as admin:
        assert [topic.name for topic in admin.list_topics()] == []
        assert mirror.run("topics").exit_code == 0
        assert [topic.name for topic in admin.list_topics()] == ["east.orders"]
    with Admin(bootstrap_servers=mirror.east) as admin:
        admin.create_partitions({"orders": 3})
    assert [(row["change"], row["what"]) for row in mirror.rows("topics")] == [("grow", {"partitions": 3})]
    assert "The targets lack nothing." in mirror.run("topics").stderr
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    mirror.configure(identity + "west->east.enabled = true\n")
    result = mirror.run("topics", "--dry-run")
    assert result.exit_code == 1
    assert "east->west: topic orders: it would be copied in a circle, east -> west -> east" in result.stderr


def test_a_flow_back_begins_behind_what_was_copied_if_topics_keep_their_names(mirror: Mirror) -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    mirror.configure(identity)
    mirror.fill()
    mirror.copy()
    mirror.commit(mirror.east, {ORDERS[0]: 12, ORDERS[1]: 12})
    assert mirror.run("failover", "billing").exit_code == 0
    with Producer(bootstrap_servers=mirror.west) as producer:  # after the failover
        for number in range(10):
            producer.send("orders", b"west %d" % number, partition=number % 2)
    there = mirror.path.read_text().replace("east->west.enabled", "west->east.enabled")
    mirror.path.write_text(there)
    rows = mirror.rows("reverse")
    assert [row["topic"] for row in rows] == ["orders", "orders"]
    assert mirror.run("reverse").stderr.endswith("Set 0 positions of west->east.\n")
    mirror.copy()
    assert [mirror.value_at(mirror.east, of, 36) for of in ORDERS] == [b"west 0", b"west 1"]
    with Consumer(
        bootstrap_servers=mirror.east, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(ORDERS)
        ends = consumer.end_offsets(ORDERS)
        values: list[bytes | None] = []
        while any(consumer.position(of) < end for of, end in ends.items()):
            values += [record.value for batch in consumer.poll(1).values() for record in batch]
    assert len(values) == len(set(values)) == ROWS + 10
    mirror.commit(mirror.west, {of: row["new_position"] + 3 for of, row in zip(ORDERS, rows, strict=True)})
    moved = mirror.run("failover", "billing", "-o", "json")
    assert moved.exit_code == 0, moved.output
    for row, of in zip(json.loads(moved.stdout), ORDERS, strict=True):
        assert row["how"] == "exact"
        assert mirror.value_at(mirror.east, of, row["new_offset"]) == mirror.value_at(mirror.west, of, row["offset"])


def test_a_topic_that_is_gone_is_deleted_only_if_asked(mirror: Mirror) -> None:
    assert mirror.run("topics").exit_code == 0
    with Admin(bootstrap_servers=mirror.east) as admin:
        admin.delete_topics(["orders"])
        admin.create_topics([NewTopic("other", partitions=1)])
    assert [row["change"] for row in mirror.rows("topics")] == ["create"]
    mirror.configure("sync.topic.deletions.enabled = true\n")
    assert [(row["change"], row["topic"]) for row in mirror.rows("topics")] == [("delete", "east.orders")]
    with Admin(bootstrap_servers=mirror.west) as admin:
        assert [topic.name for topic in admin.list_topics()] == ["east.other"]


def test_acls_are_copied_between_clusters_that_have_an_authorizer(tmp_path: Path) -> None:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(properties=authorizer) as east, EmbeddedBroker(properties=authorizer) as west:
        made = Mirror(east.bootstrap_servers, west.bootstrap_servers, tmp_path / "mirror.properties")
        made.configure()
        with Admin(bootstrap_servers=made.east) as admin:
            admin.create_topics([NewTopic("orders", partitions=1)])
            pattern = ResourcePattern(ResourceType.TOPIC, "orders")
            operations = (AclOperation.WRITE, AclOperation.ALL)
            admin.create_acls([AclBinding(pattern, f"User:{each.name}", each) for each in operations])
        assert [row["change"] for row in made.rows("topics")] == ["create", "acl"]
        with Admin(bootstrap_servers=made.west) as admin:
            copied = ResourcePattern(ResourceType.TOPIC, "east.orders")
            assert admin.describe_acls() == [AclBinding(copied, "User:ALL", AclOperation.READ)]


def test_groups_of_the_cluster_that_they_leave_and_flows_are_completed(mirror: Mirror) -> None:
    mirror.configure("west->east.enabled = true\n")
    mirror.commit(mirror.east, {ORDERS[0]: 0})
    with Admin(bootstrap_servers=mirror.west) as admin:
        admin.create_topics([NewTopic("east.orders", partitions=2)])
    mirror.commit(mirror.west, {COPIES[0]: 0}, "shipping")

    def completed(command: str, *arguments: str, incomplete: str = "") -> list[str]:
        shell = ShellComplete(main, {}, "kafkaraw", "_KAFKARAW_COMPLETE")
        given = ["mirror", command, "-m", str(mirror.path), *arguments]
        return [item.value for item in shell.get_completions(given, incomplete)]

    assert completed("translate", "--flow", "east->west") == ["billing"]
    assert completed("failback", "--flow", "east->west", incomplete="sh") == ["shipping"]
    assert completed("failover", "--flow", incomplete="w") == ["west->east"]
    assert completed("failover") == []


@pytest.mark.parametrize("arguments", [["status"], ["translate", "billing"], ["failover", "billing"], ["topics"]])
def test_a_configuration_that_is_missing_or_wrong_is_an_invalid_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["mirror", *arguments])
    assert (result.exit_code, "no mirror given: use -m FILE" in result.stderr) == (2, True)
    (tmp_path / "mirror.properties").write_text("clusters = a\n")
    result = CliRunner().invoke(main, ["mirror", *arguments])
    assert (result.exit_code, "mirror.properties, line 1: clusters: must name two" in result.stderr) == (2, True)
