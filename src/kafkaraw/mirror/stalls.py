"""`Stalls`: reading a partition up to an offset ends with an error if it brings nothing for a minute.

Its leader may be down, or a transaction may have begun before the end was looked up. Must not wait itself. Start at
`Stalls.check`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import TopicPartition

STALLED_S: Final = 60.0


class Stalls:
    """How long reading has made no progress."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def check(self, of: TopicPartition, offset: int, end: int, *, waited_s: float) -> None:
        """Take note that a poll has brought nothing.

        Args:
            of: what is read.
            offset: the next one to read.
            end: the offset up to which it is read.
            waited_s: how long the poll took, in seconds.

        Raises:
            KafkaTimeoutError: nothing came for `STALLED_S`.
        """
        self._waited_s += waited_s
        if self._waited_s >= STALLED_S:
            raise KafkaTimeoutError(
                f"{name_of(of)}: no record came for {self._waited_s:.0f} s at offset {offset}, and it is read up to "
                f"offset {end}; is its leader up?"
            )

    def clear(self) -> None:
        """Take note of progress."""
        self._waited_s = 0.0
