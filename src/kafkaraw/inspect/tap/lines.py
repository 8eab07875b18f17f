"""Exchanges as text: one line each, with the fields or the annotated bytes below it, or as JSON. Pure.

Start at `Lines.text` and `Lines.json`; `Filter` says which exchanges are shown.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Final

from kafkaraw.inspect.annotation import Annotation
from kafkaraw.inspect.exchanges import Exchange, Frame
from kafkaraw.inspect.frames import FrameKind, Reading, annotate_frame
from kafkaraw.inspect.render import Row, hex_of, rows_of
from kafkaraw.inspect.subjects import ErrorAt
from kafkaraw.inspect.tap.masking import masked_frames
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.declare import spec_of
from kafkaraw.protocol.error_codes import ERROR_TABLE
from kafkaraw.protocol.printable import printable
from kafkaraw.protocol.types import Uuid
from kafkaraw.readable import latency_text, size_text

NAMES_SHOWN_MAX: Final = 5
NAME_CHARS_MAX: Final = 249  # the longest name of a topic
CLIENT_CHARS_MAX: Final = 80
ROWS_MAX: Final = 400
"""Fields of one message that are shown; a batch may have thousands of records."""
HEX_BYTES: Final = 16
ORDINARY_CODES: Final = frozenset({79})
"""Codes that are part of a protocol: MEMBER_ID_REQUIRED answers the first JoinGroup of each member (KIP-394)."""
BOOTSTRAP: Final = "bootstrap"
_RED, _YELLOW, _DIM, _BOLD, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which exchanges are shown; a field that is empty or None lets all of them through.

    Attributes:
        api_keys: of the request.
        client_ids: of the request.
        topics, groups: that the request names; a transactional id counts as a group.
        only_errors: those with an error in the answer, or without one that was due.
        slower_than_ms: those whose answer took longer.
    """

    api_keys: frozenset[int] = frozenset()
    client_ids: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    only_errors: bool = False
    slower_than_ms: float | None = None

    def fits(self, exchange: Exchange) -> bool:
        """Return whether an exchange is shown."""
        if self.api_keys and exchange.api_key not in self.api_keys:
            return False
        if self.client_ids and exchange.client_id not in self.client_ids:
            return False
        if self.slower_than_ms is not None and (exchange.latency_s or 0.0) * 1000 <= self.slower_than_ms:
            return False
        if self.topics and self.topics.isdisjoint(exchange.topics):
            return False
        if self.groups and self.groups.isdisjoint((*exchange.subjects.groups, *exchange.subjects.transactional_ids)):
            return False
        return not self.only_errors or bool(errors_in(exchange) or exchange.ended or exchange.fault)


def errors_in(exchange: Exchange) -> list[ErrorAt]:
    """Return the errors in an answer that are no ordinary part of a protocol."""
    return [error for error in exchange.errors if error.code not in ORDINARY_CODES]


class Lines:
    """Writes exchanges.

    Args:
        verbosity: 0 is a line for each exchange, 1 adds the fields, 2 the annotated bytes.
        color: use the colors of terminals.
        with_secrets: show SASL tokens, credentials and configurations that clients set.
        with_addresses: show the address of the broker in place of its node id.
    """

    def __init__(
        self, verbosity: int = 0, *, color: bool = False, with_secrets: bool = False, with_addresses: bool = False
    ) -> None:
        self._with_addresses = with_addresses
        self._verbosity = verbosity
        self._color = color
        self._with_secrets = with_secrets

    def text(self, exchange: Exchange) -> str:
        """Return an exchange as lines, the last one with a line break."""
        lines = [self._summary(exchange)]
        if self._verbosity:
            for kind, rows in self._messages(exchange):
                lines.append(self._styled(_BOLD, f"    {kind}"))
                lines += [f"      {line}" for line in (_bytes_of(rows) if self._verbosity > 1 else _fields_of(rows))]
        return "\n".join(lines) + "\n"

    def json(self, exchange: Exchange) -> str:
        """Return an exchange as one line of JSON; with `verbosity`, the messages, too."""
        latency_s, subjects = exchange.latency_s, exchange.subjects
        found: dict[str, object] = {
            "time": _time_of(exchange).isoformat(timespec="microseconds"),
            "connection": exchange.connection.number,
            "client": exchange.connection.client,
            "client_id": exchange.client_id,
            "broker": exchange.connection.broker,
            "node_id": exchange.connection.node_id,
            "kind": exchange.kind.name.lower(),
            "api": exchange.api.name if exchange.api else None,
            "api_key": exchange.api_key if exchange.api_key >= 0 else None,
            "version": exchange.version if exchange.version >= 0 else None,
            "correlation_id": exchange.correlation_id,
            "topics": list(exchange.topics),
            "groups": list(subjects.groups),
            "transactional_ids": list(subjects.transactional_ids),
            "request_bytes": exchange.request_bytes,
            "response_bytes": exchange.response_bytes,
            "latency_ms": None if latency_s is None else round(latency_s * 1000, 3),
            "throttle_time_ms": exchange.throttle_time_ms,
            "errors": [
                {"path": error.path, "code": error.code, "name": error.name, "message": error.message}
                for error in exchange.errors
            ],
            "problem": exchange.problem or None,
            "fault": exchange.fault or None,
            "unanswered": exchange.ended or None,
        }
        if self._verbosity:
            shown = exchange if self._with_secrets else without_secrets(exchange)
            found["request"] = plain(shown.request_body, shown.version)
            found["response"] = plain(shown.response_body, shown.response_version)
        return json.dumps(found, ensure_ascii=False) + "\n"

    def _summary(self, exchange: Exchange) -> str:
        connection, latency_s = exchange.connection, exchange.latency_s
        node = BOOTSTRAP if connection.node_id is None else str(connection.node_id)
        node = f"{connection.broker:>21}" if self._with_addresses else node
        latency = "" if latency_s is None else latency_text(latency_s)
        sizes = f"{size_text(exchange.request_bytes):>7} >{size_text(exchange.response_bytes):>8}"
        client = name_text(
            exchange.client_id if exchange.client_id is not None else connection.client, CLIENT_CHARS_MAX
        )
        parts = [
            self._styled(_DIM, f"{_time_of(exchange):%H:%M:%S.%f}"[: (4 if self._color else 0) + 12]),
            f"{client:20}",
            f"{node:>9}",
            self._styled(_BOLD, f"{exchange.name:24}"),
            f"{sizes} {latency:>9}",
        ]
        return "  ".join((*parts, *self._words(exchange))).rstrip()

    def _words(self, exchange: Exchange) -> Iterator[str]:
        """What a request is about, and what came of it."""
        subjects = exchange.subjects
        if subject := ", ".join(
            filter(None, (names_text(exchange.topics), names_text((*subjects.groups, *subjects.transactional_ids))))
        ):
            yield subject
        if exchange.batches:
            records, batches = _counted(sum(exchange.batches), "record"), len(exchange.batches)
            yield f"{records} in {_counted(batches, 'batch', 'batches')}"
        if exchange.throttle_time_ms > 0:
            yield self._styled(_YELLOW, f"throttled for {exchange.throttle_time_ms} ms")
        for text in error_texts(exchange.errors):
            is_ordinary = exchange.errors[0].code in ORDINARY_CODES
            yield self._styled(_YELLOW if is_ordinary else _RED, text)
        if exchange.fault:
            yield self._styled(_YELLOW, f"fault: {exchange.fault}")
        if exchange.ended:
            yield self._styled(_YELLOW, f"no answer: {exchange.ended}")
        if not exchange.is_answered:
            yield "acks=0: has no answer"
        problems = [one for one in exchange.problem.split("; ") if one and "bytes were kept" not in one]
        if problems:
            yield self._styled(_RED, "; ".join(problems))

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._color else text

    def _messages(self, exchange: Exchange) -> Iterator[tuple[str, list[Row]]]:
        if exchange.api is None or not exchange.is_known:
            return
        frames = [None if one is None else bytes(one.data) for one in (exchange.request, exchange.response)]
        if not self._with_secrets:
            frames = list(masked_frames(exchange))
        kinds = (
            (FrameKind.REQUEST, exchange.version, exchange.request),
            (FrameKind.RESPONSE, exchange.response_version, exchange.response),
        )
        for (kind, version, frame), data in zip(kinds, frames, strict=True):
            if data is not None and frame is not None:
                reading = Reading(kind, exchange.api, version, prefixed=False)
                annotated = annotate_frame(memoryview(data), reading)
                annotation = Annotation(data, reading, annotated.root, annotated.error, annotated.canonical)
                yield f"{kind} ({frame.note})" if frame.note else str(kind), list(rows_of(annotation))


def _fields_of(rows: list[Row]) -> Iterator[str]:
    shown = [row for row in rows if row.value and not row.path.startswith("header") and row.kind != "tag section"]
    for row in shown[:ROWS_MAX]:
        words = "; ".join(filter(None, (row.problem, row.meaning)))
        yield f"{row.path.removeprefix('body.')} = {row.value}" + (f"  ({words})" if words else "")
    if len(shown) > ROWS_MAX:
        yield f"and {len(shown) - ROWS_MAX} more fields"


def _bytes_of(rows: list[Row]) -> Iterator[str]:
    for row in rows[:ROWS_MAX]:
        words = "; ".join(filter(None, (row.value, row.problem, row.meaning)))
        field = " " * (2 * row.depth) + row.name
        yield f"{row.bytes_range:>11}  {hex_of(row.data, HEX_BYTES):51}  {field:40}  {words}".rstrip()
    if len(rows) > ROWS_MAX:
        yield f"and {len(rows) - ROWS_MAX} more fields"


def without_secrets(exchange: Exchange) -> Exchange:
    """Return the exchange with masked frames; only for its bodies."""
    found = Exchange(exchange.connection, exchange.kind, None, api_key=exchange.api_key, version=exchange.version)
    request, response = masked_frames(exchange)
    if exchange.request is not None and request is not None:
        found.request = Frame(request, exchange.request.size_bytes, 0.0, 0.0)
    if exchange.response is not None and response is not None:
        found.response = Frame(response, exchange.response.size_bytes, 0.0, 0.0)
    return found


def plain(value: object, version: int) -> object:
    """Return a message as JSON's types, with the fields of its version: bytes as hex, ids as Kafka writes them."""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list):
        return [plain(one, version) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    fields = [field.name for field in spec_of(type(value)).fields if field.versions.includes(version)]
    return {name: plain(getattr(value, name), version) for name in fields}


def error_texts(errors: list[ErrorAt]) -> Iterator[str]:
    """Return the errors of an answer in words, each code once, with its meaning and where it is."""
    by_code: dict[int, list[ErrorAt]] = {}
    for error in errors:
        by_code.setdefault(error.code, []).append(error)
    for code, found in by_code.items():
        row = ERROR_TABLE.get(code)
        words = printable(found[0].message) or (row.meaning if row is not None else "")
        where = found[0].path if len(found) == 1 else f"{len(found)} times"
        yield f"{found[0].name}: {words} ({where})" if words else f"{found[0].name} ({where})"


def _counted(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


def name_text(name: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """Return a name that a peer has chosen for a terminal: without control characters, and cut if it is long."""
    shown = printable(name)
    return shown if len(shown) <= chars_max else f"{shown[: chars_max - 3]}..."


def names_text(names: tuple[str, ...]) -> str:
    """Return names in one text, the first ones of many."""
    shown = ", ".join(name_text(name) for name in names[:NAMES_SHOWN_MAX])
    return f"{shown} and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else shown


def _time_of(exchange: Exchange) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(exchange.began_s).astimezone()
