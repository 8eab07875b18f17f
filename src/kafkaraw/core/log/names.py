"""Names of the files and folders of a log directory, and what they say.

Start at `parse_file` and `parse_folder`.
Source: org.apache.kafka.storage.internals.log.{LogFileUtils, LocalLog}, org.apache.kafka.snapshot.Snapshots.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from kafkaraw.light_classes import NamedTuple

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
META_PROPERTIES_FILE: Final = "meta.properties"
PARTITION_METADATA_FILE: Final = "partition.metadata"
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_FOLDER: Final = f"{METADATA_TOPIC}-0"
FOLDER_NAME_MAX: Final = 255
_OFFSET_DIGITS: Final = 20


class FileKind(StrEnum):
    """The files that are named after an offset, by their suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"


class Stage(StrEnum):
    """The suffix of a file that is not in use: yet, or any more."""

    LIVE = ""
    CLEANED = ".cleaned"
    SWAP = ".swap"
    DELETED = ".deleted"


class OffsetFile(NamedTuple):
    """A file that is named after an offset.

    Attributes:
        offset: base offset of the segment; of a producer snapshot, the first offset that it does not cover.
        kind: its format.
        stage: whether it is in use.
    """

    offset: int
    kind: FileKind
    stage: Stage = Stage.LIVE

    @property
    def name(self) -> str:
        """Kafka's name for it."""
        return f"{self.offset:0{_OFFSET_DIGITS}d}{self.kind}{self.stage}"


class MetadataSnapshot(NamedTuple):
    """The name of a snapshot of the metadata log (KIP-630)."""

    end_offset: int
    epoch: int

    @property
    def name(self) -> str:
        """Kafka's name for it."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class FolderState(StrEnum):
    """The suffix of a folder that is not, or not yet, the log of a partition."""

    LIVE = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class PartitionFolder(NamedTuple):
    """The folder of a partition.

    Attributes:
        topic: the topic; shortened in the names of deleted folders that would have more than 255 characters.
        partition: the partition.
        state: LIVE, or why it is not.
        unique: the id in the name of a folder that is not LIVE.
    """

    topic: str
    partition: int
    state: FolderState = FolderState.LIVE
    unique: str = ""

    @property
    def name(self) -> str:
        """Kafka's name for it, 255 characters at most."""
        if self.state is FolderState.LIVE:
            return f"{self.topic}-{self.partition}"
        suffix = f"-{self.partition}.{self.unique}{self.state}"
        return self.topic[: FOLDER_NAME_MAX - len(suffix)] + suffix


_OFFSET_FILE: Final = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(|\.cleaned|\.swap|\.deleted)", re.ASCII
)
_METADATA_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_FOLDER: Final = re.compile(r"([\w.-]+)-(\d{1,10})(?:\.([0-9a-f]+)(-delete|-future|-stray))?", re.ASCII)


def parse_file(name: str) -> OffsetFile | None:
    """Read the name of a file; None if it is not named after an offset."""
    found = _OFFSET_FILE.fullmatch(name)
    return None if found is None else OffsetFile(int(found[1]), FileKind(found[2]), Stage(found[3]))


def offset_of(name: str, kind: FileKind) -> int | None:
    """Return the offset in the name of a file of this kind that is in use; None if it is another file."""
    file = parse_file(name)
    return file.offset if file is not None and (file.kind, file.stage) == (kind, Stage.LIVE) else None


def parse_metadata_snapshot(name: str) -> MetadataSnapshot | None:
    """Read the name of a snapshot of the metadata log; None if it is another file."""
    found = _METADATA_SNAPSHOT.fullmatch(name)
    return None if found is None else MetadataSnapshot(int(found[1]), int(found[2]))


def parse_folder(name: str) -> PartitionFolder | None:
    """Read the name of a folder; None if it is not the folder of a partition."""
    found = _FOLDER.fullmatch(name)
    if found is None:
        return None
    return PartitionFolder(found[1], int(found[2]), FolderState(found[4] or ""), found[3] or "")
