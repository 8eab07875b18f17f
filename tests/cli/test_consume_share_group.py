"""`kafkaraw consume --share-group` against the embedded broker: what it writes, acknowledges and refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw import Admin, ConfigResource, ConfigResourceType
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.outputs import StreamOutput
from tests.cli.running import fill, make_topic, run

QUICK = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def quick_servers() -> Iterator[str]:
    """A broker that assigns partitions to members of share groups at once."""
    with EmbeddedBroker(properties=QUICK) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def jobs(quick_servers: str, request: pytest.FixtureRequest) -> str:
    """A topic with 0 to 3, and a share group of the same name that begins at the first record."""
    name = f"jobs-{abs(hash(request.node.name))}"
    make_topic(quick_servers, name)
    fill(quick_servers, name, [b"0", b"1", b"2", b"3"])
    with Admin(bootstrap_servers=quick_servers) as admin:
        group = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    return name


def read(servers: str, name: str, *options: str) -> bytes:
    return run(servers, "consume", name, "--share-group", name, *options).stdout_bytes


def test_written_records_are_accepted_and_records_after_the_limit_are_not(quick_servers: str, jobs: str):
    assert read(quick_servers, jobs, "-c", "2", "-f", "%o/%d/%s\\n") == b"0/1/0\n1/1/1\n"
    assert [line.split(b"/")[0] for line in read(quick_servers, jobs, "-c", "2", "-f", "%o/%d\\n").split()] == [
        b"2",
        b"3",
    ]


@pytest.mark.parametrize(("ack", "next_one"), [("release", b"0/2\n"), ("reject", b"1/1\n")])
def test_ack_says_whether_a_written_record_is_delivered_again(quick_servers: str, jobs: str, ack: str, next_one: bytes):
    assert read(quick_servers, jobs, "-c", "1", "--ack", ack) == b"0\n"
    assert read(quick_servers, jobs, "-c", "1", "-f", "%o/%d\\n") == next_one


@pytest.mark.parametrize("ack", ["accept", "reject"])
def test_records_of_a_broken_pipe_are_released(
    quick_servers: str, jobs: str, ack: str, monkeypatch: pytest.MonkeyPatch
):
    def broken(output: StreamOutput) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr(StreamOutput, "flush", broken)
        read(quick_servers, jobs, "-c", "1", "--ack", ack)
    assert read(quick_servers, jobs, "-c", "1", "-f", "%o/%d\\n") == b"0/2\n"


def test_json_columns_and_formatter_properties_have_the_delivery_count(quick_servers: str, jobs: str):
    shown = json.loads(read(quick_servers, jobs, "-c", "1", "--ack", "release", "-J"))
    assert (shown["offset"], shown["delivery_count"], shown["payload"]) == (0, 1, "0")
    columns = read(quick_servers, jobs, "-c", "1", "--ack", "release", "--output", "arrow")
    table = pa.ipc.open_stream(io.BytesIO(columns)).read_all()
    assert table.select(["offset", "delivery_count", "value"]).to_pylist() == [
        {"offset": 0, "delivery_count": 2, "value": b"0"}
    ]
    assert read(quick_servers, jobs, "-c", "1", "--formatter-property", "print.delivery=true") == b"Delivery:3\t0\n"


def test_columns_of_no_record_have_a_schema(quick_servers: str, jobs: str):
    read(quick_servers, jobs, "-c", "4", "--ack", "reject")
    columns = read(quick_servers, jobs, "--timeout-ms", "1", "--output", "arrow", "-q")
    table = pa.ipc.open_stream(io.BytesIO(columns)).read_all()
    assert table.num_rows == 0
    assert "delivery_count" in table.column_names


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--share-group", "g", "-e"], "--timeout-ms"),
        (["--share-group", "g", "-g", "h"], "--group"),
        (["--share-group", "g", "-p", "0"], "--partition"),
        (["--share-group", "g", "-o", "end"], "kafkaraw groups reset"),
        (["--share-group", "g", "--from-beginning"], "share.auto.offset.reset=earliest"),
        (["--share-group", "g", "--isolation-level", "read_committed"], "share.isolation.level"),
        (["--share-group", "g", "^jobs"], "regex"),
        (["--ack", "reject"], "needs --share-group"),
        (["-f", "%d"], "needs --share-group"),
    ],
)
def test_options_that_a_share_group_does_not_have_are_refused(quick_servers: str, options: list[str], words: str):
    assert words in run(quick_servers, "consume", "jobs", *options, code=2).stderr
