"""`kafkaraw produce` against the embedded broker: lines, files, JSON, columns, transactions, and what goes wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from tests.cli.running import TIMEOUT, make_topic, read, run, start


def test_each_line_is_a_message_and_an_empty_one_is_empty(servers: str):
    make_topic(servers, "lines")
    result = run(servers, "produce", "lines", given=b"one\n\ntwo\nlast without an end")
    assert result.output == ""
    assert read(servers, "lines") == b"one\n\ntwo\nlast without an end\n"


def test_keys_headers_nulls_and_partition(servers: str):
    make_topic(servers, "keyed", partitions=3)
    run(servers, "produce", "keyed", "-K:", "-Z", "-H", "h=1", "-H", "n", "-p", "2", given=b"a:1\nb:\n:c\n")
    assert read(servers, "keyed", "-f", "%p %k=%s %h\\n", "-Z") == (
        b"2 a=1 h=1,n=NULL\n2 b=NULL h=1,n=NULL\n2 NULL=c h=1,n=NULL\n"
    )


def test_the_default_key_selects_the_partition_of_the_java_client(servers: str):
    make_topic(servers, "fixed", partitions=3)
    run(servers, "produce", "-t", "fixed", "-k", "42", given=b"x\ny\n")
    assert len(set(read(servers, "fixed", "-f", "%p %k\\n").splitlines())) == 1


def test_text_is_serialized(servers: str):
    make_topic(servers, "typed")
    run(servers, "produce", "typed", "-K=", "-s", "key=hex", "-s", "value=long", given=b"00ff=7\n")
    assert read(servers, "typed", "-f", "%k%s") == b"\0\xff" + (7).to_bytes(8)
    result = run(servers, "produce", "typed", "-s", "value=long", given=b"1\n2\nthree\n4\n", code=1)
    assert result.stderr.startswith("Error: message 3 of the input, b'three': invalid literal")
    assert read(servers, "typed", "-s", "value=long").split() == [b"7", b"1", b"2"]  # what stood before it is there


def test_files_are_messages_or_hold_them(servers: str, tmp_path: Path):
    for name, content in (("a", b"1\n2"), ("b", b"\0\xff\n")):
        (tmp_path / name).write_bytes(content)
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    make_topic(servers, "files")
    run(servers, "produce", "files", *files)
    assert read(servers, "files", "-D", "|") == b"1\n2|\0\xff\n|"
    make_topic(servers, "lists")
    run(servers, "produce", "lists", "-l", *files)
    assert read(servers, "lists", "-D", "|") == b"1|2|\0\xff|"
    assert "missing: No such file" in run(servers, "produce", "files", str(tmp_path / "missing"), code=1).stderr


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        (["-J"], ["-J"]),
        (["--output", "arrow"], ["--input", "arrow"]),
        (["--output", "parquet"], ["--input", "parquet"]),
    ],
)
def test_consumed_json_can_be_produced_unchanged(servers: str, written: list[str], taken: list[str]):
    source, copy = f"from{written[-1]}", f"to{written[-1]}"
    for topic in (source, copy):
        make_topic(servers, topic)
    run(servers, "produce", source, "-K:", "-Z", "-H", "h=\u00e9", given=b"k:v\n:\n\xff:\xfe\nplain\n")
    run(servers, "produce", copy, *taken, given=read(servers, source, *written))
    whole = ["-f", "%o %T %K %k %S %s %h\\n"]
    assert read(servers, copy, *whole) == read(servers, source, *whole) != b""


def test_binary_values_follow_their_lengths(servers: str):
    for topic in ("binary", "again"):
        make_topic(servers, topic)
    data = b"\0\0\0\3a\nb\xff\xff\xff\xff\0\0\0\0"
    run(servers, "produce", "binary", "--length-prefixed", given=data)
    assert read(servers, "binary", "-f", "%R%s") == data
    assert "is the input length-prefixed" in run(
        servers, "produce", "again", "--length-prefixed", given=b"hello", code=1
    ).stderr  # fmt: skip


def test_max_messages_and_tee(servers: str):
    make_topic(servers, "few")
    result = run(servers, "produce", "few", "-c", "2", "-T", "-z", "zstd:3", given=b"1\n2\n3\n")
    assert result.stdout_bytes == b"1\n2\n"
    assert read(servers, "few") == b"1\n2\n"


def test_a_transaction_is_all_or_nothing(servers: str):
    make_topic(servers, "whole")
    given = ["whole", "-X", "transactional.id=load"]
    run(servers, "produce", *given, given=b"1\n2\n")
    run(servers, "produce", *given, "-s", "value=long", given=b"3\nfour\n", code=1)
    assert read(servers, "whole", "--isolation-level", "read_committed") == b"1\n2\n"


def test_a_record_refused_by_the_broker_is_reported(servers: str):
    with Admin(bootstrap_servers=servers) as admin:
        from kafkaraw import NewTopic

        admin.create_topics([NewTopic("small", partitions=1, configs={"max.message.bytes": "200"})])
    result = run(servers, "produce", "small", given=b"ok\n" + b"x" * 1000 + b"\n", code=1)
    assert "MESSAGE_TOO_LARGE" in result.stderr and "Traceback" not in result.stderr
    result = run(servers, "produce", "small", "-X", "max.request.size=500", given=b"x" * 600, code=1)
    assert "max.request.size" in result.stderr or "max_request_size" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no topic given"),
        (["t", "-D", ""], "-D must not be empty"),
        (["t", "-K", ""], "-K must not be empty"),
        (["t", "-J", "--length-prefixed"], "exclude each other"),
        (["t", "-J", "-Z"], "--json excludes -k, -K, -Z"),
        (["t", "-H", "=x"], "-H =x: must be NAME=VALUE"),
        (["t", "-z", "lz5"], "compression_type='lz5'"),
        (["t", "-z", "zstd:high"], "the level must be a number"),
        (["t", "-s", "value=>i"], "known are bytes, string"),
        (["t", "-s", "long", "-k", "x"], "-k x: invalid literal"),
    ],
)
def test_invalid_options_are_reported(options: list[str], said: str):
    assert said in run("127.0.0.1:1", "produce", *options, code=2).stderr


def test_an_invalid_column_format_is_reported(servers: str):
    make_topic(servers, "columns")
    for form in ("arrow", "parquet"):
        result = run(servers, "produce", "columns", "--input", form, given=b"no columns at all", code=1)
        assert f"--input {form}: the input has another format" in result.stderr


# -- signals, of a process of its own


@pytest.mark.parametrize("transactional", [False, True])
def test_ctrl_c_delivers_what_was_read_or_aborts_the_transaction(servers: str, transactional: bool):
    topic = f"stopped-{transactional}"
    make_topic(servers, topic)
    options = ["-X", f"transactional.id={topic}"] if transactional else []
    with start(servers, "produce", topic, "-T", *options) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read() if process.stderr else b""
        assert process.wait(TIMEOUT) == 130
    assert b"Traceback" not in errors and b"% Stopped" in errors
    expected = b"" if transactional else b"one\ntwo\n"
    assert read(servers, topic, "--isolation-level", "read_committed") == expected


def test_an_unreachable_cluster_is_reported_in_one_line():
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
    result = run(address, "produce", "t", "-X", "max.block.ms=500", given=b"x\n", code=1)
    assert address in result.stderr and len(result.stderr.strip().splitlines()) == 1, result.stderr


def test_json_lines_need_no_other_tool(servers: str):
    make_topic(servers, "json")
    message = {"key": "k", "payload": {"n": 1}, "headers": {"h": "v"}, "ts": 1234}
    run(servers, "produce", "json", "-J", given=json.dumps(message).encode())
    found = json.loads(read(servers, "json", "-J", "-s", "value=json"))
    assert (found["key"], found["payload"], found["ts"], found["headers"]) == ("k", {"n": 1}, 1234, ["h", "v"])
