"""Positions that are to be stored, as long as their partitions are this consumer's.

A commit may have to wait, for others or for a coordinator. Then the group can have moved on, and the consumer with it:
under its new generation, what it wanted before would be stored over what the next owner has stored. Start at `Tenures`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.light_classes import dataclass
from kafkaraw.records import TopicPartition

Positions: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, eq=False, slots=True)
class Intent:
    """Positions that somebody wants stored.

    Attributes:
        offsets: the positions.
        tenures: by which the consumer had those partitions that were assigned to it then.
    """

    offsets: Positions
    tenures: Mapping[TopicPartition, object]

    def then(self, later: Intent) -> Intent:
        """Both of them: of a partition that is in both, what was wanted later."""
        if later.offsets.keys() >= self.offsets.keys():
            return later
        before = self.without(later.offsets.keys())
        return Intent({**before.offsets, **later.offsets}, {**before.tenures, **later.tenures})

    def without(self, partitions: Collection[TopicPartition]) -> Intent:
        """The same, but for these."""
        if not partitions:
            return self
        return Intent(
            {partition: at for partition, at in self.offsets.items() if partition not in partitions},
            {partition: tenure for partition, tenure in self.tenures.items() if partition not in partitions},
        )


class Tenures:
    """What a consumer has: a partition that was given up and came back is told from one that stayed."""

    def __init__(self) -> None:
        self._now: dict[TopicPartition, object] = {}

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these and no others, new ones from now on."""
        self._now = {partition: self._now.get(partition, object()) for partition in partitions}

    def intend(self, offsets: Positions) -> Intent:
        """Want these stored."""
        return Intent(offsets, {partition: self._now[partition] for partition in offsets if partition in self._now})

    def given_up(self, intent: Intent) -> list[TopicPartition]:
        """The partitions of an intent that the consumer has had to give up since then."""
        return sorted(partition for partition, had in intent.tenures.items() if self._now.get(partition) is not had)
