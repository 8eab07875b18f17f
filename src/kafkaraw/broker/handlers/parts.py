"""Requests that name very many things are answered in parts: between two parts, other connections have their turn.

The things that such a request names are independent of each other: the answer of the whole is that of its parts, one
after the other. So authorization and handlers see requests of a bounded size, and need no loop of their own that
yields. A request whose names must stay together (the batch of an OffsetCommit, the partitions of one transaction) is
not divided. Start at `in_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import CloseConnectionError
from kafkaraw.broker.replies import Answer, CloseConnection, Deferred, Failed, NoReply, Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Turn
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.declare import Response

NAMES_PER_PART: Final = 200
"""A hundred takes a millisecond or two."""
NAMES_MAX: Final = 1 << 18
"""What a request may name in all: 100,000 partitions of 100,000 topics twice over. Each has a place in the answer.

`ELEMENTS_MAX` limits the elements of a message, too, but partition numbers count less there.
"""

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)
R = TypeVar("R", bound=Response)
R_co = TypeVar("R_co", bound=Response, covariant=True)


class Handler(Protocol[Q_contra, R_co]):
    """Answers one request of an API."""

    def __call__(self, state: BrokerState, context: RequestContext, request: Q_contra, /) -> Reply[R_co]:
        """Answer the request.

        Raises:
            CloseConnectionError: the request makes no sense; the broker closes the connection.
        """
        ...


class AnswerBound(Protocol):
    """Limits the size of an answer that is made in parts."""

    @property
    def is_full(self) -> bool:
        """Whether no further part is answered."""

    def take(self, response: Any, /) -> None:  # noqa: ANN401
        """Count the answer of the next part."""

    def refusal(self, request: Any, /) -> Response:  # noqa: ANN401
        """The answer of a part that is refused."""


@dataclass(frozen=True, slots=True)
class Divided:
    """How the requests of an API are divided, and their answers put together.

    Attributes:
        asked: the field of the request with the list that is divided, then that of its elements, and so on.
        answered: the fields of the answer that correspond to them.
        keys: for each list but the last, the fields by which an element of the answer names what it is about.
        names_per_part: how many elements of the last list are asked at once.
        unique: gives of an element of the first list what counts only once, as the handler has it.
        prepared: changes a request before it is divided.
        whole: whether the answer to a request is one for all that it names, and cheap.
        bound: makes the limit of the answer's size; None where every name has an answer of a few bytes.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    names_per_part: int = NAMES_PER_PART
    unique: Callable[[Any], object] | None = None
    prepared: Callable[[Any], Any] | None = None
    whole: Callable[[Any], bool] | None = None
    bound: Callable[[], AnswerBound] | None = None


TOPIC_ID_OR_NAME: Final = ("name", "topic_id")
NAME: Final = ("name",)
TOPICS: Final = Divided(("topics", "partitions"), ("topics", "partitions"), (NAME,))


def in_parts(api: str, handler: Handler[Q, R], ways: Mapping[int, Divided]) -> Handler[Q, R]:
    """A handler that is called with no more than a part of a large request at once.

    Args:
        api: its name, for the log.
        handler: takes any number of names.
        ways: how requests are divided, by the first version for which that is so.
    """
    latest_first = sorted(ways.items(), reverse=True)

    def handle(state: BrokerState, context: RequestContext, request: Q, /) -> Reply[R]:
        for since, divided in latest_first:
            if context.api_version >= since:
                if not has_more_than(request, divided.asked, divided.names_per_part):
                    return handler(state, context, request)
                if has_more_than(request, divided.asked, NAMES_MAX):
                    raise CloseConnectionError(
                        f"{api} version {context.api_version} names more than {NAMES_MAX} things"
                    )
                if divided.whole is not None and divided.whole(request):
                    return handler(state, context, request)
                parts = divide(_once_each(request, divided), divided.asked, divided.names_per_part)
                return _Parts[R](parts, lambda part: handler(state, context, part), divided).begin()
        return handler(state, context, request)

    return handle


def has_more_than(item: object, fields: Sequence[str], names: int) -> bool:
    """Whether an item has more than `names` elements in its last lists; an empty or null list counts as one."""
    return _count(item, fields, names) > names


def _count(item: object, fields: Sequence[str], limit: int) -> int:
    if not fields:
        return 1
    elements = getattr(item, fields[0])
    if not elements:
        return 1
    if len(fields) == 1 or len(elements) > limit:
        return len(elements)
    count = 0
    for element in elements:
        count += _count(element, fields[1:], limit)
        if count > limit:
            break
    return count


def divide(item: Any, fields: Sequence[str], names: int) -> Iterator[tuple[Any, int]]:  # noqa: ANN401  # any request
    """Parts of an item with up to `names` names each.

    Yields:
        a part, and on how many levels its first element goes on with the last one of the part before.
    """
    together: list[Any] = []
    room = names
    for element in getattr(item, fields[0]):
        count = _count(element, fields[1:], names)
        if count > room and together:
            yield replace(item, **{fields[0]: together}), 0
            together, room = [], names
        if count > names:
            for at, (piece, depth) in enumerate(divide(element, fields[1:], names)):
                yield replace(item, **{fields[0]: [piece]}), depth + 1 if at else 0
        else:
            together.append(element)
            room -= count
    if together:
        yield replace(item, **{fields[0]: together}), 0


def put_together(answer: Any, more: Any, divided: Divided, depth: int, level: int = 0) -> None:  # noqa: ANN401
    """Add the answer of a part to that of the parts before it.

    Args:
        answer: of the parts before; becomes that of all.
        more: of the next part.
        divided: how they were divided.
        depth: on how many levels the first element of `more` goes on with the last one of `answer`.
        level: how many lists down both are.
    """
    if getattr(more, "error_code", 0):
        answer.error_code = more.error_code
    name = divided.answered[level]
    before, new = getattr(answer, name), getattr(more, name)
    if depth and before and new:
        keys = divided.keys[level]
        if all(getattr(before[-1], key, None) == getattr(new[0], key, None) for key in keys):
            put_together(before[-1], new[0], divided, depth - 1, level + 1)
            new = new[1:]
    before.extend(new)


def _once_each(request: Any, divided: Divided) -> Any:  # noqa: ANN401  # any request
    """The request, without what counts once."""
    if divided.prepared is not None:
        request = divided.prepared(request)
    if divided.unique is None:
        return request
    (field,) = divided.asked
    unique = {divided.unique(element): element for element in getattr(request, field)}
    return replace(request, **{field: list(unique.values())})


class _Parts(Generic[R]):
    """A request that is answered in parts, with the answers so far."""

    def __init__(self, parts: Iterator[tuple[Any, int]], ask: Callable[[Any], Reply[R]], divided: Divided) -> None:
        self._parts = parts
        self._ask = ask
        self._divided = divided
        self._bound = None if divided.bound is None else divided.bound()
        self._answer: R | None = None
        self._cancelled = False
        self._awaited: Deferred[Answer[R]] | None = None
        self._deferred: Deferred[R] = Deferred(self._cancel, is_idle=False)
        self._turn = Turn()

    def begin(self) -> Reply[R]:
        """Answer the first parts; the reply comes later, unless one turn is enough."""
        if self._ask_parts():
            return self._taken_answer()
        return self._deferred

    def _taken_answer(self) -> R:
        """The answer, which is not kept: this object waits for the garbage collector."""
        answer, self._answer = self._answer, None
        assert answer is not None, "a request that is divided has a part"
        return answer

    def _cancel(self) -> None:
        self._cancelled = True
        self._parts, self._answer = iter(()), None
        if self._awaited is not None:
            self._awaited.cancel()

    def _go_on(self) -> None:
        try:
            done = self._ask_parts()
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            self._deferred.resolve(Failed(error))
            return
        if done:
            self._deferred.resolve(self._taken_answer())

    def _ask_parts(self) -> bool:
        """Answer parts until one has to wait, or others have their turn; tells whether all are answered."""
        while not self._cancelled:
            part, depth = next(self._parts, (None, 0))
            if part is None:
                return True
            reply = self._reply_to(part)
            if isinstance(reply, Deferred):
                self._awaited = reply
                reply.when_done(lambda later, depth=depth: self._answered_late(later, depth))  # type: ignore[misc]
                reply.when_idle(self._deferred.idle)
                return False
            self._take(reply, depth)
            if self._turn.is_over():
                self._turn.pass_on(self._go_on)
                return False
        return False

    def _reply_to(self, part: Any) -> Reply[R]:  # noqa: ANN401  # a part of any request
        if self._bound is not None and self._bound.is_full:
            return cast("R", self._bound.refusal(part))
        return self._ask(part)

    def _answered_late(self, answer: Answer[R] | Failed, depth: int) -> None:
        self._awaited = None
        if isinstance(answer, Failed):
            self._deferred.resolve(answer)
            return
        self._take(answer, depth)
        self._turn.pass_on(self._go_on)

    def _take(self, answer: Answer[R], depth: int) -> None:
        assert not isinstance(answer, NoReply | CloseConnection), "only Produce has such replies, and is not divided"
        if self._bound is not None:
            self._bound.take(answer)
        if self._answer is None:
            self._answer = answer
        else:
            put_together(self._answer, answer, self._divided, depth)
