"""`Worker`: a service that calls handlers for the records of topics.

This module has the public class and the signals. `service.py` is one run, `settings.py` has the settings. Start at
`Worker.handle` and `Worker.serve`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Never, TypeVar

from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.errors import UsageError
from kafkaraw.worker.consumer_service import ConsumerService
from kafkaraw.worker.endpoints import Running, endpoints
from kafkaraw.worker.service import Service
from kafkaraw.worker.settings import HandlerSpec, Retries, WorkerConfig, split
from kafkaraw.worker.share_service import ShareService

if TYPE_CHECKING:
    from kafkaraw.client.deserializers import DeserializerLike

log: logging.Logger = logging.getLogger("kafkaraw.worker")

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """Calls handlers for the records of topics, as a member of a group.

    Records with the same key run in order, others at the same time. A record counts as processed when its handler has
    returned and all its results are acknowledged; only then its offset is committed. With `group_type="share"`, the
    workers of a share group share the records instead of the partitions, and accept each record when it is processed.
    See the how-to "Run a worker".

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `WorkerSettings`; and those of `ConsumerConfig` (of `ShareConsumerConfig` with
            `group_type="share"`) and `ProducerConfig`, of which `bootstrap_servers` and `group_id` are required. With a
            `transactional_id`, results and offsets are committed in transactions.

    Raises:
        ConfigError: an unknown setting (the nearest one is named), a value that does not fit, or a setting that the
            worker decides.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        own, self._consumer_settings, self._producer_settings = split(settings)
        self._runtime = runtime or system_runtime()
        is_transactional = self._producer_settings.get("transactional_id") is not None
        self._config = WorkerConfig(str(self._consumer_settings["group_id"]), own, (), is_transactional)
        self._running: Running | None = None
        self._stop_requested = False
        self._check_clients()

    def handle(
        self,
        *topics: str,
        key_deserializer: DeserializerLike | None = None,
        value_deserializer: DeserializerLike | None = None,
        retries: Retries | None = None,
        dead_letter_topic: str | None = None,
        timeout_ms: int | None = None,
    ) -> Callable[[F], F]:
        """Return a decorator: the function handles the records of these topics.

        The function takes a `Record`. It returns None, a `ProducerRecord` or an iterable of them, or yields them; they
        are sent before the record counts as processed. It may be `async`; otherwise it runs in a thread.

        Args:
            topics: names; each topic has one handler.
            key_deserializer: makes the keys of the records: a function of bytes, or an object with `deserialize`.
            value_deserializer: makes their values; a record that it refuses becomes a dead letter.
            retries: how failed calls are repeated; by default, up to 3 calls in place.
            dead_letter_topic: where records go that cannot be handled; without one, the worker stops at such a record.
            timeout_ms: the longest call, in milliseconds. An `async` handler is cancelled after it; another one makes
                the worker unhealthy.

        Raises:
            ConfigError: an argument cannot be used, or a topic has a handler already.
            UsageError: the worker runs.
        """

        def add(function: F) -> F:
            spec = HandlerSpec(
                name=getattr(function, "__name__", type(function).__name__),
                topics=topics,
                function=function,
                retries=retries or Retries(),
                dead_letter_topic=dead_letter_topic,
                timeout_ms=timeout_ms,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
            )
            if self._running is not None:
                raise UsageError("handle: the worker runs; add handlers before run() or serve()")
            self._config = self._config.with_handler(spec)
            return function

        return add

    # -- running

    def run(self) -> None:
        """Handle records until SIGTERM or SIGINT (Ctrl-C); a second signal ends the process at once.

        In another thread than the main one, no signal handlers are installed: call `stop()`.

        Raises:
            HandlerError: a record can neither be handled nor written as a dead letter.
            KafkaError: a broker refuses for good, or cannot be reached at the beginning.
            UsageError: there is no handler, or the worker runs already.
        """

        async def main() -> None:
            with _signals(self.stop):
                await self.serve()

        asyncio.run(main())

    async def serve(self) -> None:
        """Handle records until `stop()` is called. If this call is cancelled, it tells the group what is done and ends.

        Raises:
            HandlerError: a record can neither be handled nor written as a dead letter.
            KafkaError: a broker refuses for good, or cannot be reached at the beginning.
            UsageError: there is no handler, or the worker runs already.
        """
        if not self._config.handlers:
            raise UsageError("serve: the worker has no handler; decorate a function with worker.handle(topic)")
        if self._running is not None:
            raise UsageError("serve: the worker runs already")
        service = self._service()
        self._running = Running(service, asyncio.get_running_loop(), threading.get_ident())
        port, host = self._config.settings.port, self._config.settings.host
        if self._stop_requested:
            service.stop()
        try:
            with nullcontext() if port is None else endpoints(self._running, port, host):
                await service.run()
        finally:
            self._running, self._stop_requested = None, False

    def stop(self) -> None:
        """Start no more records, and let `run` or `serve` return when those in work have finished.

        May be called on any thread. If the worker does not run yet, the next `run` or `serve` returns without a record:
        a signal may come before the loop has begun.
        """
        self._stop_requested = True
        running = self._running
        if running is not None:
            running.loop.call_soon_threadsafe(running.service.stop)

    def metrics(self) -> dict[str, object]:
        """Return the numbers of `/status`; on the worker's event loop, or on another thread.

        Raises:
            UsageError: the worker does not run.
            TimeoutError: another thread asked, and the event loop did not answer within 2 s.
        """
        if self._running is None:
            raise UsageError("metrics: the worker does not run")
        return self._running.status().as_dict()

    def _check_clients(self) -> None:
        """Refuse wrong settings now; nothing connects."""
        consumer = AsyncShareConsumer if self._config.is_shared else AsyncConsumer
        consumer(runtime=self._runtime, **self._consumer_settings)
        AsyncProducer(runtime=self._runtime, **self._producer_settings)

    def _service(self) -> Service:
        producer = AsyncProducer(runtime=self._runtime, **self._producer_settings)
        if self._config.is_shared:
            shared = AsyncShareConsumer(runtime=self._runtime, **self._consumer_settings)
            return ShareService(self._config, shared, producer, self._runtime, self._consumer_settings)
        consumer = AsyncConsumer(runtime=self._runtime, **self._consumer_settings)
        return ConsumerService(self._config, consumer, producer, self._runtime)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT; the second one has the system's default effect.

    The handlers are Python's, not the loop's: so a second signal ends the process even if a handler blocks the loop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, caught = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)

    def begin_to_stop(number: int) -> None:
        log.info("received %s: the worker stops; a second one ends it at once", signal.Signals(number).name)
        stop()

    def first(number: int, _frame: object) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_DFL)
        loop.call_soon_threadsafe(begin_to_stop, number)  # logging is not safe here

    before = {each: signal.signal(each, first) for each in caught}
    try:
        yield
    finally:
        for each, handler in before.items():
            if handler is not None:  # else it was installed by C code
                signal.signal(each, handler)
