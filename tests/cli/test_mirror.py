"""`kafkaraw mirror verify` says exactly how a copy differs from its source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main, mirror_verify
from kafkaraw.mirror.slices import Progress
from tests.mirror.copies import ends_of

pytest.importorskip("pyarrow")

ROWS = 60
PARTITIONS = 2


@pytest.fixture
def servers(kafka_broker: EmbeddedBroker) -> Iterator[str]:
    """A topic with two partitions, and an empty one for its copy."""
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=PARTITIONS) for name in ("orders", "copy", "small")])
    fill(kafka_broker.bootstrap_servers, "orders", range(ROWS))
    yield kafka_broker.bootstrap_servers


def fill(servers: str, topic: str, numbers: range, *, transactional_id: str | None = None, shift_ms: int = 0) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=transactional_id) as producer:
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for number in numbers:
            producer.send(
                topic,
                b"v%d" % number,
                b"%d" % number,
                headers=[("a", b"%d" % number)] if number % 2 else [],
                partition=number % PARTITIONS,
                timestamp_ms=1_700_000_000_000 + number + shift_ms,
            )
        if transactional_id is not None:
            producer.flush()
            producer.abort_transaction()


def verify(servers: str, *arguments: str) -> Result:
    result = CliRunner().invoke(main, ["mirror", "verify", "-b", servers, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Bar(Progress):
    """What a progress bar would show."""

    is_shown = True

    def __init__(self) -> None:
        self.total = self.done = 0

    def begin(self, offsets_count: int) -> None:
        self.total = offsets_count

    def advance(self, offsets_count: int) -> None:
        self.done += offsets_count


def reports(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_a_complete_copy_is_equal_though_its_offsets_differ(servers: str) -> None:
    fill(servers, "copy", range(10), transactional_id="aborted")
    fill(servers, "copy", range(ROWS))
    result = verify(servers, "orders", "copy")
    assert result.exit_code == 0, result.output
    assert f"compared {ROWS} records of {PARTITIONS} partitions: {ROWS} are equal" in result.stderr
    assert verify(servers, "orders", "copy", "--isolation-level", "read_uncommitted").exit_code == 1


def test_the_progress_bar_knows_the_number_of_offsets_at_the_start_and_reaches_it(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(servers, "copy", range(ROWS))
    fill(servers, "copy", range(10), transactional_id="aborted")
    bars: list[Bar] = []
    monkeypatch.setattr(mirror_verify, "progress_bar", lambda *_, **__: nullcontext(bars.append(Bar()) or bars[-1]))
    verify(servers, "copy", "orders")
    verify(servers, "copy", "orders", "-p", "1")
    ends = {partition: end for partition, (_, end) in ends_of(servers, "copy").items()}
    assert ends[1] > ROWS / PARTITIONS, "offsets without records are among them"
    assert [(bar.total, bar.done) for bar in bars] == [(sum(ends.values()),) * 2, (ends[1],) * 2]


def test_records_that_the_copy_has_not_reached_are_told_apart_from_missing_ones(servers: str) -> None:
    fill(servers, "copy", range(4))
    fill(servers, "copy", range(6, ROWS - 10))
    result = verify(servers, "orders", "copy", "-o", "json")
    assert result.exit_code == 1
    assert [(each["missing"], each["behind"], each["equal"]) for each in reports(result)] == [(1, 5, 24)] * PARTITIONS
    assert reports(result)[0]["differences"][0] == {
        "kind": "missing",
        "count": 1,
        "source_offsets": [2, 2],
        "copy_offsets": None,
        "columns": [],
    }
    shown = verify(servers, "orders", "copy")
    assert "orders-0: missing: source offset 2\n" in shown.stdout
    assert "orders-1: behind: source offsets 25 to 29\n" in shown.stdout


def test_a_copy_that_only_lacks_the_newest_records_is_accepted_on_request(servers: str) -> None:
    fill(servers, "copy", range(ROWS - 10))
    assert verify(servers, "orders", "copy").exit_code == 1
    assert verify(servers, "orders", "copy", "--allow-behind").exit_code == 0


def test_a_second_run_with_the_state_compares_newer_records_only(servers: str, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    fill(servers, "copy", range(ROWS))
    assert verify(servers, "orders", "copy", "--state", str(state)).exit_code == 0
    for topic in ("orders", "copy"):
        fill(servers, topic, range(ROWS, ROWS + 10))
    result = verify(servers, "orders", "copy", "--state", str(state), "-o", "json")
    assert result.exit_code == 0
    assert [each["source"] for each in reports(result)] == [5, 5]
    assert [each["first_offsets"] for each in reports(result)] == [[30, 30]] * PARTITIONS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"copies": [{"topics": ["orders"]}]}',
        '{"copies": [{"topics": ["a", "b"], "partitions": {"0": [1]}}]}',
    ],
)
def test_a_file_that_is_no_state_is_refused(servers: str, tmp_path: Path, text: str) -> None:
    state = tmp_path / "state.json"
    state.write_text(text)
    result = verify(servers, "orders", "copy", "--state", str(state))
    assert result.exit_code == 1
    assert str(state) in result.stderr
    assert state.read_text() == text


def test_records_that_the_source_has_lost_to_retention_are_not_held_against_the_copy(servers: str) -> None:
    fill(servers, "copy", range(ROWS))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("orders", 0): 20})
    result = verify(servers, "orders", "copy", "-o", "json")
    assert result.exit_code == 0, result.output
    assert [(each["source"], each["older_in_copy"]) for each in reports(result)] == [(10, 20), (30, 0)]


def test_what_is_ignored_may_differ(servers: str) -> None:
    fill(servers, "copy", range(ROWS), shift_ms=1)
    result = verify(servers, "orders", "copy", "-o", "json")
    assert result.exit_code == 1
    assert [(each["changed"], each["equal"]) for each in reports(result)] == [(30, 0)] * PARTITIONS
    assert reports(result)[0]["differences"][0]["columns"] == ["timestamp"]
    assert verify(servers, "orders", "copy", "--ignore", "timestamp").exit_code == 0


def test_one_partition_is_compared_on_request(servers: str) -> None:
    fill(servers, "copy", range(ROWS))
    result = verify(servers, "orders", "copy", "-p", "1", "-o", "json")
    assert [each["partition"] for each in reports(result)] == [1]


@pytest.mark.usefixtures("short_topic_grace")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        (["orders"], 2, "would be compared with itself"),
        (["orders", "orders"], 2, "would be compared with itself"),
        (["orders", "nowhere"], 1, "nowhere"),
        (["nowhere", "copy"], 1, "nowhere"),
        (["orders", "copy", "-p", "7"], 1, "topic 'orders' has no partition 7: it has 2"),
        (["wide", "copy"], 1, "topic 'copy' has no partition 2: it has 2, and a copy has the partitions of its source"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(
    servers: str, arguments: list[str], exit_code: int, text: str
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("wide", partitions=3)])
    result = verify(servers, *arguments)
    assert (result.exit_code, text in result.stderr) == (exit_code, True), result.output


def test_a_copy_in_another_cluster_is_compared(servers: str) -> None:
    with EmbeddedBroker() as other:
        with Admin(bootstrap_servers=other.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", partitions=PARTITIONS)])
        fill(other.bootstrap_servers, "orders", range(ROWS))
        assert verify(servers, "orders", "--to-bootstrap-server", other.bootstrap_servers).exit_code == 0


@pytest.fixture
def mirror_file(servers: str, tmp_path: Path) -> Iterator[Path]:
    """A mirror whose flow copies `orders`, `small` and `lost` to another cluster, which lacks the copy of `lost`."""
    with EmbeddedBroker() as other:
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("lost")])
        with Admin(bootstrap_servers=other.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"east.{name}", partitions=PARTITIONS) for name in ("orders", "small")])
        fill(other.bootstrap_servers, "east.orders", range(ROWS - 1))
        file = tmp_path / "mirror.properties"
        file.write_text(
            f"""clusters = east, west
            east.bootstrap.servers = {servers}
            west.bootstrap.servers = {other.bootstrap_servers}
            east->west.enabled = true
            east->west.topics = orders, small, lost
            """
        )
        yield file


def test_all_topics_of_a_flow_are_compared_with_their_copies(
    mirror_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state.json"
    result = CliRunner().invoke(main, ["mirror", "verify", "-m", str(mirror_file), "-o", "json", "--state", str(state)])
    assert result.exit_code == 1, result.output
    assert "Error: topic lost: its copy east.lost does not exist" in result.stderr
    found = {(each["topic"], each["partition"]): (each["equal"], each["behind"]) for each in reports(result)}
    assert found == {("orders", 0): (30, 0), ("orders", 1): (29, 1), ("small", 0): (0, 0), ("small", 1): (0, 0)}
    monkeypatch.setenv("KAFKARAW_MIRROR", str(mirror_file))
    result = CliRunner().invoke(
        main, ["mirror", "verify", "orders", "--allow-behind", "-q", "-o", "json", "--state", str(state)]
    )
    assert result.exit_code == 0, result.output
    assert [(each["source"], each["behind"]) for each in reports(result)] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "east->west does not copy a topic 'nowhere'"),
        (["--to-bootstrap-server", "other:9092"], "no TOPIC is given for --to-bootstrap-server"),
    ],
)
def test_what_a_flow_does_not_copy_is_refused(mirror_file: Path, arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["mirror", "verify", "-m", str(mirror_file), *arguments])
    assert (result.exit_code, text in result.stderr) == (2, True), result.output
