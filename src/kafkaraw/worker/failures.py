"""What a failure means: call the handler again, here or by the retry topic, write a dead letter, or stop. Pure.

Start at `decide`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kafkaraw.core.retry import RandomSource
from kafkaraw.errors import AuthenticationError, RetriableError
from kafkaraw.light_classes import dataclass
from kafkaraw.worker.settings import HandlerSpec


class Reason(StrEnum):
    """What has failed."""

    DECODE = "decode"
    """A deserializer."""
    HANDLER = "handler"
    TIMEOUT = "timeout"
    """The handler exceeded `timeout_ms`."""
    RESULT = "result"
    """A result of the handler cannot be sent."""
    DELIVERIES = "deliveries"
    """A share group does not deliver the record again, and no handler has accepted it: workers have died with it."""


class Reaction(StrEnum):
    """What to do about a failure."""

    RETRY_IN_PLACE = "retry in place"
    RETRY_TOPIC = "retry topic"
    RELEASE = "release"
    """Give the record back to the share group, which delivers it again, to any of its members."""
    DEAD_LETTER = "dead letter"
    STOP = "stop"
    """End the worker; the record stays uncommitted."""


class DeliveryLimitError(Exception):
    """A share group has delivered a record as often as it may, and no member has accepted it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed try to handle a record."""

    reason: Reason
    error: Exception


@dataclass(frozen=True, slots=True)
class Decision:
    """A reaction, and the wait before the next call, in milliseconds."""

    reaction: Reaction
    delay_ms: float = 0.0


RESERVED_DELIVERIES: Final = 1
"""How many deliveries of a share group are left for the dead letter: after the last one, the record is gone."""


def decide(
    failure: Failure,
    handler: HandlerSpec,
    attempts: int,
    tries: int,
    rng: RandomSource,
    deliveries_left: int | None = None,
) -> Decision:
    """Return what to do about a failure.

    Args:
        failure: what has failed.
        handler: how its failures are treated.
        attempts: how often the handler was called for the record, by other workers, too.
        tries: how often this worker has tried; more than `attempts` if the deserializer failed.
        rng: the source of the jitter.
        deliveries_left: how often a share group may deliver the record again; None in a consumer group.
    """
    retries = handler.retries
    if failure.reason is Reason.DECODE and isinstance(failure.error, RetriableError):
        return Decision(Reaction.RETRY_IN_PLACE, retries.backoff.delay_ms(max(tries - 1, 0), rng))
    if failure.reason is Reason.DECODE and isinstance(failure.error, AuthenticationError):
        return Decision(Reaction.STOP)  # of a schema registry: no record can be read
    repeats = failure.reason is Reason.TIMEOUT or (
        failure.reason is Reason.HANDLER and isinstance(failure.error, retries.on)
    )
    if repeats and (retries.attempts is None or attempts < retries.attempts):
        delay_ms = retries.backoff.delay_ms(max(attempts - 1, 0), rng)
        if retries.topic is not None:
            return Decision(Reaction.RETRY_TOPIC, delay_ms)
        if deliveries_left is None:
            return Decision(Reaction.RETRY_IN_PLACE, delay_ms)
        if may_be_called_again(handler, deliveries_left):
            return Decision(Reaction.RELEASE, delay_ms)
    return Decision(Reaction.STOP if handler.dead_letter_topic is None else Reaction.DEAD_LETTER)


def may_be_called_again(handler: HandlerSpec, deliveries_left: int) -> bool:
    """Return whether the handler is called at the next delivery by a share group."""
    return deliveries_left > (0 if handler.dead_letter_topic is None else RESERVED_DELIVERIES)
