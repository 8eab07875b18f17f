"""Manifests: what each run of a backup has added, as JSON with a checksum. Pure.

A backup is a sequence of runs, 1, 2, 3 and so on. Each run adds files with records that are newer than those of the run
before, and then a manifest that names them; files that no manifest names do not count. `states_of` joins the manifests
of all runs into what there is to restore. A backup that was pruned begins with a base: one manifest with everything
that is left of the runs up to one of them, in place of their manifests (`base_of`).

    kafkaraw-backup.json             what this is
    manifests/000001.json            written last
    manifests/000007-base-0001.json  in place of the manifests up to run 7
    runs/000001-4c1fa90b/            the files of run 1
        orders/0/00000000000000000000.log

Start at `Manifest` and `states_of`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.mirror.cluster_facts import CommittedOffset, GroupOffsets
from kafkaraw.records import TopicPartition

VERSION: Final = 1
IDENTITY_FILE: Final = "kafkaraw-backup.json"
MANIFESTS_FOLDER: Final = "manifests"
RUNS_FOLDER: Final = "runs"
_NAME: Final = re.compile(r"(?P<run>\d+)(-base-(?P<base>\d+))?\.json")


class BackupError(KafkaError):
    """A backup is damaged or incomplete, or cannot be read or written; the message names the file."""


class FileFormat(StrEnum):
    """How the records of a partition are stored."""

    SEGMENTS = "segments"
    PARQUET = "parquet"


SUFFIXES: Final[Mapping[FileFormat, str]] = {FileFormat.SEGMENTS: ".log", FileFormat.PARQUET: ".parquet"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with records of one partition.

    Attributes:
        path: below the backup's root.
        first_offset: records before it do not count: they are in the first batch because batches are not divided.
        next_offset: the offset after its last batch.
        records_count: number of records.
        size_bytes: its size.
        sha256: checksum of its content, as hexadecimal digits.
    """

    path: str
    first_offset: int
    next_offset: int
    records_count: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """What a run has added of one partition.

    Attributes:
        partition: its number.
        begin: the first offset.
        end: the offset at which the next run continues.
        continues: whether the records follow those of the run before; if not, earlier files do not count any more.
        lost: offsets that the source had deleted before they were backed up: the first one, and the one after the last.
        files: in the order of offsets.
    """

    partition: int
    begin: int
    end: int
    continues: bool
    lost: tuple[int, int] | None
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class TopicRun:
    """What a run has added of one topic.

    Attributes:
        name: its name.
        topic_id: its id, as text.
        partitions_count: number of partitions.
        configs: the settings that were given for it.
        partitions: in order.
    """

    name: str
    topic_id: str
    partitions_count: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionRun, ...]


@dataclass(frozen=True, slots=True)
class StoredAcl:
    """An ACL, with the names of Kafka's enums."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run.

    Attributes:
        run: its number.
        run_id: random; the folder of its files has it in its name.
        created_ms: when it began, in milliseconds since 1970 UTC.
        cluster_id: the cluster that was backed up.
        file_format: how records are stored.
        topics: by name.
        groups: committed offsets in these topics.
        acls: all ACLs of the cluster; None if it has no authorizer, or they were not wanted.
        earlier: of a base, when the runs began that it has files of, by folder.
    """

    run: int
    run_id: str
    created_ms: int
    cluster_id: str
    file_format: FileFormat
    topics: tuple[TopicRun, ...]
    groups: GroupOffsets
    acls: tuple[StoredAcl, ...] | None
    earlier: Mapping[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder of its own files, below the backup's root."""
        return folder_of(self.run, self.run_id)

    @property
    def folders(self) -> set[str]:
        """The folders of all its files."""
        return {self.folder, *self.earlier}

    @property
    def files(self) -> list[DataFile]:
        """All its files."""
        return [file for topic in self.topics for partition in topic.partitions for file in partition.files]


def manifest_path(run: int) -> str:
    """Return the path of a manifest, below the backup's root."""
    return f"{MANIFESTS_FOLDER}/{run:06}.json"


def base_path(run: int, number: int) -> str:
    """Return the path of a base, below the backup's root; each one has another number, so that none is replaced."""
    return f"{MANIFESTS_FOLDER}/{run:06}-base-{number:04}.json"


def numbers_of(name: str) -> tuple[int, int] | None:
    """Return the run of a manifest's file, and the number of a base, else 0; None if it is no such file."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found["run"]), int(found["base"] or 0))


def those_that_count(names: Iterable[str]) -> list[str]:
    """Return the files among those of manifests that count: the newest base, and the runs behind it, in order."""
    found = {numbers: name for name in names if (numbers := numbers_of(name)) is not None}
    base = max((numbers for numbers in found if numbers[1]), default=(0, 0))
    return [name for numbers, name in sorted(found.items()) if numbers == base or numbers[0] > base[0]]


def folder_of(run: int, run_id: str) -> str:
    """Return the folder of the files of a run, below the backup's root."""
    return f"{RUNS_FOLDER}/{run:06}-{run_id}"


# -- text


def write_manifest(manifest: Manifest) -> str:
    """Return the text of a manifest."""
    content: dict[str, object] = {
        "version": VERSION,
        "run": manifest.run,
        "run_id": manifest.run_id,
        "created_ms": manifest.created_ms,
        "cluster_id": manifest.cluster_id,
        "file_format": manifest.file_format.value,
        "topics": [_topic(topic) for topic in manifest.topics],
        "groups": {
            group: [[key.topic, key.partition, one.offset, one.metadata] for key, one in offsets.items()]
            for group, offsets in manifest.groups.items()
        },
        "acls": None if manifest.acls is None else [_acl(acl) for acl in manifest.acls],
    }
    if manifest.earlier:
        content["earlier"] = dict(manifest.earlier)
    return json.dumps({"checksum": _checksum(content), **content}, indent=1, ensure_ascii=False) + "\n"


def _topic(topic: TopicRun) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions_count": topic.partitions_count,
        "configs": dict(topic.configs),
        "partitions": [
            {
                "partition": one.partition,
                "begin": one.begin,
                "end": one.end,
                "continues": one.continues,
                "lost": None if one.lost is None else list(one.lost),
                "files": [
                    [file.path, file.first_offset, file.next_offset, file.records_count, file.size_bytes, file.sha256]
                    for file in one.files
                ],
            }
            for one in topic.partitions
        ],
    }


def _acl(acl: StoredAcl) -> list[str]:
    return [
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    ]


def _checksum(content: Mapping[str, object]) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(text: bytes, where: str) -> Manifest:
    """Read a manifest.

    Args:
        text: its text.
        where: its file, for errors.

    Raises:
        BackupError: it is damaged, or of a newer version.
    """
    try:
        content = json.loads(text)
        checksum = content.pop("checksum")
        if content["version"] != VERSION:
            raise BackupError(
                f"{where}: version {content['version']} is not known, only {VERSION} is; upgrade kafkaraw"
            )
        if checksum != _checksum(content):
            raise BackupError(f"{where}: its checksum is {_checksum(content)}, and it says {checksum}: it is damaged")
        return Manifest(
            run=int(content["run"]),
            run_id=str(content["run_id"]),
            created_ms=int(content["created_ms"]),
            cluster_id=str(content["cluster_id"]),
            file_format=FileFormat(content["file_format"]),
            topics=tuple(_read_topic(topic) for topic in content["topics"]),
            groups={
                group: {TopicPartition(topic, number): CommittedOffset(at, more) for topic, number, at, more in rows}
                for group, rows in content["groups"].items()
            },
            acls=None if content["acls"] is None else tuple(StoredAcl(*acl) for acl in content["acls"]),
            earlier={folder: int(began_ms) for folder, began_ms in content.get("earlier", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{where}: is damaged ({type(error).__name__}: {error})") from error


def _read_topic(row: Mapping[str, Any]) -> TopicRun:
    return TopicRun(
        name=str(row["name"]),
        topic_id=str(row["topic_id"]),
        partitions_count=int(row["partitions_count"]),
        configs=dict(row["configs"]),
        partitions=tuple(
            PartitionRun(
                partition=int(one["partition"]),
                begin=int(one["begin"]),
                end=int(one["end"]),
                continues=bool(one["continues"]),
                lost=None if one["lost"] is None else (int(one["lost"][0]), int(one["lost"][1])),
                files=tuple(DataFile(*file) for file in one["files"]),
            )
            for one in row["partitions"]
        ),
    )


# -- all runs together


@dataclass(slots=True)
class PartitionState:
    """What there is of one partition.

    Attributes:
        begin: the first offset.
        end: the offset at which the next run continues.
        lost: ranges of offsets that the source had deleted before they were backed up.
        files: in the order of offsets.
    """

    begin: int
    end: int
    lost: list[tuple[int, int]] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    @property
    def records_count(self) -> int:
        """Number of records."""
        return sum(file.records_count for file in self.files)


@dataclass(slots=True)
class TopicState:
    """What there is of one topic.

    Attributes:
        name: its name.
        topic_id: its id, as text.
        partitions_count: number of partitions.
        configs: settings.
        file_format: how records are stored.
        partitions: by number.
    """

    name: str
    topic_id: str
    partitions_count: int
    configs: Mapping[str, str]
    partitions: dict[int, PartitionState] = field(default_factory=dict)


@dataclass(slots=True)
class BackupState:
    """What all runs together have.

    Attributes:
        topics: by name.
        groups: committed offsets, as of the last run that had their topic.
        acls: those of the last run that had ACLs.
    """

    topics: dict[str, TopicState] = field(default_factory=dict)
    groups: GroupOffsets = field(default_factory=dict)
    acls: tuple[StoredAcl, ...] | None = None


def states_of(manifests: Iterable[Manifest]) -> BackupState:
    """Join the manifests of consecutive runs.

    Raises:
        BackupError: a run does not continue where the one before has ended.
    """
    state = BackupState()
    for manifest in manifests:
        for topic in manifest.topics:
            known = state.topics.get(topic.name)
            if known is None or known.topic_id != topic.topic_id:
                known = TopicState(topic.name, topic.topic_id, 0, {})
            known.partitions_count, known.configs = topic.partitions_count, topic.configs
            state.topics[topic.name] = known
            for one in topic.partitions:
                _add(known, one, manifest)
        _add_groups(state.groups, manifest)
        state.acls = manifest.acls if manifest.acls is not None else state.acls
    return state


def _add(topic: TopicState, run: PartitionRun, manifest: Manifest) -> None:
    known = topic.partitions.get(run.partition) if run.continues else None
    if known is None:
        if run.continues:
            raise BackupError(
                f"{manifest_path(manifest.run)}: {topic.name}-{run.partition} continues an earlier run, and no "
                "manifest has it"
            )
        known = topic.partitions[run.partition] = PartitionState(run.begin, run.begin)
    expected = known.end if run.lost is None else run.lost[1]
    if run.begin != expected:
        raise BackupError(
            f"{manifest_path(manifest.run)}: {topic.name}-{run.partition} continues at offset {run.begin}, and the "
            f"runs before it end at {expected}"
        )
    if run.lost is not None:
        known.lost.append(run.lost)
    known.files += run.files
    known.end = run.end


def _add_groups(groups: GroupOffsets, manifest: Manifest) -> None:
    """Replace the offsets in the topics of a run by those of the run: a group may have been deleted."""
    topics = {topic.name for topic in manifest.topics}
    for group in list(groups):
        groups[group] = {key: one for key, one in groups[group].items() if key.topic not in topics}
        if not groups[group]:
            del groups[group]
    for group, offsets in manifest.groups.items():
        groups.setdefault(group, {}).update(offsets)


def base_of(manifests: Sequence[Manifest], drops: Callable[[TopicState, DataFile], bool]) -> Manifest:
    """Return one manifest in place of those of consecutive runs.

    Args:
        manifests: from the first one of the backup on.
        drops: whether a file is left out; of each partition, only the first files may be.
    """
    state, last = states_of(manifests), manifests[-1]
    topics = tuple(
        TopicRun(
            topic.name,
            topic.topic_id,
            topic.partitions_count,
            topic.configs,
            tuple(
                part
                for number, partition in sorted(topic.partitions.items())
                for part in _parts_of(number, partition, sum(drops(topic, file) for file in partition.files))
            ),
        )
        for topic in state.topics.values()
    )
    base = replace(last, topics=topics, groups=state.groups, acls=state.acls, earlier={})
    began_ms = {each.folder: each.created_ms for each in manifests}
    for each in manifests:
        began_ms.update(each.earlier)
    used = {folder_in(file.path) for file in base.files} - {base.folder}
    return replace(base, earlier={folder: began_ms[folder] for folder in sorted(used)})


def folder_in(path: str) -> str:
    """Return the folder of the run that has written a file."""
    return "/".join(path.split("/")[:2])


def _parts_of(number: int, state: PartitionState, dropped_count: int) -> Iterator[PartitionRun]:
    """Yield what is left of a partition as one run would have added it, a part for each range between lost offsets."""
    files, begin = state.files[dropped_count:], state.begin
    if dropped_count:
        begin = files[0].first_offset if files else state.end
    lost = [each for each in state.lost if each[0] >= begin]
    starts: list[tuple[int, tuple[int, int] | None]] = [(begin, None), *((each[1], each) for each in lost)]
    for (start, before), end in zip(starts, [*(each[0] for each in lost), state.end], strict=True):
        kept = tuple(file for file in files if start <= file.first_offset < end)
        yield PartitionRun(number, start, end, before is not None, before, kept)


def check_sequence(manifests: Sequence[Manifest], where: str, first: int = 1) -> None:
    """Check that no run is missing.

    Args:
        manifests: in order.
        where: the backup, for errors.
        first: the run of the first one; that of the base, if there is one.

    Raises:
        BackupError: a manifest is missing, or has the number of another one.
    """
    for expected, manifest in enumerate(manifests, start=first):
        if manifest.run != expected:
            raise BackupError(
                f"{where}/{manifest_path(expected)} is missing: the next run is {manifest.run}; restore the file, or "
                "make a new backup elsewhere"
            )
