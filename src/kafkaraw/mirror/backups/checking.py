"""`check`: read all files of a backup, and say what is damaged or missing.

Every file is read: its size, its checksum, the checksum of each batch, the number of records and the range of offsets
are compared with the manifest. Start at `check`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.backups.data_files import format_of, parquet_modules, segment_of
from kafkaraw.mirror.backups.manifest import BackupError, DataFile, FileFormat, Manifest, states_of
from kafkaraw.mirror.backups.store import BackupStore
from kafkaraw.mirror.slices import SourceBatch, checked_wires
from kafkaraw.records import TopicPartition, Wire


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what its manifest says.

    Attributes:
        run: number of the run.
        key: topic and partition.
        file: what the manifest says.
        reason: what is wrong, with the name of the file.
    """

    run: int
    key: TopicPartition
    file: DataFile
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check.

    Attributes:
        files_count: number of files.
        records_count: number of records that the manifests say there are.
        size_bytes: size of all files.
        damages: files that are damaged or missing.
        unfinished: folders of runs that have no manifest, because they were killed or go on; they do not count.
    """

    files_count: int
    records_count: int
    size_bytes: int
    damages: Sequence[Damage]
    unfinished: Sequence[str]


def check(
    store: BackupStore,
    *,
    run: int | None = None,
    begin: Callable[[int], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> Checked:
    """Read all files of a backup.

    Args:
        store: where it is.
        run: check only the files of this run; None is all.
        begin: called with the number of bytes.
        advance: called with the number of bytes of each file.

    Raises:
        UsageError: there is no backup.
        BackupError: a manifest is damaged or missing, or the runs do not fit together.
    """
    every = store.required_manifests()
    states_of(every)
    manifests = every if run is None else store.required_manifests(run)[-1:]
    begin(sum(file.size_bytes for manifest in manifests for file in manifest.files))
    damages: list[Damage] = []
    for manifest in manifests:
        for key, file in _files(manifest):
            try:
                _check_file(store, key, file)
            except BackupError as error:
                damages.append(Damage(manifest.run, key, file, str(error)))
            advance(file.size_bytes)
    counted = {folder for manifest in every for folder in manifest.folders}
    files = [file for manifest in manifests for file in manifest.files]
    return Checked(
        len(files),
        sum(file.records_count for file in files),
        sum(file.size_bytes for file in files),
        damages,
        [folder for folder in store.run_folders() if folder not in counted],
    )


def _files(manifest: Manifest) -> list[tuple[TopicPartition, DataFile]]:
    return [
        (TopicPartition(topic.name, partition.partition), file)
        for topic in manifest.topics
        for partition in topic.partitions
        for file in partition.files
    ]


def _check_file(store: BackupStore, key: TopicPartition, file: DataFile) -> None:
    data, where = store.read_checked(file), f"{store.url}/{file.path}"
    if format_of(file) is FileFormat.PARQUET:
        offsets = _parquet_offsets(data, where)
    else:
        offsets = _segment_offsets(key, file, data, where)
    count, first, last = offsets
    if count != file.records_count:
        raise BackupError(f"{where}: has {count} records, its manifest says {file.records_count}")
    if count and not file.first_offset <= first <= last < file.next_offset:
        raise BackupError(
            f"{where}: has offsets {first} to {last}, its manifest says {file.first_offset} to {file.next_offset - 1}"
        )


def _segment_offsets(key: TopicPartition, file: DataFile, data: bytes, where: str) -> tuple[int, int, int]:
    """Return the number of records, and a first and a last offset."""
    wires: list[Wire] = []
    try:
        for header, wire in checked_wires(segment_of(key, file, data, where)):
            if wires and header.base_offset < wires[-1][0].next_offset:
                raise BackupError(f"{where}: the batch at offset {header.base_offset} is behind a later one")
            wires.append((header, wire))
        if not wires:
            return 0, 0, 0
        count = SourceBatch(key, wires, file.first_offset).records_count
    except BackupError:
        raise
    except KafkaError as error:
        raise BackupError(f"{where}: {name_of(key)}: {error}") from error
    return count, max(file.first_offset, wires[0][0].base_offset), wires[-1][0].last_offset


def _parquet_offsets(data: bytes, where: str) -> tuple[int, int, int]:
    _, parquet = parquet_modules()
    try:
        offsets = parquet.read_table(io.BytesIO(data)).column("offset").to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise BackupError(f"{where}: is no Parquet file of a backup: {error}") from error
    if offsets != sorted(set(offsets)):
        raise BackupError(f"{where}: its offsets do not increase")
    return len(offsets), *((offsets[0], offsets[-1]) if offsets else (0, 0))
