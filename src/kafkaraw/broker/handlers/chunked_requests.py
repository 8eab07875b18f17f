"""Requests with very many entries are answered in chunks; between two chunks, the event loop serves other connections.

The entries of such a request are independent of each other: the response consists of the responses to its chunks, in
order. Authorization and handlers therefore see requests of a limited size, and need no loop that yields. A request
whose entries must stay together (the offsets of an OffsetCommit, the partitions of one transaction) is not divided.
Start at `in_chunks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.replies import Answer, CloseConnection, Deferred, Failed, NoReply, Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Turn
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.declare import Response

ENTRIES_PER_CHUNK: Final = 200
"""Number of entries in one chunk; a hundred take 1 to 2 ms."""
ENTRIES_MAX: Final = 1 << 18
"""Maximum number of entries of a request: twice 100,000 partitions of 100,000 topics. Each needs room in the response.

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
            CloseConnectionError: the request is invalid; the broker closes the connection.
        """
        ...


class ResponseBound(Protocol):
    """Limits the size of a response that is built in chunks."""

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached; further chunks are refused."""

    def take(self, response: Any, /) -> None:  # noqa: ANN401
        """Count the response to the next chunk."""

    def error_response(self, request: Any, /) -> Response:  # noqa: ANN401
        """Return the response to a chunk that is refused."""


@dataclass(frozen=True, slots=True)
class Divided:
    """How the requests of an API are divided, and their responses merged.

    Attributes:
        asked: the path to the divided list: the field of the request, then the field of its elements, and so on.
        answered: the corresponding fields of the response.
        keys: for each list but the last, the fields that identify an element of the response.
        entries_per_chunk: maximum number of elements of the last list in one chunk.
        unique: returns the key of an element of the first list, if the handler ignores duplicates.
        prepared: changes a request before it is divided.
        whole: returns whether one cheap response answers the complete request, so that it is not divided.
        bound: creates the limit of the response's size; None if each entry has a response of a few bytes.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    entries_per_chunk: int = ENTRIES_PER_CHUNK
    unique: Callable[[Any], object] | None = None
    prepared: Callable[[Any], Any] | None = None
    whole: Callable[[Any], bool] | None = None
    bound: Callable[[], ResponseBound] | None = None


TOPIC_ID_OR_NAME: Final = ("name", "topic_id")
NAME: Final = ("name",)
TOPICS: Final = Divided(("topics", "partitions"), ("topics", "partitions"), (NAME,))


def in_chunks(api: str, handler: Handler[Q, R], ways: Mapping[int, Divided]) -> Handler[Q, R]:
    """Return a handler that divides large requests and calls `handler` with one chunk at a time.

    Args:
        api: name of the API, for the log.
        handler: handles any number of entries.
        ways: how requests are divided, by the first version to which it applies.
    """
    latest_first = sorted(ways.items(), reverse=True)

    def handle(state: BrokerState, context: RequestContext, request: Q, /) -> Reply[R]:
        for since, divided in latest_first:
            if context.api_version >= since:
                if not has_more_than(request, divided.asked, divided.entries_per_chunk):
                    return handler(state, context, request)
                if has_more_than(request, divided.asked, ENTRIES_MAX):
                    raise CloseConnectionError(
                        f"{api} version {context.api_version} has more than {ENTRIES_MAX} entries"
                    )
                if divided.whole is not None and divided.whole(request):
                    return handler(state, context, request)
                chunks = divide(_once_each(request, divided), divided.asked, divided.entries_per_chunk)
                return _ChunkedRequest[R](chunks, lambda chunk: handler(state, context, chunk), divided).begin()
        return handler(state, context, request)

    return handle


def has_more_than(item: object, fields: Sequence[str], entries_max: int) -> bool:
    """Return whether an item has more elements than that in its last lists; an empty or null list counts as one."""
    return _count(item, fields, entries_max) > entries_max


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


def divide(item: Any, fields: Sequence[str], entries_max: int) -> Iterator[tuple[Any, int]]:  # noqa: ANN401  # any request
    """Divide an item into chunks of up to `entries_max` entries each.

    Yields:
        a chunk, and the number of levels on which its first element continues the last element of the previous chunk.
    """
    together: list[Any] = []
    room = entries_max
    for element in getattr(item, fields[0]):
        count = _count(element, fields[1:], entries_max)
        if count > room and together:
            yield replace(item, **{fields[0]: together}), 0
            together, room = [], entries_max
        if count > entries_max:
            for at, (piece, depth) in enumerate(divide(element, fields[1:], entries_max)):
                yield replace(item, **{fields[0]: [piece]}), depth + 1 if at else 0
        else:
            together.append(element)
            room -= count
    if together:
        yield replace(item, **{fields[0]: together}), 0


def merge_responses(answer: Any, more: Any, divided: Divided, depth: int, level: int = 0) -> None:  # noqa: ANN401
    """Add the response to a chunk to that of the earlier chunks.

    Args:
        answer: response to the earlier chunks; extended in place.
        more: response to the next chunk.
        divided: how the request was divided.
        depth: number of levels on which the first element of `more` continues the last one of `answer`.
        level: nesting level of both.
    """
    if getattr(more, "error_code", 0):
        answer.error_code = more.error_code
    name = divided.answered[level]
    before, new = getattr(answer, name), getattr(more, name)
    if depth and before and new:
        keys = divided.keys[level]
        if all(getattr(before[-1], key, None) == getattr(new[0], key, None) for key in keys):
            merge_responses(before[-1], new[0], divided, depth - 1, level + 1)
            new = new[1:]
    before.extend(new)


def _once_each(request: Any, divided: Divided) -> Any:  # noqa: ANN401  # any request
    """Return the request without duplicates."""
    if divided.prepared is not None:
        request = divided.prepared(request)
    if divided.unique is None:
        return request
    (field,) = divided.asked
    unique = {divided.unique(element): element for element in getattr(request, field)}
    return replace(request, **{field: list(unique.values())})


class _ChunkedRequest(Generic[R]):
    """A request that is answered in chunks, with the response so far."""

    def __init__(self, chunks: Iterator[tuple[Any, int]], ask: Callable[[Any], Reply[R]], divided: Divided) -> None:
        self._chunks = chunks
        self._ask = ask
        self._divided = divided
        self._bound = None if divided.bound is None else divided.bound()
        self._answer: R | None = None
        self._cancelled = False
        self._awaited: Deferred[Answer[R]] | None = None
        self._deferred: Deferred[R] = Deferred(self._cancel, is_idle=False)
        self._turn = Turn()

    def begin(self) -> Reply[R]:
        """Answer the first chunks; the reply is deferred, unless one turn is enough for all chunks."""
        if self._ask_chunks():
            return self._taken_answer()
        return self._deferred

    def _taken_answer(self) -> R:
        """Return the response and drop the reference to it, because the garbage collector frees this object late."""
        answer, self._answer = self._answer, None
        assert answer is not None, "a request that is divided has a chunk"
        return answer

    def _cancel(self) -> None:
        self._cancelled = True
        self._chunks, self._answer = iter(()), None
        if self._awaited is not None:
            self._awaited.cancel()

    def _go_on(self) -> None:
        try:
            done = self._ask_chunks()
        except Exception as error:  # noqa: BLE001  # raised again where the request is answered
            self._deferred.resolve(Failed(error))
            return
        if done:
            self._deferred.resolve(self._taken_answer())

    def _ask_chunks(self) -> bool:
        """Answer chunks until one has to wait or the turn is over; return whether all are answered."""
        while not self._cancelled:
            chunk, depth = next(self._chunks, (None, 0))
            if chunk is None:
                return True
            reply = self._reply_to(chunk)
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

    def _reply_to(self, chunk: Any) -> Reply[R]:  # noqa: ANN401  # a chunk of any request
        if self._bound is not None and self._bound.is_full:
            return cast("R", self._bound.error_response(chunk))
        return self._ask(chunk)

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
            merge_responses(self._answer, answer, self._divided, depth)
