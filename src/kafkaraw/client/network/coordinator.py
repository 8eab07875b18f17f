"""Requests to the coordinator of one group or transactional id.

A coordinator may move, be loading, be busy, or crash; `Coordinator.ask` retries until its deadline. The caller handles
any other error. `find_coordinators` looks up the coordinators of several groups or transactional ids.
Source: KIP-98, KIP-699; Kafka's CoordinatorStrategy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, TypeVar

from kafkaraw.client.deadline import Deadline, shown
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Ask, Engine
from kafkaraw.client.network.pool import Lane
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, RetriableError, StaleMetadataError
from kafkaraw.light_classes import replace
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable
from kafkaraw.protocol.messages.find_coordinator import Coordinator as CoordinatorEntry
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log: logging.Logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

MANY_KEYS_FROM_VERSION: Final = 4
_FIND_COORDINATOR_KEY: Final = 10
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_ENDING: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT})
"""Codes while the markers of a transaction are written, which takes some milliseconds."""
_ENDING_BACKOFF_MS: Final = 20
"""The first wait for them; the Java client's, for partitions that are added behind a transaction that ends."""


class CoordinatorKind(IntEnum):
    """What is coordinated; the numbers are the protocol's."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator:
    """The coordinator of one group or transactional id.

    Args:
        engine: connections and metadata.
        kind: what is coordinated.
        key: the group or transactional id.
    """

    def __init__(self, engine: Engine, kind: CoordinatorKind, key: str) -> None:
        self._engine = engine
        self._kind = kind
        self._key = key
        self._node_id: int | None = None
        config = engine.config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._ending_backoff = replace(self._backoff, initial_ms=min(_ENDING_BACKOFF_MS, config.retry_backoff_ms))

    @property
    def what(self) -> str:
        """Its name in messages."""
        return _name_of(self._kind, self._key)

    async def ask(
        self,
        message: Ask[R],
        code_of: Callable[[R], int],
        *,
        deadline: Deadline,
        version_max: int | None = None,
    ) -> R:
        """Send a request, and retry it until the response has no retriable error.

        Args:
            message: the request, or a function that makes it for the connection; called for each attempt.
            code_of: the error code in it that matters.
            deadline: of all attempts together.
            version_max: do not use a later version than this.

        Returns:
            the response; its code may be an error that is not retriable.

        Raises:
            KafkaTimeoutError: the deadline has passed; the message has the last error, and the last one of the
                coordinator is its cause.
            KafkaError: the coordinator cannot be looked up, for example because this principal may not describe it.
        """
        attempt, last = 0, "no broker was asked yet"
        cause: KafkaError | None = None
        while True:
            backoff = self._backoff
            try:
                response = await self._attempt(message, deadline, version_max)
            except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                last = self._lost(error, attempt, last, deadline)
            else:
                code = code_of(response)
                if not is_retriable(code):
                    return response
                cause = error_for(code, self.what)
                last = str(cause)
                if code in _MOVED:
                    self._node_id = None
                elif code in _ENDING:
                    backoff = self._ending_backoff
            await self._pause(backoff.delay_ms(attempt, self._engine.runtime.rng), last, deadline, cause)
            attempt += 1

    async def connection(self, deadline: Deadline) -> Connection:
        """Return a connection to the coordinator's broker; retry while there is none.

        Raises:
            KafkaTimeoutError: the deadline has passed; the message has the last error.
            KafkaError: the coordinator cannot be looked up, for example because this principal may not describe it.
        """
        attempt, last = 0, "no broker was asked yet"
        longest = self._engine.config.request_timeout_ms / 1000
        while True:
            try:
                node_id = await self.node_id(deadline.at_most(longest))
                return await self._engine.connection(node_id, timeout=deadline.at_most(longest))
            except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                last = self._lost(error, attempt, last, deadline)
            await self._pause(self._backoff.delay_ms(attempt, self._engine.runtime.rng), last, deadline)
            attempt += 1

    def _lost(self, error: Exception, attempt: int, last: str, deadline: Deadline) -> str:
        """Look the coordinator up again next time; return what to say if there is no time for that."""
        self._node_id = None
        # A request that was given what was left of the time is no cause: what was seen before it is.
        if attempt and deadline.expired and isinstance(error, KafkaTimeoutError):
            return last
        return str(error)

    async def _pause(self, delay_ms: float, last: str, deadline: Deadline, cause: KafkaError | None = None) -> None:
        """Wait before the next attempt.

        Raises:
            KafkaTimeoutError: the deadline has passed.
        """
        if deadline.expired:
            text = f"{self.what}: not done within {shown(deadline.timeout)} s; last seen: {last}"
            raise KafkaTimeoutError(text) from cause
        log.debug("%s: %s; trying again", self.what, last)
        await deadline.sleep(delay_ms / 1000)

    async def once(self, message: Ask[R], *, timeout: float, lane: Lane = "main", find_s: float | None = None) -> R:
        """Send a request once. If the broker cannot be reached or is not the coordinator, the next call looks it up.

        Args:
            message: the request, or a function that makes it for the connection.
            timeout: seconds for all of it; for the answer alone, if there is a `find_s`.
            lane: "group" for requests that the coordinator may hold back.
            find_s: seconds to find the coordinator, when the answer may take much longer.

        Raises:
            KafkaError: there was no answer.
        """
        deadline = Deadline(timeout)
        try:
            node_id = await self.node_id(timeout if find_s is None else find_s)
            left_s = deadline.remaining if find_s is None else timeout
            response = await self._engine.request(node_id, message, timeout=left_s, lane=lane)
        except (NetworkError, KafkaTimeoutError, StaleMetadataError):
            self._node_id = None
            raise
        if getattr(response, "error_code", ErrorCode.NONE) in _MOVED:
            self._node_id = None
        return response

    async def _attempt(self, message: Ask[R], deadline: Deadline, version_max: int | None) -> R:
        longest = self._engine.config.request_timeout_ms / 1000
        node_id = await self.node_id(deadline.at_most(longest))
        timeout = deadline.at_most(longest)
        return await self._engine.request(node_id, message, timeout=timeout, version_max=version_max)

    async def node_id(self, timeout: float) -> int:
        """Return the node id of the coordinator, which is looked up if it is unknown.

        Raises:
            KafkaError: there is no coordinator at present, or this principal may not look it up.
        """
        if self._node_id is None:
            self._node_id = await self._find(timeout)
        return self._node_id

    async def _find(self, timeout: float) -> int:
        found = (await find_coordinators(self._engine, self._kind, [self._key], Deadline(timeout)))[self._key]
        if isinstance(found, int):
            return found
        if not isinstance(found, RetriableError):
            raise found
        raise StaleMetadataError(str(found))


async def find_coordinators(
    engine: Engine, kind: CoordinatorKind, keys: Iterable[str], deadline: Deadline
) -> dict[str, int | KafkaError]:
    """Look up the coordinators of several groups or transactional ids once: in one request, if the broker supports it.

    Args:
        engine: connections and metadata; the brokers' addresses are added to it.
        kind: the kind of the keys.
        keys: the group or transactional ids.
        deadline: of all requests together.

    Returns:
        the broker's id or the error, by key.

    Raises:
        KafkaError: no broker answered in time.
    """
    left, found = list(dict.fromkeys(keys)), dict[str, int | KafkaError]()

    def question(connection: Connection) -> FindCoordinatorRequest:
        if connection.version_for(_FIND_COORDINATOR_KEY) >= MANY_KEYS_FROM_VERSION:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=left)
        return FindCoordinatorRequest(key_type=kind, key=left[0])

    while left:
        response = await engine.request_any(question, timeout=deadline.remaining)
        entries: dict[str, CoordinatorEntry | FindCoordinatorResponse] = {one.key: one for one in response.coordinators}
        if not entries:
            entries = {left[0]: response}
        for key, entry in entries.items():
            found[key] = _coordinator_in(engine, kind, key, entry)
        if not entries.keys() & left:
            raise KafkaError(f"a broker was asked for the coordinators of {left} and left all of them out")
        left = [key for key in left if key not in found]
    return found


def _coordinator_in(
    engine: Engine, kind: CoordinatorKind, key: str, entry: CoordinatorEntry | FindCoordinatorResponse
) -> int | KafkaError:
    if entry.error_code:
        what = f"{_name_of(kind, key)}: {entry.error_message or 'not known'}"
        return with_principal(error_for(entry.error_code, what, resource=key, operation="DESCRIBE"), engine.config)
    if entry.node_id not in engine.cluster.brokers:
        engine.cluster.add_brokers([BrokerNode(entry.node_id, entry.host, entry.port)])
    return entry.node_id


def _name_of(kind: CoordinatorKind, key: str) -> str:
    return f"the coordinator of {kind.name.lower()} {key!r}"
