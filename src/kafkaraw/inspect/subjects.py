"""What a message is about: the topics, groups and transactional ids that it names, and the errors that it reports.

The fields are found by their names in the declarations, so that nothing here is specific to one API. Which fields of a
class matter is worked out once. Pure. Start at `Subjects.of` and `errors_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, StructOf, spec_of
from kafkaraw.protocol.error_codes import error_name
from kafkaraw.protocol.types import INT16, STRING, UUID, ZERO_UUID, Uuid

NAMES_MAX: Final = 1000
"""Names and errors that are collected of one message; a response about 100,000 partitions may have more."""
_TOPIC_FIELDS: Final = frozenset({"topic", "topic_name", "name"})
_GROUP_FIELDS: Final = frozenset({"group_id", "group", "group_ids", "groups", "groups_names"})
_TRANSACTION_FIELDS: Final = frozenset({"transactional_id", "transactional_ids", "v3_and_below_transactional_id"})
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


@dataclass(frozen=True, slots=True)
class Subjects:
    """What a message names, each name once, in the order of the message.

    Attributes:
        topics: names of topics.
        topic_ids: ids of topics that the message does not name.
        groups: ids of consumer, share and streams groups.
        transactional_ids: ids of transactional producers.
    """

    topics: tuple[str, ...] = ()
    topic_ids: tuple[Uuid, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, message: object) -> Subjects:
        """Return what a decoded message names; messages above `NAMES_MAX` names are read as far as that."""
        found = _Found()
        _collect(message, found, in_topics=False)
        if type(message).__name__ == "FindCoordinatorRequest":
            _collect_coordinator_keys(message, found)
        return cls(tuple(found.topics), tuple(found.topic_ids), tuple(found.groups), tuple(found.transactional_ids))


class ErrorAt(NamedTuple):
    """An error code in a response.

    Attributes:
        path: of the field, as `responses[0].partition_responses[1].error_code`.
        code: the code; never 0.
        message: the broker's words beside it; empty if it has none.
    """

    path: str
    code: int
    message: str

    @property
    def name(self) -> str:
        """Kafka's name of the code."""
        return error_name(self.code)


def errors_of(message: object) -> list[ErrorAt]:
    """Return the error codes of a decoded response other than 0, in its order; at most `NAMES_MAX`."""
    found: list[ErrorAt] = []
    for error in _errors(message, ""):
        found.append(error)
        if len(found) == NAMES_MAX:
            break
    return found


class _Found:
    def __init__(self) -> None:
        self.topics: dict[str, None] = {}
        self.topic_ids: dict[Uuid, None] = {}
        self.groups: dict[str, None] = {}
        self.transactional_ids: dict[str, None] = {}

    @property
    def is_full(self) -> bool:
        return len(self.topics) + len(self.topic_ids) + len(self.groups) >= NAMES_MAX


class _Plan(NamedTuple):
    """The fields of a class that are looked at, in order; the others, and structures without any, are passed over.

    Attributes:
        texts: the name of a field, and what it names.
        nested: the name of a field of structures, and whether these are within topics.
    """

    texts: tuple[tuple[str, str], ...]
    nested: tuple[tuple[str, bool], ...]


class _Codes(NamedTuple):
    """The fields of a class with error codes, and those of structures that have some, and whether they are arrays."""

    names: tuple[str, ...]
    nested: tuple[tuple[str, bool], ...]


_TOPICS, _GROUPS, _TRANSACTIONS = "topics", "groups", "transactional ids"
_plans: dict[tuple[type[object], bool], _Plan] = {}
_codes: dict[type[object], _Codes] = {}


def _plan(cls: type[object], in_topics: bool) -> _Plan:
    plan = _plans.get((cls, in_topics))
    if plan is None:
        plan = _plans[cls, in_topics] = _planned(cls, in_topics)
    return plan


def _planned(cls: type[object], in_topics: bool) -> _Plan:
    texts, nested = [], []
    for field in spec_of(cls).fields:
        kind = field.kind.element if isinstance(field.kind, ArrayOf) else field.kind
        if isinstance(kind, StructOf):
            below = "topic" in field.name or (in_topics and "partition" in field.name) or field.name == "responses"
            inner = _plan(kind.cls, below)
            if inner.texts or inner.nested:
                nested.append((field.name, below))
        elif kind in (STRING, UUID):
            category = _category(field, in_topics)
            if category:
                texts.append((field.name, category))
    return _Plan(tuple(texts), tuple(nested))


def _category(field: FieldSpec, in_topics: bool) -> str:
    """Return what a field of text or of an id names; empty for something else."""
    if field.name in _GROUP_FIELDS:
        return _GROUPS
    if field.name in _TRANSACTION_FIELDS:
        return _TRANSACTIONS
    if field.name == "topic_id" or (field.kind is not UUID and _is_topic(field, in_topics)):
        return _TOPICS
    return ""


def _codes_of(cls: type[object]) -> _Codes:
    codes = _codes.get(cls)
    if codes is None:
        names, nested = [], []
        for field in spec_of(cls).fields:
            is_array = isinstance(field.kind, ArrayOf)
            kind = field.kind.element if isinstance(field.kind, ArrayOf) else field.kind
            if isinstance(kind, StructOf) and any(_codes_of(kind.cls)):
                nested.append((field.name, is_array))
            elif field.kind is INT16 and field.name.endswith("error_code"):
                names.append(field.name)
        codes = _codes[cls] = _Codes(tuple(names), tuple(nested))
    return codes


def _elements(message: object, name: str) -> list[Any]:
    value = getattr(message, name)
    return [] if value is None else value if isinstance(value, list) else [value]


def _collect(message: object, found: _Found, *, in_topics: bool) -> None:
    plan = _plan(type(message), in_topics)
    for name, category in plan.texts:
        values = _elements(message, name)
        if category is _GROUPS:
            found.groups.update(dict.fromkeys(filter(None, values)))
        elif category is _TRANSACTIONS:
            found.transactional_ids.update(dict.fromkeys(filter(None, values)))
        else:
            _add_topics(values, found)
    for name, below in plan.nested:
        if found.is_full:
            return
        for one in _elements(message, name):
            _collect(one, found, in_topics=below)


def _is_topic(field: FieldSpec, in_topics: bool) -> bool:
    if field.name in _TOPIC_FIELDS:
        return in_topics or field.name != "name"
    return isinstance(field.kind, ArrayOf) and "topic" in field.name


def _add_topics(values: list[Any], found: _Found) -> None:
    for value in values:
        if isinstance(value, Uuid):
            if value != ZERO_UUID:
                found.topic_ids[value] = None
        elif value:
            found.topics[value] = None


def _collect_coordinator_keys(message: Any, found: _Found) -> None:  # noqa: ANN401 - of the class that was checked
    keys = [key for key in (message.key, *message.coordinator_keys) if key]
    if message.key_type == _TRANSACTION_KEY:
        found.transactional_ids.update(dict.fromkeys(keys))
    else:  # the key of a share partition is group:topic id:partition
        found.groups.update(dict.fromkeys(key if message.key_type == _GROUP_KEY else key.split(":")[0] for key in keys))


def _errors(message: object, path: str) -> Iterator[ErrorAt]:
    codes = _codes_of(type(message))
    for name in codes.names:
        code = getattr(message, name)
        if code:
            words = getattr(message, name.replace("error_code", "error_message"), None)
            yield ErrorAt(path + name, code, words if isinstance(words, str) else "")
    for name, is_array in codes.nested:
        for index, one in enumerate(_elements(message, name)):
            yield from _errors(one, f"{path}{name}[{index}]." if is_array else f"{path}{name}.")
