"""A conversation as a sequence diagram: who said what to whom, and the states that this led to. As text, and as SVG.

Messages of several connections are put in the order of their times. Fetch requests and heartbeats in a row that bring
nothing new are one message with a count. Pure. Start at `sequence_of`; `as_text` and `as_svg` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from kafkaraw.inspect.exchanges import Exchange, ExchangeKind
from kafkaraw.inspect.protocol_states import States, Transition
from kafkaraw.inspect.tap.lines import errors_in, names_text
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.readable import latency_text

REPEATED_APIS: Final = frozenset(
    {"Fetch", "ShareFetch", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "Metadata", "Produce"}
)
LANES_MAX: Final = 6
LANE_WIDTH_MIN: Final = 40
TIME_WIDTH: Final = 10
SVG_LANE, SVG_LEFT, SVG_TOP, SVG_ROW = 300, 110, 60, 24
SVG_STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.name{font-weight:bold}.time{fill:#777}.life{stroke:#bbb}"
    ".arrow{stroke:#246;fill:none}.error{fill:#b00020}.state{fill:#06603a;font-style:italic}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.time{fill:#999}.life{stroke:#555}.arrow{stroke:#8bf}"
    ".error{fill:#ff8a8a}.state{fill:#7dd8a4}}"
)


@dataclass(slots=True)
class Message:
    """One arrow of the diagram.

    Attributes:
        at_s: time, in seconds from the first message.
        source, target: indexes of the participants.
        label: API and version, what it is about, and for answers the time that they took.
        errors: the errors that it reports.
        changes: the states that it led to.
        repeated: how many more of the same followed.
    """

    at_s: float
    source: int
    target: int
    label: str
    errors: list[str] = field(default_factory=list)
    changes: list[Transition] = field(default_factory=list)
    repeated: int = 0


@dataclass(slots=True)
class Sequence:
    """A sequence diagram.

    Attributes:
        participants: clients and brokers, in the order in which they appear.
        messages: in the order of their times.
    """

    participants: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


class _Moment(NamedTuple):
    at_s: float
    order: int
    exchange: Exchange
    is_request: bool


def sequence_of(exchanges: Iterable[Exchange], *, repeated: bool = False) -> Sequence:
    """Return the diagram of exchanges of any connections.

    Args:
        exchanges: in any order.
        repeated: draw repeated messages, too.
    """
    drawn = _Drawing(repeated)
    for moment in sorted(_moments(exchanges), key=lambda one: one[:2]):
        drawn.add(moment)
    return drawn.sequence


def _moments(exchanges: Iterable[Exchange]) -> Iterator[_Moment]:
    for number, exchange in enumerate(exchanges):
        if exchange.request is not None:
            yield _Moment(exchange.request.began_s, 2 * number, exchange, True)
        if exchange.response is not None:
            yield _Moment(exchange.response.ended_s, 2 * number + 1, exchange, False)


class _Drawing:
    """Turns moments into messages."""

    def __init__(self, repeated: bool) -> None:
        self.sequence = Sequence()
        self._states = States()
        self._repeated = repeated
        self._begin_s: float | None = None
        self._numbers: dict[str, int] = {}
        self._last: dict[tuple[int, int], tuple[str, Message]] = {}  # of each pair of ends: what was said last

    def add(self, moment: _Moment) -> None:
        """Add a request or an answer."""
        exchange = moment.exchange
        if self._begin_s is None:
            self._begin_s = moment.at_s
        client = self._number(f"{exchange.client_id or 'client'} {exchange.connection.client.rpartition(':')[0]}")
        broker = self._number(f"broker {exchange.connection.broker}")
        ends = (client, broker) if moment.is_request else (broker, client)
        changes = self._states.request(exchange) if moment.is_request else self._states.response(exchange)
        errors = [] if moment.is_request else [error.name for error in errors_in(exchange)]
        message = Message(moment.at_s - self._begin_s, *ends, self._label(moment), list(dict.fromkeys(errors)), changes)
        known = self._last.get(ends)
        name = exchange.api.name if exchange.api is not None else exchange.name
        if known is not None and not self._repeated and self._is_repeated(name, known, message):
            known[1].repeated += 1
            return
        self._last[ends] = (name, message)
        self.sequence.messages.append(message)

    def _is_repeated(self, name: str, known: tuple[str, Message], message: Message) -> bool:
        nothing_new = not message.changes and message.errors == known[1].errors
        return name in REPEATED_APIS and known[0] == name and nothing_new

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            self.sequence.participants.append(name)
        return self._numbers[name]

    def _label(self, moment: _Moment) -> str:
        exchange = moment.exchange
        subjects = exchange.subjects
        if not moment.is_request:
            latency = "" if exchange.latency_s is None else f", {latency_text(exchange.latency_s)}"
            return f"{exchange.name}{latency}"
        if exchange.kind is not ExchangeKind.REQUEST:
            return exchange.name
        about = names_text((*exchange.topics, *subjects.groups, *subjects.transactional_ids))
        return f"{exchange.name} {about}".rstrip()


def as_text(sequence: Sequence) -> Iterator[str]:
    """Yield the lines of the diagram."""
    if len(sequence.participants) > LANES_MAX:
        yield from _as_list(sequence)
        return
    names = sequence.participants
    longest = max((len(_text_of(message)) for message in sequence.messages), default=0) + 6
    width = max(LANE_WIDTH_MIN, *(len(name) + 4 for name in names), min(longest, 56)) if names else LANE_WIDTH_MIN
    yield " " * TIME_WIDTH + "".join(f"{name:<{width}}" for name in names).rstrip()
    bars = [TIME_WIDTH + number * width + 2 for number in range(len(names))]
    for message in sequence.messages:
        yield _arrow(message, bars)
        for words in (*(f"! {error}" for error in message.errors), *(f"* {change}" for change in message.changes)):
            yield _bars(bars[: min(message.source, message.target) + 1], bars[-1]) + f"   {words}"


def _bars(bars: list[int], end: int) -> str:
    line = [" "] * (end + 1)
    for bar in bars:
        line[bar] = "│"
    return "".join(line).rstrip()


def _arrow(message: Message, bars: list[int]) -> str:
    line = list(_bars(bars, bars[-1]).ljust(bars[-1] + 1))
    line[:TIME_WIDTH] = f"{message.at_s:8.3f}s ".ljust(TIME_WIDTH)[:TIME_WIDTH]
    left, right = sorted((bars[message.source], bars[message.target]))
    label = _text_of(message)
    room = right - left - 5
    shown = f" {label} " if len(label) <= room else f" {label[: room - 3]}... "
    body = shown.center(right - left - 1, "─")
    if message.source < message.target:
        body = body[:-1] + "▶"
    else:
        body = "◀" + body[1:]
    line[left + 1 : right] = body
    return "".join(line).rstrip()


def _as_list(sequence: Sequence) -> Iterator[str]:
    for message in sequence.messages:
        source, target = sequence.participants[message.source], sequence.participants[message.target]
        yield f"{message.at_s:8.3f}s {source} → {target}: {_text_of(message)}"
        yield from (f"            ! {error}" for error in message.errors)
        yield from (f"            * {change}" for change in message.changes)


def _text_of(message: Message) -> str:
    return f"{message.label} (and {message.repeated} more)" if message.repeated else message.label


def as_svg(sequence: Sequence) -> str:
    """Return the diagram as an SVG image, for light and dark backgrounds."""
    middle = [SVG_LEFT + SVG_LANE // 2 + number * SVG_LANE for number in range(len(sequence.participants))]
    rows: list[str] = []
    y = SVG_TOP
    for message in sequence.messages:
        rows += _svg_arrow(message, middle, y)
        y += SVG_ROW
        left = min(middle[message.source], middle[message.target]) + 12
        for kind, words in (
            *(("error", error) for error in message.errors),
            *(("state", str(change)) for change in message.changes),
        ):
            rows.append(f'<text class="{kind}" x="{left}" y="{y - 4}">{escape(words)}</text>')
            y += SVG_ROW - 6
    width, height = SVG_LEFT + SVG_LANE * max(1, len(middle)), y + 20
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{SVG_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="arrow" d="M0,0 8,4 0,8"/></marker></defs>',
    ]
    for x, name in zip(middle, sequence.participants, strict=True):
        head.append(f'<text class="name" text-anchor="middle" x="{x}" y="24">{escape(name)}</text>')
        head.append(f'<line class="life" x1="{x}" x2="{x}" y1="34" y2="{height - 10}"/>')
    return "\n".join([*head, *rows, "</svg>"]) + "\n"


def _svg_arrow(message: Message, middle: list[int], y: int) -> Iterator[str]:
    source, target = middle[message.source], middle[message.target]
    words = escape(_text_of(message))
    yield f'<text class="time" text-anchor="end" x="{SVG_LEFT - 20}" y="{y}">{message.at_s:.3f} s</text>'
    yield f'<text text-anchor="middle" x="{(source + target) // 2}" y="{y - 4}">{words}</text>'
    yield f'<line class="arrow" x1="{source}" x2="{target}" y1="{y}" y2="{y}" marker-end="url(#tip)"/>'
