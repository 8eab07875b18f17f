"""Whose rows are staged in a table or file: its name says so. Pure.

A name consists of query and table (as a hash), batch, task, the time, and the attempt. No two attempts of a task share
a name, so a delayed attempt never adds rows to what the driver commits. Names fit into PostgreSQL's 63 bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkaraw.spark.lake.batches import BatchId

PREFIX: Final = "kafkaraw_staging_"
STALE_S: Final = 7 * 24 * 3600
"""After this time, what another query or a batch write has staged is dropped."""

_NAME: Final = re.compile(PREFIX + r"(?P<owner>[0-9a-f]{10})_(?P<number>\d+)_\d+_(?P<time>[0-9a-f]{8})_[0-9a-f]{8}")


@dataclass(frozen=True)
class Staged:
    """What an attempt of a task has staged.

    Attributes:
        name: of the table or file.
        rows_count: its rows.
    """

    name: str
    rows_count: int


def staging_name(batch: BatchId, table: str, task: int, *, attempt: str, now_s: float) -> str:
    """Return the name of what an attempt stages.

    Args:
        batch: what is written.
        table: the table that gets the rows.
        task: the task's partition.
        attempt: hexadecimal digits that no other attempt has; eight of them are used.
        now_s: seconds since 1970.
    """
    return f"{PREFIX}{_owner(batch, table)}_{batch.number}_{task}_{int(now_s):08x}_{attempt[:8]}"


def _owner(batch: BatchId, table: str) -> str:
    return hashlib.sha256(f"{batch.query_id}\n{table}".encode()).hexdigest()[:10]


def leftovers(names: Iterable[str], batch: BatchId, table: str, committed: Collection[str], now_s: float) -> list[str]:
    """Return those of the names that no running batch will commit, once this batch is committed.

    They are those of the query's batches up to this one, whose numbers the database has, and all that are old.

    Args:
        names: everything that is staged.
        batch: the batch that is committed.
        table: its table.
        committed: what the batch commits, which is not left over.
        now_s: seconds since 1970.
    """
    owner = _owner(batch, table)
    found = []
    for name in names:
        parts = _NAME.fullmatch(name)
        if parts is None or name in committed:
            continue
        is_over = parts["owner"] == owner and int(parts["number"]) <= batch.number
        if is_over or now_s - int(parts["time"], 16) >= STALE_S:
            found.append(name)
    return sorted(found)
