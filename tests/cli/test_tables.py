"""`kafkaraw tables`: what it prints of a Delta and an Iceberg table, what it changes, and what it refuses."""

from __future__ import annotations

import json
import os
import time

import pytest
from click.testing import CliRunner, Result

from kafkaraw.cli import main
from tests.spark.lake.tables import FORMATS, Lake, batch, numbered


@pytest.fixture(params=FORMATS)
def lake(request, tmp_path) -> Lake:
    found = Lake(request.param, tmp_path)
    for number in range(3):
        found.write(numbered([number]), batch(number))
    return found


def run(lake: Lake, command: str, *arguments: str, code: int = 0, given: str | None = None) -> Result:
    options = lake.given()
    name = options.pop("path", None) or options.pop("table")
    chosen = [f"-X{option}={text}" for option, text in options.items()]
    result = CliRunner().invoke(main, ["tables", command, name, *chosen, *arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def test_describe_prints_files_columns_and_queries(lake):
    table, columns, queries = (each.splitlines() for each in run(lake, "describe").stdout.split("\n\n"))
    assert dict(zip(table[0].split(), table[1].split(), strict=True))["FILES"] == "3"
    assert columns[1].split() == ["n", "bigint", "True"]
    assert queries[1].split() == ["query", "2", "1"]
    found = json.loads(run(lake, "describe", "--json", "--target-file-size", "1k").stdout)
    assert (found["format"], found["files"], found["rows"], found["partition_by"]) == (lake.kind, 3, 3, [])
    assert found["columns"] == [{"column": "n", "type": "bigint", "nulls": True}]
    assert found["queries"] == [{"query": "query", "batch": 2, "rows": 1}]


def test_optimize_prints_what_it_replaced(lake):
    (found,) = json.loads(run(lake, "optimize", "-o", "json").stdout)
    assert (found["removed"], found["added"]) == (3, 1)
    assert lake.numbers() == [0, 1, 2]
    assert "must be a size" in run(lake, "optimize", "--target-file-size", "big", code=1).stderr


def test_vacuum_shows_files_asks_and_deletes(lake):
    _, layout = lake.prepare(numbered([]).schema)
    lake.files(numbered([9]), batch(9), layout)
    then = time.time() - 10 * 86_400
    for path in lake.folder.rglob("kafkaraw_*"):
        os.utime(path, (then, then))
    shown = json.loads(run(lake, "vacuum", "--dry-run", "--json").stdout)
    assert ["_9_0_" in each["file"] for each in shown] == [True]
    assert "Delete 1 file? Give --yes to confirm" in run(lake, "vacuum", code=2).stderr
    assert len(lake.data_files()) == 4
    assert run(lake, "vacuum", "--yes").stderr == "Deleted 1 file.\n"
    assert len(lake.data_files()) == 3
    assert run(lake, "vacuum", "--yes").stderr == "Deleted 0 files.\n"
    assert lake.numbers() == [0, 1, 2]


def test_vacuum_below_an_hour_needs_no_writers(lake):
    assert "less than 3600 (1h)" in run(lake, "vacuum", "--older-than", "PT59M", code=1).stderr
    run(lake, "vacuum", "--older-than", "PT0S", "--no-writers", "--dry-run")
    assert "is not an ISO 8601 duration" in run(lake, "vacuum", "--older-than", "7 days", code=2).stderr


def test_expire_shows_and_forgets_versions(lake):
    if lake.kind == "delta":
        run(lake, "expire", "--dry-run")
        assert run(lake, "expire").stderr == "Forgot 0 versions.\n"
        return
    assert len(json.loads(run(lake, "expire", "--older-than", "PT0S", "--dry-run", "--json").stdout)) == 2
    assert run(lake, "expire", "--older-than", "PT0S").stderr == "Forgot 2 versions.\n"
    assert lake.numbers() == [0, 1, 2]


def test_a_table_that_does_not_exist_is_named_with_what_to_give(tmp_path):
    result = CliRunner().invoke(main, ["tables", "describe", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert f"there is no Delta table {tmp_path}/nothing: check the name" in result.stderr
    lake = Lake("iceberg", tmp_path)
    assert "there is no Iceberg table flights.delays: check the name" in run(lake, "describe", code=1).stderr


def test_options_come_from_a_file_and_unknown_ones_are_named(tmp_path):
    lake = Lake("iceberg", tmp_path)
    lake.write(numbered([1]), batch(0))
    file = tmp_path / "iceberg.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in lake.given().items() if name != "table"))
    result = CliRunner().invoke(main, ["tables", "describe", "flights.delays", "-F", str(file), "--json"])
    assert json.loads(result.stdout)["format"] == "iceberg"
    result = CliRunner().invoke(main, ["tables", "describe", "flights.delays", "-F", str(file), "-X", "catalogs=x"])
    assert result.exit_code == 1
    assert "unknown option 'catalogs' of format kafkaraw.iceberg; did you mean catalog?" in result.stderr


def test_a_shell_completes_folders_and_options(tmp_path):
    complete = {"_KAFKARAW_COMPLETE": "bash_complete", "COMP_WORDS": "kafkaraw tables vacuum lak", "COMP_CWORD": "3"}
    found = CliRunner().invoke(main, prog_name="kafkaraw", env=complete).output
    assert found == "dir,lak\n"
    complete["COMP_WORDS"] = "kafkaraw tables vacuum lake --no"
    assert "--no-writers" in CliRunner().invoke(main, prog_name="kafkaraw", env=complete | {"COMP_CWORD": "4"}).output
