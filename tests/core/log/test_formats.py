"""The formats of a log directory's files: what is written is read again, and damage is named with its place."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.checkpoint_text import read_checkpoint
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    AbortedTransaction,
    OffsetEntry,
    TimeEntry,
    decode_offset_index,
    decode_time_index,
    decode_transaction_index,
    encode_offset_index,
    encode_time_index,
    encode_transaction_index,
)
from kafkaraw.core.log.leader_epochs import LeaderEpochs
from kafkaraw.core.log.metadata_files import (
    MetaProperties,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)
from kafkaraw.core.log.names import (
    FileKind,
    FolderState,
    MetadataSnapshot,
    OffsetFile,
    PartitionFolder,
    Stage,
    parse_file,
    parse_folder,
    parse_metadata_snapshot,
)
from kafkaraw.core.log.offset_checkpoint import read_offsets, write_offsets
from kafkaraw.core.log.producer_snapshot import decode_snapshot
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

OFFSETS = st.integers(0, 2**62)
RELATIVE = st.sets(st.integers(0, 2**31 - 1), max_size=20).map(sorted)
TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True)
UUIDS = st.binary(min_size=16, max_size=16).map(Uuid)


@given(OFFSETS, RELATIVE, st.lists(st.integers(1, 10**6), min_size=20, max_size=20), st.integers(0, 50))
def test_offset_index_round_trips_and_ends_at_the_zeros(base: int, deltas: list[int], steps: list[int], zeros: int):
    positions = [sum(steps[: at + 1]) for at in range(len(deltas))]
    entries = [OffsetEntry(base + delta, position) for delta, position in zip(deltas, positions, strict=True)]
    data = encode_offset_index(entries, base)
    assert decode_offset_index(data + bytes(8 * zeros), base, "f") == entries


@given(OFFSETS, RELATIVE, st.sets(st.integers(0, 2**50), min_size=20, max_size=20).map(sorted), st.integers(0, 50))
def test_time_index_round_trips_and_ends_at_the_zeros(base: int, deltas: list[int], times: list[int], zeros: int):
    entries = [TimeEntry(time, base + delta) for time, delta in zip(times, deltas, strict=False)]
    entries = [entry for entry in entries if entry.timestamp_ms or entry.offset > base]  # the first may be all zeros
    data = encode_time_index(entries, base)
    assert decode_time_index(data + bytes(12 * zeros), base, "f") == entries


@given(OFFSETS, RELATIVE, st.integers(0, 2**62))
def test_transaction_index_round_trips(base: int, deltas: list[int], producer_id: int):
    entries = [AbortedTransaction(producer_id, base, base + delta, base + delta + 1) for delta in deltas]
    assert decode_transaction_index(encode_transaction_index(entries), base, "f") == entries


@pytest.mark.parametrize(
    ("decode", "data", "position", "words"),
    [
        (decode_offset_index, bytes(9), 8, "1 bytes are behind the last whole entry"),
        (
            decode_offset_index,
            encode_offset_index([OffsetEntry(12, 100), OffsetEntry(11, 200)], 10),
            8,
            "offset 11 at position 200 follows 12 at 100",
        ),
        (
            decode_time_index,
            encode_time_index([TimeEntry(5, 11), TimeEntry(5, 12)], 10),
            12,
            "timestamp 5 of offset 12",
        ),
        (decode_transaction_index, b"\0\1" + bytes(32), 0, "version 1 is unknown"),
        (decode_transaction_index, bytes(35), 34, "1 bytes are behind"),
    ],
)
def test_a_damaged_index_is_refused_with_its_place(decode, data: bytes, position: int, words: str):
    with pytest.raises(DamagedFileError, match=words) as caught:
        decode(data, 10, "00000000000000000010.index")
    assert (caught.value.file, caught.value.position) == ("00000000000000000010.index", position)
    assert "log repair" in caught.value.remedy


@given(st.binary(max_size=100), OFFSETS)
def test_any_bytes_are_an_index_or_an_error(data: bytes, base: int):
    for decode in (decode_offset_index, decode_time_index, decode_transaction_index):
        try:
            decode(data, base, "f")
        except DamagedFileError as error:
            assert 0 <= error.position <= len(data)


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1)), OFFSETS, max_size=5))
def test_offset_checkpoint_round_trips(offsets: dict[TopicPartition, int]):
    assert read_offsets(write_offsets(offsets)) == offsets


def test_an_empty_checkpoint_has_no_rows():
    assert read_offsets("") == {}


@given(st.text("0123 \nab-", max_size=30))
def test_any_text_is_a_checkpoint_or_an_error(text: str):
    for read in (read_offsets, LeaderEpochs().load, lambda given: read_checkpoint(given, "f", 2)):
        try:
            read(text)
        except DamagedFileError as error:
            assert error.position >= 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("0\n1\nt 0 5", 3, "no line feed"),
        ("1\n0\n", 1, "version 1 is unknown"),
        ("0\n2\nt 0 5\n", 2, "it says 2 rows, and has 1"),
        ("0\n1\nt 0\n", 3, "has 2 columns, not 3"),
        ("0\n1\nt 0 five\n", 3, "is not a topic, a partition and an offset"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_its_line(text: str, line: int, words: str):
    with pytest.raises(DamagedFileError, match=words) as caught:
        read_offsets(text, "recovery-point-offset-checkpoint")
    assert caught.value.position == line


@given(st.text("abc-_09", min_size=1), st.integers(0, 2**31 - 1), st.none() | UUIDS)
def test_meta_properties_round_trip(cluster_id: str, node_id: int, directory_id: Uuid | None):
    meta = MetaProperties(cluster_id, node_id, directory_id)
    assert read_meta_properties(write_meta_properties(meta)) == meta


def test_meta_properties_of_kafka_are_read():
    text = (
        "#\n#Mon Nov 23 00:56:55 UTC 2026\nnode.id=1\ndirectory.id=xHeA-P5GgSoku7kPbc5c0Q\nversion=1\ncluster.id=k80\n"
    )
    assert read_meta_properties(text) == MetaProperties("k80", 1, Uuid.parse("xHeA-P5GgSoku7kPbc5c0Q"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version=0\nbroker.id=1\n", "version '0' is unknown"),
        ("version=1\ncluster.id=a\n", "node.id=None"),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n", "directory.id: not a Kafka UUID"),
    ],
)
def test_damaged_meta_properties_are_refused(text: str, words: str):
    with pytest.raises(DamagedFileError, match=words):
        read_meta_properties(text)


@given(UUIDS)
def test_partition_metadata_round_trips(topic_id: Uuid):
    assert read_partition_metadata(write_partition_metadata(topic_id)) == topic_id


@pytest.mark.parametrize("text", ["", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\n", "version 0"])
def test_damaged_partition_metadata_are_refused(text: str):
    with pytest.raises(DamagedFileError, match=r"partition\.metadata: line"):
        read_partition_metadata(text)


def test_the_clean_shutdown_marker_is_written_as_kafka_writes_it():
    assert write_clean_shutdown(17) == '{"version":0,"brokerEpoch":17}'
    assert read_clean_shutdown('{"version":0,"brokerEpoch":17}') == 17
    assert read_clean_shutdown("") == -1
    with pytest.raises(DamagedFileError, match="has no broker epoch"):
        read_clean_shutdown("[]")


@given(OFFSETS, st.sampled_from(FileKind), st.sampled_from(Stage))
def test_file_names_round_trip(offset: int, kind: FileKind, stage: Stage):
    file = OffsetFile(offset, kind, stage)
    assert parse_file(file.name) == file


@given(TOPICS, st.integers(0, 2**31 - 1), st.sampled_from(FolderState))
def test_folder_names_round_trip(topic: str, partition: int, state: FolderState):
    folder = PartitionFolder(topic, partition, state, "" if state is FolderState.LIVE else "0af3")
    assert parse_folder(folder.name) == folder


def test_the_name_of_a_deleted_folder_has_255_characters_at_most():
    assert len(PartitionFolder("t" * 249, 0, FolderState.DELETED, "0" * 32).name) == 255


def test_snapshots_of_the_metadata_log_are_told_from_other_files():
    snapshot = MetadataSnapshot(104, 3)
    assert snapshot.name == "00000000000000000104-0000000003.checkpoint"
    assert parse_metadata_snapshot(snapshot.name) == snapshot
    assert parse_metadata_snapshot("bootstrap.checkpoint") is None
    assert parse_file("leader-epoch-checkpoint") is None
    assert parse_folder("kafka-logs") is None


def test_the_error_of_damage_can_be_pickled():
    with pytest.raises(DamagedFileError) as caught:
        decode_snapshot(b"", "x.snapshot")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.position) == (str(caught.value), caught.value.position)
