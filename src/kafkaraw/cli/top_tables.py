"""The tables of `kafkaraw top`: their columns, with how each is sorted and written. Pure.

A view is one table, such as the partitions of a topic. Names come from the cluster and are hostile input: each text of
a cell passes `printable`, so that it sends no commands to a terminal. Start at `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafkaraw import readable
from kafkaraw.monitoring import (
    BrokerStatus,
    ClusterStatus,
    GroupPartitionStatus,
    GroupStatus,
    Part,
    TimeLag,
    problems_of,
)
from kafkaraw.protocol.printable import printable

Row: TypeAlias = Any
"""One of the status classes of `kafkaraw.monitoring`; a column knows which."""
SortKey: TypeAlias = Any
"""A number or a text, the same kind in all rows; None for no value."""

UNKNOWN: Final = "-"
_MINUTE_S: Final = 60
_EXACT_BELOW: Final = 10_000_000
_STEPS: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


# -- numbers as texts


def count_text(number: float | None) -> str:
    """Return a number with separators, or above ten million with a unit: 1,234 or 12.3M."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}" if abs(number) < _EXACT_BELOW else _short(number)


def counted(number: int, what: str) -> str:
    """Return a number of things, such as "1 topic" or "1,234 topics"."""
    return f"{count_text(number)} {what}" if number == 1 else f"{count_text(number)} {what}s"


def rate_text(number: float | None) -> str:
    """Return a rate: fractions below 10."""
    if number is None or number == 0 or abs(number) >= 10:
        return count_text(number)
    return f"{number:.1f}"


def bytes_text(number: float | None) -> str:
    """Return bytes with a decimal unit, such as 12.3MB."""
    if number is None:
        return UNKNOWN
    return f"{number:.0f}B" if abs(number) < 1000 else _short(number) + "B"


def duration_text(seconds: float | None) -> str:
    """Return a time with its largest unit, such as 45s, 12min or 3.5d."""
    if seconds is None:
        return UNKNOWN
    return readable.duration_text(round(seconds) if seconds < _MINUTE_S else seconds).replace(" ", "")


def time_lag_text(lag: TimeLag | None) -> str:
    """Return how long a group is behind; `>` if it may be longer."""
    if lag is None:
        return UNKNOWN
    return (">" if lag.is_at_least else "") + duration_text(lag.seconds)


def trend_text(lag: int | None, lag_per_s: float | None, gone_in_s: float | None) -> str:
    """Return by how much a lag grows or falls, and when it will be gone."""
    if lag_per_s is None or lag is None:
        return UNKNOWN
    if lag_per_s == 0:
        return "steady" if lag else "0/s"
    sign = "+" if lag_per_s > 0 else ""
    text = f"{sign}{rate_text(lag_per_s)}/s"
    return f"{text}, {duration_text(gone_in_s)} left" if gone_in_s is not None else text


def _short(number: float) -> str:
    for size, unit in _STEPS:
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}" if abs(number) < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def _numbers(values: Sequence[int]) -> str:
    return ",".join(map(str, values)) or UNKNOWN


# -- columns and views


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading, and its name for `--sort`.
        text: returns the text of a row's cell.
        sort: returns what rows are sorted by; None sorts last.
        rank: columns with a higher rank are left out first on a narrow terminal; 0 is never left out.
        is_name: whether it is on the left, takes the width that is left, and sorts from A to Z at first.
        style: returns the style of a row's cell.
    """

    title: str
    text: Callable[[Row], str]
    sort: Callable[[Row], SortKey]
    rank: int = 1
    is_name: bool = False
    style: Callable[[Row], str] = lambda row: ""


@dataclass(frozen=True)
class View:
    """A table.

    Attributes:
        name: its name, for `--view` and in the screen's state.
        title: what it shows, with `{}` for the topic, group or broker that it is about.
        rows: returns its rows; None if what it is about does not exist.
        key: returns the name of a row, which filters look at, and which stays selected.
        columns: its columns.
        sorted_by: the title of the column by which it is sorted at first.
        parts: the parts of snapshots that it needs.
        opens: the view that Enter opens of the selected row.
        nothing: what it says if it has no rows.
    """

    name: str
    title: str
    rows: Callable[[ClusterStatus, str], Sequence[Row] | None]
    key: Callable[[Row], str]
    columns: tuple[Column, ...]
    sorted_by: str
    parts: frozenset[Part]
    opens: str | None = None
    nothing: str = "Nothing to show."

    def column(self, title: str) -> Column | None:
        """Return the column with this heading, in any case."""
        return next((each for each in self.columns if each.title.lower() == title.lower()), None)


def sorted_rows(view: View, rows: Sequence[Row], title: str, *, descending: bool) -> list[Row]:
    """Return rows in the order of a column; rows without a value last, equal ones as they are: by name."""
    column = view.column(title) or view.columns[0]
    keys = [(column.sort(row), row) for row in rows]
    valued = [(key, row) for key, row in keys if key is not None]
    valued.sort(key=lambda each: each[0], reverse=descending)
    return [row for _, row in valued] + [row for key, row in keys if key is None]


def _name(title: str, of: Callable[[Row], str | None], rank: int = 0) -> Column:
    return Column(title, lambda row: printable(of(row) or UNKNOWN), of, rank, is_name=True)


def _number(
    title: str,
    of: Callable[[Row], float | None],
    text: Callable[[float | None], str] = count_text,
    rank: int = 1,
    style: Callable[[Row], str] = lambda row: "",
) -> Column:
    return Column(title, lambda row: text(of(row)), of, rank, style=style)


def _bad_if(condition: Callable[[Row], object]) -> Callable[[Row], str]:
    return lambda row: "bad" if condition(row) else ""


def _lag_style(row: GroupStatus) -> str:
    if not row.lag_per_s or not row.lag:
        return ""
    return "bad" if row.lag_per_s > 0 else "good"


def _broker_state(row: BrokerStatus) -> str:
    if not row.is_online:
        return "away"
    if any(each.error is not None for each in row.log_dirs):
        return "disk failed"
    return "controller" if row.is_controller else "up"


def _broker_rows(status: ClusterStatus, subject: str) -> Sequence[BrokerStatus]:
    return status.brokers


def _log_dir_rows(status: ClusterStatus, subject: str) -> Sequence[Row] | None:
    found = next((each for each in status.brokers if str(each.node_id) == subject), None)
    return None if found is None else found.log_dirs


def _subject(row: GroupPartitionStatus | Any) -> str:  # noqa: ANN401 - rows have any type
    return f"{row.topic}-{row.partition}"


_BEHIND: Final = Column(
    "BEHIND",
    lambda row: time_lag_text(row.time_lag),
    lambda row: None if row.time_lag is None else row.time_lag.seconds,
    2,
)
_BAD_STATES: Final = ("away", "disk failed")
_SIZES: Final = frozenset({Part.SIZES})
_GROUPS: Final = frozenset({Part.GROUPS})

BROKERS: Final = View(
    "brokers",
    "brokers",
    _broker_rows,
    lambda row: str(row.node_id),
    (
        _number("BROKER", lambda row: row.node_id, lambda number: f"{number:.0f}", rank=0),
        Column("STATE", _broker_state, _broker_state, 1, style=_bad_if(lambda row: _broker_state(row) in _BAD_STATES)),
        _name("ADDRESS", lambda row: row.address, rank=0),
        Column("RACK", lambda row: printable(row.rack or UNKNOWN), lambda row: row.rack, 7),
        _number("RECORDS/S", lambda row: row.records_per_s, rate_text, rank=1),
        _number("BYTES/S", lambda row: row.bytes_per_s, bytes_text, rank=2),
        _number("LEADERS", lambda row: row.leaders, rank=2),
        _number("REPLICAS", lambda row: row.replicas, rank=4),
        _number("NOT-IN-SYNC", lambda row: row.out_of_sync, rank=3, style=_bad_if(lambda row: row.out_of_sync)),
        _number("SIZE", lambda row: row.size_bytes, bytes_text, rank=4),
        _number("DISK", lambda row: row.disk_used, _percent, 3, style=_bad_if(lambda row: (row.disk_used or 0) >= 0.9)),
        _number("FREE", lambda row: row.free_bytes, bytes_text, rank=5),
    ),
    "BROKER",
    _SIZES,
    opens="log-dirs",
)

TOPICS: Final = View(
    "topics",
    "topics",
    lambda status, subject: status.topics,
    lambda row: row.name,
    (
        _name("TOPIC", lambda row: row.name),
        _number("PARTITIONS", lambda row: row.partitions, rank=4),
        _number("RECORDS/S", lambda row: row.records_per_s, rate_text, rank=1),
        _number("BYTES/S", lambda row: row.bytes_per_s, bytes_text, rank=2),
        _number("RECORDS", lambda row: row.records, rank=3),
        _number("SIZE", lambda row: row.size_bytes, bytes_text, rank=4),
        _number("LAG", lambda row: row.lag, rank=3),
        _number("GROUPS", lambda row: row.groups, rank=6),
        _number("REPLICAS", lambda row: row.replication_factor, rank=6),
        _number(
            "NOT-IN-SYNC", lambda row: row.under_replicated, rank=5, style=_bad_if(lambda row: row.under_replicated)
        ),
        _number("OFFLINE", lambda row: row.offline, rank=7, style=_bad_if(lambda row: row.offline)),
    ),
    "RECORDS/S",
    _SIZES,
    opens="partitions",
    nothing="No topics: there is none, or this principal lacks the permission DESCRIBE on topics.",
)

PARTITIONS: Final = View(
    "partitions",
    "partitions of {}",
    lambda status, subject: status.partitions(subject),
    lambda row: str(row.partition),
    (
        _number("PARTITION", lambda row: row.partition, rank=0),
        _number("LEADER", lambda row: row.leader_id, rank=1, style=_bad_if(lambda row: row.leader_id is None)),
        _number("RECORDS/S", lambda row: row.records_per_s, rate_text, rank=1),
        _number("BYTES/S", lambda row: row.bytes_per_s, bytes_text, rank=3),
        _number("START", lambda row: row.start_offset, rank=5),
        _number("END", lambda row: row.end_offset, rank=2),
        _number("SIZE", lambda row: row.size_bytes, bytes_text, rank=4),
        _number("LAG", lambda row: row.lag, rank=3),
        Column(
            "IN-SYNC",
            lambda row: _numbers(row.in_sync),
            lambda row: len(row.in_sync),
            4,
            style=_bad_if(lambda row: len(row.in_sync) < len(row.replicas)),
        ),
        Column("REPLICAS", lambda row: _numbers(row.replicas), lambda row: len(row.replicas), 6),
    ),
    "PARTITION",
    _SIZES,
)

GROUPS: Final = View(
    "groups",
    "groups",
    lambda status, subject: status.groups,
    lambda row: row.group_id,
    (
        _name("GROUP", lambda row: row.group_id),
        Column("TYPE", lambda row: str(row.group_type or UNKNOWN), lambda row: row.group_type, 4),
        Column("STATE", lambda row: str(row.state or UNKNOWN), lambda row: row.state, 3),
        _number("MEMBERS", lambda row: row.members, rank=4),
        _number("TOPICS", lambda row: row.topics, rank=6),
        _number("CONSUMED/S", lambda row: row.consumed_per_s, rate_text, rank=5),
        _number("LAG", lambda row: row.lag, rank=1, style=_lag_style),
        _BEHIND,
        Column(
            "TREND",
            lambda row: trend_text(row.lag, row.lag_per_s, row.gone_in_s),
            lambda row: row.lag_per_s,
            2,
            style=_lag_style,
        ),
    ),
    "LAG",
    _GROUPS,
    opens="group",
    nothing="No groups: there is none, or this principal lacks the permission DESCRIBE on groups.",
)

GROUP: Final = View(
    "group",
    "partitions of group {}",
    lambda status, subject: status.group_partitions(subject),
    _subject,
    (
        _name("TOPIC", lambda row: row.topic),
        _number("PARTITION", lambda row: row.partition, rank=0),
        _number("COMMITTED", lambda row: row.committed, rank=3),
        _number("END", lambda row: row.end_offset, rank=4),
        _number("LAG", lambda row: row.lag, rank=1),
        _BEHIND,
        _number("CONSUMED/S", lambda row: row.consumed_per_s, rate_text, rank=2),
        _number("LOST", lambda row: row.deleted_unread, rank=6, style=_bad_if(lambda row: row.deleted_unread)),
        Column(
            "CLIENT",
            lambda row: UNKNOWN if row.member is None else printable(f"{row.member.client_id}{row.member.host}"),
            lambda row: None if row.member is None else row.member.client_id,
            5,
        ),
    ),
    "LAG",
    _GROUPS,
    nothing="The group has committed no offsets.",
)

MEMBERS: Final = View(
    "members",
    "members of group {}",
    lambda status, subject: status.members(subject),
    lambda row: row.member.member_id,
    (
        _name("MEMBER", lambda row: row.member.group_instance_id or row.member.member_id),
        Column("CLIENT", lambda row: printable(row.member.client_id), lambda row: row.member.client_id, 1),
        Column("HOST", lambda row: printable(row.member.host), lambda row: row.member.host, 3),
        _number("PARTITIONS", lambda row: len(row.member.assignment), rank=2),
        _number("CONSUMED/S", lambda row: row.consumed_per_s, rate_text, rank=2),
        _number("LAG", lambda row: row.lag, rank=1),
    ),
    "LAG",
    _GROUPS,
    nothing="The group has no members.",
)

LOG_DIRS: Final = View(
    "log-dirs",
    "log directories of broker {}",
    _log_dir_rows,
    lambda row: row.path,
    (
        _name("DIRECTORY", lambda row: row.path),
        Column(
            "STATE",
            lambda row: "up" if row.error is None else printable(row.error),
            lambda row: "up" if row.error is None else "failed",
            1,
            style=_bad_if(lambda row: row.error is not None),
        ),
        _number("REPLICAS", lambda row: len(row.replicas), rank=3),
        _number("SIZE", lambda row: sum(each.size_bytes for each in row.replicas.values()), bytes_text, rank=1),
        _number("FREE", lambda row: row.usable_bytes, bytes_text, rank=2),
        _number("DISK-SIZE", lambda row: row.total_bytes, bytes_text, rank=3),
    ),
    "SIZE",
    _SIZES,
    nothing="The broker is away, or does not tell its log directories.",
)

PROBLEMS: Final = View(
    "problems",
    "problems",
    lambda status, subject: problems_of(status),
    lambda row: row.text,
    (
        Column(
            "SEVERITY",
            lambda row: str(row.severity),
            lambda row: ("error", "warning", "note").index(row.severity),
            0,
            style=lambda row: {"error": "bad", "warning": "warn"}.get(row.severity, ""),
        ),
        _name("PROBLEM", lambda row: row.text),
    ),
    "SEVERITY",
    frozenset(Part),
    nothing="Nothing is wrong.",
)

ROOTS: Final = (BROKERS, TOPICS, GROUPS, PROBLEMS)
"""The views that keys switch between."""
VIEWS: Final = {view.name: view for view in (*ROOTS, PARTITIONS, GROUP, MEMBERS, LOG_DIRS)}
"""All views, by name."""
