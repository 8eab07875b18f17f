"""`kafkaraw consume` against the embedded broker: where it begins and ends, what it writes, what it commits."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Producer, TopicPartition
from kafkaraw.cli import consuming, main
from kafkaraw.cli.stopping import Stop
from kafkaraw.client.network import metadata
from tests.cli.running import TIMEOUT, fill, make_topic, read, run, start

NUMBERS = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def numbers(servers: str) -> str:
    """A topic of one partition with 0 to 19; the timestamps are 1,000 times that."""
    make_topic(servers, "numbers")
    with Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(NUMBERS):
            producer.send("numbers", value, b"k" + value, timestamp_ms=1000 * number)
    return "numbers"


def committed(servers: str, group: str, topic: str) -> int | None:
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.list_group_offsets([group])[group].get(TopicPartition(topic, 0))
    return None if found is None else found.offset


def test_all_values_are_written_line_by_line(servers: str, numbers: str):
    result = run(servers, "consume", numbers, "-e")
    assert result.stdout_bytes == b"".join(value + b"\n" for value in NUMBERS)
    assert result.stderr == "% Reached end of topic numbers [0] at offset 20\n"


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        (["-o", "17"], 17, 19),
        (["-o", "-2"], 18, 19),
        (["-o", "-99"], 0, 19),
        (["-o", "s@16500"], 17, 19),
        (["-o", "s@1970-01-01T00:00:18Z"], 18, 19),
        (["-o", "e@3000"], 0, 2),
        (["-o", "s@2000", "-o", "e@3500"], 2, 3),
        (["-o", "5", "-c", "3"], 5, 7),
        (["-c", "20"], 0, 19),
        (["-p", "0", "-o", "19"], 19, 19),
    ],
)
def test_offset_options_select_start_and_stop(servers: str, numbers: str, options: list[str], first: int, last: int):
    assert read(servers, numbers, *options).split() == NUMBERS[first : last + 1]


def test_reading_from_the_end_writes_nothing(servers: str, numbers: str):
    assert read(servers, numbers, "-o", "end") == read(servers, numbers, "-o", "s@99999") == b""


def test_the_stop_time_ends_the_command_without_exit_at_end(servers: str, numbers: str):
    result = run(servers, "consume", numbers, "-o", "e@2000")
    assert result.stdout_bytes == b"0\n1\n"
    assert "Reached the stop time in numbers [0]" in result.stderr


def test_an_offset_after_the_end_is_reported(servers: str, numbers: str):
    result = run(servers, "consume", numbers, "-o", "21", code=1)
    assert result.stderr == "Error: -o 21: numbers [0] has offsets 0 to 19; the next record gets 20\n"


def test_delimiters_keys_and_formats(servers: str, numbers: str):
    assert read(servers, numbers, "-c", "2", "-D", ";") == b"0;1;"
    assert read(servers, numbers, "-c", "2", "-K", "\\t") == b"k0\t0\nk1\t1\n"
    assert read(servers, numbers, "-c", "1", "-o", "3", "-f", "%t/%p/%o %k=%s @%T") == b"numbers/0/3 k3=3 @3000"


def test_json_and_nulls(servers: str):
    make_topic(servers, "tombs")
    fill(servers, "tombs", [b"1", None, b""])
    assert [json.loads(line)["payload"] for line in read(servers, "tombs", "-J").splitlines()] == ["1", None, ""]
    assert read(servers, "tombs") == b"1\n\n\n"
    assert read(servers, "tombs", "-Z") == b"1\nNULL\n\n"
    assert read(servers, "tombs", "--null-marker", "-") == b"1\n-\n\n"


def test_columns_go_to_arrow_and_parquet(servers: str, numbers: str):
    table = pa.ipc.open_stream(read(servers, numbers, "--output", "arrow")).read_all()
    assert table["value"].to_pylist() == NUMBERS and table["offset"].to_pylist() == list(range(20))
    table = pq.read_table(io.BytesIO(read(servers, numbers, "--output", "parquet", "-o", "18")))
    assert table["key"].to_pylist() == [b"k18", b"k19"] and set(table["topic"].to_pylist()) == {"numbers"}
    empty = pa.ipc.open_stream(read(servers, numbers, "--output", "arrow", "-o", "end")).read_all()
    assert empty.num_rows == 0 and empty.schema.names[:3] == ["topic", "partition", "offset"]


def test_several_topics_and_partitions_are_read_together(servers: str, numbers: str):
    make_topic(servers, "three", partitions=3)
    for partition in range(3):
        fill(servers, "three", [b"p%d" % partition], partition=partition)
    assert sorted(read(servers, "three", "-t", numbers, "-o", "-1").split()) == [b"19", b"p0", b"p1", b"p2"]
    assert sorted(read(servers, "three", "-p", "0", "-p", "2").split()) == [b"p0", b"p2"]
    result = run(servers, "consume", "three", "-p", "3", code=1)
    assert result.stderr == "Error: topic 'three' has partitions 0 to 2, not 3\n"


def test_read_committed_omits_aborted_records(servers: str):
    make_topic(servers, "deals")
    with Producer(bootstrap_servers=servers, transactional_id="deals") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("deals", b"done")
        producer.begin_transaction()
        producer.send("deals", b"undone")
        producer.flush()
        producer.abort_transaction()
    assert read(servers, "deals", "--isolation-level", "read_committed") == b"done\n"
    assert read(servers, "deals") == b"done\nundone\n"


def test_the_timeout_ends_the_wait(servers: str, numbers: str):
    result = run(servers, "consume", numbers, "-o", "end", "--timeout-ms", "1")
    assert result.stdout_bytes == b"" and "No record for 0.001 s" in result.stderr


def test_a_group_commits_exactly_what_was_written(servers: str, numbers: str):
    assert read(servers, numbers, "-g", "g1", "--from-beginning", "-c", "7").split() == NUMBERS[:7]
    assert committed(servers, "g1", numbers) == 7
    assert read(servers, numbers, "-g", "g1").split() == NUMBERS[7:]
    assert committed(servers, "g1", numbers) == 20
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_groups(["g1"])["g1"].state == "Empty"


def test_a_group_starts_at_the_given_offset_or_at_its_committed_offset(servers: str, numbers: str):
    assert read(servers, numbers, "-g", "g2", "-o", "15", "-c", "2").split() == NUMBERS[15:17]
    assert read(servers, numbers, "-g", "g2", "-o", "stored", "-c", "1").split() == [b"17"]
    assert read(servers, numbers, "-g", "g2", "-o", "beginning", "-c", "1").split() == [b"0"]
    assert read(servers, numbers, "-g", "g2", "-p", "0", "-o", "stored").split() == NUMBERS[1:]


def test_a_group_reads_topics_that_match_a_regex(servers: str):
    for topic in ("logs.a", "logs.b", "other"):
        make_topic(servers, topic)
        fill(servers, topic, [topic.encode()])
    for protocol in ("classic", "consumer"):
        given = ["-g", f"re-{protocol}", "-X", f"group.protocol={protocol}", "-o", "beginning"]
        assert sorted(read(servers, "^log", *given, "-c", "2").split()) == [b"logs.a", b"logs.b"]


def test_exit_at_end_does_not_wait_for_a_group_without_partitions(
    servers: str, numbers: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consuming, "_NOTHING_S", 0.3)
    monkeypatch.setattr(metadata, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    assert "topic 'nosuch' does not exist" in run(servers, "consume", "nosuch", "-g", "g4", "-e", code=1).stderr
    for protocol in ("classic", "consumer"):
        left_out = run(servers, "consume", "^nosuch", "-g", f"g4-{protocol}", "-e", "-X", f"group.protocol={protocol}")
        assert f"Group g4-{protocol} has assigned no partition to this member" in left_out.stderr


def test_a_group_error_is_reported_in_one_line(servers: str, numbers: str):
    wrong = ["-X", "group.protocol=consumer", "-X", "group.remote.assignor=nosuch"]
    errors = run(servers, "consume", numbers, "-g", "g5", "-q", *wrong, code=1).stderr.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("Error: group 'g5', heartbeat: the broker has no assignor")


def test_assignments_are_reported(servers: str, numbers: str):
    errors = run(servers, "consume", numbers, "-g", "g3", "-e", "-o", "19").stderr
    assert errors.splitlines() == [
        "% Waiting for group g3 to assign partitions",
        "% Group g3 assigned numbers [0]",
        "% Reached end of topic numbers [0] at offset 20",
        "% Group g3 revoked numbers [0]",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no topic given"),
        (["t", "-o", "stored"], "-o stored needs --group"),
        (["^t"], "is a regex, which needs --group"),
        (["t", "-o", "middle"], "must be one of beginning, end, stored"),
        (["t", "-f", "%x"], "unknown token '%x'"),
        (["t", "-s", "thrift"], "-s thrift: unknown"),
        (["t", "--output", "arrow", "-J"], "excludes --json"),
        (["t", "-X", "isolation.levl=x"], "did you mean 'isolation.level'"),
        (["t", "-F", "nowhere.properties"], "nowhere.properties"),
    ],
)
def test_invalid_options_are_reported(options: list[str], said: str):
    assert said in run("127.0.0.1:1", "consume", *options, code=2).stderr


def test_an_unknown_topic_is_reported_and_not_created(servers: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.client.network.metadata.UNKNOWN_TOPIC_GRACE_S", 0.1)
    assert "topic 'nowhere' does not exist" in run(servers, "consume", "nowhere", code=1).stderr
    with Admin(bootstrap_servers=servers) as admin:
        assert "nowhere" not in {topic.name for topic in admin.list_topics()}


def test_the_cluster_can_be_named_in_a_kcat_configuration_file(
    servers: str, numbers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "kcat.conf"
    config.write_text(
        f"metadata.broker.list={servers}\nsecurity.protocol=plaintext\ntopic.auto.offset.reset=smallest\n"
    )
    monkeypatch.setenv("KAFKARAW_CONFIG", str(config))
    result = CliRunner().invoke(main, ["consume", numbers, "-c", "1"])
    assert (result.exit_code, result.stdout_bytes) == (0, b"0\n"), result.output


# -- signals and pipes, of a process of its own


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_written_records_and_leaves_the_group(
    number: signal.Signals, code: int, servers: str, numbers: str
):
    group = f"stopped-{code}"
    with start(servers, "consume", numbers, "-g", group, "-o", "beginning") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in NUMBERS] == [value + b"\n" for value in NUMBERS]
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code and b"Traceback" not in errors
    assert errors.endswith(b"revoked numbers [0]\n")
    assert committed(servers, group, numbers) == 20
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_groups([group])[group].state == "Empty"


def test_a_closed_output_pipe_ends_the_command_without_an_error(servers: str, numbers: str):
    with start(servers, "consume", numbers, "-q") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT) == 0


def test_a_second_signal_ends_the_process_at_once():
    program = (
        "import os, signal, time\n"
        "from kafkaraw.cli.stopping import Stop\n"
        "with Stop() as stop, stop.noted():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    assert stop.asked and stop.exit_code == 130\n"
        "    os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` sends it to the process and to its group\n"
        "    assert stop.exit_code == 130\n"
        "    time.sleep(0.35)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('not reached')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"% Stopped at once.\n")


def test_a_signal_during_an_import_is_not_lost():
    with pytest.raises(RuntimeError), Stop() as stop:
        with contextlib.suppress(KeyboardInterrupt):  # as in a callback whose exceptions are ignored
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked and stop.exit_code == 143
        raise RuntimeError
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.exit_code == 130


def test_a_signal_that_is_ignored_stays_ignored():
    """As in the background of a script, where Ctrl-C is meant for others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert not stop.asked
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
