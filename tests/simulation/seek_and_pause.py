"""A member of a group seeks in its partitions, pauses them, and resumes them, at random.

It seeks no further forward than it has read, so that every offset that it commits is processed. Start at
`SeekAndPause.act`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.records import TopicPartition
from kafkaraw.testing.group_history import GroupHistory, Ownership, Seek
from tests.simulation.world import World

BACK_MAX = 10
"""The maximum number of offsets of a seek back, if it does not go to the first record."""
WEIGHTS, WEIGHTS_WITH_RECORDS = (17, 1, 1, 1), (5, 2, 2, 1)
"""The weights of no action, seek, pause and resume; the second ones if records are undelivered."""


class SeekAndPause:
    """The random seeks and pauses of one member.

    Args:
        name: name of the member.
        consumer: its consumer.
        ownerships: the partitions that it owns.
        group: the history to extend.
        world: the brokers and clients.
        is_active: whether it may seek and pause.
    """

    def __init__(
        self,
        name: str,
        consumer: AsyncConsumer,
        ownerships: Mapping[TopicPartition, Ownership],
        group: GroupHistory,
        world: World,
        *,
        is_active: bool,
    ) -> None:
        self._name, self._consumer, self._tenures, self._group, self._world = name, consumer, ownerships, group, world
        self._rng: random.Random = world.rng(f"whims of {name}")
        self._is_active = is_active and self._rng.random() < 0.5
        self._paused: set[TopicPartition] = set()
        self._highest: dict[TopicPartition, int] = {}
        self._seeks: dict[TopicPartition, list[Seek]] = {}

    def act(self, *, may_act: bool) -> None:
        """Seek, pause, resume, or do nothing, between two calls; if it may not act any more, resume all partitions."""
        if self._consumer.paused() != sorted(self._paused):
            self._violation(f"reports {self._consumer.paused()} as paused instead of {sorted(self._paused)}")
        if not may_act:
            self._resume(self._paused)
        elif self._is_active and self._tenures:
            cursor = self._consumer._reading.cursor
            undelivered = [tp for tp in sorted(self._tenures) if cursor.position_in(tp) is not None]
            actions = [None, self._seek, self._pause, self._resume_one]
            action = self._rng.choices(actions, WEIGHTS_WITH_RECORDS if undelivered else WEIGHTS)[0]
            if action is not None:
                tp = self._rng.choice(undelivered or sorted(self._tenures))
                is_event = tp in undelivered and action != self._resume_one
                self._world.covered["seek or pause with undelivered records"] += is_event
                action(tp)

    def delivered(self, tp: TopicPartition, first: int) -> str:
        """Check a delivery of records; return the name of the stretch of reading that it belongs to."""
        if tp in self._paused:
            self._violation(f"received records of {tp}, which it had paused,")
        seeks = self._seeks.get(tp, [])
        if seeks and seeks[-1].delivered is None:
            seeks[-1].delivered = first
        return f"{self._name} with {tp} from {self._tenures[tp].began_s:.6f} s, {len(seeks)}"

    def released(self, tp: TopicPartition) -> None:
        """Forget a partition that was revoked or lost."""
        self._paused.discard(tp)
        self._highest.pop(tp, None)
        self._seeks.pop(tp, None)

    def _seek(self, tp: TopicPartition) -> None:
        position = self._consumer.next_offsets().get(tp)
        if position is None:
            return
        highest = self._highest[tp] = max(position.offset, self._highest.get(tp, 0))
        if self._rng.random() < 0.2:
            offset = 0
            self._consumer.seek_to_beginning([tp])
        else:
            offset = self._rng.randint(max(0, highest - BACK_MAX), highest)
            self._consumer.seek(tp, offset)
        seek = Seek(self._name, tp, self._world.now_s, offset)
        self._seeks.setdefault(tp, []).append(seek)
        self._group.seeks.append(seek)
        self._world.covered["sought back" if offset < position.offset else "sought forward"] += 1

    def _pause(self, tp: TopicPartition) -> None:
        self._consumer.pause([tp])
        self._paused.add(tp)
        self._world.covered["paused a partition"] += 1

    def _resume_one(self, tp: TopicPartition) -> None:
        self._resume({tp} & self._paused)

    def _resume(self, partitions: set[TopicPartition]) -> None:
        self._consumer.resume(sorted(partitions))
        self._paused = self._paused - partitions

    def _violation(self, what: str) -> None:
        self._group.strays.append(f"{self._name} {what} at {self._world.now_s:.3f} s")
