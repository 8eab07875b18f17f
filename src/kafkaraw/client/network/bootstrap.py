"""Find the cluster through any of several addresses.

Every address is tried: one after the other, without waiting long for a silent one. The first that answers wins. When
none does, the error names each address with the stage at which it failed and why. What "answering" means is the
caller's: `attempt` does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kafkaraw.client.config import Address
from kafkaraw.client.deadline import Deadline, shown
from kafkaraw.errors import AuthenticationError, KafkaError, KafkaTimeoutError, NetworkError, ProtocolError, Stage

T = TypeVar("T")

# A server that neither answers nor refuses holds the next one up for this long only.
PATIENCE_S = 1.0


async def first_to_answer(
    addresses: Sequence[Address],
    attempt: Callable[[Address], Awaitable[T]],
    deadline: Deadline,
    *,
    discard: Callable[[T], None],
) -> T:
    """Try the addresses until one succeeds.

    Args:
        addresses: in the order in which to try them.
        attempt: reaches one address; must clean up after itself when cancelled.
        deadline: of the whole undertaking.
        discard: gets rid of a second success, should two arrive together.

    Raises:
        AuthenticationError: one of them refused the login; the others would get the same credentials.
        KafkaError: the error of the only address, or a `NetworkError` that lists all of them.
    """
    failures: dict[Address, KafkaError] = {}
    running: dict[asyncio.Task[T], Address] = {}
    waiting = list(addresses)
    try:
        while waiting or running:
            if waiting:
                address = waiting.pop(0)
                running[asyncio.create_task(_run(attempt, address), name=f"bootstrap {address}")] = address
            pause = deadline.at_most(PATIENCE_S) if waiting else deadline.remaining
            done, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = running.pop(task)
                error = task.exception()
                if error is None:
                    return task.result()
                if isinstance(error, AuthenticationError) or not isinstance(error, KafkaError):
                    raise error
                failures[address] = error
            if deadline.expired:
                break
    finally:
        for task in running:
            task.cancel()
        for result in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(result, BaseException):
                discard(result)
    unanswered = {address: _unanswered(address, deadline) for address in [*running.values(), *waiting]}
    raise combined({address: (failures | unanswered)[address] for address in addresses})


async def _run(attempt: Callable[[Address], Awaitable[T]], address: Address) -> T:
    return await attempt(address)


def _unanswered(address: Address, deadline: Deadline) -> KafkaError:
    return KafkaTimeoutError(
        f"{address} did not answer within the {shown(deadline.timeout)} s that were given; is it a Kafka broker, and "
        f"does a firewall let this machine through?"
    )


_STAGES = list(Stage)


def stage_of(error: KafkaError) -> Stage:
    """The stage at which an error happened; those that carry none happen at a known one."""
    if isinstance(error, NetworkError):
        return error.stage
    if isinstance(error, ProtocolError):
        return Stage.API_VERSIONS  # what answers there is no broker
    return Stage.CONNECT if isinstance(error, KafkaTimeoutError) else Stage.METADATA


def may_pass(error: KafkaError) -> bool:
    """Whether another round may succeed: no server could be reached."""
    return isinstance(error, NetworkError | KafkaTimeoutError) and stage_of(error) in (Stage.RESOLVE, Stage.CONNECT)


def combined(failures: dict[Address, KafkaError]) -> KafkaError:
    """One error for all addresses: the only one as it is, several as a list."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    lines = [f"  {address} [{stage_of(error)}]: {error}" for address, error in failures.items()]
    furthest = max((stage_of(error) for error in failures.values()), key=_STAGES.index)
    error = NetworkError(
        f"none of the {len(failures)} bootstrap servers led to the cluster:\n" + "\n".join(lines), stage=furthest
    )
    error.__cause__ = next(iter(failures.values()))
    return error
