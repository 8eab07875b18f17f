"""What answers brought and nobody was given yet; what came of paused partitions lies aside. Pure; see `Waiting`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition, Wire


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one answer brought for one partition and is not handed over yet; whole batches only."""

    node_id: int
    wires: Sequence[Wire]
    epochs: Sequence[tuple[int, int]]
    topic_id: Uuid


class Waiting:
    """What waits to be handed over, at most one answer's part of each partition, in the order in which it came."""

    def __init__(self) -> None:
        self._ready: dict[TopicPartition, Fetched] = {}
        self._aside: dict[TopicPartition, Fetched] = {}

    def __bool__(self) -> bool:
        return bool(self._ready)

    def __contains__(self, of: object) -> bool:
        return of in self._ready or of in self._aside

    @property
    def node_ids(self) -> set[int]:
        """The brokers from which something waits that can be handed over."""
        return {fetched.node_id for fetched in self._ready.values()}

    def put(self, of: TopicPartition, fetched: Fetched, *, aside: bool) -> None:
        """Keep what came, of a paused partition aside."""
        (self._aside if aside else self._ready)[of] = fetched

    def take(self) -> Iterator[tuple[TopicPartition, Fetched]]:
        """Give everything away that does not lie aside."""
        taken, self._ready = self._ready, {}
        return iter(taken.items())

    def drop(self, of: TopicPartition) -> None:
        """Forget what came of a partition."""
        self._ready.pop(of, None)
        self._aside.pop(of, None)

    def lay_aside(self, of: TopicPartition) -> None:
        """Keep what came of a partition until it is brought back."""
        if of in self._ready:
            self._aside[of] = self._ready.pop(of)

    def bring_back(self, of: TopicPartition) -> None:
        """Hand over what came of a partition, too."""
        if of in self._aside:
            self._ready[of] = self._aside.pop(of)
