"""Checkpoints and heartbeats: MirrorMaker 2's records about groups and flows, and the rules of writing them.

A checkpoint says which offset of a copy a group's offset of the source is; Java's `RemoteClusterUtils` reads it from
`<source>.checkpoints.internal` of the target. `CheckpointLog` decides which checkpoints are written, and
`offsets_to_commit` which offsets are committed for groups of the target: none moves backwards, and none of a group that
has members there. Pure. Start at `Checkpoint`.
Source: Kafka's Checkpoint, Heartbeat, MirrorCheckpointTask.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from kafkaraw.client.admin.group_descriptions import GroupState
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.mirror.mapping import Translation
from kafkaraw.records import TopicPartition

_VERSION = 0
INACTIVE: frozenset[GroupState | None] = frozenset({None, GroupState.EMPTY, GroupState.DEAD})
"""States of groups for which offsets are committed; None is a group that does not exist."""


class Checkpoint(NamedTuple):
    """A record of the topic of checkpoints.

    Attributes:
        group_id: the group.
        target: the partition of the copy.
        upstream_offset: the group's committed offset in the source.
        downstream_offset: the same position in the copy.
        metadata: what the group has committed with its offset.
    """

    group_id: str
    target: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return _text(self.group_id) + _text(self.target.topic) + struct.pack(">i", self.target.partition)

    @property
    def value(self) -> bytes:
        """The value of the record."""
        return struct.pack(">hqq", _VERSION, self.upstream_offset, self.downstream_offset) + _text(self.metadata)

    @classmethod
    def of_record(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Return the checkpoint of a record.

        Raises:
            ProtocolError: it is not one, or has a version that is not known.
        """
        try:
            group_id, at = _taken(key or b"", 0)
            topic, at = _taken(key or b"", at)
            (partition,) = struct.unpack_from(">i", key or b"", at)
            version, upstream, downstream = struct.unpack_from(">hqq", value or b"")
            metadata, _ = _taken(value or b"", 18)
        except (struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"a record is no checkpoint: key {key!r}, value {value!r}") from error
        if version != _VERSION:
            raise ProtocolError(f"a checkpoint of group {group_id!r} has the version {version}, not {_VERSION}")
        return cls(group_id, TopicPartition(topic, partition), upstream, downstream, metadata)


class Heartbeat(NamedTuple):
    """A record of the topic `heartbeats`.

    Attributes:
        source_alias: the cluster that a flow reads.
        target_alias: the cluster that it writes to.
        timestamp_ms: when the flow was alive, in milliseconds since 1970.
    """

    source_alias: str
    target_alias: str
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return _text(self.source_alias) + _text(self.target_alias)

    @property
    def value(self) -> bytes:
        """The value of the record."""
        return struct.pack(">hq", _VERSION, self.timestamp_ms)

    @classmethod
    def of_record(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Return the heartbeat of a record.

        Raises:
            ProtocolError: it is not one, or has a version that is not known.
        """
        try:
            source, at = _taken(key or b"", 0)
            target, _ = _taken(key or b"", at)
            version, timestamp_ms = struct.unpack_from(">hq", value or b"")
        except (struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"a record is no heartbeat: key {key!r}, value {value!r}") from error
        if version != _VERSION:
            raise ProtocolError(f"a heartbeat of {source}->{target} has the version {version}, not {_VERSION}")
        return cls(source, target, timestamp_ms)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _taken(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    (text,) = struct.unpack_from(f">{length}s", data, at + 2)
    return text.decode(), at + 2 + length


class CheckpointLog:
    """Decides which checkpoints are written: those that say something new.

    Args:
        written: checkpoints that the topic has, in their order.
    """

    def __init__(self, written: Iterable[Checkpoint] = ()) -> None:
        self._last = {(each.group_id, each.target): each for each in written}

    def new(self, translated: Iterable[tuple[Checkpoint, Translation]]) -> list[Checkpoint]:
        """Return the checkpoints to write.

        That is of a group that has gone on, or has gone back to an earlier offset, and if the last one is ahead, since
        it is about an earlier copy. Translations that are not exact get coarser with time: the last one is better.

        Args:
            translated: checkpoints with the translations that they have.
        """
        found = []
        for each, translation in translated:
            last = self._last.get((each.group_id, each.target))
            if (
                last is None
                or each.upstream_offset < last.upstream_offset
                or each.downstream_offset > last.downstream_offset
                or (translation.is_exact and each.downstream_offset < last.downstream_offset)
            ):
                found.append(each)
        return found

    def wrote(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Take note of checkpoints that the topic has now."""
        self._last |= {(each.group_id, each.target): each for each in checkpoints}


def offsets_to_commit(
    checkpoints: Iterable[Checkpoint],
    states: Mapping[str, GroupState | None],
    committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Return the offsets to commit for groups of the target.

    Args:
        checkpoints: the translated offsets.
        states: of the groups in the target; None for one that does not exist.
        committed: the offsets that they have there.

    Returns:
        By group; none of a group with members, and none that is not ahead of the committed one.
    """
    found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for each in checkpoints:
        if states.get(each.group_id) not in INACTIVE:
            continue
        there = committed.get(each.group_id, {}).get(each.target)
        if there is None or there.offset < each.downstream_offset:
            found.setdefault(each.group_id, {})[each.target] = OffsetAndMetadata(each.downstream_offset, each.metadata)
    return found
