"""An asyncio loop on virtual time: minutes of a cluster's life in milliseconds, deterministic for a seed.

Time stands still while a callback is ready, and jumps to the next timer when none is. There is no I/O, no thread and no
executor: code that needs one cannot be simulated, and gets an error. Start at `run_virtual`.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from kafkaraw.testing.memory_network import MemoryNetwork as MemoryNetwork

T = TypeVar("T")

START_MS = 1_767_225_600_000
"""The start time of `VirtualClock`: 2026-01-01 UTC, in milliseconds."""
_CANCELLED_AT_MOST: Final = 20


class SimulationStalledError(AssertionError):
    """Every task waits, and no timer is set but schedules: without virtual time the program would wait without end."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time advances only when no callback is ready."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._thread = threading.get_ident()
        self._futures: weakref.WeakSet[asyncio.Future[Any]] = weakref.WeakSet()
        self._selector = _Jump(self)

    def time(self) -> float:
        """Return the virtual time, in seconds from the start of the loop."""
        return self._now_s

    def advance(self, seconds: float | None) -> None:
        """Advance the time; the loop itself calls this when it is idle."""
        if seconds is None or self._is_left_with_schedules():
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self))
            raise SimulationStalledError(
                f"at {self._now_s:.3f} s every task waits, and no timer is set but schedules: {waiting}"
            )
        self._now_s += seconds

    def _is_left_with_schedules(self) -> bool:
        """Return whether all timers are schedules, such as that of retention: they wake no task that waits."""
        return _is_schedule(self._scheduled[0]) and all(
            handle.cancelled() or _is_schedule(handle) for handle in self._scheduled
        )

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future, and remember it for `left_over`."""
        future = super().create_future()
        self._futures.add(future)
        return future

    def left_over(self) -> list[str]:
        """Return what is not done: tasks except the running one, futures that are still referenced, timers."""
        if any(not future.done() for future in self._futures):
            gc.collect()  # futures that only a cycle references; the time of their collection is not in the seed
        tasks = asyncio.all_tasks(self) - {asyncio.current_task(self)}
        timers = [handle for handle in self._scheduled if not handle.cancelled()]
        return [
            *sorted(f"task {task.get_name()}" for task in tasks),
            *sorted(f"future {future!r}" for future in self._futures if not future.done()),
            *sorted(f"timer for {timer.when():.3f} s: {timer!r}" for timer in timers),
        ]

    def run_in_executor(self, executor: object, func: object, *args: object) -> NoReturn:
        """Refuse: a thread's time does not follow from the seed."""
        raise RuntimeError("no executor or thread on a simulated path")

    def _write_to_self(self) -> None:
        """Do nothing in `call_soon_threadsafe`: there is no selector to wake, and no other thread may call."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("another thread called into a virtual loop: when it does does not follow from the seed")

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: there are no I/O events."""


def _is_schedule(handle: asyncio.TimerHandle) -> bool:
    """Return whether a timer belongs to an object whose `is_schedule` is true: work that goes on for ever."""
    # asyncio has no other way to tell timers apart.
    callback: Any = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001
    return getattr(getattr(callback, "__self__", None), "is_schedule", False) is True


class _Jump:
    """Replaces asyncio's selector: to wait for I/O until the next timer is a jump in time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout != 0:
            self._loop.advance(timeout)
        return []


class VirtualClock:
    """A wall clock that follows a loop's time.

    Args:
        loop: the loop.
        start_ms: its time at the loop's time 0, in milliseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = START_MS) -> None:
        self._loop = loop
        self._start_ms = start_ms

    def time_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return self._start_ms + int(self._loop.time() * 1000)


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks, and cancel again those that wait for something while they are cancelled.

    A task that outlives its loop ends when it is garbage collected, in some other test, with warnings.
    """
    for _ in range(_CANCELLED_AT_MOST):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        with suppress(SimulationStalledError):
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


@dataclass(frozen=True, slots=True)
class Simulation:
    """The environment of a simulation, to be passed to clients and brokers.

    Attributes:
        seed: determines everything else.
        rng: the source of randomness; the network has its own.
    """

    seed: int
    loop: VirtualLoop
    clock: VirtualClock
    rng: random.Random
    network: MemoryNetwork


def run_virtual(
    main: Callable[[Simulation], Awaitable[T]], seed: int, *, latency_ms: tuple[float, float] = (0.05, 2.0)
) -> T:
    """Run a coroutine function on a new virtual loop and return its result.

    Args:
        main: called with the simulation.
        seed: the same seed gives the same history.
        latency_ms: minimum and maximum latency of the network, in milliseconds.

    Raises:
        SimulationStalledError: every task waits and no timer is set.
        BaseException: the error of `main`, or else of a callback or forgotten task.
    """
    unhandled: list[BaseException] = []

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        unhandled.append(context.get("exception") or AssertionError(str(context["message"])))

    async def run() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.set_exception_handler(note)
        network = MemoryNetwork(loop, random.Random(f"network {seed}"), latency_ms=latency_ms)
        return await main(Simulation(seed, loop, VirtualClock(loop), random.Random(f"rng {seed}"), network))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            result = runner.run(run())
        finally:
            _end_tasks(runner.get_loop())
    if unhandled:
        raise unhandled[0]
    return result
