"""What is readable in log directories that no broker serves, and which replica is read."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE, FileKind
from kafkaraw.core.log.offset_checkpoint import HIGH_WATERMARKS_FILE, LOG_STARTS_FILE, write_offsets
from kafkaraw.errors import UsageError
from kafkaraw.logs import files
from kafkaraw.logs.files import expand, shown
from kafkaraw.logs.segment_reader import Damages, read_pieces
from kafkaraw.logs.topics import LogTopics, ReadableLog, arrow_batches
from kafkaraw.records import TopicPartition, encode_batch
from kafkaraw.records.header import stamp_crc
from tests.logs.sample_directory import END_OFFSET, SEGMENT_OFFSETS, TIME_MS, make_directory

TP = TopicPartition("flights", 0)
PAGE = Path(__file__).parents[2] / "docs" / "log-files.md"
# The last two batches of each segment are an aborted and a committed transaction; a marker follows each.
MARKERS = {base + at for base in range(0, END_OFFSET, SEGMENT_OFFSETS) for at in (33, 37)}
ABORTED = {base + at for base in range(0, END_OFFSET, SEGMENT_OFFSETS) for at in (30, 31, 32)}
RECORDS = sorted(set(range(END_OFFSET)) - MARKERS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs").parent


def log_in(*directories: Path) -> ReadableLog:
    return LogTopics(map(str, directories)).logs([TP])[TP]


def offsets(*directories: Path, **options: bool) -> list[int]:
    found = arrow_batches(map(str, directories), ["flights"], columns=["offset"], **options)
    return [offset for batch in found for offset in batch.column(0).to_pylist()]


def segment_files(directory: Path, kind: FileKind = FileKind.LOG) -> list[Path]:
    return sorted((directory / "flights-0").glob(f"*{kind}"))


def test_all_records_are_read_and_read_committed_leaves_out_aborted_ones(directory):
    assert offsets(directory) == RECORDS
    assert offsets(directory, read_committed=True) == sorted(set(RECORDS) - ABORTED)


@pytest.mark.parametrize("kind", [FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX])
@pytest.mark.parametrize("content", [None, b"\x01" * 77, b""])
def test_missing_and_damaged_indexes_change_no_record(directory, kind, content):
    for file in segment_files(directory, kind):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
    assert offsets(directory, read_committed=True) == sorted(set(RECORDS) - ABORTED)
    log = log_in(directory)
    for start in range(0, END_OFFSET, 7):
        found = read_pieces(log.range_of(start, END_OFFSET, read_committed=False), Damages(fails=True))
        assert [record.offset for each in found for record in each.batch] == [at for at in RECORDS if at >= start]


def test_aborted_transactions_are_found_without_any_index(directory):
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX):
        for file in segment_files(directory, kind):
            file.unlink()
    assert offsets(directory, read_committed=True) == sorted(set(RECORDS) - ABORTED)


def test_first_record_at_or_after_a_time_is_found_through_the_index(directory):
    log = log_in(directory)
    for offset in (0, 1, 29, 38, 75, 100, END_OFFSET - 1):
        assert log.offset_at(TIME_MS + 1000 * offset, END_OFFSET) == offset
    assert log.offset_at(TIME_MS + 10**9, END_OFFSET) is None


def test_log_start_and_high_watermark_of_the_checkpoints_bound_the_records(directory):
    (directory / LOG_STARTS_FILE).write_text(write_offsets({TP: 5}))
    (directory / HIGH_WATERMARKS_FILE).write_text(write_offsets({TP: 100}))
    assert offsets(directory) == [offset for offset in RECORDS if 5 <= offset < 100]
    (directory / CLEAN_SHUTDOWN_FILE).unlink()  # the checkpoint of a killed broker is outdated
    assert offsets(directory) == [offset for offset in RECORDS if offset >= 5]


def test_log_that_ends_before_its_high_watermark_is_known_to_have_lost_records(directory):
    (directory / HIGH_WATERMARKS_FILE).write_text(write_offsets({TP: END_OFFSET + 5}))
    assert log_in(directory).lost_end == END_OFFSET + 5


@pytest.mark.parametrize("cut", [1, 20, 60, 62, 100])
def test_torn_tail_is_left_out(directory, cut):
    last = segment_files(directory)[-1]
    batch = encode_batch([(TIME_MS, b"k", b"v" * 200, None)], base_offset=END_OFFSET)
    last.write_bytes(last.read_bytes() + batch[:cut])
    assert offsets(directory) == RECORDS
    last.write_bytes(last.read_bytes()[:-cut] + bytes(4096))
    assert offsets(directory) == RECORDS


def test_open_transaction_ends_what_read_committed_sees(directory):
    last = segment_files(directory)[-1]
    kinds = [(END_OFFSET, 50, True), (END_OFFSET + 1, -1, False)]
    for offset, producer_id, transactional in kinds:
        record = (TIME_MS, None, b"v", None)
        batch = encode_batch(
            [record], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=transactional
        )
        last.write_bytes(last.read_bytes() + batch)
    (directory / CLEAN_SHUTDOWN_FILE).unlink()
    assert offsets(directory)[-2:] == [END_OFFSET, END_OFFSET + 1]
    assert offsets(directory, read_committed=True) == sorted(set(RECORDS) - ABORTED)


def test_damaged_batch_is_an_error_with_file_and_position_or_skipped(directory):
    log = segment_files(directory)[1]
    content = bytearray(log.read_bytes())
    content[8:12] = (1 << 30).to_bytes(4)  # a length that reaches beyond the file
    log.write_bytes(content)
    with pytest.raises(DamagedFileError, match=rf"{log.name}: byte 0: .* no whole batch"):
        offsets(directory)
    kept = set(offsets(directory, skip_damaged=True))
    lost = set(RECORDS) - kept
    # The next batch that an index leads to is where reading continues.
    assert lost == set(range(SEGMENT_OFFSETS, SEGMENT_OFFSETS + len(lost)))
    assert 3 <= len(lost) < SEGMENT_OFFSETS / 2


def test_replica_with_the_newest_epoch_and_longest_log_is_read_and_the_log_says_so(directory, tmp_path, caplog):
    short = Path(shutil.copytree(directory, tmp_path / "short"))
    for file in (short / "flights-0").glob(f"{2 * SEGMENT_OFFSETS:020d}.*"):
        file.unlink()
    with caplog.at_level(logging.INFO, "kafkaraw.logs.topics"):
        assert offsets(short, directory) == RECORDS
    assert f"of 2 replicas, {directory}/flights-0 is read: leader epoch 2, offsets 0 to {END_OFFSET}" in caplog.text
    assert f"{short}/flights-0: leader epoch 1, offsets 0 to {2 * SEGMENT_OFFSETS}" in caplog.text
    assert offsets(tmp_path / "*") == RECORDS


def test_directories_of_two_clusters_and_replicas_of_two_topics_are_refused(directory, tmp_path):
    other = Path(shutil.copytree(directory, tmp_path / "other"))
    metadata = other / "flights-0" / PARTITION_METADATA_FILE
    text = metadata.read_text()
    metadata.write_text(text.replace(text.split()[-1], "AAAAAAAAAAAAAAAAAAAAAQ"))
    with pytest.raises(UsageError, match="different topics of this name"):
        offsets(directory, other)
    meta = other / META_PROPERTIES_FILE
    meta.write_text(meta.read_text().replace("cluster.id=c", "cluster.id=d"))
    with pytest.raises(UsageError, match=r"different clusters: .*logs \(c\) and .*other \(d\)"):
        LogTopics([str(directory), str(other)])


def test_locations_are_shown_without_secrets():
    assert shown("s3://user:secret@bucket/a/*?session_token=x") == "s3://bucket/a/*"


def test_uris_of_local_files_and_of_fsspec_are_opened(directory):
    assert offsets(Path(str(directory))) == RECORDS
    there = LogTopics([f"file://{directory}"])
    assert there.topics == {"flights": [0]}
    with pytest.raises(UsageError, match=r"pip install fsspec|cannot be opened"):
        expand("nosuchscheme://x/y")


def test_archive_is_read_through_fsspec(directory, tmp_path):
    shutil.make_archive(str(tmp_path / "backup"), "zip", directory)
    found = arrow_batches([f"zip://::file://{tmp_path}/backup.zip"], ["flights"], columns=["offset"])
    assert [offset for batch in found for offset in batch.column(0).to_pylist()] == RECORDS


def test_nothing_is_written(directory):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*") if path.is_file()}
    offsets(directory, read_committed=True)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in directory.rglob("*") if p.is_file()} == before


def test_example_of_the_page_reads_the_records(directory, capsys):
    section = PAGE.read_text(encoding="utf-8").partition("## Records as Arrow batches")[2]
    [code] = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    code = re.sub(r'\["/backup/broker-1", [^\]]*\]', f'["{directory}"]', code)
    exec(compile(code, str(PAGE), "exec"), {})
    assert sum(map(int, capsys.readouterr().out.split())) == len(RECORDS)


def test_segments_that_are_renamed_after_the_listing_are_listed_again(directory):
    there = LogTopics([str(directory)])
    first, second = segment_files(directory)[:2]
    content = second.read_bytes()
    second.rename(f"{second}.deleted")  # the cleaner has replaced it
    second.write_bytes(content)
    for file in (directory / "flights-0").glob(f"{first.stem}.*"):
        file.rename(f"{file}.deleted")  # retention has deleted it
    assert there.logs([TP])[TP].start_offset == SEGMENT_OFFSETS


def test_listing_without_a_segment_that_is_being_replaced_is_repeated(directory, monkeypatch):
    listed = []

    def list_once(root: str, path: str) -> dict[str, int] | None:
        found = files.list_folder(root, path)
        listed.append(path)
        if found is not None and len(listed) == 1:
            found = {name: size for name, size in found.items() if not name.startswith(f"{SEGMENT_OFFSETS:020d}")}
        return found

    monkeypatch.setattr("kafkaraw.logs.topics.list_folder", list_once)
    assert offsets(directory) == RECORDS
    assert len(listed) == 3


def test_removed_partition_is_an_error_that_names_its_folder(directory):
    there = LogTopics([str(directory)])
    (directory / "flights-0").rename(directory / "flights-0.00000000000000000000000000000001-delete")
    with pytest.raises(
        UsageError, match=r"flights-0: removed or changed while it was looked up: .* run the query again"
    ):
        there.logs([TP])


def read_planned(log: ReadableLog, change: Callable[[Path], object], first: Path, *, fails: bool = True) -> list[int]:
    """Plan a read, change the first segment as a broker does, then read."""
    work = log.range_of(0, END_OFFSET, read_committed=False)
    change(first)
    return [record.offset for each in read_pieces(work, Damages(fails=fails)) for record in each.batch]


def test_planned_segments_that_a_broker_deletes_or_cleans_are_read_until_it_removes_them(directory, tmp_path):
    first = segment_files(directory)[0]
    log = log_in(directory)
    assert read_planned(log, lambda file: file.rename(f"{file}.deleted"), first) == RECORDS
    assert read_planned(log, lambda file: file.write_bytes(b""), first) == RECORDS  # its cleaned successor
    (deleted,) = (directory / "flights-0").glob("*.log.deleted")
    size = deleted.stat().st_size
    with pytest.raises(
        DamagedFileError, match=rf"byte 0: the file ends there, and had {size} bytes.*run the query again"
    ):
        read_planned(log, lambda _: deleted.unlink(), first)
    with pytest.raises(DamagedFileError, match=r"does not exist any more.*a broker writes to this directory"):
        read_planned(log, lambda file: file.unlink(), first)
    kept = read_planned(log, lambda _: None, first, fails=False)
    assert kept == [offset for offset in RECORDS if offset >= SEGMENT_OFFSETS]


def test_planned_swap_file_is_read_under_its_final_name(directory):
    first = segment_files(directory)[0]
    first.rename(f"{first}.swap")
    log = log_in(directory)
    assert read_planned(log, lambda file: Path(f"{file}.swap").rename(file), first) == RECORDS


def test_empty_batches_that_the_cleaner_left_open_no_transaction(directory):
    """Kafka keeps the last batch of a producer without its records, and removes the marker behind it."""
    for file in (directory / "flights-0").glob("*"):
        if file.suffix in (".snapshot", ".txnindex", ".index", ".timeindex"):
            file.unlink()
    log = segment_files(directory)[0]
    empty = bytearray(
        encode_batch([(TIME_MS, None, b"v", None)], base_offset=0, producer_id=50, producer_epoch=0, transactional=True)
    )[:61]
    empty[8:12] = (61 - 12).to_bytes(4)
    empty[57:61] = bytes(4)
    stamp_crc(empty)
    content = log.read_bytes()
    log.write_bytes(empty + content[12 + int.from_bytes(content[8:12]) :])
    assert offsets(directory, read_committed=True) == sorted(set(RECORDS) - ABORTED - {0, 1, 2})
