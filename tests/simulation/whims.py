"""What a member of a group does with what it has: it goes back and forth in partitions, and pauses them for a while.

It goes back to what somebody may have processed, and forth only to where it has been, so that whatever it commits is
processed. Start at `Whims.follow`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.records import TopicPartition
from kafkaraw.testing.group_history import GroupHistory, Seek, Tenure
from tests.simulation.world import World

BACK_MAX = 10
"""So many offsets are gone back at most, if not to the first one."""
CONTENT, TEMPTED = (17, 1, 1, 1), (5, 2, 2, 1)
"""How likely nothing, a seek, a pause and its end are; and while records wait in hand, where most can go wrong."""


class Whims:
    """The whims of one member.

    Args:
        name: of the member.
        consumer: of the member.
        tenures: what it has at the moment.
        group: where is written down what it sees.
        world: where it lives.
        is_fickle: whether it may have any.
    """

    def __init__(
        self,
        name: str,
        consumer: AsyncConsumer,
        tenures: Mapping[TopicPartition, Tenure],
        group: GroupHistory,
        world: World,
        *,
        is_fickle: bool,
    ) -> None:
        self._name, self._consumer, self._tenures, self._group, self._world = name, consumer, tenures, group, world
        self._rng: random.Random = world.rng(f"whims of {name}")
        self._is_fickle = is_fickle and self._rng.random() < 0.5
        self._paused: set[TopicPartition] = set()
        self._reach: dict[TopicPartition, int] = {}
        self._seeks: dict[TopicPartition, list[Seek]] = {}

    def follow(self, *, is_restless: bool) -> None:
        """Do something, or nothing, while it is nobody's turn; who is not restless any more goes on with everything."""
        if self._consumer.paused() != sorted(self._paused):
            self._stray(f"says that it has paused {self._consumer.paused()}, and not {sorted(self._paused)}")
        if not is_restless:
            self._resume(self._paused)
        elif self._is_fickle and self._tenures:
            cursor = self._consumer._reading.cursor
            in_hand = [tp for tp in sorted(self._tenures) if cursor.position_in(tp) is not None]
            whims = [None, self._seek, self._pause, self._resume_one]
            whim = self._rng.choices(whims, TEMPTED if in_hand else CONTENT)[0]
            if whim is not None:
                tp = self._rng.choice(in_hand or sorted(self._tenures))
                self._world.covered["had a whim about what was in hand"] += tp in in_hand and whim != self._resume_one
                whim(tp)

    def given(self, tp: TopicPartition, first: int) -> str:
        """Something of this partition is given; a name for what has been read in a row."""
        if tp in self._paused:
            self._stray(f"was given records of {tp}, which it had paused,")
        seeks = self._seeks.get(tp, [])
        if seeks and seeks[-1].given is None:
            seeks[-1].given = first
        return f"{self._name} with {tp} from {self._tenures[tp].began_s:.6f} s, {len(seeks)}"

    def gave_up(self, tp: TopicPartition) -> None:
        """The partition is somebody else's."""
        self._paused.discard(tp)
        self._reach.pop(tp, None)
        self._seeks.pop(tp, None)

    def _seek(self, tp: TopicPartition) -> None:
        position = self._consumer.next_offsets().get(tp)
        if position is None:
            return
        reach = self._reach[tp] = max(position.offset, self._reach.get(tp, 0))
        if self._rng.random() < 0.2:
            offset = 0
            self._consumer.seek_to_beginning([tp])
        else:
            offset = self._rng.randint(max(0, reach - BACK_MAX), reach)
            self._consumer.seek(tp, offset)
        seek = Seek(self._name, tp, self._world.now_s, offset)
        self._seeks.setdefault(tp, []).append(seek)
        self._group.seeks.append(seek)
        self._world.covered["sought back" if offset < position.offset else "sought forth"] += 1

    def _pause(self, tp: TopicPartition) -> None:
        self._consumer.pause([tp])
        self._paused.add(tp)
        self._world.covered["paused a partition"] += 1

    def _resume_one(self, tp: TopicPartition) -> None:
        self._resume({tp} & self._paused)

    def _resume(self, partitions: set[TopicPartition]) -> None:
        self._consumer.resume(sorted(partitions))
        self._paused = self._paused - partitions

    def _stray(self, what: str) -> None:
        self._group.strays.append(f"{self._name} {what} at {self._world.now_s:.3f} s")
