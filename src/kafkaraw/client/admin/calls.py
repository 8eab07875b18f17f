"""Shared code of the areas of the admin client: the deadline of a call, and the retry loops.

An operation on several items (topics, groups, ...) uses `Calls.each`: it sends one request for all items, retries those
with a retriable error, and at the end raises an error that names every item that failed. `each_leader` does so with one
request per leader, `each_broker` with one per broker. An operation with one result for all uses `Calls.retry`. All stop
at the deadline. This module does not know the operations.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from kafkaraw.client.config import INT32_MAX
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Ask, Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    RetriableError,
    StaleMetadataError,
    UsageError,
    cause_of,
)
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import TopicPartition

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
Q = TypeVar("Q", bound=Response)
N = TypeVar("N", bound=Hashable)

# For an admin client "does not exist" is a final error: no operation waits until a topic, replica or group is created.
_FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.REPLICA_NOT_AVAILABLE})

LEADERS_AGE_S: Final = 3.0
"""How old the metadata of a topic may be in the first attempt to reach the leaders of its partitions."""
_LATER = (NetworkError, KafkaTimeoutError, StaleMetadataError)
"""Failures of one broker: the responses of the others still count."""


class Calls:
    """Sends the requests of an area's operations to the cluster, and retries them.

    Args:
        engine: sends the requests.

    Attributes:
        engine: as given.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._backoff = Backoff(engine.config.retry_backoff_ms, engine.config.retry_backoff_max_ms)

    def deadline(self, timeout: float | None) -> Deadline:
        """The deadline of a call that was given `timeout` seconds; None is `default_api_timeout_ms`."""
        return self.engine.deadline(timeout)

    async def ask_controller(self, message: Ask[Q], deadline: Deadline) -> Q:
        """Send a request to the controller."""
        return await self.engine.request_controller(message, timeout=deadline.remaining)

    async def ask_any(self, message: Ask[Q], deadline: Deadline) -> Q:
        """Send a request to any broker."""
        return await self.engine.request_any(message, timeout=deadline.remaining)

    async def ask_node(self, node_id: int, message: Ask[Q], deadline: Deadline) -> Q:
        """Send a request to one broker; it gets at most `request_timeout_ms`."""
        seconds = deadline.at_most(self.engine.config.request_timeout_ms / 1000)
        return await self.engine.request(node_id, message, timeout=seconds)

    def unknown_broker(self, call: str, node_id: int) -> UsageError | None:
        """Return the error of a call that names a broker which is not in the metadata; None if it is."""
        brokers = self.engine.cluster.brokers
        if node_id in brokers:
            return None
        return UsageError(f"{call}: there is no broker {node_id}; those that run are {sorted(brokers)}")

    async def each_broker(self, ask: Callable[[int], Awaitable[KafkaError | None]], deadline: Deadline) -> None:
        """Carry out an operation on every broker that runs, concurrently; one that has left the cluster is omitted.

        Args:
            ask: carries it out on the broker with a node id, and returns the error if it failed.
            deadline: of the whole call.

        Raises:
            KafkaError: the first failure; its message names the other ones.
        """

        async def one(node_id: int) -> KafkaError | None:
            try:
                return await ask(node_id) if node_id in self.engine.cluster.brokers else None
            except _LATER as error:
                return error

        async def once(nodes: Sequence[int]) -> dict[int, KafkaError]:
            outcomes = await asyncio.gather(*map(one, nodes))
            return {node_id: error for node_id, error in zip(nodes, outcomes, strict=True) if error is not None}

        await self.engine.refresh_brokers(timeout=deadline.remaining)
        await self.each(sorted(self.engine.cluster.brokers), once, deadline)

    async def each_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, KafkaError]]],
        deadline: Deadline,
        what: Callable[[TopicPartition], str],
    ) -> None:
        """Carry out an operation on partitions at their leaders, concurrently.

        The first attempt uses leaders from a Metadata response of the last `LEADERS_AGE_S`: a call about all
        partitions of a large cluster follows another one. A broker that does not lead a partition any more refuses the
        request, and the next attempt has fresh metadata.

        Args:
            partitions: the partitions.
            ask: carries it out on partitions of one leader, called with its node id, and returns those that failed.
            deadline: of the whole call.
            what: the operation on a partition, for messages, such as "delete all records of t-0".

        Raises:
            KafkaError: the first failure; its message names the other ones.
        """

        async def one(node_id: int, share: Sequence[TopicPartition]) -> Mapping[TopicPartition, KafkaError]:
            try:
                return await ask(node_id, share)
            except KafkaError as error:
                return dict.fromkeys(share, error)

        is_first = True

        async def once(keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            nonlocal is_first
            unsure = self._without_leader(keys) if is_first else {key.topic for key in keys}
            is_first = False
            if unsure:
                await self.engine.refresh(unsure, timeout=deadline.remaining)
            failures: dict[TopicPartition, KafkaError] = {}
            by_leader: dict[int, list[TopicPartition]] = {}
            for key in keys:
                leader = self.engine.cluster.leader_of(key)
                if leader is None:
                    code = self._why_no_leader(key)
                    failures[key] = failure(code, None, what(key), resource=key.topic, operation="DESCRIBE")
                else:
                    by_leader.setdefault(leader, []).append(key)
            for outcome in await asyncio.gather(*(one(node_id, share) for node_id, share in by_leader.items())):
                failures.update(outcome)
            return failures

        await self.each(partitions, once, deadline)

    def _without_leader(self, keys: Iterable[TopicPartition]) -> set[str]:
        """Return the topics of partitions whose leaders are not known, or were known too long ago."""
        cluster = self.engine.cluster
        since_ms = int((asyncio.get_running_loop().time() - LEADERS_AGE_S) * 1000)
        return {
            key.topic for key in keys if not cluster.is_newer(key.topic, since_ms) or cluster.leader_of(key) is None
        }

    def _why_no_leader(self, key: TopicPartition) -> int:
        cluster = self.engine.cluster
        known = cluster.partition(key) is not None
        return cluster.error_of(key.topic) or (
            ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    async def each(
        self,
        items: Iterable[K],
        once: Callable[[Sequence[K]], Awaitable[Mapping[K, KafkaError]]],
        deadline: Deadline,
    ) -> None:
        """Carry out an operation on every item, and retry the items with a retriable error.

        Args:
            items: the items; duplicates count once.
            once: carries out the operation on some items, and returns those that failed.
            deadline: of the whole call.

        Raises:
            KafkaError: the first failure; its message names the other ones, its `failures` has all by item.
        """
        left, attempt = list(dict.fromkeys(items)), 0
        final: dict[K, KafkaError] = {}
        while left:
            failures = await self._try(once, left, deadline)
            again = [item for item in left if item in failures and _passing(failures[item])]
            final.update((item, error) for item, error in failures.items() if item not in again)
            if again and not await self._pause(attempt, deadline):
                final.update((item, failures[item]) for item in again)
                break
            left, attempt = again, attempt + 1
        self.raise_first(final)

    async def retry(self, once: Callable[[], Awaitable[R]], deadline: Deadline) -> R:
        """Carry out an operation that succeeds or fails as a whole, and retry it after a retriable error.

        Args:
            once: carries out the operation, or raises.
            deadline: of the whole call.

        Raises:
            KafkaError: the failure that is final, or the last one before the deadline.
        """
        attempt = 0
        while True:
            try:
                return await once()
            except KafkaError as error:
                hopeless = not _passing(error) or not self.engine.cluster.brokers
                if hopeless or not await self._pause(attempt, deadline):
                    named = with_principal(error, self.engine.config)
                    raise named from cause_of(named, error)
            attempt += 1

    async def _try(
        self,
        once: Callable[[Sequence[K]], Awaitable[Mapping[K, KafkaError]]],
        items: Sequence[K],
        deadline: Deadline,
    ) -> Mapping[K, KafkaError]:
        """Make one attempt. An error of the whole attempt counts for every item.

        Examples are a lost response, after which the outcome is unknown, and a cluster that cannot be reached yet.
        """
        try:
            return await once(items)
        except RetriableError as error:
            if not self.engine.cluster.brokers:
                raise  # the cluster was not even found
            return dict.fromkeys(items, error)

    def raise_first(self, failures: Mapping[K, KafkaError]) -> None:
        """Raise the first of some failures; its message names the other ones, its `failures` has all by item."""
        if not failures:
            return
        errors = list(failures.values())
        first = errors[0]
        others = dict.fromkeys(str(error) for error in errors[1:] if str(error) != str(first))
        if others and isinstance(first, BrokerError):
            first = first.reworded("; ".join([first.message, *others]))
        first = with_principal(first, self.engine.config)
        first.failures = MappingProxyType(dict[object, KafkaError](failures.items()))
        raise first from cause_of(first, errors[0])

    async def _pause(self, attempt: int, deadline: Deadline) -> bool:
        """Wait before the next attempt, and refresh the metadata; False when the deadline leaves no time for that."""
        delay_s = self._backoff.delay_ms(attempt, self.engine.runtime.rng) / 1000
        if deadline.remaining <= delay_s:
            return False
        await deadline.sleep(delay_s)
        with contextlib.suppress(NetworkError, KafkaTimeoutError):  # the next attempt raises the error
            await self.engine.refresh_brokers(timeout=deadline.remaining)
        return True


def failure(code: int, message: str | None, what: str, *, resource: str = "", operation: str = "") -> KafkaError:
    """The error for one item's error code.

    Args:
        code: as the broker gave it.
        message: the broker's own words, if it gave any.
        what: the operation and the item, such as "create topic 'a'".
        resource: the resource that the operation needs a permission for, such as "a"; for authorization errors.
        operation: the operation of that permission, such as "CREATE".
    """
    return error_for(code, f"{what}: {message}" if message else what, resource=resource, operation=operation)


def names_of(names: Iterable[N]) -> list[N]:
    """Return a list of names. A single string is refused, because it would be read letter by letter.

    Raises:
        UsageError: it is a single string, or not a list, or an entry is not a name.
    """
    if isinstance(names, str):
        raise UsageError(f"{names!r} is one name: give a list of names, [{names!r}]")
    if not isinstance(names, Iterable):
        raise UsageError(f"{names!r} is no list: give a list of names, as in ['orders']")
    wanted = list(names)
    for name in wanted:
        if not isinstance(name, str | Uuid):
            raise UsageError(f"{name!r} is no name: give a list of names, as in ['orders']")
    return list(dict.fromkeys(wanted))


def milliseconds(deadline: Deadline) -> int:
    """Return the time until a deadline, for a request's `timeout_ms`."""
    return max(1, round(deadline.at_most(INT32_MAX // 1000) * 1000))


def _passing(error: KafkaError) -> bool:
    """Whether the error is retriable."""
    if isinstance(error, BrokerError) and error.code in _FINAL:
        return False
    return isinstance(error, RetriableError)
