"""How the admin client reaches groups: their coordinators are found in one request, and asked all at once.

A coordinator that has moved, loads, or cannot be reached is a failure that `Calls.each` tries again; every try looks
for the coordinators anew. What the requests say is the areas' business.
Source: KIP-699; Kafka's CoordinatorStrategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import CoordinatorKind, find_coordinators
from kafkaraw.client.network.engine import Ask
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, StaleMetadataError
from kafkaraw.protocol.declare import Response

R = TypeVar("R", bound=Response)

_LATER = (NetworkError, KafkaTimeoutError, StaleMetadataError)
"""Of one coordinator: the others' answers count all the same."""


class GroupCalls:
    """The way of an area's operations to the coordinators of groups.

    Args:
        calls: the way to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._engine = calls.engine

    async def ask(self, node_id: int, message: Ask[R], deadline: Deadline, version_max: int | None = None) -> R:
        """Send a request to a coordinator.

        Raises:
            KafkaError: no answer.
        """
        seconds = deadline.at_most(self._engine.config.request_timeout_ms / 1000)
        return await self._engine.request(node_id, message, timeout=seconds, version_max=version_max)

    async def each(
        self,
        groups: Iterable[str],
        ask: Callable[[int, Sequence[str]], Awaitable[Mapping[str, KafkaError]]],
        deadline: Deadline,
    ) -> None:
        """Do something to every group, trying again with those for which that makes sense.

        Args:
            groups: their names.
            ask: does it to groups of one coordinator, given its id, and returns those that failed.
            deadline: of the whole call.

        Raises:
            KafkaError: the first failure; its message names the other ones.
        """

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            found = await find_coordinators(self._engine, CoordinatorKind.GROUP, names, deadline)
            failures = {name: error for name, error in found.items() if isinstance(error, KafkaError)}
            shares: dict[int, list[str]] = {}
            for name in names:
                node_id = found[name]
                if isinstance(node_id, int):
                    shares.setdefault(node_id, []).append(name)
            for outcome in await asyncio.gather(*(one(node_id, share) for node_id, share in shares.items())):
                failures.update(outcome)
            return failures

        async def one(node_id: int, names: Sequence[str]) -> Mapping[str, KafkaError]:
            try:
                return await ask(node_id, names)
            except _LATER as error:
                return dict.fromkeys(names, error)

        await self.calls.each(groups, once, deadline)

    async def coordinator(self, group_id: str, deadline: Deadline) -> int:
        """The broker that coordinates a group.

        Raises:
            KafkaError: there is none just now, or this principal may not know.
        """
        found = (await find_coordinators(self._engine, CoordinatorKind.GROUP, [group_id], deadline))[group_id]
        if isinstance(found, KafkaError):
            raise found
        return found


def group_failure(code: int, message: str | None, what: str, group_id: str, operation: str) -> KafkaError:
    """The error for a group's code.

    Args:
        code: as the broker gave it.
        message: the broker's own words, or better ones.
        what: what was to be done, such as "delete group 'g'".
        group_id: the group.
        operation: the right that this takes, for the case that it is missing.
    """
    return failure(code, message, what, resource=group_id, operation=operation)
