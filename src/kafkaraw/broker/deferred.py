"""An answer that comes later: what a handler returns when a client is to wait (long polling).

Delivered by a direct call, so that what it holds (slices of open files) is sent before anything else can happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kafkaraw.light_classes import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """What comes instead of an answer when working on a request failed in a later turn of the event loop."""

    error: Exception


class Deferred(Generic[T]):
    """A value that is not there yet.

    Args:
        on_cancel: called when nobody waits for the value any more.
        is_working: as the attribute.
        is_idle: whether nothing is worked on now, only waited for; None is as `is_working` says.

    Attributes:
        is_working: whether the broker works on the request to its end, even after the connection is lost.
    """

    def __init__(self, on_cancel: Callable[[], None], *, is_working: bool = False, is_idle: bool | None = None) -> None:
        self.is_working = is_working
        self._is_idle = not is_working if is_idle is None else is_idle
        self._tell_idle: Callable[[], None] | None = None
        self._on_cancel = on_cancel
        self._deliver: Callable[[T], None] | None = None
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether the value was delivered or the request cancelled."""
        return self._over

    def when_idle(self, tell: Callable[[], None]) -> None:
        """Call `tell` once when nothing is worked on for the value, only waited for: at once if that is so now."""
        if self._is_idle:
            tell()
        else:
            self._tell_idle = tell

    def idle(self) -> None:
        """Note that nothing is worked on for the value at the moment: an event is waited for."""
        self._is_idle = True
        tell, self._tell_idle = self._tell_idle, None
        if tell is not None:
            tell()

    def when_done(self, deliver: Callable[[T], None]) -> None:
        """Say who gets the value; to be called once, before it comes."""
        self._deliver = deliver

    def resolve(self, value: T) -> None:
        """Deliver the value; a second value, or one after `cancel`, is dropped."""
        if self._over or self._deliver is None:
            return
        self._over = True
        self._tell_idle = None
        self._deliver(value)

    def cancel(self) -> None:
        """Nobody waits any more."""
        if not self._over:
            self._over = True
            self._tell_idle = None
            self._on_cancel()


def answered(begin: Callable[[Callable[[T], None]], None]) -> T | Deferred[T]:
    """The answer of something that reports by a call: at once when it has reported already, else later.

    Args:
        begin: starts it; is given what to call with the answer.
    """
    deferred: Deferred[T] = Deferred(lambda: None)
    at_once: list[T] = []
    waiting = False

    def done(value: T) -> None:
        if waiting:
            deferred.resolve(value)
        else:
            at_once.append(value)

    begin(done)
    waiting = True
    return at_once[0] if at_once else deferred


def after(answer: object, go_on: Callable[[Any], object]) -> object:
    """What follows on an answer: at once, or when the answer comes.

    Args:
        answer: or one that comes later.
        go_on: given the answer; what it gives may come later, too. Cancelling reaches whichever is waited for. When it
            raises later, that takes the place of the answer, and so does what has failed before it.
    """
    if not isinstance(answer, Deferred):
        return go_on(answer)
    awaited: Deferred[Any] = answer
    following: Deferred[object] = Deferred(lambda: awaited.cancel(), is_working=answer.is_working)

    def deliver(value: object) -> None:
        nonlocal awaited
        if isinstance(value, Failed):
            following.resolve(value)
            return
        try:
            result = go_on(value)
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            following.resolve(Failed(error))
            return
        if isinstance(result, Deferred):
            awaited = result
            following.is_working = result.is_working
            result.when_done(following.resolve)
        else:
            following.resolve(result)

    answer.when_done(deliver)
    return following
