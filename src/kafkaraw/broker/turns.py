"""Long work in turns of the event loop: after each turn, the loop serves the other connections once.

`Turn` bounds one turn. `run_in_turns` runs one generator that yields wherever it may be interrupted; `TurnQueue` runs
several, one after another. Nothing here waits for anything: work that waits for an event is a `Deferred` of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from kafkaraw.broker.replies import Deferred, Failed

T = TypeVar("T")
Steps = Generator[bool | None, None, T]
"""Work that may be interrupted wherever it yields: True ends the turn. What it returns is its result."""
TURN_S: Final = 0.01
"""How long one piece of work may hold the event loop, in seconds, if its steps are short."""


class Turn:
    """The time for which one piece of work may hold the event loop.

    Attributes:
        is_others: whether the loop serves the other connections first.
    """

    __slots__ = ("_ends_s", "_loop", "is_others")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.is_others: bool = False
        self._ends_s = self._loop.time() + TURN_S

    def begin(self, now_s: float) -> None:
        """Begin a turn.

        Args:
            now_s: the loop's time.
        """
        self._ends_s = now_s + TURN_S

    def is_over(self, now_s: float | None = None) -> bool:
        """Whether the turn has ended; the loop's time is read unless it is given."""
        return (self._loop.time() if now_s is None else now_s) >= self._ends_s

    def pass_on(self, go_on: Callable[[], object]) -> None:
        """Call `go_on`, with a new turn, when the loop has served the other connections once."""
        self.is_others = True
        self._loop.call_soon(self._take_back, go_on)

    def _take_back(self, go_on: Callable[[], object]) -> None:
        self.is_others = False
        self.begin(self._loop.time())
        go_on()


def run_to_end(steps: Steps[T]) -> T:
    """Run a generator to its end immediately, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def run_async(steps: Steps[T]) -> T:
    """Run a generator to its end, in turns, and return its result."""
    turn = Turn()
    while True:
        try:
            ends_turn = next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if ends_turn or turn.is_over():
            await asyncio.sleep(0)
            turn = Turn()


def run_in_turns(steps: Steps[T], *, completes: bool = True) -> T | Deferred[T]:
    """Run a generator: the first turn immediately, the rest in later turns.

    Args:
        steps: the generator.
        completes: whether it runs to its end also if the client that has asked is lost.

    Returns:
        Its result, or a deferred one. What the generator raises later is delivered as `Failed`. When the deferred
        result is cancelled, the generator is closed.
    """
    run = _Run(steps)
    if run.has_ended():
        return run.taken_result()  # type: ignore[no-any-return]
    return run.begin_later(completes=completes)


class _Run:
    """One generator in turns."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self._turn = Turn()
        self._result: list[Any] = []
        self._deferred: Deferred[Any] | None = None

    def has_ended(self) -> bool:
        """Run the generator for one turn."""
        try:
            while True:
                if next(self._steps) or self._turn.is_over():
                    return False
        except StopIteration as end:
            self._result.append(end.value)
            return True

    def taken_result(self) -> Any:  # noqa: ANN401  # any result of a generator
        """The result; it is not kept, because this object may wait for the garbage collector."""
        return self._result.pop()

    def begin_later(self, *, completes: bool) -> Deferred[Any]:
        self._deferred = Deferred(lambda: None, is_working=completes, is_idle=False)
        self._turn.pass_on(self._go_on)
        return self._deferred

    def _go_on(self) -> None:
        assert self._deferred is not None
        if self._deferred.is_over:
            self._steps.close()
            return
        try:
            if not self.has_ended():
                self._turn.pass_on(self._go_on)
                return
            result = self.taken_result()
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            result = Failed(error)
        self._deferred.resolve(result)


class TurnQueue:
    """Runs generators one after another: each begins when the one before it has ended.

    A generator runs to its end even if its caller no longer waits for the result; `on_cancel` can shorten it.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Steps[Any], Callable[[Any], None]]] = deque()
        self._is_scheduled = False
        self._is_stepping = False

    def run(self, steps: Steps[T], *, on_cancel: Callable[[], None] = lambda: None) -> T | Deferred[T]:
        """Run a generator after those that wait: at once, for a turn, if none does.

        Args:
            steps: the generator.
            on_cancel: called when the caller no longer waits for the result.

        Returns:
            Its result, or a deferred one. What the generator raises later is delivered as `Failed`.
        """
        deferred: Deferred[Any] = Deferred(on_cancel, is_working=True)
        at_once: list[Any] = []
        is_later = False

        def deliver(result: Any) -> None:  # noqa: ANN401  # any result of a generator
            if is_later:
                deferred.resolve(result)
            else:
                at_once.append(result)

        self._waiting.append((steps, deliver))
        if not self._is_scheduled:
            self._work(Turn())
        if not at_once:
            is_later = True
            return deferred
        result = at_once.pop()
        if isinstance(result, Failed):
            raise result.error
        return result  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Run all generators to their end immediately; do nothing if one of them is the caller."""
        if not self._is_stepping:
            self._work(None)

    def stop(self) -> None:
        """Forget all generators. Callers that wait for results get none."""
        self._waiting.clear()

    def _work(self, turn: Turn | None) -> None:
        self._is_scheduled = True
        while self._waiting:
            steps, deliver = self._waiting[0]
            result = self._result_of(steps, turn)
            if result is _UNFINISHED:
                assert turn is not None
                turn.pass_on(lambda: self._work(turn))
                return
            if self._waiting and self._waiting[0][0] is steps:  # else `stop` was called by a step
                self._waiting.popleft()
            deliver(result)
        self._is_scheduled = False

    def _result_of(self, steps: Steps[Any], turn: Turn | None) -> Any:  # noqa: ANN401
        self._is_stepping = True
        try:
            while True:
                ends_turn = next(steps)
                if turn is not None and (ends_turn or turn.is_over()):
                    return _UNFINISHED
        except StopIteration as end:
            return end.value
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            return Failed(error)
        finally:
            self._is_stepping = False


_UNFINISHED: Final = object()
