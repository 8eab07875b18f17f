"""What users want to hear of a rebalance, and how they are called.

The callbacks of one subscription, and the two ways of calling: in the async face right away, in the blocking face on
the thread of the call that is under way, because a callback may want to commit and seek with the blocking consumer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

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


class CallUser(Exception):
    """Ends a call of the blocking face on the loop thread, so that a callback runs on the caller's thread.

    Attributes:
        callback: to be called.
        partitions: with these.
    """

    def __init__(self, callback: Callback, partitions: list[TopicPartition]) -> None:
        super().__init__("a callback waits to be called")
        self.callback = callback
        self.partitions = partitions


async def call_here(callback: Callback, partitions: list[TopicPartition]) -> None:
    """Call it in the task that runs."""
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result


async def call_caller(callback: Callback, partitions: list[TopicPartition]) -> None:
    """Have it called on the thread of the call that is under way.

    Raises:
        CallUser: always.
    """
    raise CallUser(callback, partitions)
