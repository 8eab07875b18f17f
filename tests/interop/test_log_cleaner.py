"""The cleaner beside Apache Kafka's: the same folders, cleaned by both, must hold the same batches after each round."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from kafkaraw.core.log.batches import iter_batches
from kafkaraw.core.log.indexes import AbortedTransaction, decode_transaction_index
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage
from kafkaraw.records import HEADER_SIZE, BatchHeader, codec_by_id
from tests.core.log.random_logs import CleanSettings, RandomLog, clean_folder, read_folder
from tests.interop.java_tools import java_command, why_no_java_client

SEEDS = 8
SOAK_SEEDS = 500
ROUNDS = 3
IO_BUFFER = 1 << 16


class ApacheCleaner:
    """Apache's cleaner behind a pipe (see CleanLogs.java)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(Path(__file__).with_name("CleanLogs.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def clean(self, folder: Path, settings: CleanSettings) -> list[int]:
        """Run one round: first dirty offset, end, clean bytes, cleanable bytes, next dirty offset, times."""
        words = [
            folder,
            settings.now_ms,
            "-" if settings.checkpoint is None else settings.checkpoint,
            settings.slots * 24,
            settings.load_factor,
            IO_BUFFER,
            "cleanup.policy=compact",
            f"internal.segment.bytes={settings.segment_bytes}",
            f"delete.retention.ms={settings.delete_retention_ms}",
            f"min.compaction.lag.ms={settings.lag_min_ms}",
        ]
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer.startswith("ok "), answer or "the JVM has ended"
        for path in folder.iterdir():
            if path.name.endswith(Stage.DELETED):
                path.unlink()
        return [int(word) for word in answer.split()[1:]]


@pytest.fixture(scope="module")
def apache_cleaner() -> Iterator[ApacheCleaner]:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    with ApacheCleaner() as cleaner:
        yield cleaner


def batches_of(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Headers without what compression decides, and the records, decompressed."""
    view = memoryview(data)
    return [
        (
            header._replace(batch_length=0, crc=0) if header.codec_id else header,
            codec_by_id(header.codec_id).decompress(view[at + HEADER_SIZE : at + header.size], 1 << 30)
            if header.records_count
            else bytes(view[at + HEADER_SIZE : at + header.size]),
        )
        for at, header in iter_batches(view, "log")
    ]


def aborted_in(folder: Path, base_offset: int) -> list[AbortedTransaction]:
    path = folder / OffsetFile(base_offset, FileKind.TRANSACTION_INDEX).name
    return decode_transaction_index(path.read_bytes(), base_offset, path.name) if path.exists() else []


def check_seed(seed: int, apache_cleaner: ApacheCleaner, folder: Path) -> None:
    """Clean a random log with both, in several rounds, between which time passes and segments are appended."""
    rng = random.Random(seed + 1_000_000)
    log = RandomLog(seed)
    theirs, ours = folder / "apache" / "topic-0", folder / "kafkaraw" / "topic-0"
    theirs.mkdir(parents=True)
    ours.mkdir(parents=True)
    checkpoint = None
    for number in range(ROUNDS):
        before = len(log.segments)
        log.append_segments(rng.randint(1 if number else 2, 6))
        log.write(theirs, before)
        log.write(ours, before)
        log.now_ms += rng.choice([0, 1_000, 30_000, 90_000])
        settings = CleanSettings(
            now_ms=log.now_ms,
            checkpoint=checkpoint,
            slots=rng.choice([3, 8, 20, 4_000]),
            # The codecs' libraries differ by some bytes: segments are grouped all or not at all.
            segment_bytes=rng.choice([2_000, 20_000, 1 << 20] if log.codec == "none" else [20, 1 << 20]),
            delete_retention_ms=rng.choice([0, 20_000, 60_000]),
            lag_min_ms=rng.choice([0, 0, 15_000]),
        )
        done = clean_folder(ours, settings)
        *plan, next_dirty, _, _ = apache_cleaner.clean(theirs, settings)
        assert plan[:2] == [done.plan.first_dirty_offset, done.plan.end_offset]
        if log.codec == "none" or not number:
            assert plan[2:] == [done.plan.clean_bytes, done.plan.cleanable_bytes]
        assert done.next_dirty_offset == next_dirty
        left, right = read_folder(ours), read_folder(theirs)
        assert list(left) == list(right), f"round {number}"
        for base in left:
            assert batches_of(left[base]) == batches_of(right[base]), f"round {number}, segment {base}"
            if base in done.aborted:
                assert done.aborted[base] == aborted_in(theirs, base)
        checkpoint = next_dirty


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_cleaners_keep_the_same_batches(seed: int, apache_cleaner: ApacheCleaner, tmp_path: Path) -> None:
    check_seed(seed, apache_cleaner, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS, SOAK_SEEDS))
def test_both_cleaners_keep_the_same_batches_of_more_logs(
    seed: int, apache_cleaner: ApacheCleaner, tmp_path: Path
) -> None:
    check_seed(seed, apache_cleaner, tmp_path)
