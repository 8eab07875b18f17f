"""How large the batches of a topic become: smaller than `batch_size` where brokers refuse that as too large.

Pure. Brokers refuse by the compressed size, which is not known before a batch is sealed, and a topic's limit may be
raised: so the size is found by trying. What is refused halves it; when enough full batches of a size were taken, the
next ones may be a quarter larger, and if that was too much, it goes back and takes twice as long until the next try.
So most of what is sent is not sent twice. Start at `refused` and `written`.
Source: Kafka's CompressionRatioEstimator has the same task; Java's producer splits every batch that is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.light_classes import dataclass

PATIENCE: Final = 100
"""So many full batches are taken before the size grows for the first time."""
PATIENCE_MAX: Final = 10_000


@dataclass(slots=True)
class _Learned:
    """What is known of one topic; `proven` is the size from which it grew the last time, 0 when it did not yet."""

    size: int
    proven: int = 0
    patience: int = PATIENCE
    written: int = 0


class BatchSizes:
    """The sizes that topics take.

    Args:
        batch_size: the setting: no batch becomes larger.
        limit: called with a topic and the size of its next batches.

    Attributes:
        learned: by topic; empty while brokers accept all batches.
    """

    def __init__(self, batch_size: int, limit: Callable[[str, int], None]) -> None:
        self._batch_size = batch_size
        self._limit = limit
        self.learned: dict[str, _Learned] = {}

    def refused(self, topic: str, size_bytes: int) -> None:
        """A batch of so many bytes, uncompressed, was too large."""
        learned = self.learned.setdefault(topic, _Learned(self._batch_size))
        if size_bytes <= learned.proven:
            learned.proven = 0
        smaller = learned.proven or max(1, size_bytes // 2)
        if smaller < learned.size:
            if learned.proven:
                learned.patience = min(2 * learned.patience, PATIENCE_MAX)
            learned.size = smaller
            learned.written = 0
        self._limit(topic, learned.size)  # again, because the topic may have been forgotten meanwhile

    def forget(self, topic: str) -> None:
        """Begin again with the setting when this topic is sent to again."""
        self.learned.pop(topic, None)

    def written(self, topic: str, size_bytes: int) -> None:
        """A batch of so many bytes was taken."""
        learned = self.learned.get(topic)
        if learned is None or 2 * size_bytes < learned.size:
            return  # one that is not full says nothing
        learned.written += 1
        if learned.written < learned.patience:
            return
        learned.proven, learned.written = learned.size, 0
        learned.size += max(1, learned.size // 4)
        if learned.size >= self._batch_size:
            del self.learned[topic]
        self._limit(topic, min(learned.size, self._batch_size))
