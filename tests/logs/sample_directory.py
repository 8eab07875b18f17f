"""Log directories made without a broker: one partition in several segments, with all files that Kafka would write."""

from __future__ import annotations

import random
from pathlib import Path

from kafkaraw.core.log.indexes import encode_offset_index, encode_time_index, encode_transaction_index
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.metadata_files import (
    MetaProperties,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)
from kafkaraw.core.log.names import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    OffsetFile,
)
from kafkaraw.core.log.offset_checkpoint import HIGH_WATERMARKS_FILE, write_offsets
from kafkaraw.core.log.producer_snapshot import encode_snapshot
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import recover_segment
from kafkaraw.protocol import Uuid
from kafkaraw.records import ControlType, TopicPartition, encode_batch, encode_control_batch

TIME_MS = 1_700_000_000_000
BATCHES = 12
RECORDS = 3
SEGMENTS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def segment_batches(number: int, offset: int) -> list[bytes]:
    """The batches of one segment: plain ones, and an aborted and a committed transaction."""
    rng = random.Random(number)
    made = []
    for at in range(BATCHES):
        records = [
            (TIME_MS + 1000 * (offset + each), b"key %d" % each, rng.randbytes(300), (("name", b"x"),))
            for each in range(RECORDS)
        ]
        transactional = at >= BATCHES - 2
        made.append(
            encode_batch(
                records,
                codec=CODECS[at % len(CODECS)],
                base_offset=offset,
                producer_id=9 if transactional else 7,
                producer_epoch=0,
                base_sequence=(at + number * BATCHES) * RECORDS,
                transactional=transactional,
                partition_leader_epoch=number,
            )
        )
        offset += RECORDS
        if transactional:
            kind = ControlType.ABORT if at == BATCHES - 2 else ControlType.COMMIT
            marker = encode_control_batch(
                kind,
                producer_id=9,
                producer_epoch=0,
                coordinator_epoch=1,
                timestamp_ms=TIME_MS + 1000 * offset,
                base_offset=offset,
                partition_leader_epoch=number,
            )
            made.append(marker)
            offset += 1
    return made


SEGMENT_OFFSETS = BATCHES * RECORDS + 2
END_OFFSET = SEGMENTS * SEGMENT_OFFSETS


def make_directory(directory: Path) -> Path:
    """Make a log directory with the partition `flights-0`; return the partition's folder."""
    folder = directory / "flights-0"
    folder.mkdir(parents=True)
    producers, epochs = ProducerState(), LeaderEpochs()
    offset = 0
    for number in range(SEGMENTS):
        base = offset
        data = b"".join(segment_batches(number, base))
        segment = recover_segment(memoryview(data), "log", base, producers, epochs)
        assert segment.damage is None
        offset = segment.next_offset
        contents = {
            FileKind.LOG: data,
            FileKind.OFFSET_INDEX: encode_offset_index(segment.offset_index, base),
            FileKind.TIME_INDEX: encode_time_index(segment.time_index, base),
            FileKind.TRANSACTION_INDEX: encode_transaction_index(segment.transactions),
        }
        for kind, content in contents.items():
            (folder / OffsetFile(base, kind).name).write_bytes(content)
        (folder / OffsetFile(offset, FileKind.PRODUCER_SNAPSHOT).name).write_bytes(
            encode_snapshot(producers.snapshots())
        )
    assert offset == END_OFFSET
    (folder / EPOCHS_FILE).write_text(epochs.text())
    (folder / PARTITION_METADATA_FILE).write_text(write_partition_metadata(Uuid(range(16))))
    (directory / META_PROPERTIES_FILE).write_text(write_meta_properties(MetaProperties("c", 1, Uuid(range(16)))))
    (directory / CLEAN_SHUTDOWN_FILE).write_text(write_clean_shutdown(5))
    (directory / HIGH_WATERMARKS_FILE).write_text(write_offsets({TopicPartition("flights", 0): offset}))
    return folder
