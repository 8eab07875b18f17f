"""The text of a log directory's files, byte for byte what Apache Kafka 4.3's kafka-dump-log prints; or JSON lines.

`dump` writes one file. Text and JSON share the walk through the file (`_Walk`) and differ in the `Renderer`. Complaints
of indexes that do not fit their log are collected, and written after all files as Kafka does.

Source: org.apache.kafka.tools.DumpLogSegments.
"""

from __future__ import annotations

import mmap
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from kafkaraw.core.log.batches import is_valid, iter_batches
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    TRANSACTION_ENTRY_SIZE,
    AbortedTransaction,
    OffsetEntry,
    TimeEntry,
    decode_transaction_index,
    offset_entries,
    time_entries,
)
from kafkaraw.core.log.names import BOOTSTRAP_FILE, FileKind, MetadataSnapshot, parse_metadata_snapshot
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot, decode_snapshot
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.logs.decoders import Decoder, as_text, control_text, java_text
from kafkaraw.logs.kafka_json import base64_text, render
from kafkaraw.records import TIMESTAMP_LOG_APPEND_TIME, Batch, BatchHeader, Columns, Record, codec_by_id, render_records
from kafkaraw.records.header import CONTROL_BIT, MAGIC, TIMELESS_BIT, TIMESTAMP_TYPE_BIT

NO_LIMIT: Final = 2**31 - 1
MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
_SEQUENCES: Final = 1 << 31
_CHUNK_SIZE: Final = 1 << 20
"""Characters that are written together."""
_TIME_TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_BOOLEANS: Final = ("false", "true")


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What is printed of a file.

    Attributes:
        deep: print the records of each batch.
        decoder: print keys and values with this decoder; None for no content.
        skip_record_metadata: print of a record nothing but its content.
        index_sanity_check: check an index as a broker does at start, and print nothing of it.
        verify_index_only: compare an index with its log, and print no entry.
        max_message_size: bytes of a log that are searched for the batch of an index entry.
        max_bytes: bytes of a log that are read; `NO_LIMIT` for all.
    """

    deep: bool = False
    decoder: Decoder | None = None
    skip_record_metadata: bool = False
    index_sanity_check: bool = False
    verify_index_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = NO_LIMIT


@dataclass(slots=True)
class Mismatches:
    """Where indexes and logs differ, each by absolute path, in Kafka's order.

    Attributes:
        index: index offset -> last offset of the batch at its position.
        timestamps: (timestamp of the index, highest timestamp of the batch).
        unordered: (timestamp of the index, the one before it).
        not_found: (offset of the index, last offset of the batch that was found, or -1).
        gaps: offset of a record -> offset of the record after it.
    """

    index: dict[str, dict[int, int]] = field(default_factory=dict)
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unordered: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, other: Mismatches) -> None:
        """Take over what was found in another file."""
        self.index |= other.index
        self.timestamps |= other.timestamps
        self.unordered |= other.unordered
        self.not_found |= other.not_found
        self.gaps |= other.gaps

    def lines(self) -> Iterator[str]:
        """Yield what Kafka writes to the standard error."""
        for file, index in self.index.items():
            yield f"Mismatches in :{file}"
            for offset, found in sorted(index.items(), reverse=True):
                yield f"  Index offset: {offset}, log offset: {found}"
        for file, times in self.timestamps.items():
            yield f"Found timestamp mismatch in :{file}"
            yield from (f"  Index timestamp: {time}, log timestamp: {found}" for time, found in times)
        for file, times in self.unordered.items():
            yield f"Found out of order timestamp in :{file}"
            yield from (f"  Index timestamp: {time}, Previously indexed timestamp: {last}" for time, last in times)
        for offsets in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {offset}, found log offset: {found}" for offset, found in offsets)
        for file, gaps in self.gaps.items():
            yield f"Non-consecutive offsets in {file}"
            yield from (f"  {first} is followed by {second}" for first, second in sorted(gaps.items()))


class Renderer(Protocol):
    """Makes a line, without a line feed, of each thing that a file holds."""

    def file(self, path: str) -> str:
        """The file whose content follows."""

    def log_start(self, offset: int) -> str:
        """The base offset in the name of a log file."""

    def metadata_snapshot(self, name: MetadataSnapshot | None) -> str:
        """The name of a snapshot of the metadata log; None for the bootstrap snapshot."""

    def batch(self, position: int, header: BatchHeader, valid: bool) -> str:
        """A batch."""

    def records(self, header: BatchHeader, wire: memoryview, decoder: Decoder | None) -> Iterator[str]:
        """The records of a wire batch; `decoder` decodes their content, None shows no content.

        A line may be several, with line feeds between them.
        """

    def trailing(self, count: int, name: str) -> str:
        """Bytes behind the last whole batch."""

    def state(self, path: str, words: str) -> str:
        """A sentence about an index."""

    def offset_entry(self, entry: OffsetEntry) -> str:
        """An entry of an `.index` file."""

    def time_entry(self, entry: TimeEntry) -> str:
        """An entry of a `.timeindex` file."""

    def aborted(self, entry: AbortedTransaction) -> str:
        """An entry of a `.txnindex` file."""

    def producer(self, entry: ProducerSnapshot) -> str:
        """A producer of a `.snapshot` file."""


def last_sequence_of(header: BatchHeader) -> int:
    """Return the sequence of the last record of a batch; -1 if it has none."""
    return -1 if header.base_sequence == -1 else (header.base_sequence + header.last_offset_delta) % _SEQUENCES


def records_of(header: BatchHeader, wire: memoryview) -> Iterable[Record]:
    """Return the records of a wire batch, those of control batches included."""
    return Batch("", 0, [(_plain(header), wire)], start_offset=0, check_crcs=False)


def _plain(header: BatchHeader) -> BatchHeader:
    """Return the header as readers need it: they skip control batches, and know an attribute of this package's own."""
    return header._replace(attributes=header.attributes & ~(CONTROL_BIT | TIMELESS_BIT))


def _sequence_of(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) % _SEQUENCES


def time_type_of(header: BatchHeader) -> str:
    """Return Kafka's name for the origin of the timestamps of a batch."""
    if header.magic == 0:
        return _TIME_TYPES[-1]
    return _TIME_TYPES[1 if header.attributes & TIMESTAMP_TYPE_BIT else 0]


def _optional(value: int | None) -> str:
    """Return the text of a Java OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _delete_horizon(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.has_delete_horizon else None


class TextRenderer:
    """The text of kafka-dump-log.

    Args:
        skip_record_metadata: print of a record nothing but its content.
    """

    def __init__(self, *, skip_record_metadata: bool = False) -> None:
        self._skip = skip_record_metadata

    def file(self, path: str) -> str:
        """Return the heading of a file."""
        return f"Dumping {path}"

    def log_start(self, offset: int) -> str:
        """Return the line with the log start offset."""
        return f"Log starting offset: {offset}"

    def metadata_snapshot(self, name: MetadataSnapshot | None) -> str:
        """Return the line about a snapshot of cluster metadata."""
        if name is None:
            return "KRaft bootstrap snapshot"
        return f"Snapshot end offset: {name.end_offset}, epoch: {name.epoch}"

    def batch(self, position: int, header: BatchHeader, valid: bool) -> str:
        """Return the text of a batch header."""
        (
            base_offset,
            length,
            epoch,
            magic,
            crc,
            attributes,
            last_delta,
            _,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = header
        if magic >= MAGIC:
            first = (
                f"baseOffset: {base_offset} lastOffset: {base_offset + last_delta} count: {count} "
                f"baseSequence: {base_sequence} lastSequence: {last_sequence_of(header)} producerId: {producer_id} "
                f"producerEpoch: {producer_epoch} partitionLeaderEpoch: {epoch} "
                f"isTransactional: {_BOOLEANS[attributes >> 4 & 1]} isControl: {_BOOLEANS[attributes >> 5 & 1]} "
                f"deleteHorizonMs: {_optional(_delete_horizon(header))}"
            )
        else:
            first = f"offset: {base_offset + last_delta}"
        return (
            f"{first} position: {position} {time_type_of(header)}: {max_timestamp} size: {length + 12} magic: {magic} "
            f"compresscodec: {codec_by_id(attributes & 7).name} crc: {crc} isvalid: {_BOOLEANS[valid]}"
        )

    def records(self, header: BatchHeader, wire: memoryview, decoder: Decoder | None) -> Iterator[str]:
        """Yield the text of each record of a batch."""
        if header.is_control or decoder not in (None, as_text):
            yield from self._decoded(header, wire, decoder)
            return
        text = None if decoder is None else java_text
        yield render_records(wire, _plain(header), time_type_of(header), text, skip_metadata=self._skip)

    def _decoded(self, header: BatchHeader, wire: memoryview, decoder: Decoder | None) -> Iterator[str]:
        time_type, first_sequence = time_type_of(header), header.base_sequence - header.base_offset
        has_sequence, is_control, skip = header.base_sequence >= 0, header.is_control, self._skip
        decoder = None if is_control else decoder
        space = "| " if skip else " "
        line = ""
        for record in records_of(header, wire):
            if not skip:
                offset, key, value, headers = record.offset, record.key, record.value, record.headers
                line = (
                    f"| offset: {offset} {time_type}: {record.timestamp_ms} "
                    f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)} "
                    f"sequence: {(first_sequence + offset) % _SEQUENCES if has_sequence else -1} "
                    f"headerKeys: [{','.join([name for name, _ in headers]) if headers else ''}]"
                )
                if is_control:
                    line = f"{line} {control_text(record)}"
            if decoder is None:
                yield line
                continue
            shown_key, shown_value = decoder(record)
            if shown_key is None:
                yield line if shown_value is None else f"{line}{space}payload: {shown_value}"
            elif shown_value is None:
                yield f"{line}{space}key: {shown_key}"
            else:
                yield f"{line}{space}key: {shown_key} payload: {shown_value}"

    def trailing(self, count: int, name: str) -> str:
        """Return the text about bytes after the last whole batch."""
        return f"Found {count} invalid bytes at the end of {name}"

    def state(self, path: str, words: str) -> str:
        """Return the text about the state of an index."""
        return f"{path} {words}"

    def offset_entry(self, entry: OffsetEntry) -> str:
        """Return the text of an entry of an offset index."""
        return f"offset: {entry.offset} position: {entry.position}"

    def time_entry(self, entry: TimeEntry) -> str:
        """Return the text of an entry of a time index."""
        return f"timestamp: {entry.timestamp_ms} offset: {entry.offset}"

    def aborted(self, entry: AbortedTransaction) -> str:
        """Return the text of an entry of a transaction index."""
        return (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )

    def producer(self, entry: ProducerSnapshot) -> str:
        """Return the text of a producer in a snapshot."""
        first_offset = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {_optional(first_offset if first_offset >= 0 else None)} "
            f"lastTimestamp: {entry.timestamp_ms}"
        )
        if entry.last_offset < 0:
            return line
        return (
            f"{line} firstSequence: {_first_sequence(entry)} lastSequence: {entry.last_sequence} "
            f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp_ms}"
        )


def _first_sequence(entry: ProducerSnapshot) -> int:
    return (entry.last_sequence - entry.offset_delta) % _SEQUENCES


class JsonRenderer:
    """One JSON object a line; its `type` says what it is.

    Args:
        skip_record_metadata: print of a record nothing but its content.
    """

    def __init__(self, *, skip_record_metadata: bool = False) -> None:
        self._skip = skip_record_metadata

    def file(self, path: str) -> str:
        """Return the heading of a file."""
        return render({"type": "file", "path": path})

    def log_start(self, offset: int) -> str:
        """Return the line with the log start offset."""
        return render({"type": "log", "baseOffset": offset})

    def metadata_snapshot(self, name: MetadataSnapshot | None) -> str:
        """Return the line about a snapshot of cluster metadata."""
        if name is None:
            return render({"type": "metadataSnapshot", "bootstrap": True})
        return render({"type": "metadataSnapshot", "endOffset": name.end_offset, "epoch": name.epoch})

    def batch(self, position: int, header: BatchHeader, valid: bool) -> str:
        """Return the text of a batch header."""
        found: dict[str, object] = {"type": "batch", "position": position, "size": header.size, "magic": header.magic}
        if header.magic >= MAGIC:
            found |= {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.records_count,
                "baseSequence": header.base_sequence,
                "lastSequence": last_sequence_of(header),
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.partition_leader_epoch,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "deleteHorizonMs": _delete_horizon(header),
            }
        else:
            found["offset"] = header.last_offset
        found |= {
            "timestampType": time_type_of(header),
            "maxTimestamp": header.max_timestamp,
            "codec": codec_by_id(header.codec_id).name,
            "crc": header.crc,
            "isValid": valid,
        }
        return render(found)

    def records(self, header: BatchHeader, wire: memoryview, decoder: Decoder | None) -> Iterator[str]:
        """Yield the text of each record of a batch."""
        for record in records_of(header, wire):
            found: dict[str, object] = {"type": "record", "offset": record.offset}
            if not self._skip:
                found |= {
                    "timestampType": time_type_of(header),
                    "timestamp": record.timestamp_ms,
                    "keySize": -1 if record.key is None else len(record.key),
                    "valueSize": -1 if record.value is None else len(record.value),
                    "sequence": _sequence_of(header, record),
                    "headerKeys": [name for name, _ in record.headers],
                }
                if header.is_control:
                    found["control"] = control_text(record)
            if decoder is not None and not header.is_control:
                key, value = decoder(record)
                found |= _json_content("key", record.key, key) | _json_content("value", record.value, value)
            yield render(found)

    def trailing(self, count: int, name: str) -> str:
        """Return the text about bytes after the last whole batch."""
        return render({"type": "invalidBytes", "count": count})

    def state(self, path: str, words: str) -> str:
        """Return the text about the state of an index."""
        return render({"type": "index", "state": words.rstrip(".")})

    def offset_entry(self, entry: OffsetEntry) -> str:
        """Return the text of an entry of an offset index."""
        return render({"type": "offsetEntry", "offset": entry.offset, "position": entry.position})

    def time_entry(self, entry: TimeEntry) -> str:
        """Return the text of an entry of a time index."""
        return render({"type": "timeEntry", "timestamp": entry.timestamp_ms, "offset": entry.offset})

    def aborted(self, entry: AbortedTransaction) -> str:
        """Return the text of an entry of a transaction index."""
        return render(
            {
                "type": "abortedTransaction",
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
        )

    def producer(self, entry: ProducerSnapshot) -> str:
        """Return the text of a producer in a snapshot."""
        return render(
            {
                "type": "producer",
                "producerId": entry.producer_id,
                "producerEpoch": entry.epoch,
                "coordinatorEpoch": entry.coordinator_epoch,
                "currentTxnFirstOffset": entry.transaction_first_offset,
                "firstSequence": _first_sequence(entry) if entry.last_offset >= 0 else -1,
                "lastSequence": entry.last_sequence,
                "lastOffset": entry.last_offset,
                "offsetDelta": entry.offset_delta,
                "lastTimestamp": entry.timestamp_ms,
            }
        )


def _json_content(name: str, data: bytes | None, shown: str | None) -> dict[str, object]:
    """Return a key or a value; bytes that are no text as base64, under a name of their own."""
    if shown is None or data is None:
        return {name: shown}
    if "\N{REPLACEMENT CHARACTER}" in shown and java_text(data) == shown:
        return {f"{name}Base64": base64_text(data)}
    return {name: shown}


@contextmanager
def mapped(path: str | Path) -> Iterator[memoryview]:
    """Map a file into memory for reading; the view must not be used after the context.

    Raises:
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield memoryview(b"")
            return
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = memoryview(content)
    try:
        yield view
    finally:
        with suppress(BufferError):  # an error under way holds frames with views; they unmap the file when they go
            view.release()
            content.close()


def dump(
    path: str,
    options: DumpOptions,
    renderer: Renderer,
    mismatches: Mismatches,
    write: Callable[[str], object],
    complain: Callable[[str], object],
    advance: Callable[[int], object] | None = None,
) -> None:
    """Write what a file holds.

    Args:
        path: a file of a partition's folder; its suffix says what it is.
        options: what is printed.
        renderer: how it is printed.
        mismatches: gets what does not fit.
        write: takes text that consists of whole lines.
        complain: takes a line for the standard error.
        advance: takes the number of bytes of the file that were read since the last call.

    Raises:
        UsageError: the name has no suffix, or a name of digits was expected.
        DamagedFileError: the file cannot be read any further; all before it was written.
        ProtocolError: a record cannot be decoded.
        OSError: the file, or the log that an index belongs to, cannot be read.
    """
    path = re.sub("/+", "/", path)
    walk = _Walk(Path(path), path, options, renderer, mismatches)
    source = iter(walk.lines(complain))
    lines: list[str] = []
    reached = 0
    try:
        while True:
            if advance is not None:
                advance(walk.position - reached)
                reached = walk.position
            size = 0
            while size < _CHUNK_SIZE:  # an error keeps the lines before it
                line = next(source, None)
                if line is None:
                    return
                lines.append(line)
                size += len(line)
            write("\n".join((*lines, "")))
            lines.clear()
    finally:
        if lines:
            write("\n".join((*lines, "")))


class _Walk:
    """The way through one file, with the renderer's lines."""

    def __init__(
        self, path: Path, shown: str, options: DumpOptions, renderer: Renderer, mismatches: Mismatches
    ) -> None:
        self._path = path
        self._shown = shown
        self._absolute = os.path.join(os.getcwd(), shown)
        self._options = options
        self._renderer = renderer
        self._mismatches = mismatches
        self.position = 0

    def lines(self, complain: Callable[[str], object]) -> Iterable[str]:
        yield self._renderer.file(self._shown)
        match self._path.suffix:
            case FileKind.LOG | ".checkpoint":
                yield from self._log()
            case FileKind.OFFSET_INDEX:
                yield from self._offset_index()
            case FileKind.TIME_INDEX:
                yield from self._time_index()
            case FileKind.TRANSACTION_INDEX:
                data = self._path.read_bytes()
                whole = data[: len(data) // TRANSACTION_ENTRY_SIZE * TRANSACTION_ENTRY_SIZE]
                yield from map(self._renderer.aborted, decode_transaction_index(whole, 0, self._shown))
            case FileKind.PRODUCER_SNAPSHOT:
                try:
                    producers = decode_snapshot(self._path.read_bytes(), self._shown)
                except DamagedFileError as error:
                    complain(str(error))
                else:
                    yield from map(self._renderer.producer, producers)
            case "":
                self._path.open("rb").close()  # a missing file or a folder is that first
                raise UsageError(
                    f"{self._shown}: the name has no suffix, so its kind is not known; give a .log, .index, "
                    ".timeindex, .txnindex, .snapshot or .checkpoint file"
                )
            case _:
                complain(f"Ignoring unknown file {self._shown}")

    @property
    def _base_offset(self) -> int:
        stem = self._path.name.split(".")[0]
        if not (stem.isascii() and stem.isdigit()):
            self._path.open("rb").close()  # a missing file is that first
            raise UsageError(f"{self._shown}: the name must begin with the base offset, as 00000000000000000000.log")
        return int(stem)

    def _log(self) -> Iterable[str]:
        if self._path.suffix == FileKind.LOG:
            yield self._renderer.log_start(self._base_offset)
        elif self._path.name == BOOTSTRAP_FILE:
            yield self._renderer.metadata_snapshot(None)
        else:
            name = parse_metadata_snapshot(self._path.name)
            if name is None:
                raise UsageError(f"{self._shown}: a snapshot is named OFFSET-EPOCH.checkpoint, with 20 and 10 digits")
            yield self._renderer.metadata_snapshot(name)
        options, render_batch = self._options, self._renderer.batch
        with mapped(self._path) as data:
            valid_bytes, last_offset = 0, -1
            for at, header in iter_batches(data, self._shown, end=options.max_bytes):
                yield render_batch(at, header, is_valid(data, at, header))
                valid_bytes = self.position = at + header.size
                if options.deep:
                    self._check_readable(at, header)
                    if not header.records_count:
                        continue
                    wire = data[at : at + header.size]
                    if header.records_count != header.last_offset_delta + 1:
                        offsets = [record.offset for record in records_of(header, wire)]
                        last_offset = self._note_gaps(offsets, last_offset)
                    else:  # its records leave no gap
                        self._note_gaps((header.base_offset,), last_offset)
                        last_offset = header.last_offset
                    yield from self._renderer.records(header, wire, options.decoder)
            if valid_bytes < len(data) and options.max_bytes == NO_LIMIT:
                yield self._renderer.trailing(len(data) - valid_bytes, self._path.name)

    def _check_readable(self, at: int, header: BatchHeader) -> None:
        if header.magic != MAGIC:
            raise UsageError(
                f"{self._shown}: byte {at}: records are not read from messages of magic {header.magic}; "
                "dump the file without records"
            )

    def _note_gaps(self, offsets: Iterable[int], last_offset: int) -> int:
        for offset in offsets:
            if offset != last_offset + 1:
                self._mismatches.gaps.setdefault(self._absolute, {})[last_offset] = offset
            last_offset = offset
        return last_offset

    def _offset_index(self) -> Iterable[str]:
        base_offset = self._base_offset
        data = self._path.read_bytes()
        entries = offset_entries(data, base_offset)
        with mapped(self._path.with_suffix(FileKind.LOG)) as log:
            if not entries:
                yield self._renderer.state(self._shown, "is empty.")
            elif self._options.index_sanity_check:
                self._check_sanity(entries[-1].offset, base_offset, len(data), OFFSET_ENTRY_SIZE)
                yield self._renderer.state(self._shown, "passed sanity check.")
            else:
                yield from self._offset_entries(entries, base_offset, log)

    def _offset_entries(self, entries: list[OffsetEntry], base_offset: int, log: memoryview) -> Iterable[str]:
        for number, entry in enumerate(entries):
            if entry.offset == base_offset and number:
                return  # zeros that were allocated in advance
            end = entry.position + self._options.max_message_size
            found = next(iter_batches(log, self._shown, entry.position, end), None) if entry.position >= 0 else None
            if found is None:
                problem = f"entry {number} says position {entry.position}, where the log has no whole batch"
                remedy = "if the batch is larger, give --max-message-size; else remove the index"
                raise DamagedFileError(self._shown, number * OFFSET_ENTRY_SIZE, problem, remedy)
            last_offset = found[1].last_offset
            if last_offset != entry.offset:
                self._mismatches.index.setdefault(self._absolute, {})[entry.offset] = last_offset
            if not self._options.verify_index_only:
                yield self._renderer.offset_entry(entry)

    def _check_sanity(self, last_offset: int, base_offset: int, size: int, entry_size: int) -> None:
        """Check what a broker checks at start.

        Raises:
            DamagedFileError: the broker would rebuild the index.
        """
        remedy = "remove the file: the broker rebuilds it at its next start"
        if last_offset < base_offset:
            problem = f"the last offset is {last_offset}, which is less than the base offset {base_offset}"
            raise DamagedFileError(self._shown, size - entry_size, problem, remedy)
        if size % entry_size:
            problem = f"{size} bytes are no multiple of {entry_size}"
            raise DamagedFileError(self._shown, size - size % entry_size, problem, remedy)

    def _time_index(self) -> Iterable[str]:
        base_offset = self._base_offset
        data = self._path.read_bytes()
        entries = time_entries(data, base_offset)
        index = offset_entries(self._path.with_suffix(FileKind.OFFSET_INDEX).read_bytes(), base_offset)
        with mapped(self._path.with_suffix(FileKind.LOG)) as log:
            if self._options.index_sanity_check:
                last = entries[-1] if entries else TimeEntry(-1, base_offset)
                if entries and last.timestamp_ms < entries[0].timestamp_ms:
                    problem = (
                        f"the last timestamp {last.timestamp_ms} is less than the first, {entries[0].timestamp_ms}"
                    )
                    remedy = "remove the file: the broker rebuilds it at its next start"
                    raise DamagedFileError(self._shown, len(data) - TIME_ENTRY_SIZE, problem, remedy)
                self._check_sanity(last.offset, base_offset, len(data), TIME_ENTRY_SIZE)
                yield self._renderer.state(self._shown, "passed sanity check.")
            else:
                yield from self._time_entries(entries, base_offset, index, log)

    def _time_entries(
        self, entries: list[TimeEntry], base_offset: int, index: list[OffsetEntry], log: memoryview
    ) -> Iterable[str]:
        zeros = (number for number, entry in enumerate(index) if number and entry.offset == base_offset)
        del index[next(zeros, len(index)) :]
        offsets = [entry.offset for entry in index]
        last_timestamp = -1
        for number, entry in enumerate(entries):
            if entry.offset == base_offset and number:
                return  # zeros that were allocated in advance
            slot = bisect_right(offsets, entry.offset) - 1
            start = index[slot].position if slot >= 0 else 0
            batches = iter_batches(log, self._shown, start)
            at, header = next((found for found in batches if found[1].last_offset >= entry.offset), (0, None))
            if header is None or header.last_offset != entry.offset:
                found = -1 if header is None else header.last_offset
                self._mismatches.not_found.setdefault(self._absolute, []).append((entry.offset, found))
            else:
                newest = self._newest_record(log, at, header)
                if newest != entry.timestamp_ms:
                    pair = (entry.timestamp_ms, newest)
                    self._mismatches.timestamps.setdefault(self._absolute, []).append(pair)
                if last_timestamp >= entry.timestamp_ms:
                    pair = (entry.timestamp_ms, last_timestamp)
                    self._mismatches.unordered.setdefault(self._absolute, []).append(pair)
            if not self._options.verify_index_only:
                yield self._renderer.time_entry(entry)
            last_timestamp = entry.timestamp_ms

    def _newest_record(self, log: memoryview, at: int, header: BatchHeader) -> int:
        """Return the highest timestamp of a batch's records; -1 if it has none."""
        if header.magic != MAGIC or header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
            return header.max_timestamp if header.records_count else -1
        if header.is_control:
            wire = log[at : at + header.size]
            return max((record.timestamp_ms for record in records_of(header, wire)), default=-1)
        columns = Columns(frozenset({"timestamp"}), header.records_count)
        batch = Batch("", 0, [(header, log[at : at + header.size])], start_offset=0, check_crcs=False)
        batch.fill(columns)
        return max(columns.timestamp or (), default=-1)
