"""Requests over very many names, asked in parts: between two parts, other connections have their turn.

What such a request names is independent of each other: the answer of the whole is that of its parts, one after the
other. So guards and handlers see requests of a bounded size, and need no loop of their own that yields. What must
stay together (the batch of an OffsetCommit, the partitions of one transaction) is not in the table. Start at
`in_parts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kafkaraw.broker.deferred import Deferred, Failed
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.describe_configs import AnswerBound, has_unknown_kinds
from kafkaraw.broker.refusal import CloseConnection
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Turn
from kafkaraw.light_classes import dataclass, replace

NAMES_PER_PART: Final = 200
"""A hundred takes a millisecond or two."""
NAMES_MAX: Final = 1 << 18
"""What a request may name in all: 100,000 partitions of 100,000 topics twice over. Each has a place in the answer.

`ELEMENTS_MAX` limits the elements of a message, too, but partition numbers count less there.
"""

Handler = Callable[[BrokerState, RequestContext, Any], object]


@dataclass(frozen=True, slots=True)
class Divided:
    """How the requests of an API are divided, and their answers put together.

    Attributes:
        asked: the field of the request with the list that is divided, then that of its elements, and so on.
        answered: the fields of the answer that correspond to them.
        keys: for each list but the last, the fields by which an element of the answer names what it is about.
        names_per_part: how many elements of the last list are asked at once.
        unique: gives of an element of the first list what counts only once, as the handler has it.
        whole: tells of a request that its answer is one for all that it names, and cheap.
        bound: makes what holds the answer to a size; None where every name has an answer of a few bytes.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    names_per_part: int = NAMES_PER_PART
    unique: Callable[[Any], object] | None = None
    whole: Callable[[Any], bool] | None = None
    bound: Callable[[], AnswerBound] | None = None


_TOPIC_ID_OR_NAME: Final = ("name", "topic_id")
_NAME: Final = ("name",)
_TOPICS: Final = Divided(("topics", "partitions"), ("topics", "partitions"), (_NAME,))

DIVIDED: Final[dict[str, tuple[tuple[int, Divided], ...]]] = {
    "AddPartitionsToTxn": ((4, Divided(("transactions",), ("results_by_transaction",), names_per_part=20)),),
    "ConsumerGroupDescribe": ((0, Divided(("group_ids",), ("groups",))),),
    "DeleteGroups": ((0, Divided(("groups_names",), ("results",), unique=lambda name: name)),),
    "DeleteRecords": ((0, _TOPICS),),
    "DescribeConfigs": (
        (
            0,
            Divided(("resources",), ("results",), names_per_part=10, whole=has_unknown_kinds, bound=AnswerBound),
        ),
    ),
    "DescribeGroups": ((0, Divided(("groups",), ("groups",))),),
    "DescribeProducers": ((0, Divided(("topics", "partition_indexes"), ("topics", "partitions"), (_NAME,))),),
    "DescribeTransactions": ((0, Divided(("transactional_ids",), ("transaction_states",))),),
    "FindCoordinator": ((4, Divided(("coordinator_keys",), ("coordinators",))),),
    "ListOffsets": ((0, _TOPICS),),
    "Metadata": ((0, Divided(("topics",), ("topics",), unique=lambda topic: (topic.name, topic.topic_id))),),
    "OffsetDelete": ((0, _TOPICS),),
    "OffsetFetch": (
        (
            8,
            Divided(
                ("groups", "topics", "partition_indexes"),
                ("groups", "topics", "partitions"),
                (("group_id",), _TOPIC_ID_OR_NAME),
            ),
        ),
        (0, Divided(("topics", "partition_indexes"), ("topics", "partitions"), (_NAME,))),
    ),
    "OffsetForLeaderEpoch": ((0, Divided(("topics", "partitions"), ("topics", "partitions"), (("topic",),))),),
    "WriteTxnMarkers": (
        (
            0,
            Divided(
                ("markers", "topics", "partition_indexes"),
                ("markers", "topics", "partitions"),
                (("producer_id",), _NAME),
            ),
        ),
    ),
}
"""API -> first version and how its requests are divided from then on, the latest first."""


def in_parts(api: str, handler: Handler) -> Handler:
    """A handler that is asked for no more than a part of a large request at once."""
    if api not in DIVIDED:
        return handler

    def handle(state: BrokerState, context: RequestContext, request: object) -> object:
        for since, divided in DIVIDED[api]:
            if context.api_version >= since:
                if not has_more_than(request, divided.asked, divided.names_per_part):
                    return handler(state, context, request)
                if has_more_than(request, divided.asked, NAMES_MAX):
                    raise CloseConnection(f"{api} version {context.api_version} names more than {NAMES_MAX} things")
                if divided.whole is not None and divided.whole(request):
                    return handler(state, context, request)
                parts = divide(_apart(api, request, divided), divided.asked, divided.names_per_part)
                return _Parts(parts, lambda part: handler(state, context, part), divided).begin()
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


def _apart(api: str, request: Any, divided: Divided) -> Any:  # noqa: ANN401  # any request
    """The request, without what counts once, and what is refused for being there twice side by side."""
    if divided.unique is not None:
        (field,) = divided.asked
        unique = {divided.unique(element): element for element in getattr(request, field)}
        return replace(request, **{field: list(unique.values())})
    return _doubles_once(request) if api == "ListOffsets" else request


def _doubles_once(request: Any) -> Any:  # noqa: ANN401  # ListOffsetsRequest
    """A ListOffsets in which a partition that is asked for several times is asked for twice, and both in one part.

    It is refused, and clients are told so twice. A topic that is named several times is one in it.
    """
    asked: dict[str, list[Any]] = {}
    first: dict[str, Any] = {}
    for topic in request.topics:
        first.setdefault(topic.name, topic)
        asked.setdefault(topic.name, []).extend(topic.partitions)
    topics = []
    for name, partitions in asked.items():
        times = Counter(part.partition_index for part in partitions)
        by_index = {part.partition_index: part for part in partitions}
        doubles = [part for index, part in by_index.items() if times[index] > 1]
        if doubles:
            topics += [replace(first[name], partitions=[part, part]) for part in doubles]
        topics.append(
            replace(first[name], partitions=[part for part in partitions if times[part.partition_index] == 1])
        )
    return replace(request, topics=topics)


class _Parts:
    """A request that is asked in parts, with the answers so far."""

    def __init__(self, parts: Iterator[tuple[object, int]], ask: Callable[[object], object], divided: Divided) -> None:
        self._parts = parts
        self._ask = ask
        self._divided = divided
        self._bound = None if divided.bound is None else divided.bound()
        self._answer: object = None
        self._cancelled = False
        self._awaited: Deferred[Any] | None = None
        self._deferred: Deferred[object] = Deferred(self._cancel, is_idle=False)
        self._turn = Turn()

    def begin(self) -> object:
        """Ask the first parts; the answer comes later, unless one turn is enough."""
        if self._ask_parts():
            return self._taken_answer()
        return self._deferred

    def _taken_answer(self) -> object:
        """The answer, which is not kept: this object waits for the garbage collector."""
        answer, self._answer = self._answer, None
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
        """Ask parts until one has to wait, or others have their turn; tells whether all are answered."""
        while not self._cancelled:
            part, depth = next(self._parts, (None, 0))
            if part is None:
                return True
            full = self._bound is not None and self._bound.is_full
            answer = self._bound.refusal(part) if full else self._ask(part)  # type: ignore[union-attr,arg-type]
            if isinstance(answer, Deferred):
                self._awaited = answer
                answer.when_done(lambda later, depth=depth: self._answered_late(later, depth))  # type: ignore[misc]
                answer.when_idle(self._deferred.idle)
                return False
            self._take(answer, depth)
            if self._turn.is_over():
                self._turn.pass_on(self._go_on)
                return False
        return False

    def _answered_late(self, answer: object, depth: int) -> None:
        self._awaited = None
        if isinstance(answer, Failed):
            self._deferred.resolve(answer)
            return
        self._take(answer, depth)
        self._turn.pass_on(self._go_on)

    def _take(self, answer: Any, depth: int) -> None:  # noqa: ANN401
        if self._bound is not None:
            self._bound.take(answer)
        if self._answer is None:
            self._answer = answer
        else:
            put_together(self._answer, answer, self._divided, depth)
