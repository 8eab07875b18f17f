"""A stream into a table whose tasks and driver are killed again and again, each time at another call.

python -m tests.spark.databases.killed_drivers KIND DATABASE CHECKPOINTS FIRST_SEED SEEDS

Each attempt is a process of its own, forked before anything is connected. It goes on where the checkpoint says, and
ends itself with SIGKILL before or after its n-th call to the database. Prints what went wrong, and nothing else.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaraw.spark.databases.session import Session
from kafkaraw.spark.options.databases import DatabaseOptions
from tests.spark.databases.places import Place, file_place

BATCHES = 4
ATTEMPTS_MAX = 60
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string()), ("offset", pa.int64()), ("deleted", pa.bool_())])


class Death:
    """Kills this process at its n-th step."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def step(self) -> None:
        """Take a step."""
        self._steps -= 1
        if self._steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A session that takes a step before and after each call."""

    def __init__(self, session: Session, death: Death) -> None:
        self._session = session
        self._death = death

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name not in ("begin", "execute", "rows", "commit", "load", "drop_staged"):
            return found

        def call(*arguments: Any) -> Any:
            self._death.step()
            result = found(*arguments)
            self._death.step()
            return result

        return call


def batch_of(seed: int, number: int) -> list[pa.Table]:
    """The rows of a batch, by task: the same in each attempt."""
    choose = random.Random(f"{seed} {number}")
    offsets = [number * 100 + place for place in range(choose.randint(0, 12))]
    rows = [
        {"id": choose.randint(1, 8), "value": f"v{offset}", "offset": offset, "deleted": choose.random() < 0.25}
        for offset in offsets
    ]
    return [pa.Table.from_pylist(rows[task::2], SCHEMA) for task in range(2)]


def expected(seed: int, keyed: bool) -> list[tuple[Any, ...]]:
    """The rows after all batches."""
    found = [row for number in range(BATCHES) for table in batch_of(seed, number) for row in table.to_pylist()]
    found.sort(key=lambda row: row["offset"])
    if keyed:
        found = [row for row in {row["id"]: row for row in found}.values() if not row["deleted"]]
    return sorted((row["id"], row["value"], row["offset"]) for row in found)


def attempt(place: Place, checkpoint: Path, seed: int, death: Death) -> None:
    """Go on where the checkpoint says, until the end or a kill."""
    first = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for number in range(first, BATCHES):
        tables = [_dying_rows(table, death) for table in batch_of(seed, number)]
        place.write(number, *tables, query=f"q{seed}", wrapped=lambda session: Dying(session, death))  # type: ignore[arg-type]
        death.step()
        checkpoint.with_suffix(".new").write_text(str(number + 1))
        checkpoint.with_suffix(".new").replace(checkpoint)
        death.step()


class _DyingTable:
    """Rows that a task gets in two parts, with steps in between."""

    def __init__(self, table: pa.Table, death: Death) -> None:
        self.schema = table.schema
        self._table = table
        self._death = death

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._table.to_batches(max_chunksize=2):
            self._death.step()
            yield batch
        self._death.step()


def _dying_rows(table: pa.Table, death: Death) -> Any:
    return _DyingTable(table, death)


def run(place: Place, checkpoint: Path, seed: int) -> str:
    """Return what went wrong, or an empty text."""
    choose = random.Random(seed)
    kills = 0
    for _ in range(ATTEMPTS_MAX):
        # After some kills, an attempt may go through.
        steps = choose.randint(1, 70 if kills < 6 else 10_000)
        pid = os.fork()
        if pid == 0:
            try:
                attempt(place, checkpoint, seed, Death(steps))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is printed
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == 0:
            break
        if status != -signal.SIGKILL:
            return f"seed {seed}: an attempt ended with {status}"
        kills += 1
    else:
        return f"seed {seed}: not finished after {ATTEMPTS_MAX} attempts"
    return "" if kills else f"seed {seed}: nothing was killed"


def check(place: Place, seed: int) -> str:
    """Return how the table differs from what it should be, or an empty text."""
    keyed = bool(place.options.key)
    found, right = sorted(place.rows('id, value, "offset"')), expected(seed, keyed)
    if found != right:
        return f"seed {seed}: {found} instead of {right}"
    left = place.staged()
    return f"seed {seed}: left staged: {left}" if left else ""


def place_of(kind: str, where: str, seed: int) -> Place:
    """Upserts for odd seeds, inserts for even ones."""
    if kind == "postgresql":
        from kafkaraw.spark.databases.postgresql import Postgresql

        place = Place(kind, Postgresql(), DatabaseOptions(where, f"k{seed}.t"))
    else:
        folder = Path(where) / str(seed)
        folder.mkdir(parents=True)
        place = file_place(kind, folder)
    if seed % 2:
        return place.named(place.options.table, key=("id",), order_column="offset", delete_column="deleted")
    return place.named(place.options.table, delete_column=None)


def main(kind: str, where: str, checkpoints: str, first: int, count: int) -> int:
    """Run all seeds in this process's children, then look at the tables."""
    places = {seed: place_of(kind, where, seed) for seed in range(first, first + count)}
    if kind == "postgresql":
        pid = os.fork()
        if pid == 0:
            for seed, place in places.items():
                place.query(f"CREATE SCHEMA k{seed}")
            os._exit(0)
        os.waitpid(pid, 0)
    problems = [run(place, Path(checkpoints) / f"{seed}.checkpoint", seed) for seed, place in places.items()]
    problems += [check(place, seed) for seed, place in places.items()]
    found = [problem for problem in problems if problem]
    print("\n".join(found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
