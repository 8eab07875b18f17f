"""An asyncio loop on a thread of its own, for callers that block.

The blocking client faces share one per process (`client_loop_thread`); an embedded broker has a private one. Nothing
here knows what runs on it. Threads should be crossed once per batch or call, never per record. Start at
`LoopThread.run`.

After a fork the child has no such thread: it is made anew on first use, and the parent's loop is left alone, because
touching its selector would disturb the parent. A loop that ends by a fault (a program closed its descriptors) ends the
calls that wait for it, with a line in the log, and is made anew for the next call; what lived on the old one is lost.
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
from kafkaraw.net.fork import release_in_child
from kafkaraw.net.interruptible import wait_interruptibly
from kafkaraw.net.loop_locks import check_holds_no_loop_lock
from kafkaraw.net.process_hooks import at_exit, in_forked_child, install
from kafkaraw.net.transport import abort_links_of

log = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")

STOP_TIMEOUT_S = 5.0
"""How long tasks that are cancelled at the end may take to leave."""


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

    def run(self, coroutine: Coroutine[object, None, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Ctrl-C interrupts the wait (see `net.interruptible`). Then, and when the time is up, the coroutine is cancelled;
        it is not waited for, so a coroutine that is slow to leave cannot hold its caller.

        Args:
            coroutine: what to run.
            timeout: how long to wait, in seconds; None for as long as it takes.

        Raises:
            KafkaTimeoutError: the time was up.
            UsageError: called on the loop's own thread, where waiting would hang it for ever; or in a signal handler
                or `__del__` that has interrupted a change for which the loop waits.
            ClosedError: the thread was stopped.
        """
        call = _Call(coroutine)
        try:
            # The lock keeps `stop` away: what is handed over before it still runs, and is cancelled, so it ends.
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

    def run_until_told(self, begin: Callable[[Callable[[BaseException | None], None]], None]) -> None:
        """Have the loop call `begin(over)`, and wait until `over(error)` is called there; raises the error, if any.

        What `run` does for a coroutine, without one: a task takes two turns of the loop, and its creation and its end.
        Ctrl-C interrupts the wait (see `net.interruptible`).

        Args:
            begin: what to do; it may call `over` before it returns. It keeps its own time limit.

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
    long as the rest of a request. Whoever made it may cancel it at any time; once the coroutine has been given away,
    nobody but the loop's thread touches it.

    Args:
        coroutine: what is to run.
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
        """Why the loop that it was given to has ended, if it ended by a fault."""
        return None if self._place is None else self._place.fault

    def give_away(self, place: _RunningLoop) -> None:
        """From now on it belongs to the loop's thread."""
        self._place = place
        place.calls.add(self)

    def begin(self) -> None:
        """Start it; on the loop's thread."""
        assert self._place is not None
        self._task = self._place.loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is over, for so many seconds; returns whether it is."""
        return wait_interruptibly(partial(self._over.acquire, True), timeout)

    def result(self) -> T:
        """Return, or raise, what came of it."""
        if self._task is None or not self._task.done():
            raise asyncio.CancelledError
        return self._task.result()

    def cancel(self) -> None:
        """Have it cancelled soon, however far it has come; does not wait for that."""
        if self._place is None:
            self._coroutine.close()
            return
        try:
            self._place.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed: nothing runs there any more
            if self._task is None:
                self._coroutine.close()

    def give_up(self) -> None:
        """Let go of whoever waits, though it is not over; the loop no longer runs."""
        if self._task is None:
            self._coroutine.close()
        self._ended(self._task)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # Ctrl-C came while it was on its way: it will not arrive after this
            self.give_up()

    def _ended(self, task: asyncio.Task[T] | None) -> None:
        assert self._place is not None
        self._place.calls.discard(self)
        if task is not None and task.done() and not task.cancelled():
            task.exception()  # seen, even if nobody waits any more
        self._over.release()


class _Turn:
    """Something on its way to the loop that will say when it is over; as `_Call`.

    Args:
        begin: what to do there.
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
        """See `_Call.fault`."""
        return None if self._place is None else self._place.fault

    def give_away(self, place: _RunningLoop) -> None:
        """See `_Call.give_away`."""
        self._place = place
        place.calls.add(self)

    def begin(self) -> None:
        """Start it; on the loop's thread."""
        try:
            self._begin(self._end)
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits for it, sys.exit() in a callback, too
            self._end(error)

    def wait(self) -> None:
        """Wait until it is over."""
        wait_interruptibly(partial(self._over.acquire, True), None)

    def result(self) -> None:
        """Raise what came of it, if anything."""
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """See `_Call.give_up`."""
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
        calls: what was given to it and is not over yet.
        fault: why it ended without being told to; None while it runs.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.calls: set[_Call[Any] | _Turn] = set()
        self.fault: BaseException | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C, while it waited for the thread to begin: nobody will know of it
            self.loop.call_soon_threadsafe(self._end)
            raise
        release_in_child(self)

    def hand_over(self, call: _Call[Any] | _Turn) -> None:
        """Have the loop begin something.

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
        """Return what the loop itself has open: its selector and its wake-up pipe."""
        selector = getattr(self.loop, "_selector", None)
        fileno = getattr(selector, "fileno", None)
        pipe = (getattr(self.loop, "_ssock", None), getattr(self.loop, "_csock", None))
        return ([fileno()] if fileno is not None else []) + [end.fileno() for end in pipe if end is not None]

    def _main(self) -> None:
        try:
            while not self._ends:
                self._run()
            self._drain()
        except BaseException as error:  # whatever it is, those who wait must be told
            self.fault = error
            log.critical("the loop thread %r ended because of a fault", self._thread.name, exc_info=error)
            for tell in _told_about_faults(self.loop):
                tell(error)
        finally:
            with contextlib.suppress(OSError):  # its descriptors may be closed already
                self.loop.close()
            for call in list(self.calls):  # of tasks that would not leave: nobody may wait for them for ever
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
        """Let every task and connection end in order, so that nothing is left for the garbage collector to report."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=STOP_TIMEOUT_S))
        abort_links_of(self.loop)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(asyncio.sleep(0))


def tell_about_fault(client: K, loop: asyncio.AbstractEventLoop, act: Callable[[K, BaseException], None]) -> None:
    """Have `act(client, error)` called on a loop thread that ends by a fault, if `loop` is its loop.

    It is called once nothing runs there any more, and before the calls that wait for the loop are ended; not for
    loops that are no `LoopThread`'s. The object is not kept alive.
    """
    _living_on[client] = (loop, act)


def _told_about_faults(loop: asyncio.AbstractEventLoop) -> list[Callable[[BaseException], None]]:
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
