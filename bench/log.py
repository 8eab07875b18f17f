"""`make bench-log`: what reading and cleaning log directories costs, ours beside Apache Kafka's.

A directory of one partition is made: batches of 16 KB with records of 100 bytes, in segments of 64 MB with their
indexes. `kafkaraw log dump` and kafka-dump-log take turns in fresh processes, with their output thrown away; `kafkaraw
log verify` has no rival. CPU time counts, that of starting Python or the JVM included, because both are paid by users.
The cleaner is measured by the CPU time of its thread, beside Kafka's (see `log_cleaner`).
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench import log_cleaner
from bench.report import WIDTH, Goal
from kafkaraw.core.log.indexes import encode_offset_index, encode_time_index
from kafkaraw.core.log.leader_epochs import LeaderEpochs
from kafkaraw.core.log.metadata_files import MetaProperties, write_meta_properties
from kafkaraw.core.log.names import META_PROPERTIES_FILE, FileKind, OffsetFile
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import recover_segment
from kafkaraw.records import encode_batch, patch_header
from tests.interop.apache_kafka import fetch_jars, fetch_tools, why_missing

DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
SEGMENT_BYTES: Final = 64 << 20
BATCH_RECORDS: Final = 150
TIME_MS: Final = 1_700_000_000_000
DUMP_GOAL: Final = Goal(2, 5)
VERIFY_GOAL: Final = Goal(500, 1000, unit=" MB/s")


def make_directory(directory: Path, size_bytes: int) -> list[Path]:
    """Make a log directory with one partition; return its log files."""
    folder = directory / "bench-0"
    folder.mkdir(parents=True)
    (directory / META_PROPERTIES_FILE).write_text(write_meta_properties(MetaProperties("bench", 1, None)))
    rng = random.Random(1)
    records = [(TIME_MS + each, b"key %06d" % each, rng.randbytes(85).hex()[:85].encode(), ()) for each in range(150)]
    batch = bytearray(encode_batch(records, producer_id=1, producer_epoch=0, base_sequence=0))
    files, offset = [], 0
    while offset // BATCH_RECORDS * len(batch) < size_bytes:
        base, data = offset, bytearray()
        while len(data) < min(SEGMENT_BYTES, size_bytes):
            patch_header(batch, base_offset=offset, partition_leader_epoch=0)
            data += batch
            offset += BATCH_RECORDS
        segment = recover_segment(memoryview(data), "log", base, ProducerState(), LeaderEpochs())
        log = folder / OffsetFile(base, FileKind.LOG).name
        log.write_bytes(data)
        log.with_suffix(FileKind.OFFSET_INDEX).write_bytes(encode_offset_index(segment.offset_index, base))
        log.with_suffix(FileKind.TIME_INDEX).write_bytes(encode_time_index(segment.time_index, base))
        files.append(log)
    return files


def cpu_seconds(command: Sequence[str]) -> float:
    """Run a command to its end, without its output, and return its CPU time.

    Raises:
        click.ClickException: it failed.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"{' '.join(command[:8])} ... ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


@click.command(help=__doc__)
@click.option("--megabytes", type=click.IntRange(1), default=500, show_default=True, help="Size of the logs.")
@click.option(
    "--deep-megabytes", type=click.IntRange(1), default=64, show_default=True, help="... dumped with records."
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="How often each is measured.")
@click.option(
    "--cleaner-records", type=click.IntRange(1), default=5_000_000, show_default=True, help="... that are compacted."
)
def main(megabytes: int, deep_megabytes: int, rounds: int, cleaner_records: int) -> None:
    """Measure and print the table."""
    missing = why_missing()
    if missing:
        print(f"kafka-dump-log is left out: {missing}", file=sys.stderr)
    ours = [sys.executable, "-m", "kafkaraw", "log"]
    java: list[str] = []
    if not missing:
        java = ["java", "-Xmx512M", "-cp", f"{fetch_jars()}/*:{fetch_tools()}/*", DUMP]
    table = Table("", "ours", "Apache Kafka", "factor", "must", "aim", "verdict", box=SIMPLE)
    with tempfile.TemporaryDirectory(prefix="bench-log-") as scratch:
        for name, size, options in (
            ("dump", megabytes, ()),
            ("dump --deep-iteration", deep_megabytes, ("--deep-iteration",)),
            ("dump --print-data-log", deep_megabytes, ("--print-data-log",)),
        ):
            directory = Path(scratch, f"{size}")
            files = sorted(map(str, directory.rglob("*.log")))
            if not directory.exists():
                files = [str(path) for path in make_directory(directory, size << 20)]
            mine, theirs = [], []
            for _ in range(rounds):
                mine.append(cpu_seconds([*ours, "dump", *options, *files]))
                if java:
                    theirs.append(cpu_seconds([*java, *options, "--files", ",".join(files)]))
            row = f"{name}, {size} MB"
            seconds = statistics.median(mine)
            if not theirs:
                table.add_row(row, f"{seconds:.2f} s", "", "", str(DUMP_GOAL), "5x", "")
                continue
            factor = statistics.median(theirs) / seconds
            table.add_row(
                row,
                f"{seconds:.2f} s",
                f"{statistics.median(theirs):.2f} s",
                f"{factor:.1f}x",
                str(DUMP_GOAL),
                f"{DUMP_GOAL.aim:g}x",
                DUMP_GOAL.verdict(factor),
            )
        directory = Path(scratch, f"{megabytes}")
        seconds = statistics.median(cpu_seconds([*ours, "verify", str(directory)]) for _ in range(rounds))
        speed = megabytes * 1.048576 / seconds
        table.add_row(
            f"verify, {megabytes} MB, one core",
            f"{speed:.0f} MB/s",
            "",
            "",
            str(VERIFY_GOAL),
            f"{VERIFY_GOAL.aim:g}",
            VERIFY_GOAL.verdict(speed),
        )
        for row in log_cleaner.measure(Path(scratch), cleaner_records, rounds, with_apache=not missing):
            table.add_row(*_cleaner_cells(row))
    Console(width=WIDTH).print(table)


def _cleaner_cells(row: log_cleaner.Row) -> list[str]:
    ours = f"{row.megabytes / row.ours.cpu_seconds:.0f} MB/s, {row.ours.bytes_per_key:.0f} B a key"
    if row.theirs is None:
        return [row.name, ours, "", "", str(log_cleaner.GOAL), f"{log_cleaner.GOAL.aim:g}x", ""]
    factor = row.theirs.cpu_seconds / row.ours.cpu_seconds
    theirs = f"{row.megabytes / row.theirs.cpu_seconds:.0f} MB/s"
    goal = log_cleaner.GOAL
    return [row.name, ours, theirs, f"{factor:.1f}x", str(goal), f"{goal.aim:g}x", goal.verdict(factor)]


if __name__ == "__main__":
    main()
