"""The language of filters over records: `$.user.id = 7 AND key:abc AND refused`.

A filter is terms joined by AND. A term is a path into the value (`$.user.id = 7`, `$.tags[*] = "x"`), a part of the
record (`key = abc`, `value: abc`, `header.source: web`, where `:` is "contains"), or plain text, which must be in key,
value or a header. Each term tests a record exactly. Many also say which bytes a record must have, so that a scan
decodes few values. Must not do I/O. Start at `parse_filter`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkaraw.console.packed import may_be_packed, unpacked
from kafkaraw.console.shown import MASK, UnreadableJsonError, hides, masked, parsed
from kafkaraw.errors import UsageError

TERMS_MAX: Final = 20
LENGTH_MAX: Final = 2_000
_AND: Final = re.compile(r"\s+AND\s+")
_PATH: Final = re.compile(
    r"(\$(?:\.[^\s.\[\]=!<>~:]+|\[(?:\d+|\*|\"(?:[^\"\\]|\\.)*\")\])*)\s*(!=|<=|>=|=|<|>|~|:)\s*(.+)", re.DOTALL
)
_PART: Final = re.compile(r"(key|value|header\.[^\s=!:]+)\s*(!=|=|:)\s*(.+)", re.DOTALL)
_STEP: Final = re.compile(r"\.([^\s.\[\]]+)|\[(\d+)\]|\[(\*)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_INTEGER_MAX: Final = 10**15
_DIGITS_MAX: Final = 4_000

Value = Callable[[], Any]


@dataclass(frozen=True)
class Candidate:
    """What terms test.

    Attributes:
        key: the key.
        value: the value.
        headers: names and values.
        value_json: returns the value decoded; it raises `UnreadableJsonError`.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    value_json: Value


@dataclass(frozen=True)
class NumberOf:
    """A comparison of a number with a field that a value may have once.

    Attributes:
        pattern: a regex with the group `number` where the field's number is.
        field: the field as it is written.
        operator: one of `<`, `<=`, `>` and `>=`.
        wanted: the other number.
    """

    pattern: str
    field: str
    operator: str
    wanted: float


@dataclass(frozen=True)
class Need:
    """What must be found in bytes for a record to match: one of the texts, or the pattern.

    Attributes:
        texts: in UTF-8.
        pattern: a regex of ASCII; None for none.
        number: in JSON, the field whose number decides; None for none.
    """

    texts: tuple[str, ...]
    pattern: str | None = None
    number: NumberOf | None = None


@dataclass(frozen=True)
class Term:
    """A condition.

    Attributes:
        matches: tests a record.
        column: "key", "value", "headers", or "any" for each of them.
        needs: all of them must be found in the bytes of the column for a record to match.
        decodes: whether it needs the value decoded.
    """

    matches: Callable[[Candidate], bool]
    column: str
    needs: tuple[Need, ...] = ()
    decodes: bool = False


def parse_filter(text: str, masks: frozenset[str]) -> tuple[Term, ...]:
    """Return the terms of a filter; none for an empty text.

    Args:
        text: what the reader has written.
        masks: names of fields, in lower case, that must not be asked for.

    Raises:
        UsageError: a term cannot be read, or asks for a masked field.
    """
    if len(text) > LENGTH_MAX:
        raise UsageError(f"the filter has {len(text)} characters; at most {LENGTH_MAX} are read")
    if not text.strip():
        return ()
    terms = list(_terms(text.strip()))
    if len(terms) > TERMS_MAX:
        raise UsageError(f"the filter has {len(terms)} terms; at most {TERMS_MAX} are tested")
    return tuple(_term(each.strip(), masks) for each in terms)


def _terms(text: str) -> Iterator[str]:
    """Return what stands between ANDs that are not in double quotes."""
    start = at = 0
    while (found := _AND.search(text, at)) is not None:
        at = found.end()
        if not _is_quoted(text[start : found.start()]):
            yield text[start : found.start()]
            start = at
    yield text[start:]


def _is_quoted(text: str) -> bool:
    return re.sub(r"\\.", "", text).count('"') % 2 == 1


def _term(text: str, masks: frozenset[str]) -> Term:
    if text.startswith("$"):
        found = _PATH.fullmatch(text)
        if found is None:
            raise UsageError(f"{text[:80]!r}: a path is written `$.user.id = 7`, with one of = != < <= > >= ~")
        return _path_term(found[1], found[2], found[3].strip(), masks)
    part = _PART.fullmatch(text)
    if part is not None:
        return _part_term(part[1], part[2], part[3].strip(), masks)
    return _plain_term(_unquoted(text), masks)


def _unquoted(text: str) -> str:
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            found = json.loads(text)
        except ValueError:
            return text
        assert isinstance(found, str)
        return found
    return text


# -- plain text, and parts of a record


def _contains(text: str, masks: frozenset[str]) -> Callable[[bytes | None], bool]:
    wanted = text.encode("utf-8", "surrogatepass")

    def contains(data: bytes | None) -> bool:
        return data is not None and wanted in (_seen(data, masks) if masks else data)

    return contains


def _seen(data: bytes, masks: frozenset[str]) -> bytes:
    """Return what a reader sees of bytes: a search must not find what is masked."""
    found: Any = None
    if may_be_packed(data):
        with contextlib.suppress(ValueError):
            found = unpacked(data)
    try:
        found = parsed(data) if found is None else found
    except UnreadableJsonError:
        return MASK.encode() if hides(data, masks) else data
    return json.dumps(masked(found, masks), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _plain_term(text: str, masks: frozenset[str]) -> Term:
    contains = _contains(text, masks)

    def matches(record: Candidate) -> bool:
        return (
            contains(record.value)
            or contains(record.key)
            or any(
                contains(name.encode()) or (name.lower() not in masks and contains(each))
                for name, each in record.headers
            )
        )

    return Term(matches, "any", () if masks else (Need((text,)),))


def _part_term(part: str, operator: str, text: str, masks: frozenset[str]) -> Term:
    text = _unquoted(text)
    wanted = text.encode("utf-8", "surrogatepass")
    contains = _contains(text, masks)

    def test(data: bytes | None) -> bool:
        if operator == ":":
            return contains(data)
        is_same = data is not None and (_seen(data, masks) if masks else data) == wanted
        return is_same == (operator == "=")

    needs = () if operator == "!=" or masks or not text else (Need((text,)),)
    if part == "key":
        return Term(lambda record: test(record.key), "key", needs)
    if part == "value":
        return Term(lambda record: test(record.value), "value", needs)
    name = part.removeprefix("header.")
    if name.lower() in masks:
        raise UsageError(f"header {name!r} is masked: it cannot be searched")

    def matches(record: Candidate) -> bool:
        found = [each for known, each in record.headers if known == name]
        return any(map(test, found)) if operator != "!=" else all(map(test, found))

    return Term(matches, "headers")


# -- paths into values


def _path_term(path: str, operator: str, text: str, masks: frozenset[str]) -> Term:
    steps = [_step(found) for found in _STEP.finditer(path)]
    secret = next((step for step in steps if isinstance(step, str) and step.lower() in masks), None)
    if secret is not None:
        raise UsageError(f"field {secret!r} is masked: it cannot be searched")
    wanted = _literal(text)
    if isinstance(wanted, dict | list) and masks:
        raise UsageError(f"{text[:40]!r}: objects cannot be compared while fields are masked")
    test = _TESTS[operator if operator != ":" else "~"](wanted)

    def matches(record: Candidate) -> bool:
        try:
            found = list(_at(masked(record.value_json(), masks), steps))
        except UnreadableJsonError:
            return False
        if operator == "!=":
            return bool(found) and all(map(test, found))
        return any(map(test, found))

    return Term(matches, "value", _needed(steps, operator, wanted), decodes=True)


class _Every:
    """The step `[*]`."""


def _step(found: re.Match[str]) -> str | int | _Every:
    if found[1] is not None:
        return found[1]
    if found[2] is not None:
        return int(found[2]) if len(found[2]) < 10 else 10**9
    return _Every() if found[3] is not None else str(json.loads(found[4]))


def _at(value: Any, steps: Sequence[str | int | _Every]) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Return what a path leads to."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, _Every):
        inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        for each in inner:
            yield from _at(each, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from _at(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _at(value[step], rest)


def _literal(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return what is written behind an operator: JSON, or else the text itself."""
    if len(text) > _DIGITS_MAX:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text[1:-1] if text[:1] == "'" and text[-1:] == "'" and len(text) > 1 else text


def _equal(wanted: Any) -> Callable[[Any], bool]:  # noqa: ANN401
    def test(found: Any) -> bool:  # noqa: ANN401
        return (type(found) is type(wanted) and bool(found == wanted)) or (
            _is_number(found) and _is_number(wanted) and found == wanted
        )

    return test


def _ordered(wanted: Any, compare: Callable[[Any, Any], bool]) -> Callable[[Any], bool]:  # noqa: ANN401
    def test(found: Any) -> bool:  # noqa: ANN401
        is_alike = (_is_number(found) and _is_number(wanted)) or (isinstance(found, str) and isinstance(wanted, str))
        return is_alike and compare(found, wanted)

    return test


def _containing(wanted: Any) -> Callable[[Any], bool]:  # noqa: ANN401
    text = wanted if isinstance(wanted, str) else json.dumps(wanted, ensure_ascii=False)

    def test(found: Any) -> bool:  # noqa: ANN401
        return text in (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str))

    return test


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TESTS: Final[dict[str, Callable[[Any], Callable[[Any], bool]]]] = {
    "=": _equal,
    "!=": lambda wanted: lambda found: not _equal(wanted)(found),
    "<": lambda wanted: _ordered(wanted, lambda one, other: bool(one < other)),
    "<=": lambda wanted: _ordered(wanted, lambda one, other: bool(one <= other)),
    ">": lambda wanted: _ordered(wanted, lambda one, other: bool(one > other)),
    ">=": lambda wanted: _ordered(wanted, lambda one, other: bool(one >= other)),
    "~": _containing,
}


def _needed(steps: Sequence[str | int | _Every], operator: str, wanted: Any) -> tuple[Need, ...]:  # noqa: ANN401
    """Return what JSON must have for the term to be true, however it escapes texts and writes numbers."""
    names = [step for step in steps if isinstance(step, str)]
    if not names:
        return ()
    name = names[-1]
    if name is not steps[-1] or not _is_plain(name):
        return (_as_written(name, '"'),)
    before = f'"{re.escape(name)}"\\s*:\\s*'
    if operator == "=" and isinstance(wanted, str) and _is_plain(wanted):
        return (Need(("\\",), f'{before}"{re.escape(wanted)}"'),)
    if operator == "=" and isinstance(wanted, int) and not isinstance(wanted, bool) and 0 < wanted < _INTEGER_MAX:
        return (Need(("\\",), f"{before}(?:{wanted}|[0-9.]+[eE])"),)
    if operator in _ORDERS and _is_number(wanted) and abs(wanted) < _INTEGER_MAX:
        return (Need((), None, NumberOf(f"{before}(?P<number>{_JSON_NUMBER})", f'"{name}"', operator, float(wanted))),)
    return (_as_written(name, '"'),)


_ORDERS: Final = ("<", "<=", ">", ">=")
_JSON_NUMBER: Final = "-?[0-9]+(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?"


def _is_plain(text: str) -> bool:
    """Return whether JSON writes a text as it is, unless it escapes without need."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _as_written(text: str, quote: str = "") -> Need:
    """Return how a text is found in JSON: as it is, or with a character escaped."""
    return Need((f"{quote}{text}{quote}" if _is_plain(text) else text, "\\"))
