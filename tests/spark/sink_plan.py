"""What goes wrong in a query that writes exactly once, and what must be in its target afterwards. Pure.

A query copies numbers, of which each micro-batch takes ten. At a step of a batch the driver is killed, or something
befalls its checkpoint, its topic of decisions or the cluster, or both; the driver is started again, and ten more
numbers come.
"""

from __future__ import annotations

import dataclasses
import random
from enum import StrEnum

STEPS = ("task", "looked", "prepared", "deciding", "decided", "ended", "sunk")
"""Where a query stops; `looked`, `deciding`, `decided` and `ended` are told in `faulty`."""
DECIDED_STEPS = ("decided", "ended", "sunk")


class Mishap(StrEnum):
    """What befalls a query besides the death of its driver."""

    NONE = "nothing else"
    ZOMBIE_RESTART = "the attempts go on while the batch is repeated"
    ZOMBIE_SUNK = "the attempts go on when the repetition is committed, and Spark has not noted that"
    LOST_COMMIT = "the last commit file is deleted"
    RESTORED = "an older checkpoint is restored when the next batch is committed"
    COPIES = "a copy of the checkpoint runs at the same time"
    DELETED = "the decisions topic is deleted"
    TRUNCATED = "the decisions topic is truncated"
    WRONG_POLICY = "the decisions topic is no longer compacted"
    LEADER_LOST = "the leader of the decisions topic dies"
    MOVED = "leaders and coordinators move"
    BLOCKED = "a transaction of another query is open in front"
    FEWER = "the repetition has fewer tasks"
    MORE = "the repetition has more tasks"


ZOMBIES = (Mishap.ZOMBIE_RESTART, Mishap.ZOMBIE_SUNK)
FORGETTING = (Mishap.DELETED, Mishap.TRUNCATED)
REPLANNED = (Mishap.FEWER, Mishap.MORE)
MAY_FAIL = (Mishap.ZOMBIE_RESTART, Mishap.LEADER_LOST)
"""Where the first repetition may fail, fenced by a zombie or without a leader; the next one must not."""
OF_EMBEDDED_CLUSTERS = (Mishap.LEADER_LOST, Mishap.MOVED)
"""What the tests cannot do to Apache Kafka."""
SURVIVABLE = (Mishap.LEADER_LOST, Mishap.MOVED, Mishap.BLOCKED)
"""What a driver that is not killed must get over."""


@dataclasses.dataclass(frozen=True)
class SinkPlan:
    """What goes wrong, and where.

    Attributes:
        step: where the query stops.
        mishap: what befalls it there, or later.
        batch: in which micro-batch.
        count: how many transactions have ended at the step `ended`.
        survives: the driver is not killed at the step.
        late: the copy of the checkpoint goes on when the next batch is committed, too.
    """

    step: str
    mishap: Mishap = Mishap.NONE
    batch: int = 0
    count: int = 0
    survives: bool = False
    late: bool = False

    def __str__(self) -> str:
        step = f"ended {self.count} of {self.partitions}" if self.step == "ended" else self.step
        said = [step, str(self.batch), self.mishap, "survives" if self.survives else "killed"]
        return " | ".join([*said, "late"] if self.late else said)

    @property
    def partitions(self) -> int:
        """Partitions of the source, so many tasks."""
        return 3 if self.step == "ended" else 2

    @property
    def before(self) -> range:
        """What is there at first; the query is at its step in the last ten."""
        return range(10 * self.batch + 10)

    @property
    def after(self) -> range:
        """What comes when the query has got over it."""
        return range(10 * self.batch + 10, 10 * self.batch + 20)

    @property
    def last(self) -> range:
        """What comes in the very end, to a query whose checkpoint was copied."""
        return range(10 * self.batch + 20, 10 * self.batch + 30)

    @property
    def is_decided(self) -> bool:
        """Whether the batch is decided at the step."""
        return self.step in DECIDED_STEPS

    @property
    def must_refuse(self) -> bool | None:
        """Whether the sink must refuse to go on, at first or for good; None when it may."""
        if self.mishap in FORGETTING:
            if not self.batch and self.step == "decided":
                return None  # nothing is committed yet: writing the batch anew is right, too
            return bool(self.batch) or self.is_decided
        if self.mishap in REPLANNED:
            return self.is_decided
        return self.mishap in (Mishap.RESTORED, Mishap.WRONG_POLICY)

    @property
    def refuses_for_good(self) -> bool:
        """Whether the query cannot go on as it is, once it has refused to."""
        return self.mishap in (*FORGETTING, Mishap.RESTORED)

    def required(self, *, refused: bool) -> set[int]:
        """What must be in the target, once."""
        if refused and self.mishap in FORGETTING:
            return {*self.before[:-10]}
        return {*self.before, *self.after, *(self.last if self.mishap is Mishap.COPIES else ())}

    def allowed(self, *, refused: bool) -> set[int]:
        """What may be."""
        return {*self.before} if refused and self.mishap in FORGETTING else self.required(refused=refused)


def drawn(seed: int, *, embedded: bool = True) -> SinkPlan:
    """A death or a mishap or both, in one of the first three micro-batches; each mishap has its turn."""
    rng = random.Random(f"sink {seed}")
    mishaps = [each for each in Mishap if embedded or each not in OF_EMBEDDED_CLUSTERS]
    mishap = mishaps[seed % len(mishaps)]
    if mishap in ZOMBIES:
        step = "looked"
    elif mishap in (Mishap.MOVED, Mishap.LEADER_LOST):
        step = rng.choice(("prepared", "deciding", "decided", "ended"))
    elif mishap is Mishap.COPIES:
        step = rng.choice(("looked", "prepared", "deciding", "decided", "ended"))
    else:
        step = rng.choice(STEPS)
    survives = mishap in SURVIVABLE and rng.random() < 0.5
    late = mishap is Mishap.COPIES and rng.random() < 0.5
    return SinkPlan(step, mishap, rng.randrange(3), rng.randrange(1, 3), survives, late)
