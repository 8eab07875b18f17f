"""A server refuses a batch: each error names what to repair, and after the repair the batch is in the table once.

Disks that are full, connections that end, permissions that are missing, tables that another client creates or alters.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from kafkaraw.spark.databases.commits import commit_batch
from kafkaraw.spark.errors import TableError
from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import Verdict
from tests.rotation import rotating
from tests.spark.databases.places import Place
from tests.spark.databases.test_commits import rows

SMALL_MIB, LARGE_MIB = 6, 64
_numbers = itertools.count(1)


@pytest.fixture
def place(server) -> Place:
    """A table of its own in a schema of its own."""
    schema = f"repaired_{next(_numbers)}"
    server[0].query(f"CREATE SCHEMA {schema}")
    return server[0].named(f"{schema}.t")


def schema_of(place: Place) -> str:
    return place.options.table.partition(".")[0]


def as_role(place: Place, role: str) -> Place:
    """The same table, written by another role; the tests look into it with their own."""
    return replace(
        place, options=replace(place.options, database=place.options.database.replace("user=shop", f"user={role}"))
    )


# -- disks


@pytest.fixture
def small_disk(server) -> Iterator[Callable[[int], None]]:
    """A tablespace `small` on a file system in memory; what this returns changes its size in MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = Path(tempfile.mkdtemp(prefix="kafkaraw-small-", dir="/tmp"))
    data = folder / "data"
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_MIB}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        folder.rmdir()
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        data.mkdir()
        folder.chmod(0o755)
        owner = Path(re.search(r"host=(\S+)", server[0].options.database)[1]).stat()
        os.chown(data, owner.st_uid, owner.st_gid)
        outside_transactions(server[0], f"CREATE TABLESPACE small LOCATION '{data}'")

        def resize(size_mib: int) -> None:
            subprocess.run(["mount", "-o", f"remount,size={size_mib}m", str(folder)], check=True)

        yield resize
        for (table,) in server[0].query("SELECT oid::regclass::text FROM pg_class WHERE reltablespace <> 0"):
            if not table.startswith("pg_"):
                server[0].query(f"DROP TABLE IF EXISTS {table} CASCADE")
        outside_transactions(server[0], "DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder)


def outside_transactions(place: Place, sql: str) -> None:
    with dbapi.connect(place.options.database, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)


def large_rows() -> pa.Table:
    """10 MiB that PostgreSQL does not compress."""
    return rows(*((number, os.urandom(5_000).hex()) for number in range(1024)))


def test_staging_on_a_full_disk_names_the_disk_and_the_batch_is_written_once_there_is_space(place, small_disk):
    where = f"{place.options.database} options='-c default_tablespace=small'"
    small = replace(place, options=replace(place.options, database=where))
    given = large_rows()
    small.write(0, rows((-1, "a")))
    with pytest.raises(TableError, match=r"t: COPY into the staging table \w+ failed: .*the server's disk is full"):
        small.write(1, given)
    assert place.rows() == [(-1, "a")]
    small_disk(LARGE_MIB)
    assert small.write(1, given) is Verdict.COMMIT
    assert small.write(1, given) is Verdict.REPEATED
    assert place.query(f"SELECT count(*), sum(id) FROM {place.options.table}") == [(1025, str(sum(range(1024)) - 1))]
    assert place.staged() == []


def test_table_on_a_full_disk_names_the_disk_and_the_batch_is_written_once_there_is_space(place, small_disk):
    place.query(f"CREATE TABLE {place.options.table} (id bigint PRIMARY KEY, name text) TABLESPACE small")
    keyed = replace(place, options=replace(place.options, key=("id",)))
    given = large_rows()
    with pytest.raises(TableError, match=r"t: moving the rows of batch 0 .* failed: .*the server's disk is full"):
        keyed.write(0, given)
    assert place.rows() == []
    small_disk(LARGE_MIB)
    assert keyed.write(0, given) is Verdict.COMMIT
    assert place.query(f"SELECT count(*), sum(id) FROM {place.options.table}") == [(1024, str(sum(range(1024))))]
    assert place.staged() == []


# -- connections


class Ending:
    """A session whose server process ends before its n-th call."""

    CALLS = ("begin", "execute", "rows", "commit", "load", "drop_staged")

    def __init__(self, session: Any, place: Place, calls: int) -> None:
        self._session = session
        self._place = place
        self._calls = calls
        self.has_ended = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name not in self.CALLS:
            return found

        def call(*arguments: Any) -> Any:
            self._calls -= 1
            if self._calls == 0:
                end_connections(self._place)
                self.has_ended = True
            return found(*arguments)

        return call


def end_connections(place: Place) -> None:
    """End the server's processes for this package, and wait until they have ended."""
    ours = "FROM pg_stat_activity WHERE application_name = 'kafkaraw'"
    assert place.query(f"SELECT bool_and(pg_terminate_backend(pid, 10000)) {ours}") == [(True,)]


def test_connection_that_ends_before_any_call_is_told_and_the_batch_is_written_once(place):
    written, number = [], 0
    while True:
        ends: list[Ending] = []

        def wrapped(session, number=number, ends=ends):
            ends.append(Ending(session, place, number + 1))
            return ends[-1]

        given = rows((number, "a"), (number, "b"))
        written += [(number, "a"), (number, "b")]
        try:
            assert place.write(number, given, wrapped=wrapped) is Verdict.COMMIT
        except TableError as error:
            assert re.search(r"t: (moving the rows of|committing) batch \d+ .* failed: .*option url", str(error))
            assert place.write(number, given) is Verdict.COMMIT
        assert place.rows() == sorted(written, key=repr)
        if not ends[0].has_ended:
            break
        number += 1
    assert number > 8, "each statement of a commit had its turn"
    assert place.staged() == []


def test_connection_that_ends_during_copy_is_told_and_leaves_nothing(place):
    target = place.prepare(rows().schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows((1, "a")).to_batches()[0]
        end_connections(place)
        yield from rows(*((number, "b" * 1000) for number in range(10_000))).to_batches()

    with pytest.raises(TableError, match=r"t: COPY into the staging table staged failed: .*option url"):
        place.database.stage(place.options, "staged", rows().schema, batches())
    assert place.staged() == []
    assert place.write(0, rows((1, "a"))) is Verdict.COMMIT
    assert place.rows() == [(1, "a")]
    assert target.table == place.options.table


# -- permissions

ALL = "GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
MISSING = {
    "CREATE on the schema": "REVOKE CREATE ON SCHEMA {schema} FROM {role}",
    "USAGE of the schema": "REVOKE USAGE ON SCHEMA {schema} FROM {role}",
    "INSERT into the table": "REVOKE INSERT ON {table} FROM {role}",
    "SELECT from the table": "REVOKE SELECT ON {table} FROM {role}",
    "UPDATE of the batches": "REVOKE UPDATE ON {schema}.kafkaraw_batches FROM {role}",
}


@pytest.mark.parametrize("missing", rotating(MISSING, 1))
def test_missing_permission_is_told_and_the_batch_is_written_once_it_is_granted(place, missing):
    place = replace(place, options=replace(place.options, key=("id",)))
    place.write(0, rows((1, "a")))
    role = f"role_{sorted(MISSING).index(missing)}"
    names = {"schema": schema_of(place), "table": place.options.table, "role": role}
    place.query(f"CREATE ROLE {role} LOGIN")
    for statement in (*ALL.split("; "), MISSING[missing]):
        place.query(statement.format(**names))
    writer = as_role(place, role)
    with pytest.raises(TableError, match=r"t: .* failed: .*permission denied for .*grant the role what it needs"):
        writer.write(1, rows((1, "b"), (2, "b")))
    assert place.rows() == [(1, "a")]
    for statement in ALL.split("; "):
        place.query(statement.format(**names))
    assert writer.write(1, rows((1, "b"), (2, "b"))) is Verdict.COMMIT
    assert place.rows() == [(1, "b"), (2, "b")]
    assert place.staged() == []


# -- tables that others create and alter

ALTERED = {
    "DROP COLUMN name": (r"column 'name' had type text .* has been dropped now", "ADD COLUMN name text"),
    "ALTER COLUMN name TYPE varchar(9)": (r"had type text .* has character varying\(9\) now", "ADD CHECK (id > 0)"),
    "RENAME COLUMN name TO called": (r"column 'name' had type text", "RENAME COLUMN called TO name"),
    "ADD COLUMN must int NOT NULL": (r'null value in column "must"', "ALTER COLUMN must DROP NOT NULL"),
    "DROP CONSTRAINT t_pkey": (r"unique index .* was dropped: create it", "ADD PRIMARY KEY (id)"),
    "ADD CHECK (id > 1)": (r'violates check constraint "t_id_check"', "DROP CONSTRAINT t_id_check"),
}


@pytest.mark.parametrize("change", rotating(ALTERED, 2))
def test_table_altered_during_a_batch_is_told_and_the_batch_is_written_once(place, change):
    place = replace(place, options=replace(place.options, key=("id",)))
    message, repair = ALTERED[change]
    batch, given = BatchId("q", 0, "run"), rows((1, "a"), (2, "b"))
    target = place.prepare(given.schema)
    staged = place.stage(batch, [given])
    place.query(f"ALTER TABLE {place.options.table} {change}")
    with pytest.raises(TableError, match=rf"t: .*{message}"):
        commit_batch(lambda: place.database.connect(place.options), place.options, target, batch, staged)
    place.query(f"ALTER TABLE {place.options.table} {repair}")
    assert place.write(0, given) is Verdict.COMMIT
    assert place.rows("id, name") == [(1, "a"), (2, "b")]
    assert place.staged() == []


AT_ONCE = {
    "table": "CREATE TABLE {table} (id bigint, name text)",
    "batches": "CREATE TABLE {schema}.kafkaraw_batches (query_id text, table_name text, number bigint, "
    "rows_count bigint, run_number bigint, PRIMARY KEY (query_id, table_name))",
    "column": "ALTER TABLE {table} ADD COLUMN name text",
}


@pytest.mark.parametrize("what", rotating(AT_ONCE, 1))
def test_table_or_column_that_another_process_creates_at_the_same_time_is_used(place, what):
    if what == "column":
        place = replace(place, options=replace(place.options, merge_schema=True))
        place.write(0, pa.table({"id": pa.array([], pa.int64())}))
    errors: list[Exception] = []

    def write() -> None:
        try:
            place.write(1, rows((1, "a")))
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    with dbapi.connect(place.options.database) as other, other.cursor() as cursor:
        cursor.execute(AT_ONCE[what].format(table=place.options.table, schema=schema_of(place)))
        thread = threading.Thread(target=write)
        thread.start()
        deadline = time.monotonic() + 60
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while place.query(waiting) == [(0,)]:
            assert time.monotonic() < deadline
            assert not errors
        other.commit()
        thread.join(60)
    assert errors == []
    assert place.rows() == [(1, "a")]
    assert place.staged() == []


def test_staging_of_an_unqualified_table_in_another_schema_of_the_search_path_is_dropped(server, place):
    schema = schema_of(place)
    where = f"{place.options.database} options='-c search_path={schema},public'"
    place = replace(place, options=replace(place.options, database=where, table="elsewhere"))
    server[0].query("CREATE TABLE public.elsewhere (id bigint, name text)")
    place.stage(BatchId("q", 0, "earlier"), [rows((7, "g"))])
    assert len(place.staged()) == 1
    place.write(0, rows((1, "a")))
    assert place.staged() == []
    assert server[0].named("public.elsewhere").rows() == [(1, "a")]
