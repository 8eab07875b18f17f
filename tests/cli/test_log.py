"""`kafkaraw log`: what it prints, what it finds, what it repairs, and what it leaves alone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw import Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.cli import log as log_commands
from kafkaraw.cli import main
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, FileKind, OffsetFile
from kafkaraw.core.log.offset_checkpoint import HIGH_WATERMARKS_FILE, read_offsets
from kafkaraw.logs import dump_files
from kafkaraw.logs.decoders import java_text
from kafkaraw.logs.dump_files import words_of
from tests.examples import examples
from tests.logs.sample_directory import END_OFFSET, SEGMENT_OFFSETS, SEGMENTS, make_directory


def run(command: str, *arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["log", command, *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a directory but the lock."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs")


def segment_file(folder: Path, number: int, kind: FileKind = FileKind.LOG) -> Path:
    return folder / OffsetFile(number * SEGMENT_OFFSETS, kind).name


def test_dump_prints_batches_records_markers_and_content(folder: Path):
    log = segment_file(folder, 1)
    lines = run("dump", "--print-data-log", log).stdout.splitlines()
    assert lines[:2] == [f"Dumping {log}", "Log starting offset: 38"]
    assert lines[2].startswith(
        "baseOffset: 38 lastOffset: 40 count: 3 baseSequence: 36 lastSequence: 38 producerId: 7 producerEpoch: 0 "
        "partitionLeaderEpoch: 1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 1700000040000 size: "
    )
    assert lines[3].startswith(
        "| offset: 38 CreateTime: 1700000038000 keySize: 5 valueSize: 300 sequence: 36 headerKeys: [name] "
        "key: key 0 payload: "
    )
    markers = [line for line in lines if "endTxnMarker" in line]
    assert [line.rpartition("endTxnMarker: ")[2] for line in markers] == [
        "ABORT coordinatorEpoch: 1",
        "COMMIT coordinatorEpoch: 1",
    ]


def test_dump_prints_the_entries_of_indexes_and_snapshots(folder: Path):
    base = OffsetFile(0, FileKind.LOG).name.removesuffix(".log")
    kinds = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
    files = [folder / f"{base}{kind}" for kind in kinds]
    said = run("dump", *files, folder / OffsetFile(END_OFFSET, FileKind.PRODUCER_SNAPSHOT).name)
    assert said.stderr == ""
    offset, position = struct.unpack(">ii", files[0].read_bytes()[:8])
    assert f"{files[0]}\noffset: {offset} position: {position}\n" in said.stdout
    assert f"timestamp: {1_700_000_000_000 + 37_000} offset: 37" in said.stdout
    assert "version: 0 producerId: 9 firstOffset: 30 lastOffset: 33 lastStableOffset: 34" in said.stdout
    assert "producerId: 9 producerEpoch: 0 coordinatorEpoch: 1 currentTxnFirstOffset: OptionalLong.empty" in said.stdout


def test_dump_in_json_has_the_same_values(folder: Path):
    found = [
        json.loads(line)
        for line in run("dump", "--print-data-log", "-o", "json", segment_file(folder, 0)).stdout.splitlines()
    ]
    assert [one["type"] for one in found[:4]] == ["file", "log", "batch", "record"]
    assert found[2] | {"crc": 0, "size": 0} == {
        "type": "batch", "position": 0, "size": 0, "magic": 2, "baseOffset": 0, "lastOffset": 2, "count": 3,
        "baseSequence": 0, "lastSequence": 2, "producerId": 7, "producerEpoch": 0, "partitionLeaderEpoch": 0,
        "isTransactional": False, "isControl": False, "deleteHorizonMs": None, "timestampType": "CreateTime",
        "maxTimestamp": 1_700_000_002_000, "codec": "none", "crc": 0, "isValid": True,
    }  # fmt: skip
    assert found[3]["key"] == "key 0"
    assert found[3]["headerKeys"] == ["name"]
    assert "valueBase64" in found[3]


def test_dump_tells_where_an_index_does_not_fit_its_log(folder: Path):
    index = segment_file(folder, 0, FileKind.OFFSET_INDEX)
    offset, position = struct.unpack(">ii", index.read_bytes()[:8])
    index.write_bytes(struct.pack(">ii", offset + 1, position))
    said = run("dump", "--verify-index-only", index)
    assert said.stdout == f"Dumping {index}\n"
    assert said.stderr == f"Mismatches in :{index}\n  Index offset: {offset + 1}, log offset: {offset}\n"


def test_dump_stops_at_a_size_that_no_batch_has(folder: Path):
    log = segment_file(folder, 0)
    log.write_bytes(log.read_bytes() + bytes(64))
    said = run("dump", log, code=1)
    assert said.stdout.count("baseOffset") == 14
    assert "record size 0 is smaller than the minimum record overhead (14)" in said.stderr


def test_dump_counts_the_bytes_of_a_batch_that_is_cut_short(folder: Path):
    log = segment_file(folder, 2)
    os.truncate(log, log.stat().st_size - 5)
    assert "Found 73 invalid bytes at the end of" in run("dump", log).stdout


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("x.txt", "Ignoring unknown file", 0),
        ("x.log", "must begin with the base offset", 1),
        ("x", "the name has no suffix, so its kind is not known; give a .log", 1),
    ],
)
def test_dump_says_why_a_file_is_not_dumped(tmp_path: Path, name: str, words: str, code: int):
    file = tmp_path / name
    file.touch()
    assert words in run("dump", file, code=code).stderr


def test_dump_of_a_missing_file_says_so(tmp_path: Path):
    assert "No such file" in run("dump", tmp_path / "0.log", code=1).stderr


def test_dump_of_a_missing_file_or_a_folder_says_so_whatever_its_name(folder: Path, tmp_path: Path):
    said = run("dump", tmp_path / "nowhere.log", code=1).stderr
    assert said == f"Error: {tmp_path}/nowhere.log: No such file or directory; give a file that exists\n"
    said = run("dump", folder, code=1).stderr
    assert said == f"Error: {folder}: Is a directory; give the files in it, as DIR/*.log\n"


def test_output_into_a_closed_pipe_ends_without_a_word(folder: Path):
    log = segment_file(folder, 0)
    command = [sys.executable, "-m", "kafkaraw", "log", "dump", "--print-data-log", *[str(log)] * 100]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 1


INTERRUPTED = """
import sys
from kafkaraw.cli import log, main
log.PARALLEL_BYTES_MIN = 0
main(["log", "verify", "--jobs", "2", sys.argv[1]])
"""


def test_interrupt_ends_parallel_runs_without_a_traceback(tmp_path: Path):
    # Processes wait in a FIFO, so that the interrupt finds them at work.
    for number in range(4):
        shutil.copytree(make_directory(tmp_path / f"d{number}"), tmp_path / "logs" / f"flights-{number}")
        fifo = tmp_path / "logs" / f"flights-{number}" / "partition.metadata"
        fifo.unlink()
        os.mkfifo(fifo)
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "logs")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as running:
        writers: dict[Path, int] = {}
        deadline = time.monotonic() + 60
        while len(writers) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            for fifo in (tmp_path / "logs").glob("*/partition.metadata"):
                with contextlib.suppress(OSError):  # no process reads it yet
                    writers[fifo] = writers.get(fifo) or os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        os.killpg(running.pid, signal.SIGINT)
        assert running.stderr is not None
        timer = threading.Timer(60, os.killpg, (running.pid, signal.SIGKILL))
        timer.start()
        said = running.stderr.read()
        timer.cancel()
        assert b"Traceback" not in said
        assert running.wait(60) == 130
    for descriptor in writers.values():
        os.close(descriptor)


def test_errors_of_the_operating_system_get_only_the_advice_that_fits():
    full = OSError(errno.ENOSPC, "No space left on device")
    assert words_of(full) == "[Errno 28] No space left on device"
    full.filename = "/disk/x"
    assert words_of(full) == "/disk/x: No space left on device"


def test_bytes_that_are_no_text_are_shown_as_java_shows_them():
    assert (
        java_text(b"a\xed\xa0\x80b\xed\xb0c\xff")
        == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    )


def test_list_shows_offsets_times_and_epochs(folder: Path):
    found = json.loads(run("list", folder.parent, "-o", "json").stdout)
    assert (found["topic"], found["partition"], found["segments"]) == ("flights", 0, SEGMENTS)
    assert (found["startOffset"], found["endOffset"]) == (0, END_OFFSET)
    assert (found["firstTimestamp"], found["newestTimestamp"]) == (1_700_000_000_000, 1_700_000_000_000 + 113_000)
    assert found["epochs"] == [{"epoch": number, "startOffset": number * SEGMENT_OFFSETS} for number in range(SEGMENTS)]
    assert "flights-0" in run("list", folder.parent).stdout


def test_a_directory_of_something_else_is_refused(folder: Path):
    assert f"give {folder.parent}" in run("list", folder, code=1).stderr
    assert "no log directory" in run("verify", folder.parent.parent, code=1).stderr


def test_verify_finds_nothing_in_a_sound_directory_and_changes_nothing(folder: Path):
    before = contents(folder.parent)
    said = run("verify", folder.parent)
    assert said.stdout == ""
    assert said.stderr.endswith("no damaged places\n")
    assert run("repair", folder.parent).stdout == ""
    assert contents(folder.parent) == before


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_verify_names_the_batch_in_which_a_bit_is_flipped_and_repair_truncates_there(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    folder = make_directory(tmp_path_factory.mktemp("flipped") / "logs")
    number = data.draw(st.integers(0, SEGMENTS - 1))
    log = segment_file(folder, number)
    content = bytearray(log.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    start = 0
    while start + 12 + struct.unpack_from(">i", content, start + 8)[0] <= at:
        start += 12 + struct.unpack_from(">i", content, start + 8)[0]
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    log.write_bytes(content)
    if at - start in range(8) or at - start in range(12, 16):
        return  # base offset and leader epoch lie outside of the checksum
    said = run("verify", folder.parent, "-o", "json", code=1)
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert (str(log), start) in [(one["file"], one["position"]) for one in found]
    run("repair", folder.parent, "--yes")
    assert log.read_bytes() == content[:start]
    assert run("verify", folder.parent).stdout == ""
    assert {path.name for path in folder.glob("*.log")} == {segment_file(folder, n).name for n in range(number + 1)}


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_dump_of_damaged_files_ends_with_their_lines_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    folder = make_directory(tmp_path_factory.mktemp("damaged") / "logs")
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    file = sorted(folder.glob(f"*{data.draw(st.sampled_from(suffixes))}"))[1]
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    options = data.draw(st.sampled_from([(), ("--print-data-log",), ("--offsets-decoder",), ("-o", "json")]))
    result = CliRunner().invoke(main, ["log", "dump", *options, str(file)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == (1 if "Error: " in result.stderr else 0)
    assert str(file) in result.stdout
    verified = CliRunner().invoke(main, ["log", "verify", str(folder.parent)])
    assert verified.exception is None or isinstance(verified.exception, SystemExit), verified.exception


def test_entries_of_appends_with_several_batches_are_no_damage(folder: Path):
    index = segment_file(folder, 0, FileKind.OFFSET_INDEX)
    offset, position = struct.unpack(">ii", index.read_bytes()[:8])
    index.write_bytes(struct.pack(">ii", offset + 3, position))
    times = segment_file(folder, 0, FileKind.TIME_INDEX)
    timestamp, offset = struct.unpack(">qi", times.read_bytes()[-12:])
    times.write_bytes(struct.pack(">qi", timestamp, offset - 1))
    assert run("verify", folder.parent).stdout == ""
    times.write_bytes(struct.pack(">qi", timestamp - 1, offset))
    assert str(times) in run("verify", folder.parent, code=1).stdout


DAMAGES = {
    "cut index": (".index", lambda data: data[:-3]),
    "wrong position": (".index", lambda data: data[:4] + b"\0\0\0\1" + data[8:]),
    "wrong timestamp": (".timeindex", lambda data: b"\0" * 7 + b"\1" + data[8:]),
    "no aborted transaction": (".txnindex", lambda data: b""),
    "wrong last stable offset": (".txnindex", lambda data: data[:-1] + b"\xff"),
    "cut snapshot": (".snapshot", lambda data: data[:-1]),
}


@pytest.mark.parametrize("suffix, damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_index_or_snapshot_is_found_and_repaired_without_a_loss_of_records(folder: Path, suffix, damage):
    file = sorted(folder.glob(f"*{suffix}"))[0]
    before = contents(folder.parent)
    file.write_bytes(damage(file.read_bytes()))
    damaged = contents(folder.parent)
    assert str(file) in run("verify", folder.parent, code=1).stdout
    said = run("repair", folder.parent, code=1)
    assert "would " in said.stdout
    assert "add --yes" in said.stderr
    assert contents(folder.parent) == damaged
    run("repair", folder.parent, "--yes")
    after = contents(folder.parent)
    assert run("verify", folder.parent).stdout == ""
    assert set(before) - set(after) == {CLEAN_SHUTDOWN_FILE} | (
        {f"flights-0/{file.name}"} if suffix == ".snapshot" else set()
    )
    assert all(before[name] == content for name, content in after.items())


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint"])
def test_a_missing_file_is_rebuilt(folder: Path, suffix: str):
    before = contents(folder.parent)
    sorted(folder.glob(f"*{suffix}"))[-1].unlink()
    assert "missing" in run("verify", folder.parent, code=1).stdout
    run("repair", folder.parent, "--yes")
    del before[CLEAN_SHUTDOWN_FILE]
    assert contents(folder.parent) == before


def test_truncation_lowers_the_high_watermark_and_removes_newer_snapshots_and_epochs(folder: Path):
    log = segment_file(folder, 1)
    os.truncate(log, log.stat().st_size // 2)
    said = run("verify", folder.parent, code=1)
    assert "(repair: truncate the log there; loses offsets" in said.stdout
    assert re.search(r"bytes, and 1 segment\)", said.stdout), said.stdout
    run("repair", folder.parent, "--yes")
    end = json.loads(run("list", folder.parent, "-o", "json").stdout)["endOffset"]
    assert SEGMENT_OFFSETS < end < 2 * SEGMENT_OFFSETS
    assert list(read_offsets((folder.parent / HIGH_WATERMARKS_FILE).read_text()).values()) == [end]
    assert [path.name for path in folder.glob("*.snapshot")] == [
        OffsetFile(SEGMENT_OFFSETS, FileKind.PRODUCER_SNAPSHOT).name
    ]
    assert (folder / "leader-epoch-checkpoint").read_text() == f"0\n2\n0 0\n1 {SEGMENT_OFFSETS}\n"
    assert run("verify", folder.parent).stdout == ""


@pytest.mark.parametrize("log_start", [0, 3 * SEGMENT_OFFSETS])
def test_a_leader_epoch_checkpoint_without_rows_is_no_damage_if_all_batches_are_below_the_log_start_offset(
    folder: Path, log_start: int
):
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    (folder.parent / "log-start-offset-checkpoint").write_text(f"0\n1\n{folder.name.replace('-', ' ')} {log_start}\n")
    said = run("verify", folder.parent, code=0 if log_start else 1).output
    assert ("the file says -1" in said) == (log_start == 0), said


def test_a_swap_that_was_not_finished_is_no_damage_and_repair_finishes_it(folder: Path):
    before = contents(folder.parent)
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX):
        file = segment_file(folder, 1, kind)
        file.rename(file.with_name(file.name + ".swap"))
    cleaned = segment_file(folder, 2).with_name(segment_file(folder, 2).name + ".cleaned")
    cleaned.write_bytes(b"half a segment")
    said = run("verify", folder.parent)
    assert "is not renamed to" in said.stdout
    assert "no damaged places" in said.stderr
    run("repair", folder.parent, "--yes")
    del before[CLEAN_SHUTDOWN_FILE]
    del before[f"flights-0/{OffsetFile(SEGMENT_OFFSETS, FileKind.PRODUCER_SNAPSHOT).name}"]  # as LogLoader does
    assert contents(folder.parent) == before


def test_zeros_behind_an_index_are_no_damage_and_repair_removes_them(folder: Path):
    before = contents(folder.parent)
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        index = segment_file(folder, 2, kind)
        index.write_bytes(index.read_bytes() + bytes(240))
    assert run("verify", folder.parent).stdout == ""
    found = [json.loads(line) for line in run("verify", "-o", "json", folder.parent).stdout.splitlines()]
    assert [one["problem"] for one in found] == ["240 bytes were allocated in advance"] * 2
    run("repair", folder.parent, "--yes")
    del before[CLEAN_SHUTDOWN_FILE]
    assert contents(folder.parent) == before


def test_a_damaged_checkpoint_keeps_the_rows_that_can_be_read(folder: Path):
    file = folder.parent / HIGH_WATERMARKS_FILE
    file.write_text(f"0\n2\nflights 0 {END_OFFSET}\nflights x 7\n")
    assert "line 4" in run("verify", folder.parent, code=1).stdout
    run("repair", folder.parent, "--yes")
    assert file.read_text() == f"0\n1\nflights 0 {END_OFFSET}\n"


@pytest.mark.parametrize("kind", ["kafkaraw", "apache"])
def test_repair_refuses_a_directory_that_a_broker_uses(folder: Path, kind: str):
    os.truncate(segment_file(folder, 2), 10)
    before = contents(folder.parent)
    if kind == "kafkaraw":
        storage = FileStorage(folder.parent)
        try:
            assert "is in use by a broker" in run("repair", folder.parent, "--yes", code=1).stderr
        finally:
            storage.close()
    else:
        # Locks of fcntl do not hold against their own process, so another one has to ask.
        with open(folder.parent / ".lock", "wb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            asked = os.fork()
            if not asked:
                result = CliRunner().invoke(main, ["log", "repair", str(folder.parent), "--yes"])
                os._exit(result.exit_code if "is in use by a broker" in result.stderr else 9)
            assert os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1]) == 1
    assert contents(folder.parent) == before


def test_the_directory_of_our_broker_is_read_too(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("flights", b"%d" % number)
        producer.flush()
        assert "is in use by a broker" in run("repair", tmp_path, "--yes", code=1).stderr
    found = [json.loads(line) for line in run("list", tmp_path, "-o", "json").stdout.splitlines()]
    assert [(one["folder"], one["endOffset"]) for one in found] == [("flights-0", 10)]
    assert "no damaged places" in run("verify", tmp_path).stderr


def test_verify_in_several_processes_finds_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(folder, folder.with_name("flights-1"))
    os.truncate(segment_file(folder, 1), 1000)
    alone = run("verify", folder.parent, "--jobs", "1", code=1)
    monkeypatch.setattr(log_commands, "PARALLEL_BYTES_MIN", 0)
    together = run("verify", folder.parent, "--jobs", "2", code=1)
    assert (together.stdout, together.stderr) == (alone.stdout, alone.stderr)
    assert together.stdout


def test_dump_in_several_processes_prints_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    index = segment_file(folder, 1, FileKind.OFFSET_INDEX)
    content = bytearray(index.read_bytes())
    content[3] ^= 1
    index.write_bytes(content)
    files = [*sorted(folder.glob("*.log")), index, folder / "unknown.txt"]
    alone = run("dump", "--print-data-log", "--jobs", "1", *files)
    monkeypatch.setattr(dump_files, "PARALLEL_BYTES_MIN", 0)
    together = run("dump", "--print-data-log", "--jobs", "2", *files)
    assert (together.stdout, together.stderr) == (alone.stdout, alone.stderr)
    assert "Mismatches in" in together.stderr
    missing = run("dump", "--jobs", "2", files[0], folder / "missing.log", files[1], code=1)
    assert str(files[1]) not in missing.stdout
    assert "missing.log" in missing.stderr
