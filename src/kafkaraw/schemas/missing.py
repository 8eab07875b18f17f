"""Schemas that the registry does not have: answers are kept for a short time, and look-ups of such schemas are limited.

Any bytes that begin with 0 name a schema id, so a topic can name a different unknown id in each record. Without a
limit, each of them costs the registry a request. Only the registry can say that an id is unknown, because it may have
been registered a moment ago: so look-ups beyond the limit wait, and none is answered by guessing. Clock readings are
arguments. Start at `MissingSchemas.pause_s`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kafkaraw.schemas.cache import Cache
from kafkaraw.schemas.errors import SchemaNotFoundError

BURST_S: Final = 10.0
"""After a quiet time, the look-ups in vain of this time may come at once, in seconds."""


class MissingSchemas:
    """Look-ups that found no schema.

    Args:
        size_max: maximum number of answers that are kept.
        ttl_s: how long an answer is used again.
        per_second_max: limit of look-ups in vain, on average; 0 for none.
    """

    def __init__(self, size_max: int, ttl_s: float, per_second_max: int) -> None:
        self._answers: Cache[Hashable, tuple[SchemaNotFoundError, float]] = Cache(size_max)
        self._ttl_s = ttl_s
        self._interval_s = 1 / per_second_max if per_second_max else 0.0
        self._paid_until = 0.0

    def answer(self, key: Hashable, now: float) -> SchemaNotFoundError | None:
        """Return the error of a look-up that is still valid, or None if the registry must be asked."""
        found = self._answers.get(key)
        return found[0] if found is not None and now < found[1] else None

    def pause_s(self, now: float) -> float:
        """Return how long the next look-up has to wait, in seconds."""
        return max(0.0, self._paid_until - now)

    def add(self, key: Hashable, error: SchemaNotFoundError, now: float) -> None:
        """Note that a look-up was in vain."""
        self._paid_until = max(self._paid_until, now - BURST_S) + self._interval_s
        if self._ttl_s:
            self._answers.put(key, (error, now + self._ttl_s))

    def clear(self) -> None:
        """Forget the answers: schemas were registered. The limit stays."""
        self._answers.clear()
