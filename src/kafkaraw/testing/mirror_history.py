"""What a mirror did, and what it has copied, for `audit_mirror`. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.records import TopicPartition

Contents: TypeAlias = Mapping[TopicPartition, Sequence[tuple[int, bytes | None]]]
"""Committed records by partition, as offset and value, in order; the values of a partition are unique."""


class Translated(NamedTuple):
    """An offset that a mirror has translated.

    Attributes:
        partition: of the source.
        source: the offset of the source.
        target: the offset of the copy.
        is_exact: the mirror says that it is the position after the same records.
        process: name of the mirror's process.
    """

    partition: TopicPartition
    source: int
    target: int
    is_exact: bool
    process: str


@dataclass
class MirrorHistory:
    """What the processes of a mirror did in one run.

    Attributes:
        copied: what they said was copied, in order.
        translated: the offsets that they translated.
        source: the committed records of the source, in the end.
        copy: those of the copy, by partition of the source.
    """

    copied: list[CopiedBatch] = field(default_factory=list)
    translated: list[Translated] = field(default_factory=list)
    source: Contents = field(default_factory=dict)
    copy: Contents = field(default_factory=dict)
