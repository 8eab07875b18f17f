"""What two conversations ask differently: APIs and versions, their order, the fields of requests, and errors.

Values that differ from run to run are left out: ids that brokers assign, records, tokens. Pure. Start at `compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Final

from kafkaraw.inspect.exchanges import Exchange, ExchangeKind
from kafkaraw.inspect.tap.lines import plain, without_secrets
from kafkaraw.light_classes import NamedTuple, dataclass, field

VOLATILE: Final = frozenset(
    {
        "auth_bytes",
        "client_instance_id",
        "current_leader_epoch",
        "generation_id",
        "leader_epoch",
        "member_epoch",
        "member_id",
        "metadata",
        "producer_epoch",
        "producer_id",
        "records",
        "session_epoch",
        "session_id",
        "topic_id",
        "assignment",
    }
)
ORDERED_MAX: Final = 2000
FIELDS_MAX: Final = 200


class Use(NamedTuple):
    """How a conversation uses an API.

    Attributes:
        versions: the versions of its requests, ascending.
        requests: how many.
        errors: names of the errors in the answers.
    """

    versions: tuple[int, ...]
    requests: int
    errors: tuple[str, ...]


class FieldDifference(NamedTuple):
    """A field of the first request of an API.

    Attributes:
        api: the API.
        path: of the field in the request.
        first, second: its value in either conversation; None if its version does not have it, or it is not sent.
    """

    api: str
    path: str
    first: Any
    second: Any


@dataclass(slots=True)
class Comparison:
    """What differs.

    Attributes:
        uses: of each API, in the order in which they appear: how either conversation uses it, None if not at all.
        order: runs of APIs as in a unified diff: (" ", "-" or "+", API).
        fields: fields that differ.
    """

    uses: dict[str, tuple[Use | None, Use | None]] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    fields: list[FieldDifference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether both ask the same in the same order."""
        same = all(
            one is not None and other is not None and one[::2] == other[::2] for one, other in self.uses.values()
        )
        return same and not self.fields and all(mark == " " for mark, _ in self.order)


def compare(first: Sequence[Exchange], second: Sequence[Exchange]) -> Comparison:
    """Compare two conversations, each of any connections, by the times of their requests."""
    sides = [sorted((one for one in side if one.request is not None), key=_begin) for side in (first, second)]
    names = list(dict.fromkeys(_name(one) for side in sides for one in side))
    found = Comparison()
    for name in names:
        of_name = [[one for one in side if _name(one) == name] for side in sides]
        found.uses[name] = _use(of_name[0]), _use(of_name[1])
        if of_name[0] and of_name[1]:
            found.fields += _field_differences(name, of_name[0][0], of_name[1][0])
    found.order = list(_order([name for name, _ in groupby(map(_name, side))] for side in sides))
    return found


def _begin(exchange: Exchange) -> float:
    return exchange.began_s


def _name(exchange: Exchange) -> str:
    if exchange.kind is ExchangeKind.REQUEST and exchange.api is None:
        return f"API {exchange.api_key}"
    return exchange.api.name if exchange.api is not None else exchange.kind.value


def _use(exchanges: list[Exchange]) -> Use | None:
    if not exchanges:
        return None
    errors = Counter(error.name for one in exchanges for error in one.errors)
    return Use(tuple(sorted({one.version for one in exchanges})), len(exchanges), tuple(sorted(errors)))


def _order(sides: Iterator[list[str]]) -> Iterator[tuple[str, str]]:
    first, second = (side[:ORDERED_MAX] for side in sides)
    for kind, begin, end, other_begin, other_end in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((" ", name) for name in first[begin:end])
        else:
            yield from (("-", name) for name in first[begin:end])
            yield from (("+", name) for name in second[other_begin:other_end])


def _field_differences(name: str, first: Exchange, second: Exchange) -> Iterator[FieldDifference]:
    sides = [dict(_flat(plain(without_secrets(one).request_body, one.version), "")) for one in (first, second)]
    paths = list(dict.fromkeys([*sides[0], *sides[1]]))[:FIELDS_MAX]
    if first.client_id != second.client_id:
        yield FieldDifference(name, "header.client_id", first.client_id, second.client_id)
    for path in paths:
        if sides[0].get(path) != sides[1].get(path):
            yield FieldDifference(name, path, sides[0].get(path), sides[1].get(path))


def _flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in VOLATILE and name != "unknown_tagged_fields":
                yield from _flat(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{number}]")
    else:
        yield path, value
