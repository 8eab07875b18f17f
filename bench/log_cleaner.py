"""The row of the cleaner in `make bench-log`: our log cleaner beside Apache Kafka's, with one thread each.

Both clean a copy of the same directory, in turn and in fresh processes: 8-byte keys, 100-byte values, a tenth as many
keys as records, segments of 64 MiB, all of it dirty. The CPU time of the thread that cleans counts, without opening the
log; the other threads of the JVM, which collect garbage and compile, are not counted. Kafka's class is called directly
(tests/interop/CleanLogs.java), with all of its compilers. `python -m bench.log_cleaner FOLDER` cleans one folder.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.report import Goal
from kafkaraw.broker.log.cleaning import Limits, cleaning, segments_to_clean
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.turns import run_to_end
from kafkaraw.core.log.cleaner import CleanerStats, CleaningRound, make_offset_map
from kafkaraw.core.log.compaction import CompactionSettings, plan_cleaning
from kafkaraw.core.log.names import FileKind, OffsetFile
from kafkaraw.records import encode_batch
from tests.interop.apache_kafka import compile_java, fetch_jars, fetch_tools

GOAL: Final = Goal(1, 2)
CODECS: Final = ("none", "lz4")
SEGMENT_BYTES: Final = 64 << 20
BATCH_RECORDS: Final = 140
RECORDS_PER_KEY: Final = 10
DEDUPE_BYTES: Final = 128 << 20
LOAD_FACTOR: Final = 0.9
IO_BUFFER_BYTES: Final = 262_144
TIME_MS: Final = 1_760_000_000_000


class Cleaned(NamedTuple):
    """One measurement.

    Attributes:
        seconds: of wall time.
        cpu_seconds: of the thread that cleans.
        bytes_per_key: of the offset map; 0 if unknown.
        left_bytes: size of the log afterwards.
    """

    seconds: float
    cpu_seconds: float
    bytes_per_key: float
    left_bytes: int


class Row(NamedTuple):
    """The result of one codec."""

    name: str
    ours: Cleaned
    theirs: Cleaned | None
    megabytes: float


class _Now:
    def time_ms(self) -> int:
        """The same time always, which is later than all records."""
        return TIME_MS + 3_600_000_000


def make_folder(folder: Path, records: int, codec: str) -> int:
    """Make the folder of a partition, and return the size of its logs."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    values = [rng.randbytes(50).hex().encode() for _ in range(5_000)]
    keys = max(1, records // RECORDS_PER_KEY)
    base, data, total = 0, bytearray(), 0
    for offset in range(0, records, BATCH_RECORDS):
        batch = [
            (TIME_MS + offset + at, b"%08d" % rng.randrange(keys), values[rng.randrange(len(values))], None)
            for at in range(BATCH_RECORDS)
        ]
        data += encode_batch(batch, codec=codec, base_offset=offset)
        if len(data) >= SEGMENT_BYTES:
            (folder / OffsetFile(base, FileKind.LOG).name).write_bytes(data)
            total += len(data)
            base, data = offset + BATCH_RECORDS, bytearray()
    (folder / OffsetFile(base, FileKind.LOG).name).write_bytes(data)  # the active one, which is not cleaned
    return total


def clean_here(folder: Path) -> Cleaned:
    """Clean the folder of a partition in this process."""
    storage = FileStorage(folder.parent)
    log = PartitionLog(storage, folder.name, _Now())
    log.open()
    plan = plan_cleaning(
        segments_to_clean(log),
        CompactionSettings(),
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.log_end_offset,
        checkpoint=None,
        now_ms=_Now().time_ms(),
    )
    offsets = make_offset_map(DEDUPE_BYTES, LOAD_FACTOR, os.urandom(16))
    rules = CleaningRound(_Now().time_ms(), 86_400_000, plan.end_offset, {})
    limits = Limits(SEGMENT_BYTES, 10 << 20, 4_096, IO_BUFFER_BYTES)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    run_to_end(cleaning(log, plan, offsets, rules, limits, lambda: None, CleanerStats()))
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cleaned = Cleaned(seconds, cpu_seconds, offsets.size_bytes / offsets.keys_count, log.size_bytes)
    log.close()
    storage.close()
    return cleaned


def _ours(folder: Path) -> Cleaned:
    command = [sys.executable, "-m", "bench.log_cleaner", str(folder)]
    words = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()
    return Cleaned(float(words[0]), float(words[1]), float(words[2]), int(words[3]))


def _theirs(folder: Path) -> Cleaned:
    program = Path(__file__).parents[1] / "tests" / "interop" / "CleanLogs.java"
    class_path = f"{fetch_jars()}/*:{fetch_tools()}/*:{compile_java(program)}"
    options = ("-Xmx1G", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    command = ["java", *options, "-cp", class_path, program.stem]
    words = [folder, _Now().time_ms(), "-", DEDUPE_BYTES, LOAD_FACTOR, IO_BUFFER_BYTES, "cleanup.policy=compact"]
    words.append(f"segment.bytes={SEGMENT_BYTES}")
    line = "\t".join(map(str, words)) + "\n"
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True, timeout=300)
    if not done.stdout.startswith("ok "):
        raise RuntimeError(f"Kafka's cleaner failed: {done.stdout or done.stderr}")
    left = sum(path.stat().st_size for path in folder.glob("*.log"))
    _, *_, milliseconds, cpu_milliseconds = done.stdout.split()
    return Cleaned(int(milliseconds) / 1000, int(cpu_milliseconds) / 1000, 0.0, left)


def measure(scratch: Path, records: int, rounds: int, *, with_apache: bool) -> Iterator[Row]:
    """Clean copies of one directory for each codec, and yield the medians."""
    for codec in CODECS:
        source = scratch / f"cleaner-{codec}" / "bench-0"
        size = make_folder(source, records, codec)
        found: dict[str, list[Cleaned]] = {"ours": [], "theirs": []}
        for _ in range(rounds):
            for name, clean in (("ours", _ours), ("theirs", _theirs)):
                if name == "theirs" and not with_apache:
                    continue
                copy = scratch / f"cleaner-{codec}-{name}" / "bench-0"
                shutil.copytree(source, copy)
                found[name].append(clean(copy))
                shutil.rmtree(copy.parent)
        shutil.rmtree(source.parent)
        medians = {name: _median(all_of) for name, all_of in found.items() if all_of}
        yield Row(f"cleaner, {records / 1e6:g} M records, {codec}", medians["ours"], medians.get("theirs"), size / 1e6)


def _median(measured: list[Cleaned]) -> Cleaned:
    seconds = statistics.median(one.cpu_seconds for one in measured)
    return next(one for one in sorted(measured, key=lambda one: one.cpu_seconds) if one.cpu_seconds >= seconds)


if __name__ == "__main__":
    print(*clean_here(Path(sys.argv[1])))
