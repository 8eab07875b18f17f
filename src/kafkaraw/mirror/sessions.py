"""`Sessions`: when a flow begins again after a failure, and when it ends. It does not know what a session does.

An error that is known to pass begins a new session each time, after a pause; one that lasts, or that comes before the
first session has begun to copy, ends the flow; any other ends it after `TRIES_MAX` sessions without progress. Start at
`Sessions.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    AuthenticationError,
    BrokerError,
    CorruptBatchError,
    KafkaError,
    LogTruncationError,
    RetriableError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.mirror.positions import (
    FlowTakenOverError,
    RecordsLostError,
    SourceReplacedError,
    SourceTruncatedError,
    TargetTruncatedError,
)
from kafkaraw.protocol.error_codes import ErrorCode

TRIES_MAX: Final = 5
"""Sessions in a row that may fail with an error that is neither known to pass nor to last."""
_BACKOFF_MS: Final = (200, 10_000)

_LASTING: Final = (
    AuthenticationError,
    UsageError,
    UnsupportedVersionError,
    FlowTakenOverError,
    CorruptBatchError,
    LogTruncationError,
    RecordsLostError,
    SourceReplacedError,
    SourceTruncatedError,
    TargetTruncatedError,
)
_LASTING_CODES: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def is_lasting(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, stays the same however often a flow begins again."""
    while error is not None:
        if isinstance(error, _LASTING) or (isinstance(error, BrokerError) and error.code in _LASTING_CODES):
            return True
        error = error.__cause__
    return False


def is_passing(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is known to pass by itself."""
    while error is not None:
        if isinstance(error, RetriableError):
            return True
        error = error.__cause__
    return False


class Sessions:
    """Runs the sessions of a flow, one after the other.

    Args:
        name: of the flow, for messages.
        stop: ends the flow when it is set.
        rng: randomness of the pauses.
        log: of the flow.
        lasts: whether an error stays the same however often a session begins.
        passes: whether an error is known to pass by itself.

    Attributes:
        has_opened: whether a session has found its clusters, topics and positions; set by the flow.
        progress: grows when something was copied; counted by the flow.
    """

    def __init__(
        self,
        name: str,
        stop: asyncio.Event,
        rng: random.Random,
        log: logging.Logger,
        *,
        lasts: Callable[[KafkaError], bool] = is_lasting,
        passes: Callable[[KafkaError], bool] = is_passing,
    ) -> None:
        self.has_opened: bool = False
        self.progress: int = 0
        self._name = name
        self._stop = stop
        self._rng = rng
        self._log = log
        self._lasts = lasts
        self._passes = passes

    async def run(self, session: Callable[[], Awaitable[None]]) -> None:
        """Run sessions until the flow is stopped.

        Raises:
            KafkaError: a failure that does not pass.
        """
        backoff, tries = Backoff(*_BACKOFF_MS), 0
        while not self._stop.is_set():
            before = self.progress
            try:
                await session()
            except KafkaError as error:
                tries = 1 if self.progress > before else tries + 1
                if self._lasts(error) or (tries >= TRIES_MAX and not self._passes(error)) or not self.has_opened:
                    raise
                self._log.warning("mirror %s: %s; beginning again at the last positions", self._name, error)
                delay_s = backoff.delay_ms(tries - 1, self._rng) / 1000
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._stop.wait()
