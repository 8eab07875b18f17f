"""Verify log directories: every checksum, index, snapshot, epoch and checkpoint. Nothing is changed.

`examine` reads one partition; `examine_root` reads the files of the directory itself. Both return findings, each with
the place, the problem, what a repair would do, and what it would lose. `repair` acts on the same findings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from kafkaraw.core.log.batches import iter_batches, problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    TRANSACTION_ENTRY_SIZE,
    AbortedTransaction,
    decode_offset_index,
    decode_time_index,
    decode_transaction_index,
    used_size,
)
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.loading import finish_renames
from kafkaraw.core.log.metadata_files import read_clean_shutdown, read_meta_properties, read_partition_metadata
from kafkaraw.core.log.names import (
    BOOTSTRAP_FILE,
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    METADATA_TOPIC,
    PARTITION_METADATA_FILE,
    FileKind,
    OffsetFile,
    parse_folder,
    parse_metadata_snapshot,
)
from kafkaraw.core.log.offset_checkpoint import CHECKPOINT_FILES, CLEANER_FILE, read_offsets
from kafkaraw.core.log.producer_snapshot import decode_snapshot
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import Segment, recover_segment
from kafkaraw.light_classes import dataclass, field
from kafkaraw.logs.directory import log_start_offsets, offset_files
from kafkaraw.logs.dump import mapped
from kafkaraw.records import TopicPartition

NOTHING = "nothing"


class Repair(StrEnum):
    """What a repair does about a finding."""

    TRUNCATE = "truncate the log there"
    DROP_SEGMENT = "remove the segment"
    REBUILD_INDEXES = "rebuild the segment's indexes"
    REMOVE = "remove the file"
    REBUILD_EPOCHS = "write the file again from the batches"
    REWRITE_CHECKPOINT = "write the checkpoint again without the wrong rows"
    FINISH = "finish what the broker began"
    TRIM = "remove the zeros"
    NONE = "not possible here"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong.

    Attributes:
        file: path of the file.
        position: byte or line, as in `DamagedFileError`; -1 if it concerns the whole file.
        problem: what is wrong.
        repair: what a repair does.
        loss: what a repair loses.
        is_damage: False for what a broker leaves when it is killed, and finishes when it starts.
        base_offset: of the segment, for findings about one; else -1.
    """

    file: str
    position: int
    problem: str
    repair: Repair
    loss: str = NOTHING
    is_damage: bool = True
    base_offset: int = -1

    def text(self) -> str:
        """The finding in one line."""
        place = f"{self.file}: byte {self.position}" if self.position >= 0 else self.file
        return f"{place}: {self.problem} (repair: {self.repair}; loses {self.loss})"


@dataclass(slots=True)
class Examined:
    """A partition that was read.

    Attributes:
        path: its folder.
        segments: its segments, in the order of their offsets, each as recovery would leave it.
        findings: what is wrong.
        epochs: the leader epochs of the batches before the first damage.
        known_epochs: those of the checkpoint; None if it is damaged or missing.
        end_offset: the log end offset before the first damage.
        names: live name -> name of the file that has its content, once the broker's unfinished renames are done.
        leftovers: names to remove.
    """

    path: Path
    names: dict[str, str]
    leftovers: list[str]
    segments: list[Segment] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    known_epochs: LeaderEpochs | None = None
    end_offset: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the log files."""
        return sum(segment.size_bytes for segment in self.segments)

    def source(self, name: str) -> Path | None:
        """Return the file that has the content of a live name; None if there is none."""
        return self.path / self.names[name] if name in self.names else None


def examine(path: Path) -> Examined:
    """Read a partition's folder.

    Raises:
        OSError: a file cannot be read.
    """
    renames = finish_renames(offset_files(path), lambda file: _next_offset(path / file.name, file.offset))
    found = Examined(path, renames.names, renames.removed)
    for name in found.leftovers:
        _find(found, name, -1, "a file that the broker no longer uses", Repair.REMOVE, is_damage=False)
    for name, source in found.names.items():
        if name != source:
            _find(found, source, -1, f"is not renamed to {name} yet", Repair.FINISH, is_damage=False)
    _read_epochs(found)
    producers = _read_snapshots(found)
    bases = sorted(int(name[:20]) for name in found.names if name.endswith(FileKind.LOG))
    found.end_offset = bases[0] if bases else 0
    for base in bases:
        _examine_segment(found, base, producers)
    _check_orphans(found, set(bases))
    _tell_loss(found)
    _check_snapshots_end(found)
    _check_epochs(found)
    metadata = path / PARTITION_METADATA_FILE
    if metadata.exists():
        try:
            read_partition_metadata(metadata.read_text(errors="replace"), str(metadata))
        except DamagedFileError as error:
            found.findings.append(Finding(error.file, -1, error.problem, Repair.NONE))
    _examine_metadata_snapshots(found)
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` tells of a partition; it goes from process to process."""

    path: Path
    findings: list[Finding]
    end_offset: int
    size_bytes: int
    batches: int


def report(path: Path) -> Report:
    """Read a partition's folder, and return what `verify` tells of it.

    Raises:
        OSError: a file cannot be read.
    """
    found = examine(path)
    batches = sum(segment.batches for segment in found.segments)
    return Report(path, found.findings, found.end_offset, found.size_bytes, batches)


def _find(
    found: Examined,
    name: str,
    position: int,
    problem: str,
    repair: Repair,
    *,
    is_damage: bool = True,
    base_offset: int = -1,
) -> None:
    file = str(found.path / name)
    found.findings.append(Finding(file, position, problem, repair, NOTHING, is_damage, base_offset))


def _next_offset(log: Path, base_offset: int) -> int:
    end = base_offset
    with mapped(log) as data:
        try:
            for _, header in iter_batches(data, str(log)):
                end = header.next_offset
        except DamagedFileError:
            pass  # the batches before it count
    return end


def _read_epochs(found: Examined) -> None:
    file = found.path / EPOCHS_FILE
    if not file.exists():
        return
    epochs = LeaderEpochs()
    try:
        epochs.load(file.read_text(errors="replace"), str(file))
    except DamagedFileError as error:
        problem = f"line {error.position}: {error.problem}"
        found.findings.append(Finding(str(file), -1, problem, Repair.REBUILD_EPOCHS, "epochs without batches"))
    else:
        found.known_epochs = epochs


def _read_snapshots(found: Examined) -> ProducerState:
    """Check every producer snapshot; return the state at the start of the log."""
    state = ProducerState()
    bases = [int(name[:20]) for name in found.names if name.endswith(FileKind.LOG)]
    start = min(bases, default=0)
    for name in sorted(name for name in found.names if name.endswith(FileKind.PRODUCER_SNAPSHOT)):
        file = found.path / found.names[name]
        try:
            producers = decode_snapshot(file.read_bytes(), str(file))
        except DamagedFileError as error:
            loss = "the state of producers that have no batch in the log any more"
            found.findings.append(Finding(str(file), error.position, error.problem, Repair.REMOVE, loss))
        else:
            if int(name[:20]) <= start:
                state = ProducerState(producers)
    return state


def _examine_segment(found: Examined, base: int, producers: ProducerState) -> None:
    log_name = OffsetFile(base, FileKind.LOG).name
    log = found.path / found.names[log_name]
    is_behind_damage = any(segment.damage is not None for segment in found.segments)
    with mapped(log) as data:
        segment = recover_segment(data, str(log), base, producers, LeaderEpochs() if is_behind_damage else found.epochs)
    found.segments.append(segment)
    if is_behind_damage:
        _find(found, log_name, -1, "the segment is behind a damaged one", Repair.DROP_SEGMENT, base_offset=base)
    else:
        _check_segment(found, segment, log)
    segment.positions.clear()  # as many as there are batches, and nothing needs them any more
    segment.max_timestamps.clear()


def _check_segment(found: Examined, segment: Segment, log: Path) -> None:
    base, log_name = segment.base_offset, log.name
    if base < found.end_offset:
        problem = f"the segment starts at offset {base}, and the one before it ends at {found.end_offset}"
        segment.damage = DamagedFileError(str(log), 0, problem, "repair the directory")
        segment.valid_bytes, segment.next_offset = 0, found.end_offset
        _find(found, log_name, 0, problem, Repair.DROP_SEGMENT, base_offset=base)
        return
    if segment.damage is not None:
        _find(found, log_name, segment.damage.position, segment.damage.problem, Repair.TRUNCATE, base_offset=base)
    found.end_offset = segment.next_offset
    indexes = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
    if not any(OffsetFile(base, kind).name in found.names for kind in indexes):
        problem = "the segment has no indexes; Kafka rebuilds them when it starts"
        _find(found, log_name, -1, problem, Repair.REBUILD_INDEXES, is_damage=False, base_offset=base)
        return
    for check in (_check_offset_index, _check_time_index, _check_transaction_index):
        try:
            check(found, segment)
        except DamagedFileError as error:
            finding = Finding(error.file, error.position, error.problem, Repair.REBUILD_INDEXES, NOTHING, True, base)
            found.findings.append(finding)
    if not any(one.base_offset == base and one.repair is not Repair.FINISH for one in found.findings):
        _find_zeros(found, base)


def _find_zeros(found: Examined, base: int) -> None:
    """Note the zeros behind the last entry of an index, which a broker allocates in advance and trims when it stops."""
    for kind, entry_size in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY_SIZE), (FileKind.TIME_INDEX, TIME_ENTRY_SIZE)):
        source = found.source(OffsetFile(base, kind).name)
        if source is None:
            continue
        data = source.read_bytes()
        used = used_size(data, entry_size)
        if used < len(data):
            problem = f"{len(data) - used} bytes were allocated in advance"
            _find(found, source.name, used, problem, Repair.TRIM, is_damage=False, base_offset=base)


def _index_file(found: Examined, segment: Segment, kind: FileKind) -> Path:
    """Return the file of an index.

    Raises:
        DamagedFileError: it is missing.
    """
    name = OffsetFile(segment.base_offset, kind).name
    source = found.source(name)
    if source is None:
        raise DamagedFileError(str(found.path / name), -1, "the file is missing", "")
    return source


def _check_offset_index(found: Examined, segment: Segment) -> None:
    source = _index_file(found, segment, FileKind.OFFSET_INDEX)
    entries = decode_offset_index(source.read_bytes(), segment.base_offset, str(source))
    # Earlier releases of Kafka wrote one entry per append, with the end of its last batch. A search that starts there
    # reads more than it must, and finds the same batch.
    ends = frozenset(segment.positions.values())
    for number, entry in enumerate(entries):
        if segment.damage is not None and entry.position >= segment.valid_bytes:
            return
        last_offset = segment.positions.get(entry.position)
        if last_offset is None or last_offset > entry.offset or entry.offset not in ends:
            what = "no batch starts there" if last_offset is None else f"its batch ends with offset {last_offset}"
            problem = f"the entry says offset {entry.offset} at position {entry.position}: {what}"
            raise DamagedFileError(str(source), number * OFFSET_ENTRY_SIZE, problem, "")


def _check_time_index(found: Examined, segment: Segment) -> None:
    source = _index_file(found, segment, FileKind.TIME_INDEX)
    entries = decode_time_index(source.read_bytes(), segment.base_offset, str(source))
    # Earlier releases of Kafka wrote the offset of a record, or the end of an append. Searches need no more than this:
    # no batch that ends at the offset or before it is newer.
    offsets, times = list(segment.max_timestamps), list(segment.max_timestamps.values())
    known = frozenset(times)
    for number, entry in enumerate(entries):
        if segment.damage is not None and entry.offset >= segment.next_offset:
            return
        row = bisect_right(offsets, entry.offset) - 1
        if entry.timestamp_ms not in known or (row >= 0 and times[row] > entry.timestamp_ms):
            problem = f"no batch ends with offset {entry.offset} and has the highest timestamp {entry.timestamp_ms}"
            raise DamagedFileError(str(source), number * TIME_ENTRY_SIZE, problem, "")


def _check_transaction_index(found: Examined, segment: Segment) -> None:
    name = OffsetFile(segment.base_offset, FileKind.TRANSACTION_INDEX).name
    source = found.path / found.names.get(name, name)
    entries: list[AbortedTransaction] = []
    if name in found.names:  # a segment without aborted transactions has no such file
        entries = decode_transaction_index(source.read_bytes(), segment.base_offset, str(source))
    known = {(entry.producer_id, entry.last_offset): entry for entry in entries}
    for expected in segment.transactions:
        entry = known.get((expected.producer_id, expected.last_offset))
        # Compaction removes batches, so a transaction may have begun before the first one that is left.
        if entry is None or entry.first_offset > expected.first_offset:
            transaction = f"producer {expected.producer_id} to offset {expected.last_offset}"
            problem = f"the aborted transaction of {transaction} is missing"
            raise DamagedFileError(str(source), -1, problem, "")
        # A lower one may be that of a transaction without batches by now, and makes readers search longer at most.
        if entry.first_offset == expected.first_offset and entry.last_stable_offset > expected.last_stable_offset:
            problem = f"last stable offset {entry.last_stable_offset} is above {expected.last_stable_offset}"
            raise DamagedFileError(str(source), entries.index(entry) * TRANSACTION_ENTRY_SIZE, problem, "")
    for number, entry in enumerate(entries):
        if entry.last_offset >= segment.next_offset and segment.damage is None:
            problem = f"the entry ends at offset {entry.last_offset}, and the segment at {segment.next_offset}"
            raise DamagedFileError(str(source), number * TRANSACTION_ENTRY_SIZE, problem, "")


def _check_orphans(found: Examined, bases: set[int]) -> None:
    for name in found.names:
        kind = name[20:]
        is_index = kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
        if is_index and int(name[:20]) not in bases:
            _find(found, name, -1, "an index without a log file", Repair.REMOVE)


def _tell_loss(found: Examined) -> None:
    """Say what truncation loses: everything from the first damage to the end of the partition."""
    damaged = next((segment for segment in found.segments if segment.damage is not None), None)
    if damaged is None:
        return
    behind = found.segments[found.segments.index(damaged) + 1 :]
    ends = [segment.next_offset for segment in behind]
    if damaged.lost is not None:
        ends.append(damaged.lost[1] + 1)
    end = max(ends, default=damaged.next_offset)
    size = damaged.size_bytes - damaged.valid_bytes
    if end > damaged.next_offset:
        words = f"offsets {damaged.next_offset} to {end - 1} ({end - damaged.next_offset} offsets, {size} bytes"
    else:
        words = f"what was after offset {damaged.next_offset - 1} ({size} bytes"
    if behind:
        words += f", and {len(behind)} segment{'s' if len(behind) > 1 else ''}"
    words += ")"
    for at, finding in enumerate(found.findings):
        if finding.repair in (Repair.TRUNCATE, Repair.DROP_SEGMENT) and finding.base_offset == damaged.base_offset:
            found.findings[at] = Finding(
                finding.file, finding.position, finding.problem, finding.repair, words, True, finding.base_offset
            )


def _check_snapshots_end(found: Examined) -> None:
    for name in sorted(found.names):
        if name.endswith(FileKind.PRODUCER_SNAPSHOT) and int(name[:20]) > found.end_offset:
            problem = f"the snapshot is of offset {int(name[:20])}, and the log ends at {found.end_offset}"
            _find(found, name, -1, problem, Repair.REMOVE)


def _check_epochs(found: Examined) -> None:
    file = found.path / EPOCHS_FILE
    known = found.known_epochs
    if known is None:
        if not file.exists() and found.epochs.rows not in ([], [(0, 0)]):
            problem = f"the file is missing, and the batches have the epochs {found.epochs.rows}"
            found.findings.append(Finding(str(file), -1, problem, Repair.REBUILD_EPOCHS))
        return
    # Batches before it are deleted, or in part.
    known_start = known.rows[0][1] if known.rows else _log_start_offset(found)
    for epoch, start in found.epochs.rows:
        if start >= known_start and known.epoch_at(start) != epoch:
            problem = f"the batch at offset {start} has epoch {epoch}, the file says {known.epoch_at(start)}"
            found.findings.append(Finding(str(file), -1, problem, Repair.REBUILD_EPOCHS, "epochs without batches"))
            return
    if known.rows and known.rows[-1][1] > found.end_offset:
        problem = (
            f"epoch {known.rows[-1][0]} starts at offset {known.rows[-1][1]}, and the log ends at {found.end_offset}"
        )
        found.findings.append(Finding(str(file), -1, problem, Repair.REBUILD_EPOCHS))


def _log_start_offset(found: Examined) -> int:
    """Return the log start offset that the log directory has for a partition; 0 if it has none."""
    folder = parse_folder(found.path.name)
    if folder is None:
        return 0
    return log_start_offsets(found.path.parent).get(TopicPartition(folder.topic, folder.partition), 0)


def _examine_metadata_snapshots(found: Examined) -> None:
    if not found.path.name.startswith(METADATA_TOPIC):
        return
    for file in sorted(found.path.glob("*.checkpoint")):
        if parse_metadata_snapshot(file.name) is not None:
            found.findings += _batches_problem(file)


def _batches_problem(file: Path) -> list[Finding]:
    """Return the first damage of a file of batches that belongs to no segment."""
    position = 0
    with mapped(file) as data:
        try:
            for at, header in iter_batches(data, str(file)):
                problem = problem_of(data, at, header, 0)
                if problem:
                    return [Finding(str(file), at, problem, Repair.NONE)]
                position = at + header.size
        except DamagedFileError as error:
            return [Finding(str(file), error.position, error.problem, Repair.NONE)]
        if position < len(data):
            return [Finding(str(file), position, f"{len(data) - position} bytes are no whole batch", Repair.NONE)]
    return []


def examine_root(directory: Path, end_offsets: Mapping[TopicPartition, int]) -> list[Finding]:
    """Verify the files of the log directory itself.

    Args:
        directory: the log directory.
        end_offsets: log end offset of each partition that is in it.

    Raises:
        OSError: a file cannot be read.
    """
    findings = []
    for name, read in ((META_PROPERTIES_FILE, read_meta_properties), (CLEAN_SHUTDOWN_FILE, read_clean_shutdown)):
        file = directory / name
        if file.exists():
            try:
                read(file.read_text(errors="replace"), str(file))
            except DamagedFileError as error:
                repair = Repair.REMOVE if name == CLEAN_SHUTDOWN_FILE else Repair.NONE
                findings.append(Finding(str(file), -1, error.problem, repair))
    for name in CHECKPOINT_FILES:
        findings += _checkpoint_findings(directory / name, end_offsets)
    if (directory / BOOTSTRAP_FILE).exists():
        findings += _batches_problem(directory / BOOTSTRAP_FILE)
    return findings


def _checkpoint_findings(file: Path, end_offsets: Mapping[TopicPartition, int]) -> list[Finding]:
    if not file.exists():
        return []
    try:
        rows = read_offsets(file.read_text(errors="replace"), str(file))
    except DamagedFileError as error:
        loss = "the rows that cannot be read; the broker starts these partitions from their segments"
        problem = f"line {error.position}: {error.problem}"
        return [Finding(str(file), -1, problem, Repair.REWRITE_CHECKPOINT, loss)]
    if file.name == CLEANER_FILE:
        return []  # the cleaner resets its own
    return [
        Finding(
            str(file),
            -1,
            f"{key.topic}-{key.partition} has offset {offset}, and its log ends at {end_offsets[key]}",
            Repair.REWRITE_CHECKPOINT,
        )
        for key, offset in rows.items()
        if offset > end_offsets.get(key, offset)
    ]
