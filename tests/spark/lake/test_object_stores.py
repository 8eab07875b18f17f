"""Lake tables in object stores of Amazon, Azure and Google: as in a folder; errors of stores, disks and credentials."""

from __future__ import annotations

import dataclasses
import itertools
import re
import traceback
from urllib.parse import quote

import pyarrow as pa
import pytest

from kafkaraw.spark.errors import TableError
from kafkaraw.spark.lake.commits import Verdict, commit_batch
from kafkaraw.spark.lake.delta import DeltaLayout
from kafkaraw.spark.lake.iceberg import IcebergLayout
from kafkaraw.spark.lake.layout import Commit, CommitConflictError, Layout
from tests.rotation import rotating
from tests.spark.lake.cloud_stores import FIRST_TIMEOUT_S, Credentials, Store
from tests.spark.lake.object_stores import BUCKET
from tests.spark.lake.tables import FORMATS, Lake, batch, no_pause, numbered

pytestmark = pytest.mark.timeout(FIRST_TIMEOUT_S)
_numbers = itertools.count(1)
_places = [((store, kind),) for store in ("amazon", "azure", "google") for kind in FORMATS]


@pytest.fixture(params=rotating(_places, 2), ids="-".join)
def place(request) -> tuple[Store, str]:
    """A store, and a format."""
    store, kind = request.param
    return request.getfixturevalue(store), kind


@pytest.fixture
def lake(place, tmp_path) -> Lake:
    store, kind = place
    return Lake(kind, tmp_path, f"{store.url}/{next(_numbers)}", store.settings(kind))


@pytest.fixture(params=FORMATS)
def local(request, tmp_path) -> Lake:
    return Lake(request.param, tmp_path)


def test_a_table_in_an_object_store_has_each_batch_once_and_is_maintained(lake):
    def rows(number: int) -> pa.Table:
        return pa.table({"n": [number, number + 1], "p": ["a b/ü%", "c"]})

    for number in range(3):
        assert lake.write(rows(10 * number), batch(number), partitionBy="p") is Verdict.COMMIT
    assert lake.write(rows(20), batch(2, "restarted")) is Verdict.REPEATED
    expected = [0, 1, 10, 11, 20, 21]
    assert lake.numbers() == expected
    maintenance = lake.maintenance()
    assert maintenance.optimize(1 << 20).removed_count == 6
    if lake.kind == "iceberg":
        maintenance.expire(0, dry_run=False)
    deleted = maintenance.vacuum(0, dry_run=False)
    assert len([path for path in deleted if path.endswith(".parquet")]) == 6
    assert lake.numbers() == expected
    lake.write(rows(30), batch(3, "restarted"))
    assert lake.numbers() == [*expected, 30, 31]


def test_two_drivers_that_commit_at_once_to_an_object_store_conflict(lake):
    lake.write(numbered([0]), batch(0))
    prepared = [lake.prepare(numbered([]).schema) for _ in range(2)]
    first, second = (
        (table, layout, Commit(batch(1, run), lake.files(numbered([1]), batch(1, run), layout)))
        for (table, layout), run in zip(prepared, ("zombie", "new"), strict=True)
    )
    first[0].commit(first[2], first[1])
    with pytest.raises(CommitConflictError):
        second[0].commit(second[2], second[1])
    assert commit_batch(second[0], second[2], second[1], sleep=no_pause) is Verdict.REPEATED
    assert lake.numbers() == [0, 1]


def test_files_of_several_parts_are_uploaded(lake):
    rows = pa.table({"n": pa.array(range(1_500_000), pa.int64())})
    lake.write(rows, batch(0), compression="none")
    assert lake.maintenance().describe(1 << 20).size_bytes > 8 << 20
    assert lake.rows().sort_by("n").equals(rows)


@pytest.mark.parametrize("credentials", [Credentials.WRONG, Credentials.EXPIRED])
def test_refused_credentials_are_told_with_stage_table_and_options(place, lake, credentials):
    store, kind = place
    _, layout = lake.prepare(numbered([]).schema)
    late = Lake(kind, lake.folder, lake.store, store.settings(kind, credentials))
    with pytest.raises(TableError) as on_driver:
        late.prepare(numbered([]).schema)
    with pytest.raises(TableError) as on_executor:
        late.files(numbered([1]), batch(0), changed(layout, lake, late))
    for error in (on_driver, on_executor):
        check_told(error.value, late, store)
        assert "credentials" in str(error.value)
    assert "opening the table failed" in str(on_driver.value)
    assert re.search(r"(writing|completing) the data file .*kafkaraw_query_0_0_", str(on_executor.value))


def changed(layout: Layout, before: Lake, after: Lake) -> Layout:
    """The layout of a table with the settings of another store."""
    old, new = before.options().settings, after.options().settings
    if before.kind == "delta":
        return dataclasses.replace(layout, settings=new)
    kept = {name: value for name, value in layout.io_properties.items() if name not in old}
    return dataclasses.replace(layout, io_properties=kept | dict(new))


def check_told(error: TableError, lake: Lake, store: Store) -> None:
    """Check that an error names the table and the options, and that neither it nor its causes show a secret."""
    assert lake.options().table in str(error)
    assert ("storage.NAME" if lake.kind == "delta" else "catalog.NAME") in str(error)
    told = "".join(traceback.format_exception(error))
    assert not [secret for secret in store.secrets if secret in told or quote(secret, safe="") in told]


def test_a_missing_bucket_is_told_with_stage_table_and_options(place, tmp_path):
    store, kind = place
    lake = Lake(kind, tmp_path, f"{store.url.replace(BUCKET, 'absent', 1)}/1", store.settings(kind))
    with pytest.raises(TableError, match=r"(opening|creating) the table failed") as told:
        lake.prepare(numbered([]).schema)
    check_told(told.value, lake, store)


def test_a_full_disk_names_table_and_file_and_leaves_the_table_as_it_is(local, monkeypatch):
    local.write(numbered([1]), batch(0))
    _, layout = local.prepare(numbered([]).schema)
    for kind in (DeltaLayout, IcebergLayout):
        monkeypatch.setattr(kind, "create", lambda _self, _path: pa.OSFile("/dev/full", "wb"))
    many = numbered(range(100_000))
    with pytest.raises(
        TableError, match=r"writing the data file .*kafkaraw_query_1_0_.* failed: .*No space left"
    ) as told:
        local.files(many, batch(1), layout)
    assert local.options().table in str(told.value)
    assert "Nothing of this batch is in the table; check space" in str(told.value)
    assert local.numbers() == [1]


def test_a_disk_that_is_full_at_the_commit_leaves_the_table_as_it_is(local, monkeypatch):
    table, layout = local.prepare(numbered([]).schema)
    files = local.files(numbered([1]), batch(0), layout)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    called = (
        (type(table.inner), "create_write_transaction") if local.kind == "delta" else (type(table.inner), "transaction")
    )
    with monkeypatch.context() as patch:
        patch.setattr(*called, full)
        with pytest.raises(TableError, match=r"committing batch 0 of query query failed: .*No space left on device"):
            commit_batch(table, Commit(batch(0), files), layout, sleep=no_pause)
    assert local.numbers() == []
    assert commit_batch(table, Commit(batch(0), files), layout, sleep=no_pause) is Verdict.COMMIT
    assert local.numbers() == [1]
