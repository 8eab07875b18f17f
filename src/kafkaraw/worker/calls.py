"""Calls of handlers: deserializers, the function itself on the loop or in a thread, its time limit, and its results.

A call returns the records to send, or a `Failure`; it does not decide what follows. Start at `HandlerCall.make`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kafkaraw.client.deserializers import awaiting_conversion_of, conversion_of
from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.errors import KafkaTimeoutError, UsageError
from kafkaraw.worker.failures import Failure, Reason
from kafkaraw.worker.settings import HandlerSpec
from kafkaraw.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from kafkaraw.records import Record
    from kafkaraw.worker.schedule import WorkItem

log: logging.Logger = logging.getLogger("kafkaraw.worker")


_REMEDY: Final = "no handler is called for it"


class HandlerCall:
    """How one handler is called.

    Args:
        handler: the handler.
        threads: for a handler that is not `async`.

    Attributes:
        is_async: whether it runs on the event loop, and can be cancelled.
        overdue: records in threads that have exceeded `timeout_ms`.
    """

    def __init__(self, handler: HandlerSpec, threads: HandlerThreads) -> None:
        self.is_async: bool = is_async(handler.function)
        self.overdue: set[WorkItem] = set()
        self._handler = handler
        self._threads = threads
        key, value = handler.key_deserializer, handler.value_deserializer
        self._convert = conversion_of(key, value, remedy=_REMEDY)
        self._convert_awaiting = awaiting_conversion_of(key, value, remedy=_REMEDY)

    async def make(self, item: WorkItem) -> Sequence[ProducerRecord] | Failure:
        """Call the handler.

        Raises:
            BaseException: what the handler raises and is no `Exception`; `CancelledError` if this call is cancelled.
        """
        try:
            return await (self._on_loop(item) if self.is_async else self._in_thread(item))
        except _DecodeError as error:
            return Failure(Reason.DECODE, error.cause)
        except _ResultError as error:
            return Failure(Reason.RESULT, error.cause)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return Failure(Reason.HANDLER, RuntimeError(f"the handler raised {error!r}"))  # nothing has cancelled it
        except Exception as error:  # noqa: BLE001 - the handler may raise anything
            return Failure(Reason.HANDLER, error)

    async def _on_loop(self, item: WorkItem) -> Sequence[ProducerRecord] | Failure:
        limit_ms = self._handler.timeout_ms
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000) as limit:
                return await self._call(item)
        except TimeoutError as error:
            if not limit.expired():
                raise
            timeout = KafkaTimeoutError(f"the handler was cancelled after timeout_ms={limit_ms}")
            timeout.__cause__ = error
            return Failure(Reason.TIMEOUT, timeout)

    async def _call(self, item: WorkItem) -> list[ProducerRecord]:
        try:
            converted = self._convert_awaiting(cast("Record", item.original))  # a ShareRecord has its fields, too
            record = await converted if inspect.isawaitable(converted) else converted
        except Exception as error:
            raise _DecodeError(error) from error
        item.attempts += 1
        result = self._handler.function(record)
        if isinstance(result, AsyncIterable):
            return self._checked([each async for each in result])
        return self._checked(await cast("Awaitable[object]", result))

    async def _in_thread(self, item: WorkItem) -> list[ProducerRecord]:
        answer = self._threads.run(partial(self._run, item))
        limit_ms = self._handler.timeout_ms
        if limit_ms is not None and not (await asyncio.wait([answer], timeout=limit_ms / 1000))[0]:
            self.overdue.add(item)
            log.warning(
                "handler %r exceeds timeout_ms=%d with the record %s; a thread cannot be interrupted",
                self._handler.name,
                limit_ms,
                item,
            )
        try:
            return await answer
        finally:
            self.overdue.discard(item)

    def _run(self, item: WorkItem) -> list[ProducerRecord]:
        try:
            given = cast("Record", item.original)
            record = given if self._convert is None else self._convert(given)
        except Exception as error:
            raise _DecodeError(error) from error
        item.attempts += 1
        result = self._handler.function(record)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            cause = UsageError(f"handler {self._handler.name!r} is no `async def`, and returned {result!r}")
            raise _ResultError(cause)
        return self._checked(result)

    def _checked(self, result: object) -> list[ProducerRecord]:
        if result is None:
            return []
        is_one = isinstance(result, ProducerRecord | str | bytes) or not isinstance(result, Iterable)
        found: list[object] = [result] if is_one else list(cast("Iterable[object]", result))
        wrong = [each for each in found if not isinstance(each, ProducerRecord)]
        if wrong:
            what = f"handler {self._handler.name!r} returned or yielded {type(wrong[0]).__name__!r}"
            if isinstance(wrong[0], AsyncIterable):
                raise _ResultError(UsageError(f"{what}; write `async def` with `yield` in the handler itself"))
            raise _ResultError(UsageError(f"{what}; return None, a ProducerRecord, or an iterable of them"))
        return cast("list[ProducerRecord]", found)


def is_async(function: object) -> bool:
    """Whether a handler runs on the event loop."""
    while isinstance(function, partial):
        function = function.func
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004 - of an object: is it `async`?
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


class _DecodeError(Exception):
    """A deserializer has failed; `cause` says why."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _ResultError(Exception):
    """A result of a handler cannot be sent; `cause` says why."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause
