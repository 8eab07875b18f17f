"""What a handler returns: a response, no reply, a connection to close, or a `Deferred` of one of these.

`Reply[R]` is the closed type of what a handler of a `Request[R]` may return. A `Deferred` reply comes later, as when a
Fetch waits for records (long poll). A direct call delivers it, so that what it holds (slices of open files) is sent
before anything else can happen. Nothing here knows an API, a connection or bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.declare import Response

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class NoReply:
    """The client expects no response: a Produce with acks=0."""


NO_REPLY: Final = NoReply()


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """The broker closes the connection instead of answering.

    Attributes:
        reason: for the log.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Delivered by a `Deferred` instead of its value, if the work on the request failed in a later turn of the loop."""

    error: Exception


class Deferred(Generic[T_co]):
    """A value that comes later.

    Args:
        on_cancel: called when the connection no longer waits for the value.
        is_working: as the attribute.
        is_idle: whether the request only waits for an event now, and no work is done on it; None is as `is_working`
            says.

    Attributes:
        is_working: whether the broker works on the request to its end, even after the connection is lost.
    """

    def __init__(self, on_cancel: Callable[[], None], *, is_working: bool = False, is_idle: bool | None = None) -> None:
        self.is_working = is_working
        self._is_idle = not is_working if is_idle is None else is_idle
        self._on_idle: Callable[[], None] | None = None
        self._on_cancel = on_cancel
        self._deliver: Callable[[Any], None] | None = None
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether the value was delivered or the request cancelled."""
        return self._over

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the request only waits for an event; immediately if it already does."""
        if self._is_idle:
            callback()
        else:
            self._on_idle = callback

    def idle(self) -> None:
        """Note that the request only waits for an event at the moment."""
        self._is_idle = True
        callback, self._on_idle = self._on_idle, None
        if callback is not None:
            callback()

    def when_done(self, deliver: Callable[[T_co | Failed], None]) -> None:
        """Set the callback that takes the value; called once, before the value comes."""
        self._deliver = deliver

    # A value has one producer, which knows its exact type; the consumers only see a `Deferred` of a wider one.
    def resolve(self, value: T_co | Failed) -> None:
        """Deliver the value; a second value, or one after `cancel`, is dropped."""
        if self._over or self._deliver is None:
            return
        self._over = True
        self._on_idle = None
        self._deliver(value)

    def cancel(self) -> None:
        """Drop the value when it comes: the connection no longer waits for it."""
        if not self._over:
            self._over = True
            self._on_idle = None
            self._on_cancel()


Answer: TypeAlias = R | NoReply | CloseConnection
"""A reply that is there."""
Reply: TypeAlias = R | NoReply | CloseConnection | Deferred[R | NoReply | CloseConnection]
"""What a handler may return for a request whose response is an `R`."""


def answered(begin: Callable[[Callable[[T], None]], None]) -> T | Deferred[T]:
    """Return the value that an operation passes to its callback: now if it was called immediately, else a `Deferred`.

    Args:
        begin: starts the operation; takes the callback for the value.
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


def after(value: T | Deferred[T], go_on: Callable[[T], U | Deferred[U]]) -> U | Deferred[U]:
    """Call `go_on` with a value: immediately, or when a deferred value is delivered; return its result.

    Args:
        value: the value, or one that comes later.
        go_on: takes the value; its result may come later, too. Cancelling reaches the one that is waited for. An
            exception that it raises later is delivered as `Failed`, and so is a failure before it.
    """
    return following(value, go_on) if isinstance(value, Deferred) else go_on(value)


def following(value: Deferred[T], go_on: Callable[[T], U | Deferred[U]]) -> Deferred[U]:
    """`after` for a value that comes later."""
    awaited: Deferred[Any] = value
    result: Deferred[U] = Deferred(lambda: awaited.cancel(), is_working=value.is_working)

    def deliver(value: T | Failed) -> None:
        nonlocal awaited
        if isinstance(value, Failed):
            result.resolve(value)
            return
        try:
            next_value = go_on(value)
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            result.resolve(Failed(error))
            return
        if isinstance(next_value, Deferred):
            awaited = next_value
            result.is_working = next_value.is_working
            next_value.when_done(result.resolve)
        else:
            result.resolve(next_value)

    value.when_done(deliver)
    return result


def after_answer(reply: Reply[R], go_on: Callable[[Answer[R]], U | Deferred[U]]) -> U | Deferred[U]:
    """`after` for replies."""
    return following(reply, go_on) if isinstance(reply, Deferred) else go_on(reply)


def after_response(reply: Reply[R], change: Callable[[R], R]) -> Reply[R]:
    """Change the response of a reply, now or when it is delivered; no reply and a closed connection are unchanged."""

    def go_on(answer: Answer[R]) -> Answer[R]:
        return answer if isinstance(answer, NoReply | CloseConnection) else change(answer)

    return after_answer(reply, go_on)
