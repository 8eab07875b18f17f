"""The text that Kafka's checkpoint files share: a version, the number of rows, one row per line.

Start at `read_checkpoint`. What the columns mean is known to `offset_checkpoint` and `leader_epochs`.
Source: org.apache.kafka.server.common.CheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError, whole_number

VERSION: Final = 0
_REMEDY: Final = "stop the broker, then run `kafkaraw log repair DIR --yes`"


def checkpoint_error(file: str, line: int, problem: str) -> DamagedFileError:
    """Return the error of a checkpoint that is damaged in a line, counted from 1."""
    return DamagedFileError(file, line, problem, _REMEDY, unit="line")


def write_checkpoint(rows: Iterable[str]) -> str:
    """Return the text of a checkpoint with these rows."""
    lines = list(rows)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines))


def read_checkpoint(text: str, file: str, columns: int) -> list[list[str]]:
    """Return the columns of each row.

    Args:
        text: content of the file.
        file: its name, for errors.
        columns: number of columns.

    Raises:
        DamagedFileError: another version, another number of rows than the second line says, a row with more or fewer
            columns, or no line feed at the end.
    """
    lines = text.split("\n")
    if lines.pop():
        raise checkpoint_error(file, len(lines) + 1, "the last line has no line feed: the file is cut short")
    for line, what in enumerate(("version", "number of rows")):
        if len(lines) <= line or whole_number(lines[line]) is None:
            raise checkpoint_error(file, line + 1, f"{lines[line : line + 1]} is not the {what}")
    if int(lines[0]) != VERSION:
        raise checkpoint_error(file, 1, f"version {lines[0]} is unknown, only {VERSION} is")
    rows = [line.split() for line in lines[2:]]
    if int(lines[1]) != len(rows):
        raise checkpoint_error(file, 2, f"it says {lines[1]} rows, and has {len(rows)}")
    for line, row in enumerate(rows, 3):
        if len(row) != columns:
            raise checkpoint_error(file, line, f"{' '.join(row)!r} has {len(row)} columns, not {columns}")
    return rows
