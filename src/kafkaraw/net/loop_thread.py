"""An asyncio loop on a thread of its own, for blocking callers.

The blocking clients share one loop thread per process (`client_loop_thread`); an embedded broker has a private one.
This module does not depend on what runs on the loop. Callers should cross threads once per batch or call, never per
record. Start at `LoopThread.run`.

After a fork the child has no loop thread: the first use starts a new one. The child does not touch the parent's loop,
because it shares the selector with the parent. If a loop ends because of a fault (the program closed its descriptors),
the waiting calls fail, the fault is logged, and the next call starts a new loop. Objects on the old loop are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, Generic, TypeVar

from kafkaraw.errors import ClosedError, KafkaTimeoutError, UsageError
from kafkaraw.net.process_hooks import at_exit, in_forked_child, install, release_in_child
from kafkaraw.net.threads import check_holds_no_loop_lock, wait_interruptibly
from kafkaraw.net.transport import abort_links_of

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")

STOP_TIMEOUT_S = 5.0
"""How long tasks that are cancelled at the end may take to end, in seconds."""


class LoopThread:
    """A thread that runs an asyncio loop; it starts on first use.

    Args:
        name: of the thread, for debuggers and logs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()  # a signal handler may make a call of its own while the main thread holds it
        self._running: _RunningLoop | None = None
        self._stopped = False
        _loop_threads.add(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started if it was not.

        Raises:
            ClosedError: it was stopped.
        """
        with self._lock:
            return self._started().loop

    @property
    def is_current(self) -> bool:
        """Whether the caller is on the loop's own thread, where nothing may block."""
        running = self._running
        return running is not None and running.is_current

    def runs(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether this is the thread's loop; does not start it."""
        running = self._running
        return running is not None and running.loop is loop

    def run(self, coroutine: Coroutine[object, None, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Ctrl-C interrupts the wait (see `net.threads`). After Ctrl-C or a timeout, the coroutine is cancelled, but
        the call does not wait for its end, so a coroutine that is slow to end cannot block the caller.

        Args:
            coroutine: the coroutine to run.
            timeout: how long to wait, in seconds; None waits without a limit.

        Raises:
            KafkaTimeoutError: the coroutine has not ended within `timeout`.
            UsageError: called on the loop's own thread, where waiting would hang it for ever; or in a signal handler
                or `__del__` that has interrupted a change for which the loop waits.
            ClosedError: the thread was stopped.
        """
        call = _Call(coroutine)
        try:
            # The lock excludes `stop`: a call that is handed over before it still begins, and `stop` cancels it.
            with self._lock:
                self._started().hand_over(call)
            is_over = call.wait(timeout)
        except BaseException:  # Ctrl-C may come at any point
            call.cancel()
            raise
        if not is_over:
            call.cancel()
            raise KafkaTimeoutError(f"no result within {timeout:g} s")
        try:
            return call.result()
        except asyncio.CancelledError:
            if self._stopped or call.fault is not None:
                raise self._closed_error(call.fault) from None
            raise CancelledError from None

    def run_until_called(self, begin: Callable[[Callable[[BaseException | None], None]], None]) -> None:
        """Let the loop call `begin(over)`, and wait until `over(error)` is called there; raises the error, if any.

        This is `run` for a callback instead of a coroutine. It saves the task, which takes two turns of the loop.
        Ctrl-C interrupts the wait (see `net.threads`).

        Args:
            begin: the callback; it may call `over` before it returns. It has its own time limit.

        Raises:
            UsageError: called on the loop's own thread, where waiting would hang it for ever; or in a signal handler
                or `__del__` that has interrupted a change for which the loop waits.
            ClosedError: the thread was stopped.
        """
        turn = _Turn(begin)
        with self._lock:
            self._started().hand_over(turn)
        turn.wait()
        try:
            turn.result()
        except asyncio.CancelledError:
            raise self._closed_error(turn.fault) from None

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call `callback`; may be called on any thread, and returns at once."""
        self.loop.call_soon_threadsafe(callback)

    def stop(self, timeout: float = STOP_TIMEOUT_S * 2) -> None:
        """Cancel what runs, drop open connections, and join the thread. It cannot be used again.

        Args:
            timeout: how long to wait for the thread, in seconds.
        """
        with self._lock:
            self._stopped = True
            running, self._running = self._running, None
        if running is not None:
            running.stop(timeout)

    def _started(self) -> _RunningLoop:
        if self._stopped:
            raise self._closed_error()
        if self._running is None or self._running.fault is not None:
            install()
            self._running = _RunningLoop(self.name)
        return self._running

    def _closed_error(self, fault: BaseException | None = None) -> ClosedError:
        if fault is None:
            return ClosedError(f"the loop thread {self.name!r} was stopped")
        return ClosedError(f"the loop thread {self.name!r} ended because of a fault ({fault!r}); make new clients")

    def _forget_after_fork(self) -> None:
        self._lock = threading.RLock()
        if self._running is not None:
            _left_behind.append(self._running)
            self._running = None


class _Call(Generic[T]):
    """A coroutine on its way to the loop, and its outcome on the way back: one wake-up in each direction.

    `asyncio.run_coroutine_threadsafe` does the same with two futures, a condition and three callbacks, which takes as
    long as the rest of a request. The caller may cancel the call at any time. After `give_away`, only the loop thread
    uses the coroutine.

    Args:
        coroutine: the coroutine to run.
    """

    __slots__ = ("_coroutine", "_over", "_place", "_task")

    def __init__(self, coroutine: Coroutine[object, None, T]) -> None:
        self._coroutine = coroutine
        self._place: _RunningLoop | None = None
        self._task: asyncio.Task[T] | None = None
        self._over = threading.Lock()  # held until it is over: waiting for it is one system call
        self._over.acquire()

    @property
    def fault(self) -> BaseException | None:
        """The fault that ended the call's loop; None if there was none."""
        return None if self._place is None else self._place.fault

    def give_away(self, place: _RunningLoop) -> None:
        """Pass the call to the loop thread; the caller's thread does not use the coroutine from now on."""
        self._place = place
        place.calls.add(self)

    def begin(self) -> None:
        """Start it; on the loop's thread."""
        assert self._place is not None
        self._task = self._place.loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def wait(self, timeout: float | None) -> bool:
        """Wait until the call has ended, at most `timeout` seconds; returns whether it has."""
        return wait_interruptibly(partial(self._over.acquire, True), timeout)

    def result(self) -> T:
        """Return the result of the coroutine, or raise its exception."""
        if self._task is None or not self._task.done():
            raise asyncio.CancelledError
        return self._task.result()

    def cancel(self) -> None:
        """Request cancellation, whether the coroutine has begun or not; does not wait for it."""
        if self._place is None:
            self._coroutine.close()
            return
        try:
            self._place.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed: nothing runs there any more
            if self._task is None:
                self._coroutine.close()

    def give_up(self) -> None:
        """Release the waiting thread, although the coroutine has not ended, because the loop has stopped."""
        if self._task is None:
            self._coroutine.close()
        self._ended(self._task)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # Ctrl-C came before `begin`, which will not be called any more
            self.give_up()

    def _ended(self, task: asyncio.Task[T] | None) -> None:
        assert self._place is not None
        self._place.calls.discard(self)
        if task is not None and task.done() and not task.cancelled():
            task.exception()  # marks it as retrieved, even if no thread waits any more
        self._over.release()


class _Turn:
    """A callback for the loop thread that reports its own end; as `_Call`.

    Args:
        begin: the callback.
    """

    __slots__ = ("_begin", "_error", "_over", "_place")

    def __init__(self, begin: Callable[[Callable[[BaseException | None], None]], None]) -> None:
        self._begin = begin
        self._place: _RunningLoop | None = None
        self._error: BaseException | None = None
        self._over = threading.Lock()
        self._over.acquire()

    @property
    def fault(self) -> BaseException | None:
        """The fault that ended the call's loop; None if there was none."""
        return None if self._place is None else self._place.fault

    def give_away(self, place: _RunningLoop) -> None:
        """Pass the call to the loop thread; the caller's thread does not use the coroutine from now on."""
        self._place = place
        place.calls.add(self)

    def begin(self) -> None:
        """Start it; on the loop's thread."""
        try:
            self._begin(self._end)
        except BaseException as error:  # noqa: BLE001 - raised on the waiting thread, sys.exit() in a callback, too
            self._end(error)

    def wait(self) -> None:
        """Wait until it is over."""
        wait_interruptibly(partial(self._over.acquire, True), None)

    def result(self) -> None:
        """Raise the error, if there was one."""
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Release the waiting thread, although the coroutine has not ended, because the loop has stopped."""
        self._end(asyncio.CancelledError())

    def _end(self, error: BaseException | None) -> None:
        assert self._place is not None
        if self in self._place.calls:
            self._place.calls.discard(self)
            self._error = error
            self._over.release()


class _RunningLoop:
    """One started thread and its loop.

    Attributes:
        calls: the calls that have not ended yet.
        fault: the error that ended the loop without `stop`; None while it runs.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.calls: set[_Call[Any] | _Turn] = set()
        self.fault: BaseException | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while waiting for the thread to start: no caller will have this loop
            self.loop.call_soon_threadsafe(self._end)
            raise
        release_in_child(self)

    def hand_over(self, call: _Call[Any] | _Turn) -> None:
        """Let the loop begin a call.

        Raises:
            UsageError: on the loop's own thread, or on one that the loop waits for.
        """
        check_holds_no_loop_lock()
        if self.is_current:
            raise UsageError(
                "a blocking call was made on the loop thread itself, where it would wait for ever; "
                "use the Async... classes inside callbacks and coroutines"
            )
        call.give_away(self)
        try:
            self.loop.call_soon_threadsafe(call.begin)
        except RuntimeError:  # it ended by a fault just now
            self.calls.discard(call)
            raise ClosedError(f"the loop thread {self._thread.name!r} has ended because of a fault") from None

    @property
    def is_current(self) -> bool:
        """Whether the caller is on its thread."""
        return self._thread is threading.current_thread()

    def stop(self, timeout: float) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended by itself, because of a fault that was reported
            self.loop.call_soon_threadsafe(self._end)
        if not self.is_current:
            wait_interruptibly(self._has_ended, timeout)

    def _has_ended(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def descriptors(self) -> list[int]:
        """Return the descriptors of the loop itself: its selector and its wake-up pipe."""
        selector = getattr(self.loop, "_selector", None)
        fileno = getattr(selector, "fileno", None)
        pipe = (getattr(self.loop, "_ssock", None), getattr(self.loop, "_csock", None))
        return ([fileno()] if fileno is not None else []) + [end.fileno() for end in pipe if end is not None]

    def _main(self) -> None:
        try:
            while not self._ends:
                self._run()
            self._drain()
        except BaseException as error:  # any error must be raised in the waiting calls
            self.fault = error
            log.critical("the loop thread %r ended because of a fault", self._thread.name, exc_info=error)
            for callback in _fault_callbacks(self.loop):
                callback(error)
        finally:
            with contextlib.suppress(OSError):  # its descriptors may be closed already
                self.loop.close()
            for call in list(self.calls):  # calls whose tasks did not end: their threads must not wait for ever
                call.give_up()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        except (
            SystemExit,
            KeyboardInterrupt,
        ) as error:  # asyncio ends a loop for them, but this one serves others, too
            log.exception("%r was raised on the thread %r, where it ends nothing", error, self._thread.name)

    def _end(self) -> None:
        self._ends = True
        self.loop.stop()

    def _drain(self) -> None:
        """End all tasks and connections gracefully, so that the garbage collector has nothing to report."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=STOP_TIMEOUT_S))
        abort_links_of(self.loop)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(asyncio.sleep(0))


def on_loop_fault(client: K, loop: asyncio.AbstractEventLoop, act: Callable[[K, BaseException], None]) -> None:
    """Register `act(client, error)` to be called if the loop thread of `loop` ends because of a fault.

    It is called after the loop has stopped, and before the calls that wait for the loop fail. It is not called for
    loops that do not belong to a `LoopThread`. The registration does not keep `client` alive.
    """
    _living_on[client] = (loop, act)


def _fault_callbacks(loop: asyncio.AbstractEventLoop) -> list[Callable[[BaseException], None]]:
    return [partial(act, client) for client, (place, act) in list(_living_on.items()) if place is loop]


def client_loop_thread() -> LoopThread:
    """Return the loop thread that all blocking clients of this process share."""
    return _client_loop_thread


_living_on: weakref.WeakKeyDictionary[Any, tuple[asyncio.AbstractEventLoop, Callable[[Any, BaseException], None]]] = (
    weakref.WeakKeyDictionary()
)
_loop_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()
# A parent's loop is kept for ever in a forked child: its destructor would complain that it is not closed, and closing
# would unregister the parent's sockets from a selector that both share.
_left_behind: list[_RunningLoop] = []
_client_loop_thread = LoopThread("kafkaraw-client")


def _renew_after_fork() -> None:
    for loop_thread in list(_loop_threads):
        loop_thread._forget_after_fork()  # noqa: SLF001 - same module


def _stop_all() -> None:
    for loop_thread in list(_loop_threads):
        loop_thread.stop()


in_forked_child(_renew_after_fork)
at_exit(_stop_all)
