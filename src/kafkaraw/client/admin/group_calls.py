"""Requests of the admin client to group coordinators: one request finds all of them, then they are asked concurrently.

A coordinator that has moved, is loading, or cannot be reached is a failure that `Calls.each` retries; every attempt
looks the coordinators up again. The areas make the requests.
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
"""Failures of one coordinator: the responses of the others still count."""


class GroupCalls:
    """Sends the requests of an area's operations to group coordinators.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._engine = calls.engine

    async def ask(self, node_id: int, message: Ask[R], deadline: Deadline, version_max: int | None = None) -> R:
        """Send a request to a coordinator.

        Raises:
            KafkaError: the coordinator did not answer.
        """
        seconds = deadline.at_most(self._engine.config.request_timeout_ms / 1000)
        return await self._engine.request(node_id, message, timeout=seconds, version_max=version_max)

    async def each(
        self,
        groups: Iterable[str],
        ask: Callable[[int, Sequence[str]], Awaitable[Mapping[str, KafkaError]]],
        deadline: Deadline,
    ) -> None:
        """Carry out an operation on every group, and retry the groups with a retriable error.

        Args:
            groups: the group ids.
            ask: carries it out on groups of one coordinator, called with its node id, and returns those that failed.
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
        """Return the node id of a group's coordinator.

        Raises:
            KafkaError: the group has no coordinator at present, or this principal may not describe the group.
        """
        found = (await find_coordinators(self._engine, CoordinatorKind.GROUP, [group_id], deadline))[group_id]
        if isinstance(found, KafkaError):
            raise found
        return found


def group_failure(code: int, message: str | None, what: str, group_id: str, operation: str) -> KafkaError:
    """The error for a group's code.

    Args:
        code: as the broker gave it.
        message: the broker's message, or a better one.
        what: the operation and the group, such as "delete group 'g'".
        group_id: the group.
        operation: the operation of the permission that this needs, for authorization errors.
    """
    return failure(code, message, what, resource=group_id, operation=operation)
