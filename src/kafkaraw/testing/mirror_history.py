"""What a mirror did, and what it has copied, for `audit_mirror`. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kafkaraw.mirror.interfaces import CopiedBatch, Delivery
from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import Transaction

Contents: TypeAlias = Mapping[TopicPartition, Sequence[tuple[int, bytes | None]]]
"""Committed records by partition, as offset and value, in order; the values of a partition of a source are unique."""


class Translated(NamedTuple):
    """An offset that a mirror has translated.

    Attributes:
        partition: of the source.
        source: the offset of the source.
        target: the offset of the copy.
        is_exact: the mirror says that it is the position after the same records.
        by: what has translated it: a process, a checkpoint, a failover.
        is_back: the offset of the copy was translated to the one of the source.
    """

    partition: TopicPartition
    source: int
    target: int
    is_exact: bool
    by: str
    is_back: bool = False


@dataclass
class MirrorHistory:
    """What the processes of a mirror did in one run.

    Attributes:
        delivery: how often each record is copied.
        copied: what they said was copied, in order.
        translated: the offsets that they translated.
        source: the committed records of the source, in the end.
        copy: those of the copy, by partition of the source.
        transactions: of the source, by name; values of other topics are not among them.
    """

    delivery: Delivery = Delivery.EXACTLY_ONCE
    copied: list[CopiedBatch] = field(default_factory=list)
    translated: list[Translated] = field(default_factory=list)
    source: Contents = field(default_factory=dict)
    copy: Contents = field(default_factory=dict)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
