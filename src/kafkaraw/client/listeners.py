"""The rebalance listener of a subscription: its callbacks. `groups` calls them."""

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
        on_assigned: called after partitions were assigned; it may `seek`, because no record of them was read yet.
        on_revoked: called before partitions are revoked; processed offsets can still be committed.
        on_lost: called when other members may own the partitions; if None, `on_revoked` is called instead.
    """

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None

    def check(self) -> None:
        """Check that the callbacks can be called.

        Raises:
            UsageError: a callback is not a function.
        """
        for field in fields(self):
            given = getattr(self, field.name)
            if given is not None and not callable(given):
                raise UsageError(
                    f"subscribe: {field.name}={given!r} must be a function that takes a list of partitions"
                )
