"""What goes wrong in a query, and what must be in its target afterwards. Pure.

A query copies numbers. Beyond batch 0 its topic has two partitions, the even numbers in one and the odd ones in the
other, of which each micro-batch takes ten. When the query is at a step of a batch, something befalls Kafka, or the
driver is killed, or both; the driver is started again, and ten more numbers come.
"""

from __future__ import annotations

import dataclasses
import random

from tests.spark.faulty import DEATHS, STOPS

OUTAGE = "no broker for 30 s"
MOVED = "leaders move"
REMADE = "the topic is made anew"
RETENTION = "records are deleted"
MISHAPS = (OUTAGE, MOVED, REMADE, RETENTION)

# In a topic made anew; fewer than a partition had, so that its end tells that to a driver which knows no topic id.
FRESH = range(1000, 1006)
# Records of each partition's part of the batch that are deleted.
DELETED = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    """What goes wrong, and where. `survives`: the driver is not killed at the step, only at the end."""

    starting: str
    trigger: str
    step: str
    batch: int = 0
    exactly_once: bool = False
    mishap: str = ""
    survives: bool = False
    strict: bool = True

    def __str__(self) -> str:
        how = "exactly once" if self.exactly_once else "at least once"
        said = [self.starting, self.trigger, self.step, str(self.batch), how]
        if self.mishap:
            said += [self.mishap, "failOnDataLoss" if self.strict else "what is lost is lost"]
        return " | ".join([*said, "survives" if self.survives else "killed"])

    @property
    def partitions(self) -> int:
        return 2 if self.batch else 1

    @property
    def before(self) -> range:
        """What is there at first; the query is at its step in the last ten."""
        return range(10 * self.batch + 10)

    @property
    def after(self) -> range:
        """What comes in the end."""
        return range(10 * self.batch + 10, 10 * self.batch + 20)

    @property
    def first_left(self) -> int:
        """The first offset of each partition that is not deleted."""
        return len(self.before) // self.partitions - 10 // self.partitions + DELETED

    @property
    def allowed(self) -> set[int]:
        """What may be in the target."""
        return {*self.before, *self.after, *(FRESH if self.mishap == REMADE else ())}

    @property
    def required(self) -> set[int]:
        """What must be."""
        if not self.batch and not self.mishap:
            return set(self._of_batch_0())
        return self.allowed - self._losses()

    def _of_batch_0(self) -> range:
        if self.starting in ("earliest", '{"T":{"0":-2}}'):
            return range(20)
        if self.starting == '{"T":{"0":4}}':
            return range(4, 20)
        # Nothing was written down yet: the query starts at its restart.
        return range(20 if self.step == "latest" else 10, 20)

    def _losses(self) -> set[int]:
        """What nobody can read any more, and may not have been written before."""
        if self.mishap not in (REMADE, RETENTION):
            return set()
        current = self.before[-10:]
        gone = {n for n in current if self.mishap == REMADE or n // self.partitions < self.first_left}
        if self.step == "sunk" or (self.step == "prepared" and (self.survives or not self.exactly_once)):
            gone = set()
        knows = self.survives and not self.strict  # the topic's id, which the checkpoint does not keep
        return gone | ({*FRESH} if self.mishap == REMADE and not knows else set())

    @property
    def must_fail(self) -> bool | None:
        """Whether the query must end with an error; None when it may."""
        if not self.strict or self.mishap not in (REMADE, RETENTION):
            return False
        if self.mishap == REMADE:
            return True
        if self.survives:
            return {"prepared": False, "sunk": False, "task": None}.get(self.step, True)
        return None if self.step == "sunk" and self.exactly_once else True


def drawn(seed: int) -> Plan:
    """A death or a mishap or both in one of the first four micro-batches; of ten seeds in a row all die or none.

    Each mishap has every fifth seed, half of them with failOnDataLoss; the rest is random.
    """
    rng = random.Random(seed)
    survives = bool(seed // 10 % 2)
    mishap = ("", *MISHAPS)[seed % 5]
    step = rng.choice(DEATHS if survives and not mishap else (*STOPS, *DEATHS) if survives else STOPS)
    batch = rng.randrange(1 if mishap in (REMADE, RETENTION) else 0, 4)
    endless = batch == 0 or step in DEATHS  # what is there may be read before a worker's death is over
    trigger = "processing time" if endless else rng.choice(("processing time", "available now"))
    return Plan("earliest", trigger, step, batch, rng.random() < 0.5, mishap, survives, strict=bool(seed // 5 % 2))
