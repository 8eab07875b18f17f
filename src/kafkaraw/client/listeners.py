"""What users want to hear of a rebalance: the callbacks of one subscription. How they are called is in `groups`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, fields
from kafkaraw.records import TopicPartition

Callback = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Called with partitions, in order; may be `async`."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks of a subscription.

    Attributes:
        on_assigned: after partitions were given to this consumer; they may be sought, and nothing was read yet.
        on_revoked: before they are taken from it; what was processed can still be committed.
        on_lost: they belong to others by now; `on_revoked` is called instead when this is None.
    """

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None

    def check(self) -> None:
        """Refuse what cannot be called.

        Raises:
            UsageError: a callback is no function.
        """
        for field in fields(self):
            given = getattr(self, field.name)
            if given is not None and not callable(given):
                raise UsageError(
                    f"subscribe: {field.name}={given!r} must be a function that takes a list of partitions"
                )
