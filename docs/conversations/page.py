"""An annotated conversation as one HTML file: bytes on the left, their meaning on the right, each highlights the other.

The file has its style and its script in it, and needs neither: without them it is a list of tables. Start at `page_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from docs.conversations.stories import Part, Story
from kafkaraw.inspect.annotation import Annotation
from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.exchanges import Exchange, Frame
from kafkaraw.inspect.frames import FrameKind, Reading, annotate_frame
from kafkaraw.inspect.meaning import summary_of
from kafkaraw.inspect.protocol_states import States, Transition
from kafkaraw.inspect.render import INLINE_MARK, Row, rows_of
from kafkaraw.protocol.error_codes import ERROR_TABLE
from kafkaraw.readable import latency_text

ROWS_MAX: Final = 120
"""Fields of one frame that a page shows; an ApiVersions answer has 300."""
QUIET: Final = frozenset({"Fetch", "Heartbeat", "OffsetCommit", "ApiVersions", "Metadata", "FindCoordinator"})
"""APIs that repeat: shown again only with an error or a change of state."""
STYLE: Final = """
:root{--back:#fff;--text:#1d2530;--dim:#66707d;--line:#d9dee5;--mark:#ffe9a8;--name:#0b4f9c;--state:#06603a;--bad:#a8071a}
@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#dde3ea;--dim:#98a2ae;--line:#333c46;--mark:#5c4a12;
--name:#8ab8f5;--state:#7fd6a6;--bad:#ff9a9a}}
body{background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif;max-width:78rem}
body{margin:2rem auto;padding:0 1rem}
code,.bytes,td{font-family:ui-monospace,monospace;font-size:13px}
details{border:1px solid var(--line);border-radius:6px;margin:.6rem 0;padding:.4rem .8rem}
summary{cursor:pointer}summary b{color:var(--name)}summary small{color:var(--dim)}
.step{margin:.3rem 0;color:var(--dim)}.state{color:var(--state);margin:.2rem 0}.error{color:var(--bad);margin:.2rem 0}
.frame{display:grid;grid-template-columns:minmax(16rem,26rem) 1fr;gap:1.2rem;align-items:start;margin:.6rem 0}
.bytes{line-height:1.7;overflow-wrap:anywhere;position:sticky;top:1rem;max-height:92vh;overflow:auto}
.bytes span{border-radius:3px;padding:1px 0}table{border-collapse:collapse;width:100%}
td{vertical-align:top;padding:1px .6rem 1px 0;overflow-wrap:anywhere}
td:first-child{white-space:nowrap}td.meaning{color:var(--dim);font-family:inherit}
.on{background:var(--mark)}tr:focus{outline:2px solid var(--name)}
@media(max-width:50rem){.frame{grid-template-columns:1fr}.bytes{position:static;max-height:12rem}}
"""
SCRIPT: Final = """
for (const frame of document.querySelectorAll('.frame')) {
  const parts = [...frame.querySelectorAll('[data-p]')];
  const within = (one, path) => one === path || one.startsWith(path + '.') || one.startsWith(path + '[');
  const show = (event) => {
    const found = event.type.endsWith('out') ? null : event.target.closest('[data-p]');
    for (const part of parts) {
      part.classList.toggle('on', found !== null && within(part.dataset.p, found.dataset.p));
    }
    const other = found && parts.find((part) => part.dataset.p === found.dataset.p && part.tagName !== found.tagName);
    if (event.type === 'click' && other) other.scrollIntoView({block: 'nearest'});
  };
  for (const kind of ['mouseover', 'mouseout', 'focusin', 'focusout', 'click']) frame.addEventListener(kind, show);
}
"""


def page_of(story: Story, folder: Path) -> str:
    """Return a page about the captures in a folder."""
    parts = "".join(_part(part, story, folder) for part in story.parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(story.title)}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>{escape(story.title)}</h1>\n<p>{_prose(story.text)}</p>\n"
        "<p>Open a message to see its bytes on the left and what they mean on the right; each highlights the other. "
        "The captures are beside this page; <code>kafkaraw wire read FILE -vv</code> shows them in a terminal.</p>\n"
        f"{parts}<script>{SCRIPT}</script></body></html>\n"
    )


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _part(part: Part, story: Story, folder: Path) -> str:
    with (folder / f"{part.capture}.pcapng").open("rb") as file:
        found = [item for item in CaptureReader(file).read() if isinstance(item, Exchange)]
    shown = [one for one in found if not part.client_ids or one.client_id in part.client_ids]
    text = f"<p>{_prose(part.text)}</p>\n" if part.text else ""
    body = "".join(_messages(shown, story))
    return (
        f'<h2>{escape(part.title)}</h2>\n{text}<p><a href="{part.capture}.pcapng">{part.capture}.pcapng</a></p>\n{body}'
    )


def _messages(exchanges: Sequence[Exchange], story: Story) -> Iterator[str]:
    """Yield the messages in the order of their times; those that repeat without news are left out."""
    moments: list[tuple[float, int, Exchange, bool]] = []
    for number, one in enumerate(exchanges):
        if one.request is not None:
            moments.append((one.request.began_s, 2 * number, one, True))
        if one.response is not None:
            moments.append((one.response.ended_s, 2 * number + 1, one, False))
    moments.sort(key=lambda moment: moment[:2])
    states, told, left_out = States(), set[str](), set[int]()
    begin_s = moments[0][0] if moments else 0.0
    for at_s, _, exchange, is_request in moments:
        name = exchange.api.name if exchange.api is not None else exchange.name
        changes = states.request(exchange) if is_request else states.response(exchange)
        if is_request and name in told and name in QUIET and not exchange.errors and not changes:
            left_out.add(id(exchange))
        if id(exchange) in left_out:
            continue
        step = story.steps.get(name, "") if is_request and name not in told else ""
        told.add(name)
        yield _message(exchange, is_request, at_s - begin_s, (step, changes, story.errors))


def _message(
    exchange: Exchange, is_request: bool, at_s: float, words: tuple[str, Iterable[Transition], dict[str, str]]
) -> str:
    step, changes, errors = words
    frame = exchange.request if is_request else exchange.response
    assert frame is not None
    ends = (exchange.client_id or "client", f"broker {exchange.connection.broker}")
    source, target = ends if is_request else ends[::-1]
    latency = "" if is_request or exchange.latency_s is None else f", after {latency_text(exchange.latency_s)}"
    kind = "request" if is_request else "answer"
    about = f"{exchange.name} {kind}, {frame.size_bytes + 4} bytes{latency}"
    notes = [f'<p class="step">{_prose(step)}</p>'] if step else []
    codes = {} if is_request else {one.name: one.code for one in exchange.errors}
    notes += [
        f'<p class="error">{name}: {_prose(errors.get(name) or _meaning(code))}</p>' for name, code in codes.items()
    ]
    if is_request and exchange.is_answered and exchange.response is None:
        notes.append(f'<p class="error">No answer: {escape(exchange.ended)}.</p>')
    notes += [f'<p class="state">{escape(str(change))}</p>' for change in changes]
    return (
        f"{''.join(notes[:1]) if step else ''}<details><summary><small>{at_s:.3f} s</small> {escape(source)} → "
        f"{escape(target)}: <b>{escape(about)}</b></summary>{_frame(exchange, frame, is_request)}</details>"
        f"{''.join(notes[1:] if step else notes)}\n"
    )


def _meaning(code: int) -> str:
    row = ERROR_TABLE.get(code)
    return "" if row is None else row.meaning


def _frame(exchange: Exchange, frame: Frame, is_request: bool) -> str:
    if exchange.api is None or not exchange.is_known:
        return f'<p class="bytes">{bytes(frame.data).hex(" ")}</p>'
    version = exchange.version if is_request else exchange.response_version
    reading = Reading(FrameKind.REQUEST if is_request else FrameKind.RESPONSE, exchange.api, version, prefixed=True)
    data = frame.size_bytes.to_bytes(4) + bytes(frame.data)
    annotated = annotate_frame(memoryview(data), reading)
    rows = list(rows_of(Annotation(data, reading, annotated.root, annotated.error, annotated.canonical)))
    shown = rows[:ROWS_MAX]
    rest = f"<p>and {len(rows) - ROWS_MAX} more fields</p>" if len(rows) > ROWS_MAX else ""
    summary = escape(summary_of(reading.message))
    hexadecimal = " ".join(_bytes(row) for row in shown if row.data and not row.bytes_range.startswith(INLINE_MARK))
    table = "".join(map(_row, shown))
    return (
        f"<p>{summary}</p><div class=frame><div class=bytes>{hexadecimal}{' …' if rest else ''}</div>"
        f"<div><table>{table}</table>{rest}</div></div>"
    )


def _bytes(row: Row) -> str:
    return f'<span data-p="{escape(row.path)}">{row.data.hex(" ")}</span>'


def _row(row: Row) -> str:
    indent = f' style="padding-left:{row.depth}em"' if row.depth else ""
    meaning = "; ".join(part for part in (row.problem, row.meaning) if part)
    return (
        f'<tr tabindex=0 data-p="{escape(row.path)}"><td{indent}>{escape(row.name)}</td><td>{escape(row.value)}</td>'
        f"<td class=meaning>{escape(meaning)}</td></tr>"
    )
