"""The screen of `kafkaraw top`: what keys do, and the lines that are shown. Without terminal, clock or cluster.

`Screen.press` takes keys, `Screen.lines` returns the lines for a size of the terminal. A line is a list of texts with
the names of their styles; `top_terminal.py` writes it. Start at `Screen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kafkaraw.cli.top_tables import (
    BROKERS,
    GROUPS,
    PROBLEMS,
    ROOTS,
    TOPICS,
    VIEWS,
    Column,
    Row,
    View,
    bytes_text,
    count_text,
    counted,
    duration_text,
    rate_text,
    sorted_rows,
)
from kafkaraw.monitoring import ClusterStatus, Part, Problem, Severity, problems_of
from kafkaraw.protocol.printable import printable

Span: TypeAlias = "tuple[str, str]"
"""A text, and the name of its style: "", "bold", "dim", "bad", "warn", "good", "heading", "selected", "key"."""
Line: TypeAlias = "list[Span]"

INTERVALS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The intervals that + and - step through."""
NAME_WIDTH_MIN: Final = 16
_NAME_WIDTH_NARROW: Final = 8
_GAP: Final = "  "
_ROOT_KEYS: Final = {"b": BROKERS, "t": TOPICS, "g": GROUPS, "w": PROBLEMS, "1": BROKERS, "2": TOPICS, "3": GROUPS}
_ROOT_KEYS_SHOWN: Final = {BROKERS.name: "b", TOPICS.name: "t", GROUPS.name: "g", PROBLEMS.name: "w"}

HELP: Final = (
    ("b t g w, Tab", "brokers, topics, groups, what is wrong"),
    ("Up Down PgUp PgDn Home End", "move; also j and k"),
    ("Enter", "open: partitions of a topic or group, log directories of a broker"),
    ("m", "members of a group, and back to its partitions"),
    ("Esc, Backspace", "back"),
    ("< >", "sort by the column before or after; s the same as >"),
    ("r", "reverse the order"),
    ("/", "show names with a text only; Enter keeps it, Esc removes it"),
    ("i", "show internal topics, or hide them"),
    ("p, Space", "pause, and continue"),
    ("+ -", "longer or shorter interval"),
    ("Ctrl-L", "draw the screen anew"),
    ("h ?", "this help"),
    ("q, Ctrl-C", "quit"),
)
LEGEND: Final = (
    "RECORDS/S, BYTES/S: written, without replication. LAG: records. BEHIND: the age of the",
    "oldest record that is not committed; > if it may be older. TREND: growth of the lag in",
    "the last minute, and when it is gone. LOST: records deleted before they were committed.",
)


@dataclass
class Place:
    """A view that is open, with what the user has set in it.

    Attributes:
        view: the view.
        subject: the topic, group or broker that it is about.
        sorted_by: the heading of the column.
        descending: whether large values come first.
        filter: only names with this text are shown.
        selected: the name of the selected row; None before a key has moved.
        index: where it was, in case that it is gone.
        first: the first row that is shown.
    """

    view: View
    subject: str = ""
    sorted_by: str = ""
    descending: bool = True
    filter: str = ""
    selected: str | None = None
    index: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        self.sort(self.sorted_by or self.view.sorted_by)

    def sort(self, title: str) -> None:
        """Sort by a column: numbers from the largest, names from A."""
        self.sorted_by = title
        column = self.view.column(title)
        starts_low = title in ("BROKER", "PARTITION", "SEVERITY", "STATE", "TYPE", "RACK", "CLIENT", "HOST", "LEADER")
        self.descending = not (starts_low or (column is not None and column.is_name))


@dataclass
class Shown:
    """What there is to show.

    Attributes:
        status: the cluster; None before the first snapshot.
        error: why the last snapshot could not be made; None if it could.
        failed_for_s: since when there is no snapshot, in seconds.
        next_in_s: when the next attempt begins, in seconds; None if one runs.
        took_s: how long the last snapshot took.
        servers: the address of the cluster, as given.
        clock: the time of day of the last snapshot.
    """

    status: ClusterStatus | None = None
    error: str | None = None
    failed_for_s: float = 0.0
    next_in_s: float | None = None
    took_s: float = 0.0
    servers: str = ""
    clock: str = ""


@dataclass
class Screen:
    """The state of the screen.

    Attributes:
        interval_s: between snapshots.
        is_paused: whether no snapshots are made.
        with_internal: whether internal topics are shown.
        is_done: whether the user has quit.
    """

    interval_s: float = 2.0
    is_paused: bool = False
    with_internal: bool = False
    is_done: bool = False
    _places: dict[str, Place] = field(default_factory=lambda: {view.name: Place(view) for view in ROOTS})
    _stack: list[Place] = field(default_factory=list)
    _is_typing: bool = False
    _is_helping: bool = False
    _status: ClusterStatus | None = None
    _rows: list[Row] = field(default_factory=list)
    _body_height: int = 1
    _columns: tuple[Column, ...] = ()
    _problems: tuple[ClusterStatus | None, tuple[Problem, ...]] = (None, ())
    _sorted: tuple[tuple[object, ...], list[Row]] = ((), [])

    def show(self, place: Place) -> None:
        """Show one of the views that keys switch between, as the options of the command say."""
        self._places[place.view.name] = place
        self._stack = [place]

    @property
    def place(self) -> Place:
        """The view that is shown."""
        if not self._stack:
            self._stack = [self._places[TOPICS.name]]
        return self._stack[-1]

    @property
    def parts(self) -> frozenset[Part]:
        """The parts that the view needs."""
        return self.place.view.parts

    @property
    def focus(self) -> tuple[str, ...]:
        """The group whose members are shown."""
        place = self.place
        return (place.subject,) if place.view.name in ("group", "members") else ()

    # -- keys

    def press(self, key: str) -> None:
        """Do what a key says; keys that mean nothing do nothing.

        Args:
            key: a character, or a name: up, down, pageup, pagedown, home, end, enter, escape, backspace, tab, backtab.
        """
        if self._is_typing:
            self._type(key)
        elif self._is_helping:
            self._is_helping = False
            self.is_done = key == "q"
        elif key in _ROOT_KEYS:
            self._stack = [self._places[_ROOT_KEYS[key].name]]
        elif key in _MOVES:
            self._move(key)
        else:
            self._command(key)

    def _command(self, key: str) -> None:
        place = self.place
        if key in ("q", "Q"):
            self.is_done = True
        elif key in _GOING:
            self._go(key)
        elif key in ("<", ">", ",", ".", "s", "left", "right"):
            self._sort_by_next(-1 if key in ("<", ",", "left") else 1)
        elif key == "r":
            place.descending = not place.descending
        elif key == "/":
            self._is_typing = True
        elif key == "i":
            self.with_internal = not self.with_internal
        elif key in ("p", " "):
            self.is_paused = not self.is_paused
        elif key in ("+", "=", "-"):
            self._change_interval(-1 if key == "-" else 1)
        elif key in ("h", "?"):
            self._is_helping = True

    def _go(self, key: str) -> None:
        """Open another view, or go back."""
        place = self.place
        if key in ("tab", "backtab"):
            names = [view.name for view in ROOTS]
            at = names.index(self._stack[0].view.name) + (1 if key == "tab" else -1)
            self._stack = [self._places[names[at % len(names)]]]
        elif key == "enter":
            self._open_selected()
        elif key == "m":
            self._members()
        elif place.filter and key == "escape":
            place.filter = ""
        elif len(self._stack) > 1:
            self._stack.pop()

    def _type(self, key: str) -> None:
        place = self.place
        if key == "escape":
            place.filter, self._is_typing = "", False
        elif key == "enter":
            self._is_typing = False
        elif key == "backspace":
            place.filter = place.filter[:-1]
        elif key == "\x15":
            place.filter = ""
        elif key in ("up", "down", "pageup", "pagedown"):
            self._move(key)
        elif len(key) == 1 and key.isprintable():
            place.filter += key

    def _renew_rows(self) -> None:
        """Find the rows that the next drawing shows: several keys may come between two drawings."""
        self._rows = [] if self._status is None else self._all_rows(self._status) or []

    def _move(self, key: str) -> None:
        self._renew_rows()
        place, last = self.place, len(self._rows) - 1
        if last < 0:
            return
        page = max(1, self._body_height - 1)
        step = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page}.get(key)
        if key in ("home", "end"):
            index = 0 if key == "home" else last
        elif step is not None and place.selected is None:
            index = 0 if step == 1 else max(0, step)
        else:
            index = self._selected_index() + (step or 0)
        place.index = min(max(index, 0), last)
        place.selected = place.view.key(self._rows[place.index])

    def _open_selected(self) -> None:
        self._renew_rows()
        place = self.place
        opened = place.view.opens
        if opened is None or not self._rows:
            return
        row = self._rows[self._selected_index()]
        self._stack.append(Place(VIEWS[opened], place.view.key(row)))

    def _members(self) -> None:
        self._renew_rows()
        place = self.place
        if place.view.name == "groups" and self._rows:
            self._stack.append(Place(VIEWS["members"], place.view.key(self._rows[self._selected_index()])))
        elif place.view.name in ("group", "members"):
            other = "members" if place.view.name == "group" else "group"
            self._stack[-1] = Place(VIEWS[other], place.subject)

    def _sort_by_next(self, step: int) -> None:
        place = self.place
        titles = [column.title for column in self._columns] or [column.title for column in place.view.columns]
        at = titles.index(place.sorted_by) if place.sorted_by in titles else 0
        place.sort(titles[(at + step) % len(titles)])

    def _change_interval(self, step: int) -> None:
        slower = [each for each in INTERVALS_S if each > self.interval_s]
        faster = [each for each in INTERVALS_S if each < self.interval_s]
        if step > 0 and slower:
            self.interval_s = slower[0]
        elif step < 0 and faster:
            self.interval_s = faster[-1]

    def _selected_index(self) -> int:
        place = self.place
        if place.selected is not None:
            for index, row in enumerate(self._rows):
                if place.view.key(row) == place.selected:
                    return index
        return min(place.index if place.selected is not None else 0, max(0, len(self._rows) - 1))

    # -- lines

    def lines(self, shown: Shown, width: int, height: int) -> list[Line]:
        """Return the lines of the screen, from the top; none is longer than the terminal is wide.

        Args:
            shown: what there is to show.
            width: of the terminal, in cells.
            height: of the terminal, in lines.
        """
        if self._is_helping:
            return _help_lines(height)
        head: list[Line] = [self._title(shown)]
        if height >= 10:
            head += [self._totals(shown), self._worst(shown), []]
        elif shown.error is not None:
            head.append(self._worst(shown))
        if height >= 6:
            head.append(self._tabs(width))
        foot: list[Line] = [self._keys(width)] if height >= 8 else []
        body = self._body(shown, width, max(1, height - len(head) - len(foot)))
        body += [[] for _ in range(height - len(head) - len(foot) - len(body))]
        return (head + body + foot)[:height]

    def _title(self, shown: Shown) -> Line:
        status = shown.status
        line: Line = [("kafkaraw top", "bold"), ("  ", ""), (printable(shown.servers), "")]
        if status is not None:
            snapshot = status.snapshot
            if snapshot.release:
                line.append((f"  Kafka {snapshot.release}", ""))
            if snapshot.controller_id is not None:
                line.append((f"  controller {snapshot.controller_id}", ""))
            line.append((f"  {shown.clock}", ""))
        pace = f"every {self.interval_s:g} s"
        if shown.took_s > self.interval_s / 4:
            pace = f"snapshots take {shown.took_s:.1f} s"
        line.append(("  PAUSED", "warn") if self.is_paused else (f"  {pace}", "dim"))
        return line

    def _totals(self, shown: Shown) -> Line:
        status = shown.status
        if status is None:
            return []
        away = sum(not broker.is_online for broker in status.brokers)
        partitions = sum(topic.partitions for topic in status.topics)
        line: Line = [
            (rate_text(status.records_per_s), "bold"),
            (" records/s  ", ""),
            (bytes_text(status.bytes_per_s), "bold"),
            ("/s  ", ""),
            (counted(len(status.brokers) - away, "broker"), ""),
            *([(f" ({away} away)", "bad")] if away else []),
            (f"  {counted(len(status.topics), 'topic')}, {counted(partitions, 'partition')}", ""),
        ]
        under = sum(topic.under_replicated for topic in status.topics)
        if under:
            line.append((f" ({count_text(under)} under-replicated)", "bad"))
        if Part.GROUPS in status.snapshot.part_times_ms:
            lag = sum(group.lag or 0 for group in status.groups)
            line.append((f"  {counted(len(status.groups), 'group')}, lag {count_text(lag)}", ""))
        return line

    def _worst(self, shown: Shown) -> Line:
        if shown.error is not None:
            since = f"No answer for {duration_text(shown.failed_for_s)}" if shown.status else "Not connected"
            again = "" if shown.next_in_s is None else f"; trying again in {duration_text(shown.next_in_s)}"
            return [(f"{since}{again}: {printable(shown.error)}", "bad")]
        if shown.status is None:
            return [("Connecting ...", "dim")]
        found = self._problems_of(shown.status)
        if not found:
            return [("Nothing is wrong.", "good")]
        worst = found[0]
        more = f"  (w: {len(found) - 1} more)" if len(found) > 1 else ""
        style = {Severity.ERROR: "bad", Severity.WARNING: "warn"}.get(worst.severity, "dim")
        return [(printable(worst.text), style), (more, "dim")]

    def _problems_of(self, status: ClusterStatus) -> tuple[Problem, ...]:
        """Return what is wrong, computed once for each snapshot."""
        if self._problems[0] is not status:
            self._problems = (status, problems_of(status))
        return self._problems[1]

    def _tabs(self, width: int) -> Line:
        """Return the line with the views; on a narrow terminal, the open one only."""
        place = self.place
        root = self._stack[0]
        line: Line = []
        if place is not root:
            line += [("> ", "dim"), (place.view.title.format(printable(place.subject)), "bold"), (" ", "")]
        if self._is_typing or place.filter:
            line += [(" /", "key"), (printable(place.filter), "bold"), ("_" if self._is_typing else "", "key")]
        tabs = {view.name: f" {_ROOT_KEYS_SHOWN[view.name]} {view.title} " for view in ROOTS}
        if sum(cells(words) for words in (*tabs.values(), *(words for words, _ in line))) + len(tabs) > width:
            tabs = {root.view.name: tabs[root.view.name]}
        shown = ((words, "selected" if name == root.view.name else "dim") for name, words in tabs.items())
        return [span for tab in shown for span in (tab, (" ", ""))] + line

    def _keys(self, width: int) -> Line:
        if self._is_typing:
            return [("Enter", "key"), (" keep  ", "dim"), ("Esc", "key"), (" remove", "dim")]
        place = self.place
        keys = [("Esc", "back")] if len(self._stack) > 1 else []
        keys += [("Enter", "open")] if place.view.opens else []
        keys += {"groups": [("m", "members")], "group": [("m", "members")], "members": [("m", "partitions")]}.get(
            place.view.name, []
        )
        keys += [("/", "filter"), ("< >", "sort"), ("r", "reverse"), ("p", "pause"), ("+ -", "interval")]
        keys += [("h", "help"), ("q", "quit")]
        while len(keys) > 2 and sum(len(key) + len(word) + 3 for key, word in keys) > width:
            keys.pop(-3)
        return [span for key, word in keys for span in ((key, "key"), (f" {word}  ", "dim"))]

    def _body(self, shown: Shown, width: int, height: int) -> list[Line]:
        place, status = self.place, shown.status
        self._status = status
        if status is None:
            self._rows = []
            return []
        rows = self._all_rows(status)
        if rows is None:
            self._rows = []
            kind = {"partitions": "topic", "log-dirs": "broker"}.get(place.view.name, "group")
            gone = f"The {kind} {printable(place.subject)} does not exist any more, or may not be described."
            return [[(gone, "warn")], [("Esc goes back.", "dim")]]
        self._rows = rows
        self._body_height = max(1, height - 1)
        first = self._scroll()
        visible = self._rows[first : first + self._body_height]
        table = _Table(place, visible, width)
        self._columns = table.columns
        lines = [table.heading()]
        selected = self._selected_index() if place.selected is not None else -1
        lines += [table.line(row, is_selected=first + at == selected) for at, row in enumerate(visible)]
        if not self._rows:
            why = "No name has this text; Esc removes the filter." if place.filter else place.view.nothing
            lines.append([(why, "dim")])
        return lines

    def _all_rows(self, status: ClusterStatus) -> list[Row] | None:
        """Return the rows of the view in their order; sorted again only if something has changed."""
        place = self.place
        settings = (place.sorted_by, place.descending, place.filter, self.with_internal)
        key = (id(status), status.snapshot.at_ms, place.view.name, place.subject, *settings)
        if self._sorted[0] != key:
            rows = place.view.rows(status, place.subject)
            if rows is None:
                return None
            chosen = self._chosen(rows)
            self._sorted = (key, sorted_rows(place.view, chosen, place.sorted_by, descending=place.descending))
        return self._sorted[1]

    def _chosen(self, rows: Sequence[Row]) -> list[Row]:
        place = self.place
        wanted = place.filter.lower()
        hides = place.view is TOPICS and not self.with_internal
        return [row for row in rows if wanted in place.view.key(row).lower() and not (hides and row.is_internal)]

    def _scroll(self) -> int:
        place = self.place
        if place.selected is None:
            place.first = 0
            return 0
        index = place.index = self._selected_index()
        place.first = min(max(place.first, index - self._body_height + 1), index)
        place.first = max(0, min(place.first, len(self._rows) - self._body_height))
        return place.first


_GOING: Final = ("tab", "backtab", "enter", "m", "escape", "backspace")
_MOVES: Final = ("up", "down", "pageup", "pagedown", "home", "end", "j", "k")


class _Table:
    """The lines of a table: columns that fit, as wide as the visible rows need."""

    def __init__(self, place: Place, rows: Sequence[Row], width: int) -> None:
        self._place = place
        self._texts: dict[int, dict[str, str]] = {id(row): {} for row in rows}
        self._widths: dict[str, int] = {}
        for column in place.view.columns:
            longest = len(column.title) + 1  # with the mark of the order
            for row in rows:
                text = self._texts[id(row)][column.title] = column.text(row)
                longest = max(longest, cells(text))
            self._widths[column.title] = longest
        self.columns = self._fitting(width)

    def _fitting(self, width: int) -> tuple[Column, ...]:
        """Leave out columns by their rank until names have a readable width; on a narrow terminal, a smaller one."""
        columns = list(self._place.view.columns)
        for width_min, rank_kept in ((NAME_WIDTH_MIN, 1), (_NAME_WIDTH_NARROW, 0)):
            while self._left_for_names(columns, width, width_min) < 0:
                highest = max(column.rank for column in columns)
                if highest <= rank_kept:
                    break
                columns.remove(next(column for column in reversed(columns) if column.rank == highest))
        names = [column for column in columns if column.is_name]
        left = self._left_for_names(columns, width, 0)
        for column in names:
            self._widths[column.title] = max(1, min(self._widths[column.title], left // len(names)))
        return tuple(columns)

    def _left_for_names(self, columns: Sequence[Column], width: int, width_min: int) -> int:
        """Return the cells that the other columns leave, without those that names need at least."""
        fixed = sum(self._widths[each.title] for each in columns if not each.is_name)
        needed = sum(min(width_min, self._widths[each.title]) for each in columns if each.is_name)
        return width - fixed - needed - len(_GAP) * (len(columns) - 1)

    def heading(self) -> Line:
        """Return the line with the headings; an arrow marks the order."""
        line: Line = []
        for column in self.columns:
            is_sorted = column.title == self._place.sorted_by
            mark = ("↓" if self._place.descending else "↑") if is_sorted else ""
            line.append((self._padded(column, column.title + mark), "sorted" if is_sorted else "heading"))
            line.append((_GAP, "heading"))
        return line[:-1]

    def line(self, row: Row, *, is_selected: bool) -> Line:
        """Return the line of a row."""
        line: Line = []
        for column in self.columns:
            style = "selected" if is_selected else column.style(row)
            line.append((self._padded(column, self._texts[id(row)][column.title]), style))
            line.append((_GAP, "selected" if is_selected else ""))
        return line[:-1]

    def _padded(self, column: Column, text: str) -> str:
        width = self._widths[column.title]
        text = cut(text, width)
        space = " " * (width - cells(text))
        return text + space if column.is_name else space + text


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning with a mark if it is wider."""
    if cells(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else "…"[:width]


def _help_lines(height: int) -> list[Line]:
    lines: list[Line] = [[("kafkaraw top: keys", "bold")], []]
    lines += [[(f"  {keys:<28}", "key"), (words, "")] for keys, words in HELP]
    lines += [[], *([(text, "dim")] for text in LEGEND), [], [("Any key goes back.", "dim")]]
    return (lines + [[] for _ in range(height - len(lines))])[:height]
