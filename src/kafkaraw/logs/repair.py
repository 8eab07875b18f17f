"""Repair log directories: what Kafka's LogLoader does after an unclean stop, for everything that `verify` finds.

`plan` turns the findings of one partition into changes, in an order in which a crash in the middle leaves a directory
that can be repaired again; `plan_root` does so for the checkpoints. `apply` makes the changes. Nothing else writes.

Source: org.apache.kafka.storage.internals.log.LogLoader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from kafkaraw.broker.log.file_storage import sync_folder
from kafkaraw.core.log.damage import whole_number
from kafkaraw.core.log.indexes import encode_offset_index, encode_time_index, encode_transaction_index
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, FileKind, OffsetFile, Stage
from kafkaraw.core.log.offset_checkpoint import write_offsets
from kafkaraw.core.log.recovery import Segment
from kafkaraw.light_classes import dataclass
from kafkaraw.logs.verify import Examined, Finding, Repair, examine
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file; exactly one of the last four fields is set.

    Attributes:
        path: the file.
        remove: remove it.
        renamed_to: its new path.
        truncated_to: its new size in bytes.
        content: its new content.
    """

    path: Path
    remove: bool = False
    renamed_to: Path | None = None
    truncated_to: int | None = None
    content: bytes | None = None

    def text(self) -> str:
        """The change in one line."""
        if self.remove:
            return f"remove {self.path}"
        if self.renamed_to is not None:
            return f"rename {self.path} to {self.renamed_to.name}"
        if self.truncated_to is not None:
            return f"truncate {self.path} to {self.truncated_to} bytes"
        return f"write {self.path} ({len(self.content or b'')} bytes)"


@dataclass(frozen=True, slots=True)
class Planned:
    """What `repair` does with a partition; it goes from process to process.

    Attributes:
        findings: what is wrong.
        changes: the changes that repair it.
        end_offset: the log end offset before the first damage.
    """

    findings: list[Finding]
    changes: list[Change]
    end_offset: int


def planned(path: Path) -> Planned:
    """Read a partition's folder, and return what repairs it.

    Raises:
        OSError: a file cannot be read.
    """
    found = examine(path)
    return Planned(found.findings, plan(found), found.end_offset)


def plan(found: Examined) -> list[Change]:
    """Return the changes that repair a partition; none if nothing is wrong that can be repaired."""
    path = found.path
    removed = [path / name for name in found.leftovers]
    removed += [
        Path(finding.file)
        for finding in found.findings
        if finding.repair is Repair.REMOVE and Path(finding.file) not in removed
    ]
    changes = [Change(file, remove=True) for file in removed]
    changes += [Change(path / source, renamed_to=path / name) for name, source in found.names.items() if source != name]
    dropped = {finding.base_offset for finding in found.findings if finding.repair is Repair.DROP_SEGMENT}
    for base in sorted(dropped, reverse=True):
        changes += [
            Change(path / name, remove=True)
            for name in sorted(found.names, reverse=True)
            if int(name[:20]) == base and path / name not in removed
        ]
    rebuilt = {
        finding.base_offset
        for finding in found.findings
        if finding.repair in (Repair.TRUNCATE, Repair.REBUILD_INDEXES) and finding.base_offset not in dropped
    }
    for segment in found.segments:
        if segment.base_offset in rebuilt:
            changes += _rebuilt(found, segment)
    changes += [
        Change(
            path / OffsetFile(finding.base_offset, FileKind(_kind(finding.file))).name, truncated_to=finding.position
        )
        for finding in found.findings
        if finding.repair is Repair.TRIM
    ]
    gone = {change.path for change in changes if change.remove}
    changes += [
        Change(path / name, remove=True)
        for name in found.names
        if name.endswith(FileKind.PRODUCER_SNAPSHOT) and int(name[:20]) > found.end_offset and path / name not in gone
    ]
    epochs = _epochs(found)
    if epochs is not None:
        changes.append(Change(path / EPOCHS_FILE, content=epochs.text().encode()))
    return changes


def _kind(file: str) -> FileKind:
    """Return the format of an index, which may still be called `.swap`."""
    return FileKind(Path(file.removesuffix(Stage.SWAP)).suffix)


def _rebuilt(found: Examined, segment: Segment) -> Iterable[Change]:
    """Yield the truncation of a segment and its new indexes."""
    base = segment.base_offset

    def path(kind: FileKind) -> Path:
        return found.path / OffsetFile(base, kind).name

    if segment.valid_bytes < segment.size_bytes:
        yield Change(path(FileKind.LOG), truncated_to=segment.valid_bytes)
    yield Change(path(FileKind.OFFSET_INDEX), content=encode_offset_index(segment.offset_index, base))
    yield Change(path(FileKind.TIME_INDEX), content=encode_time_index(segment.time_index, base))
    transactions = path(FileKind.TRANSACTION_INDEX)
    if segment.transactions:
        yield Change(transactions, content=encode_transaction_index(segment.transactions))
    elif transactions.name in found.names:
        yield Change(transactions, remove=True)


def _epochs(found: Examined) -> LeaderEpochs | None:
    """Return the leader epochs to write; None if the file is right."""
    rebuilds = any(finding.repair is Repair.REBUILD_EPOCHS for finding in found.findings)
    epochs = found.epochs.copy() if rebuilds or found.known_epochs is None else found.known_epochs.copy()
    is_cut = epochs.cut_end(found.end_offset) if found.end_offset else False
    return epochs if rebuilds or (is_cut and found.known_epochs is not None) else None


def plan_root(
    directory: Path, findings: Iterable[Finding], end_offsets: Mapping[TopicPartition, int], *, changes_logs: bool
) -> list[Change]:
    """Return the changes of the files of the log directory itself.

    Args:
        directory: the log directory.
        findings: those of `examine_root`, with the log end offsets after the repair.
        end_offsets: log end offset of each partition after the repair.
        changes_logs: the repair changes partitions: the marker of a clean shutdown is removed then, so that the broker
            recovers its logs, and tells the controller that it may have lost records (KIP-966).
    """
    findings = list(findings)
    changes = [Change(Path(finding.file), remove=True) for finding in findings if finding.repair is Repair.REMOVE]
    marker = directory / CLEAN_SHUTDOWN_FILE
    if changes_logs and marker.exists() and not any(change.path == marker for change in changes):
        changes.append(Change(marker, remove=True))
    for file in dict.fromkeys(finding.file for finding in findings if finding.repair is Repair.REWRITE_CHECKPOINT):
        text = Path(file).read_text(errors="replace")
        changes.append(Change(Path(file), content=_sound_rows(text, end_offsets).encode()))
    return changes


def _sound_rows(text: str, end_offsets: Mapping[TopicPartition, int]) -> str:
    """Return a checkpoint with the rows that can be read, none beyond the end of its log."""
    rows = {}
    for line in text.split("\n")[2:]:
        match line.split():
            case [topic, partition, offset]:
                number, value = whole_number(partition), whole_number(offset)
                if number is not None and value is not None and number >= 0:
                    key = TopicPartition(topic, number)
                    if key in end_offsets:
                        rows[key] = min(value, end_offsets[key])
    return write_offsets(rows)


def apply(changes: Iterable[Change]) -> None:
    """Make the changes, in their order, each synced before the next one.

    Raises:
        OSError: a file cannot be changed; the changes before it are made, and the rest can be planned again.
    """
    for change in changes:
        if change.remove:
            change.path.unlink(missing_ok=True)
        elif change.renamed_to is not None:
            change.path.replace(change.renamed_to)
        elif change.truncated_to is not None:
            with open(change.path, "r+b") as file:
                file.truncate(change.truncated_to)
                os.fsync(file.fileno())
        else:
            aside = change.path.with_name(f"{change.path.name}.tmp")
            with open(aside, "wb") as file:
                file.write(change.content or b"")
                file.flush()
                os.fsync(file.fileno())
            aside.replace(change.path)
        sync_folder(change.path.parent)
