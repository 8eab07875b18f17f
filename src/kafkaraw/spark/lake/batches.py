"""Which micro-batch a data file belongs to: its name says so. Pure.

A file is named by query, batch, task and attempt. No two attempts of a task, in whichever process, share a name, so a
delayed attempt never writes into a committed file, and a file that was never committed is recognised by its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"kafkaraw_(?P<query>[A-Za-z0-9.-]+)_(?P<batch>\d+)_(?P<task>\d+)_[0-9a-f]+_\d+\.parquet")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True)
class BatchId:
    """One micro-batch of a query, or a batch write.

    Attributes:
        query_id: id of the query, which its checkpoint keeps; for a batch write, an id of its own.
        number: the micro-batch; 0 for a batch write.
        run_id: the run of the query, another one after each start; empty for a batch write.
    """

    query_id: str
    number: int
    run_id: str = ""

    def __str__(self) -> str:
        return f"batch {self.number} of query {self.query_id}" if self.run_id else f"batch write {self.query_id}"

    @property
    def run_number(self) -> int:
        """The run as a number of 62 bits, since Delta's log keeps numbers only."""
        return int.from_bytes(hashlib.sha256(self.run_id.encode()).digest()[:8], "big") >> 2


@dataclass(frozen=True)
class CommittedBatch:
    """The last micro-batch of a query that a table has.

    Attributes:
        number: its number.
        rows_count: how many rows it had; None if another engine wrote it.
        run_number: the run that committed it; None if another engine wrote it.
    """

    number: int
    rows_count: int | None = None
    run_number: int | None = None


@dataclass(frozen=True)
class FileOwner:
    """What the name of a data file says: its query and its micro-batch."""

    query_name: str
    number: int


def file_name(batch: BatchId, task: int, attempt: str, count: int) -> str:
    """Return the name of a data file.

    Args:
        batch: what is written.
        task: the task's partition.
        attempt: hexadecimal digits that no other attempt of any task has.
        count: number of the file within the attempt.
    """
    return f"kafkaraw_{query_name(batch.query_id)}_{batch.number}_{task}_{attempt}_{count}.parquet"


def query_name(query_id: str) -> str:
    """Return the query's id as it stands in names of files."""
    return _NOT_IN_NAMES.sub("-", query_id)


def owner_of(path: str) -> FileOwner | None:
    """Return whose data file this is; None if this package has not written it."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return FileOwner(found["query"], int(found["batch"])) if found else None


def of_batch(paths: Iterable[str], batch: BatchId) -> list[str]:
    """Return those of the files that attempts of this batch have written."""
    owner = FileOwner(query_name(batch.query_id), batch.number)
    return [path for path in paths if owner_of(path) == owner]
