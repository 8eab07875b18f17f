"""Tables in stores of Azure and Google are read by the libraries alone, with their own file systems and settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import polars
import pytest

from tests.spark.lake.cloud_stores import FIRST_TIMEOUT_S, Store
from tests.spark.lake.object_stores import MissingError, packages_with_adlfs_and_gcsfs
from tests.spark.lake.tables import Lake, batch, numbered

pytestmark = pytest.mark.timeout(FIRST_TIMEOUT_S)
STORES = ("azure", "google")
PROGRAM = """
import json, sys
given = json.loads(sys.argv[1])
sys.path.append(given["packages"])
import duckdb, fsspec
from pyiceberg.catalog import load_catalog

table = load_catalog("tests", **given["catalog"]).load_table("flights.delays")
rows = table.scan().to_arrow()
files = [task.file.file_path for task in table.scan().plan_files()]
store, _ = fsspec.core.url_to_fs(files[0])
connection = duckdb.connect()
connection.register_filesystem(store)
scheme = files[0].partition("://")[0]
paths = [f"{scheme}://{store._strip_protocol(file)}" for file in files]
found = connection.read_parquet(paths).fetchall()
print(json.dumps({
    "io": type(table.io).__name__,
    "pyiceberg": sorted(rows["n"].to_pylist()),
    "duckdb": sorted(n for n, in found),
}))
"""
"""Packages of fsspec are behind those of this environment, which has none for these stores."""


@pytest.fixture(params=STORES)
def store(request) -> Store:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def packages() -> str:
    try:
        return packages_with_adlfs_and_gcsfs()
    except MissingError as missing:
        pytest.skip(f"packages of fsspec are missing: {missing}")


def test_pyiceberg_and_duckdb_read_iceberg_tables_with_packages_of_fsspec(store, tmp_path, packages):
    lake = Lake("iceberg", tmp_path, f"{store.url}/read", store.settings("iceberg"))
    for number in range(2):
        lake.write(numbered([2 * number, 2 * number + 1]), batch(number))
    catalog = {
        name.removeprefix("catalog."): text for name, text in lake.given().items() if name.startswith("catalog.")
    }
    environment = store.environment()
    catalog |= {"gcs.oauth2.token-expires-at": str(int(time.time() + 3600) * 1000)}
    if "AZURE_STORAGE_CONNECTION_STRING" in environment:
        catalog = {name: text for name, text in catalog.items() if not name.startswith("adls.")}
        catalog["adls.connection-string"] = environment["AZURE_STORAGE_CONNECTION_STRING"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps({"packages": packages, "catalog": catalog})],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["pyiceberg"] == found["duckdb"] == [0, 1, 2, 3]
    assert found["io"] == ("FsspecFileIO" if "adls.connection-string" in catalog else "PyArrowFileIO")


def test_polars_reads_delta_tables(store, tmp_path):
    lake = Lake("delta", tmp_path, f"{store.url}/polars", store.settings("delta"))
    lake.write(numbered([1, 2]), batch(0))
    options = {name.removeprefix("storage."): text for name, text in lake.settings.items()}
    found = polars.read_delta(lake.given()["path"], storage_options=options)
    assert sorted(found["n"].to_list()) == lake.numbers() == [1, 2]
