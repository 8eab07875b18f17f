"""Error responses for any API, built from the message declarations, for `faults`.

The response mirrors the request: where the request lists topics, partitions, groups or keys, the response lists the
same ones with the error code. Entries to which a fault does not apply stay in a smaller request, which the handler
answers. Start at `refuse`. Apart from the small tables below, nothing in this module is specific to one API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Request, Response, StructOf, spec_of
from kafkaraw.protocol.error_codes import ErrorCode

R = TypeVar("R", bound=Response)

CODE_FIELDS: Final = ("error_code", "partition_error_code")
TOPIC_FIELDS: Final = ("name", "topic", "topic_name")
PARTITION_FIELDS: Final = ("partition", "partition_index", "index", "partition_id")
SESSION_FIELDS: Final = ("session_id",)
"""A session does not learn of a part of a request that is refused, so the response names no session: it has ended."""
NOT_A_KEY: Final = (*CODE_FIELDS, "error_message", "throttle_time_ms", *SESSION_FIELDS)
NOT_ASKED: Final = ("forgotten_topics_data",)
"""Lists in requests that have no counterpart in the response."""
NEEDED_ANYWAY: Final = ("Metadata",)
"""APIs whose response also carries other data that clients need (brokers): their handler always runs."""
UNKNOWN_IS_MINUS_ONE: Final = frozenset(
    {
        "base_offset",
        "committed_offset",
        "high_watermark",
        "log_append_time_ms",
        "node_id",
        "offset",
        "port",
        "producer_epoch",
        "producer_id",
        "timestamp",
    }
)
WHOLE_REQUEST_CODES: Final = frozenset(
    code
    for code in ErrorCode
    if any(word in code.name for word in ("COORDINATOR", "GROUP", "SESSION", "CLUSTER", "CONTROLLER", "MEMBER"))
)
"""Codes that concern the whole request or a group; they go into the outermost field for an error code."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is refused completely or partly.

    Attributes:
        response: has the error code for the refused entries, and no other entries.
        rest: request with the remaining entries, for the handler; None if there are none.
    """

    response: Response
    rest: Request[Response] | None

    def completed(self, answer: R) -> R:
        """Return the handler's response to `rest`, with the refused entries added."""
        _merge(answer, self.response)
        for name in SESSION_FIELDS:
            if hasattr(answer, name):
                setattr(answer, name, 0)
        return answer


def refuse(
    api: Api,
    version: int,
    request: object,
    code: ErrorCode,
    *,
    topic: str | None = None,
    partition: int | None = None,
    topic_name: Callable[[bytes], str | None] = lambda _: None,
) -> Refused | None:
    """Refuse a request, or only one topic or partition in it.

    Args:
        api: the API.
        version: API version of the request.
        request: the decoded request; it is not changed.
        code: the error code.
        topic: refuse only this topic.
        partition: refuse only partitions with this number.
        topic_name: returns the name of the topic with a given id.

    Returns:
        None if the request does not contain that topic or partition, or its response has no field for an error code.
    """
    mirror = _Mirror(version, code, topic, partition, topic_name)
    response, rest = mirror.element(request, api.response, mirror.is_unbounded)
    if not mirror.placed:
        return None
    if rest is None and api.name in NEEDED_ANYWAY:
        rest = mirror.emptied(request)
    return Refused(response, rest)


@dataclass(slots=True)
class _Mirror:
    version: int
    code: ErrorCode
    topic: str | None
    partition: int | None
    topic_name: Callable[[bytes], str | None]
    placed: int = 0

    @property
    def is_unbounded(self) -> bool:
        """Whether the complete request is refused."""
        return self.topic is None and self.partition is None

    @property
    def is_outermost(self) -> bool:
        return self.is_unbounded and self.code in WHOLE_REQUEST_CODES

    def element(self, asked: object, answer: type[object], meant: bool) -> tuple[Any, Any]:
        """Return the response entry for one request entry, and what remains of that entry for the handler (or None)."""
        response = blank(answer, self.version)
        _copy_keys(asked, response, answer, self.version)
        own = _code_field(answer, self.version)
        if own is not None and meant and self.is_outermost:
            return self._refused(response, own), None
        before = self.placed
        rest = self._lists(asked, response, answer, meant)
        if self.placed == before:
            if own is not None and meant:
                return self._refused(response, own), None
            return response, asked
        return response, rest

    def _refused(self, response: object, own: str) -> object:
        setattr(response, own, int(self.code))
        self.placed += 1
        return response

    def _lists(self, asked: object, response: object, answer: type[object], meant: bool) -> object | None:
        """Mirror the request's lists in the response; return what remains for the handler."""
        changes: dict[str, list[object]] = {}
        for mine, theirs in _partners(type(asked), answer, self.version):
            assert isinstance(theirs.kind, ArrayOf) and isinstance(theirs.kind.element, StructOf)
            answers, left = [], []
            for one in getattr(asked, mine.name) or ():
                is_meant = self._means(mine.name, one, meant)
                if is_meant is None:
                    left.append(one)
                    continue
                before = self.placed
                made, rest = self.element(one, theirs.kind.element.cls, is_meant)
                if self.placed > before:
                    answers.append(made)
                if rest is not None:
                    left.append(rest)
            setattr(response, theirs.name, [*(getattr(response, theirs.name) or ()), *answers])
            changes[mine.name] = left
        if not any(changes.values()):
            return None
        return _replaced(asked, changes)

    def _means(self, list_name: str, one: object, meant: bool) -> bool | None:
        """Whether an element is refused: True if it is, None if not, False if its nested elements decide."""
        if "topic" in list_name:
            if self.topic is not None and self._name_of(one) != self.topic:
                return None
            return self.partition is None
        if "partition" in list_name and (number := _partition_of(one)) is not None:
            return True if self.partition in (None, number) else None
        return meant

    def _name_of(self, one: object) -> str | None:
        name = _topic_of(one)
        topic_id = getattr(one, "topic_id", None)
        return name or (None if topic_id is None else self.topic_name(topic_id))

    def emptied(self, request: object) -> object:
        """Return the request with empty lists of topics."""
        lists: dict[str, list[object]] = {
            f.name: [] for f in _fields(type(request), self.version) if "topic" in f.name and _is_list(f)
        }
        return _replaced(request, lists)


def _replaced(message: Any, lists: dict[str, list[object]]) -> object:  # noqa: ANN401 -- of any declared class
    copy: object = replace(message, **lists)
    return copy


def blank(cls: type[object], version: int) -> Any:  # noqa: ANN401 -- an object of any declared class
    """Return an object of a declared class with default values: zeros, empty lists, nulls."""
    values: dict[str, object] = {}
    for field in spec_of(cls).fields:
        if isinstance(field.kind, StructOf):
            values[field.name] = blank(field.kind.cls, version)
        elif isinstance(field.kind, ArrayOf):
            values[field.name] = None if field.nullable.includes(version) and field.default is None else []
        elif field.name in UNKNOWN_IS_MINUS_ONE and field.versions.includes(version):
            values[field.name] = -1
        elif field.default is None and field.versions.includes(version) and not field.nullable.includes(version):
            values[field.name] = b"" if "bytes" in field.kind.name or "records" in field.kind.name else ""
        else:
            values[field.name] = field.default
    return cls(**values)


def _copy_keys(asked: object, response: object, answer: type[object], version: int) -> None:
    """Copy the identifying fields of the request to the response: those of the same name, or of the same meaning."""
    fields = [field for field in _fields(answer, version) if not _is_list(field) and field.name not in NOT_A_KEY]
    if isinstance(asked, (str, int, bytes)):  # a list of plain names, ids or numbers
        if fields:
            setattr(response, fields[0].name, asked)
        return
    for field in fields:
        for name in (field.name, *_synonyms(field.name)):
            value = getattr(asked, name, None)
            if value is not None and field.kind == _kind_of(type(asked), name):
                setattr(response, field.name, value)
                break


def _synonyms(name: str) -> Sequence[str]:
    return next((names for names in (TOPIC_FIELDS, PARTITION_FIELDS) if name in names), ())


def _kind_of(cls: type[object], name: str) -> object:
    return next((field.kind for field in spec_of(cls).fields if field.name == name), None)


def _topic_of(one: object) -> str | None:
    if isinstance(one, str):
        return one
    names = (getattr(one, name, None) for name in TOPIC_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), None)


def _partition_of(one: object) -> int | None:
    if isinstance(one, int):
        return one
    numbers = (getattr(one, name, None) for name in PARTITION_FIELDS)
    return next((number for number in numbers if isinstance(number, int)), None)


def _fields(cls: type[object], version: int) -> tuple[FieldSpec, ...]:
    return tuple(field for field in spec_of(cls).fields if field.versions.includes(version))


def _is_list(field: FieldSpec) -> bool:
    return isinstance(field.kind, ArrayOf)


def _code_field(cls: type[object], version: int) -> str | None:
    return next((field.name for field in _fields(cls, version) if field.name in CODE_FIELDS), None)


def _carries_code(cls: type[object], version: int) -> bool:
    """Whether a structure has a field for an error code, itself or in a nested structure."""
    if _code_field(cls, version) is not None:
        return True
    return any(
        isinstance(field.kind, ArrayOf)
        and isinstance(field.kind.element, StructOf)
        and _carries_code(field.kind.element.cls, version)
        for field in _fields(cls, version)
    )


def _answer_lists(cls: type[object], version: int) -> list[FieldSpec]:
    return [
        field
        for field in _fields(cls, version)
        if isinstance(field.kind, ArrayOf)
        and isinstance(field.kind.element, StructOf)
        and _carries_code(field.kind.element.cls, version)
    ]


def _partners(asked: type[object], answer: type[object], version: int) -> list[tuple[FieldSpec, FieldSpec]]:
    """Match lists of the request to lists of the response: by name, else the only list that there is."""
    if asked in (str, int) or issubclass(asked, bytes):
        return []
    mine = [field for field in _fields(asked, version) if _is_list(field) and field.name not in NOT_ASKED]
    theirs = _answer_lists(answer, version)
    named = [(one, other) for one in mine for other in theirs if one.name == other.name]
    if named or len(theirs) != 1:
        return named
    structures = [one for one in mine if isinstance(one.kind, ArrayOf) and isinstance(one.kind.element, StructOf)]
    return [(one, theirs[0]) for one in structures or mine[:1]]


def _merge(into: Any, other: Any) -> None:  # noqa: ANN401 -- objects of any declared class
    """Insert the refused elements into a response of the same class."""
    for field in spec_of(type(into)).fields:
        added = getattr(other, field.name)
        if not (isinstance(field.kind, ArrayOf) and isinstance(field.kind.element, StructOf) and added):
            continue
        there = getattr(into, field.name) or []
        for element in added:
            same = next((one for one in there if _identity(one) == _identity(element)), None)
            if same is None:
                there.append(element)
            else:
                _merge(same, element)
        setattr(into, field.name, there)


def _identity(one: object) -> tuple[object, ...]:
    names = (*TOPIC_FIELDS, *PARTITION_FIELDS, "topic_id", "group_id", "key", "resource_type", "resource_name")
    return tuple(getattr(one, name, None) for name in names)
