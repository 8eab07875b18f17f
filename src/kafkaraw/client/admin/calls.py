"""What the areas of the admin client share: the deadline of a call, and the loops that try again.

An operation on several things (topics, groups, ...) goes through `Calls.each`: one request for all, again for those
that may succeed later, and an error at the end that names every one that failed. An operation with one answer for all
goes through `Calls.retry`. Both stop at the deadline. Nothing here knows what the operations are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from kafkaraw.client.config import INT32_MAX
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Ask, Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import BrokerError, KafkaError, KafkaTimeoutError, NetworkError, RetriableError, UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode, error_for

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
Q = TypeVar("Q", bound=Response)
N = TypeVar("N", bound=Hashable)

# A first answer of "no such thing" is final for an admin: nobody waits for something to come into being here.
_FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Calls:
    """The way of an area's operations to the cluster.

    Args:
        engine: sends the requests.

    Attributes:
        engine: that one.
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
        """Send a request to whichever broker answers."""
        return await self.engine.request_any(message, timeout=deadline.remaining)

    async def each(
        self,
        items: Iterable[K],
        once: Callable[[Sequence[K]], Awaitable[Mapping[K, KafkaError]]],
        deadline: Deadline,
    ) -> None:
        """Do something to every item, trying again with those for which that makes sense.

        Args:
            items: what to do it to; doubles count once.
            once: does it to some of them and returns those that failed.
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
        self._raise_first(final)

    async def retry(self, once: Callable[[], Awaitable[R]], deadline: Deadline) -> R:
        """Do something that succeeds or fails as a whole, trying again while that makes sense.

        Args:
            once: does it, or raises.
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
                    raise with_principal(error, self.engine.config) from error
            attempt += 1

    async def _try(
        self,
        once: Callable[[Sequence[K]], Awaitable[Mapping[K, KafkaError]]],
        items: Sequence[K],
        deadline: Deadline,
    ) -> Mapping[K, KafkaError]:
        """One try; when it ends early that counts for every item.

        As when an answer is lost, since nobody knows how far it went; or when there is nobody to ask yet.
        """
        try:
            return await once(items)
        except RetriableError as error:
            if not self.engine.cluster.brokers:
                raise  # the cluster was not even found
            return dict.fromkeys(items, error)

    def _raise_first(self, failures: Mapping[K, KafkaError]) -> None:
        if not failures:
            return
        errors = list(failures.values())
        first = errors[0]
        others = dict.fromkeys(str(error) for error in errors[1:] if str(error) != str(first))
        if others and isinstance(first, BrokerError):
            first = first.reworded("; ".join([first.message, *others]))
        first = with_principal(first, self.engine.config)
        first.failures = MappingProxyType(dict[object, KafkaError](failures.items()))
        raise first from errors[0]

    async def _pause(self, attempt: int, deadline: Deadline) -> bool:
        """Wait before another try, and learn how the cluster is now; False when there is no time for that."""
        delay_s = self._backoff.delay_ms(attempt, self.engine.runtime.rng) / 1000
        if deadline.remaining <= delay_s:
            return False
        await deadline.sleep(delay_s)
        with contextlib.suppress(NetworkError, KafkaTimeoutError):  # the next try says what is wrong
            await self.engine.refresh((), timeout=deadline.remaining)
        return True


def failure(code: int, message: str | None, what: str, *, resource: str = "", operation: str = "") -> KafkaError:
    """The error for one item's error code.

    Args:
        code: as the broker gave it.
        message: the broker's own words, if it gave any.
        what: what was to be done to which item, such as "create topic 'a'".
        resource: name of what it takes a right to, such as "a"; for the case that the right is missing.
        operation: that right, such as "CREATE".
    """
    return error_for(code, f"{what}: {message}" if message else what, resource=resource, operation=operation)


def names_of(names: Iterable[N]) -> list[N]:
    """A list of names; a lone string is a mistake that would otherwise be taken letter by letter.

    Raises:
        UsageError: it is a lone string, no list, or an entry is no name.
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
    """What is left of a deadline, for a request's `timeout_ms`."""
    return max(1, round(deadline.at_most(INT32_MAX // 1000) * 1000))


def _passing(error: KafkaError) -> bool:
    """Whether trying again makes sense."""
    if isinstance(error, BrokerError) and error.code in _FINAL:
        return False
    return isinstance(error, RetriableError)
