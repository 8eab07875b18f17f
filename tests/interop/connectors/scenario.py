"""What a scenario is: topics, steps on a Spark connector, and what each step must give. Data only.

Each expectation is stated once. Both connectors meet it, or the step says what ours does instead (`ours`), and the
scenario says where docs/spark.md has that difference (`differs`).

In texts, `$t` is the name of the topic `t` of the scenario, `$prefix` what begins the names of all its topics, and
`$servers` the broker. Rows and messages come back with `$t` in place of the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

VALUE: Final = ("CAST(value AS STRING)",)

Values = tuple[str | None, ...]
Row = tuple[Any, ...]
Options = Mapping[str, str | None]
"""Options by name; None takes one away that every step has (`kafka.bootstrap.servers`)."""


@dataclass(frozen=True)
class Rows:
    """The step gives these rows, in any order."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Refused:
    """The step fails, and its message has these words, in upper or lower case.

    Args:
        ours: words of our message.
        theirs: words of the message of Spark's own connector; the same when None.
    """

    ours: str
    theirs: str | None = None


Outcome = Rows | Refused


def rows(*values: Any) -> Rows:
    """Rows of one column, or tuples of several."""
    return Rows(tuple(value if isinstance(value, tuple) else (value,) for value in values))


def numbers(*ranges: range) -> Rows:
    """Rows of one column that has these numbers as text."""
    return rows(*(str(number) for each in ranges for number in each))


@dataclass(frozen=True)
class Record:
    """A record to send."""

    value: str | None
    key: str | None = None
    headers: tuple[tuple[str, str | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Create:
    """Create a topic."""

    topic: str
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Delete:
    """Delete a topic, and wait until it is gone."""

    topic: str


@dataclass(frozen=True)
class Partitions:
    """Give a topic so many partitions."""

    topic: str
    total: int


@dataclass(frozen=True)
class Send:
    """Write records to a partition, text as their values."""

    topic: str
    records: tuple[str | Record | None, ...]
    partition: int = 0


def send(topic: str, *values: str | int | Record | range | None, partition: int = 0) -> Send:
    """The same with numbers and ranges as text."""
    records: list[str | Record | None] = []
    for value in values:
        if isinstance(value, range):
            records.extend(str(number) for number in value)
        else:
            records.append(str(value) if isinstance(value, int) else value)
    return Send(topic, tuple(records), partition)


@dataclass(frozen=True)
class DeleteRecords:
    """Delete the records of a partition before an offset."""

    topic: str
    before: int
    partition: int = 0


@dataclass(frozen=True)
class Transact:
    """Write values in a transaction and end it."""

    topic: str
    values: Values
    commit: bool = True


Action = Create | Delete | Partitions | Send | DeleteRecords | Transact


@dataclass(frozen=True)
class Observation:
    """A step that gives an outcome.

    Args:
        expect: what both connectors must give.
        ours: what ours gives instead, where that is a difference on purpose.
    """

    expect: Outcome
    ours: Outcome | None = None


@dataclass(frozen=True, kw_only=True)
class Read(Observation):
    """Read in a batch.

    Args:
        options: of the read.
        columns: what to select, in SQL.
        again: actions after which the same DataFrame is collected a second time; `expect` is the second outcome.
        tasks: whether to give the number of tasks, and that of rows, instead of the rows.
        schema: passed to `.schema()` if not None.
        union: whether the DataFrame is read twice in one query.
        path: passed to `load()` if not None.
        table: whether the options are those of a table in the catalog, which is read and dropped.
    """

    options: Options
    columns: tuple[str, ...] = VALUE
    again: tuple[Action, ...] | None = None
    tasks: bool = False
    schema: str | None = None
    union: bool = False
    path: str | None = None
    table: bool = False


@dataclass(frozen=True, kw_only=True)
class Stream(Observation):
    """Start a streaming query, and let it read what there is; then `expect` is what it has read this time.

    Args:
        options: of the read.
        columns: what to select, in SQL.
        trigger: `availableNow`, `once`, or `live`: a query that goes on until all of `phases` are done.
        checkpoint: streams of one scenario with the same name go on from each other.
        sizes: whether to give the numbers of rows of the micro-batches that have some, instead of the rows.
        ends: whether to give the offsets at which the micro-batches with rows end, as JSON, instead of the rows.
        phases: for a live query: actions, and the rows that there must be afterwards, all together.
        tasks: whether to give the number of tasks, and that of rows, of each micro-batch instead of the rows.
        progress: names of what the last progress with rows must have of its source, given as one row.
    """

    options: Options
    columns: tuple[str, ...] = VALUE
    trigger: str = "availableNow"
    checkpoint: str = "checkpoint"
    sizes: bool = False
    ends: bool = False
    phases: tuple[tuple[tuple[Action, ...], int], ...] = ()
    tasks: bool = False
    progress: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Write(Observation):
    """Write rows, and give what is in topic `into` afterwards.

    Args:
        query: SQL of the rows.
        options: of the write.
        mode: save mode, or output mode of a stream.
        into: topic that is read afterwards; no rows when None.
        columns: what is read of it.
        stream: whether the rows are written by a stream, which reads them from files.
    """

    query: str
    options: Options
    mode: str | None = "append"
    into: str | None = "t"
    columns: tuple[str, ...] = VALUE
    stream: bool = False


Step = Create | Delete | Partitions | Send | DeleteRecords | Transact | Read | Stream | Write


@dataclass(frozen=True)
class Scenario:
    """Steps, done with each connector on topics of its own.

    Args:
        name: the rule.
        steps: what is done.
        suite: the suite of Spark whose rule it is, without `Suite`; empty for rules of our own.
        differs: words of the line of docs/spark.md's table that states the difference.
        quick: whether it is one of those that `make test` runs in turn.
    """

    name: str
    steps: tuple[Step, ...]
    suite: str = ""
    differs: str | None = None
    quick: bool = False


def scenario(name: str, *steps: Step, **about: Any) -> Scenario:
    """A scenario with its steps as arguments."""
    return Scenario(name, steps, **about)
