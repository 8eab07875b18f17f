"""`kafkaraw groups` against the embedded broker: what it shows, and that nothing is changed without --execute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, Consumer, Producer, TopicPartition
from tests.cli.running import fill, make_topic, run

FIRST, SECOND = TopicPartition("trips", 0), TopicPartition("trips", 1)


@pytest.fixture(scope="module")
def trips(servers: str) -> str:
    """A topic with 10 records in partition 0, at 0 to 9 seconds, and 4 in partition 1."""
    make_topic(servers, "trips", partitions=2)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send("trips", b"x", partition=0, timestamp_ms=1000 * number)
    fill(servers, "trips", [b"y"] * 4, partition=1)
    return "trips"


@pytest.fixture
def group(servers: str, trips: str, request: pytest.FixtureRequest) -> str:
    """A group of its own for the test, which is at 3 of partition 0."""
    name = f"g-{abs(hash(request.node.name))}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets(name, {FIRST: 3})
    return name


@pytest.fixture(scope="module", params=["classic", "consumer"])
def member(servers: str, trips: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a group with one member."""
    name = f"live-{request.param}"
    settings = {"group_id": name, "group_protocol": request.param, "client_id": "me", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=servers, runtime=None, **settings) as consumer:
        consumer.subscribe(["trips"])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.05)
        consumer.commit({FIRST: 3})
        yield name


def offsets_of(servers: str, group: str) -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=servers) as admin:
        return {each: at.offset for each, at in admin.list_group_offsets([group])[group].items()}


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_groups_are_listed_with_type_and_state(servers: str, group: str, member: str):
    found = rows(run(servers, "groups list").stdout)
    assert found[0] == ["GROUP", "TYPE", "STATE", "PROTOCOL-TYPE"]
    assert [group, "classic", "Empty", "-"] in found
    assert [member, member.partition("-")[2], "Stable", "consumer"] in found
    names = run(servers, "groups list", "-q", "--state", "stable", "--type", "classic,consumer").stdout.split()
    assert member in names and group not in names
    listed = json.loads(run(servers, "groups list", "--json", "--state", "Empty").stdout)
    assert {"group": group, "type": "classic", "state": "Empty", "protocol_type": None} in listed


def test_the_lag_of_a_group_without_members(servers: str, group: str):
    result = run(servers, "groups describe", group)
    width = len(group)
    assert result.stdout == (
        f"{'GROUP':{width}} TOPIC     PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG       "
        "CONSUMER-ID HOST      CLIENT-ID\n"
        f"{group} trips     0         3              10             7         -           -         -\n\n"
    )
    assert result.stderr == f"Consumer group '{group}' has no active members.\n"
    found = json.loads(run(servers, "groups describe", "-g", group, "--json", "-v").stdout)
    assert found == [
        {"group": group, "topic": "trips", "partition": 0, "leader_epoch": None, "current_offset": 3,
         "log_end_offset": 10, "lag": 7, "consumer_id": None, "host": None, "client_id": None}
    ]  # fmt: skip


def test_members_their_partitions_and_the_state(servers: str, member: str):
    result = run(servers, "groups describe", member)
    heading, first, second = rows(result.stdout)
    assert heading[-3:] == ["CONSUMER-ID", "HOST", "CLIENT-ID"] and result.stderr == ""
    assert first[:6] == [member, "trips", "0", "3", "10", "7"] and first[-1] == "me"
    assert second[:6] == [member, "trips", "1", "-", "4", "-"] and second[6] == first[6] != "-"

    heading, row = rows(run(servers, "groups describe", member, "--members", "-v").stdout)
    described = dict(zip(heading, row, strict=True))
    assert described["#PARTITIONS"] == "2" and described["CURRENT-ASSIGNMENT"] == "trips:0,1"
    assert described["TARGET-ASSIGNMENT"] == ("-" if "classic" in member else "trips:0,1")

    state = json.loads(run(servers, "groups describe", member, "--state", "-v", "--json").stdout)[0]
    assert (state["state"], state["members"]) == ("Stable", 1)
    assert state["coordinator (id)"] == f"{servers}  (0)"


def test_unknown_groups_are_reported_and_the_others_shown(servers: str, group: str):
    result = run(servers, "groups describe", "nobody", group, code=1)
    assert "Consumer group 'nobody' does not exist." in result.stderr and "trips" in result.stdout
    assert run(servers, "groups describe", "--all-groups").stdout.count("GROUP") >= 1


def test_a_deleted_topic_has_no_end_offset(servers: str):
    make_topic(servers, "gone")
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("forgetful", {TopicPartition("gone", 0): 0})
        admin.alter_group_offsets("forgetful", {SECOND: 1})
        admin.delete_topics(["gone"])
        still = TopicPartition("gone", 0) in admin.list_group_offsets(["forgetful"])["forgetful"]
    found = [row[1:6] for row in rows(run(servers, "groups describe", "forgetful").stdout)[1:]]
    assert ["trips", "1", "1", "4", "3"] in found
    assert (["gone", "0", "0", "-", "-"] in found) is still


@pytest.mark.parametrize(
    ("way", "first", "second"),
    [
        (["--to-earliest"], 0, 0),
        (["--to-latest"], 10, 4),
        (["--to-current"], 3, 4),
        (["--to-offset", "2"], 2, 2),
        (["--to-offset", "7"], 7, 4),
        (["--to-datetime", "1970-01-01T00:00:05.500"], 6, 0),
        (["--to-datetime", "2999-01-01"], 10, 4),
        (["--by-duration", "PT1H"], 10, 0),
    ],
)
def test_a_plan_is_only_shown_without_execute(servers: str, group: str, way: list[str], first: int, second: int):
    plan = run(servers, "groups reset", group, "--topic", "trips", *way)
    assert [row[2:] for row in rows(plan.stdout)] == [
        ["PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "LOG-END-OFFSET", "NEW-LAG"],
        ["0", "3", str(first), "10", str(10 - first)],
        ["1", "-", str(second), "4", str(4 - second)],
    ]
    assert plan.stderr.endswith("Nothing was changed: give --execute to make the change.\n")
    assert offsets_of(servers, group) == {FIRST: 3}
    done = run(servers, "groups reset", group, "--topic", "trips", *way, "--execute")
    assert done.stdout == plan.stdout and done.stderr.endswith(f"Set 2 offsets of group '{group}'.\n")
    assert offsets_of(servers, group) == {FIRST: first, SECOND: second}


@pytest.mark.parametrize(("by", "to"), [("2", 5), ("-2", 1), ("-50", 0), ("50", 10)])
def test_a_shift_stays_within_the_partition(servers: str, group: str, by: str, to: int):
    done = run(servers, "groups reset", group, "--all-topics", "--shift-by", by, "--execute")
    assert offsets_of(servers, group) == {FIRST: to}
    assert ("is outside of trips [0], whose offsets are 0 to 10" in done.stderr) is (abs(int(by)) == 50)


def test_a_partition_without_a_committed_offset_cannot_be_shifted(servers: str, group: str):
    result = run(servers, "groups reset", group, "--topic", "trips", "--shift-by", "1", "--execute", code=1)
    assert "the group has no offset of trips [1] to shift" in result.stderr
    assert offsets_of(servers, group) == {FIRST: 3}


def test_some_partitions_only(servers: str, group: str):
    run(servers, "groups reset", group, "--topic", "trips:1", "--to-latest", "--execute")
    assert offsets_of(servers, group) == {FIRST: 3, SECOND: 4}


def test_a_plan_is_exported_and_read_in_the_format_of_kafkas_tool(servers: str, group: str, tmp_path: Path):
    saved = tmp_path / "saved.csv"
    saved.write_bytes(run(servers, "groups reset", group, "--all-topics", "--to-current", "--export").stdout_bytes)
    assert saved.read_text() == "trips,0,3\n"
    run(servers, "groups reset", group, "--all-topics", "--to-earliest", "--execute")
    run(servers, "groups reset", group, "--from-file", str(saved), "--execute")
    assert offsets_of(servers, group) == {FIRST: 3}
    saved.write_text(f"{group},trips,1,2\nanother,trips,0,9\n")
    run(servers, "groups reset", group, "another", "--from-file", str(saved), "--execute")
    assert (offsets_of(servers, group), offsets_of(servers, "another")) == ({FIRST: 3, SECOND: 2}, {FIRST: 9})
    two = run(servers, "groups reset", group, "another", "--all-topics", "--to-current", "--export").stdout
    assert two == f"{group},trips,0,3\n{group},trips,1,2\nanother,trips,0,9\n"
    saved.write_text("trips,0,3\ntrips,zero,3\n")
    result = run(servers, "groups reset", group, "--from-file", str(saved), code=2)
    assert "line 2: must be topic,partition,offset, not" in result.stderr


def test_a_group_with_members_is_refused(servers: str, member: str):
    result = run(servers, "groups reset", member, "--topic", "trips", "--to-earliest", "--execute", code=1)
    assert f"group '{member}' has members (its state is Stable)" in result.stderr and result.stdout == ""
    assert offsets_of(servers, member)[FIRST] == 3
    assert "has 1 members: stop them first" in run(servers, "groups delete", member, "--execute", code=1).stderr
    result = run(servers, "groups delete-offsets", member, "--topic", "trips:0", "--execute", code=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in result.stderr


def test_a_reset_creates_a_missing_group(servers: str, trips: str):
    done = run(servers, "groups reset", "brand-new", "--topic", "trips:0", "--to-offset", "5", "--execute")
    assert "group 'brand-new' does not exist yet: setting its offsets creates it" in done.stderr
    assert offsets_of(servers, "brand-new") == {FIRST: 5}


def test_groups_and_offsets_are_deleted_with_execute(servers: str, group: str):
    run(servers, "groups reset", group, "--topic", "trips", "--to-earliest", "--execute")
    shown = run(servers, "groups delete-offsets", group, "--topic", "trips:1")
    assert rows(shown.stdout)[1] == [group, "trips", "1", "0"] and "Nothing was changed" in shown.stderr
    run(servers, "groups delete-offsets", group, "--topic", "trips:1", "--execute")
    assert offsets_of(servers, group) == {FIRST: 0}
    assert (
        "has no offsets of trips:1" in run(servers, "groups delete-offsets", group, "--topic", "trips:1", code=1).stderr
    )
    assert "Nothing was changed" in run(servers, "groups delete", group).stderr
    assert run(servers, "groups delete", group, "--execute").stderr == "Deleted 1 group.\n"
    assert f"group '{group}' does not exist" in run(servers, "groups delete", group, "--execute", code=1).stderr


def test_a_static_member_is_removed(servers: str, trips: str):
    settings = {"group_id": "static", "group_instance_id": "one", "bootstrap_servers": servers}
    with Consumer(**settings) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(["trips"])
        while not consumer.assignment():
            consumer.poll(0.05)
        assert "has no static member 'two'" in run(
            servers, "groups remove-members", "static", "--instance", "two", code=1
        ).stderr  # fmt: skip
        shown = run(servers, "groups remove-members", "static", "--instance", "one")
        assert rows(shown.stdout)[1][2] == "one" and "Nothing was changed" in shown.stderr
    done = run(servers, "groups remove-members", "static", "--all-members", "--execute")
    assert done.stderr == "Removed 1 member.\n"
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_groups(["static"])["static"].members == ()


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("list", ["--state", "stable,busy"], "--state busy: must be one of Empty, PreparingRebalance"),
        ("list", ["--type", "modern"], "--type modern: must be one of classic, consumer"),
        ("describe", [], "name one or more groups"),
        ("describe", ["g", "--all-groups"], "name one or more groups"),
        ("reset", ["g"], "Where to? Give one of --to-earliest"),
        ("reset", ["g", "--to-earliest"], "no topics given"),
        ("reset", ["g", "--topic", "t", "--all-topics", "--to-latest"], "--topic, --all-topics and --from-file"),
        ("reset", ["g", "--topic", "t", "--to-latest", "--shift-by", "1"], "--to-latest and --shift-by: give one"),
        ("reset", ["g", "--topic", "t", "--to-datetime", "noon"], "--to-datetime: a time must be"),
        ("reset", ["g", "--topic", "t", "--by-duration", "1h"], "--by-duration 1h: must be an ISO 8601 duration"),
        ("reset", ["g", "--topic", "t", "--to-latest", "--execute", "--dry-run"], "exclude each other"),
        ("delete", [], "name one or more groups"),
        ("remove-members", ["g"], "give either --instance ID or --all-members"),
        ("delete-offsets", ["g"], "--topic"),
    ],
)
def test_invalid_options_are_reported(command: str, options: list[str], said: str):
    assert said in run("127.0.0.1:1", f"groups {command}", *options, code=2).stderr


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("nowhere", "there is no such topic"),
        ("trips:7", "partition 7 does not exist"),
        ("trips:x", "must be TOPIC, or"),
    ],
)
def test_unknown_topics_and_partitions_are_reported(servers: str, group: str, topic: str, said: str):
    assert said in run(servers, "groups reset", group, "--topic", topic, "--to-latest", code=1).stderr


def test_a_share_group_has_start_offsets_that_are_described_reset_and_deleted_by_topic(servers: str, trips: str):
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_share_group_offsets("queue", {FIRST: 3})
    assert rows(run(servers, "groups describe", "queue").stdout) == [
        ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"],
        ["queue", "trips", "0", "3", "7"],
    ]
    assert "Share group 'queue' has no active members." in run(servers, "groups describe", "queue", "--state").stderr
    run(servers, "groups reset", "queue", "--all-topics", "--shift-by", "2", "--execute")
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.list_share_group_offsets(["queue"])["queue"][FIRST].start_offset == 5
    refused = run(servers, "groups delete-offsets", "queue", "--topic", "trips:0", "--execute", code=1).stderr
    assert "deleted by topic: --topic TOPIC" in refused
    run(servers, "groups delete-offsets", "queue", "--topic", "trips", "--execute")
    assert len(rows(run(servers, "groups describe", "queue").stdout)) <= 1
    run(servers, "groups delete", "queue", "--execute")
