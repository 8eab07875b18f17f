"""The program and the commands of the guide about lake tables do what the guide says."""

from __future__ import annotations

import json
import shlex

import polars
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from kafkaraw import NewTopic
from kafkaraw.cli import main
from tests.docs.test_guides import FOLDER, program_of

PAGE = FOLDER / "write-lake-tables.md"


def commands() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("kafkaraw tables ")]


@pytest.mark.timeout(300)
def test_programs_write_the_tables_and_commands_maintain_them(spark, kafka, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kafka.admin.create_topics([NewTopic("flights", 1), NewTopic("shop.customers", 1)])
    values = [(b"UA1", b"late"), (b"UA2", b"on time"), (b"UA1", None), (b"UA3", b"late"), (b"UA3", b"gone")]
    changes = [
        {"before": None, "after": {"id": 1, "name": "Ada"}, "op": "c"},
        {"before": None, "after": {"id": 2, "name": "Bob"}, "op": "r"},
        {"before": {"id": 1, "name": "Ada"}, "after": {"id": 1, "name": "Ada L."}, "op": "u"},
        {"before": {"id": 2, "name": "Bob"}, "after": None, "op": "d"},
        None,
    ]
    for key, value in values:
        kafka.producer.send("flights", value, key).result(30)
    for change in changes:
        kafka.producer.send("shop.customers", None if change is None else json.dumps(change).encode()).result(30)

    # Spark's processes are in the folder in which the session was started.
    program = program_of(PAGE).replace("localhost:9092", kafka.servers).replace("/srv/lake", str(tmp_path / "srv"))
    for name in ("lake/", "checkpoints/"):
        program = program.replace(f'"{name}', f'"{tmp_path}/{name}')
    program = program.replace("sqlite:///", f"sqlite:///{tmp_path}/")
    exec(compile(program, str(PAGE), "exec"), {"__name__": "__main__"})
    flights = polars.from_arrow(DeltaTable("lake/flights").to_pyarrow_table())
    assert flights.sort("offset")["flight"].to_list() == ["late", "on time", None, "late", "gone"]
    settings = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": f"file://{tmp_path}/srv"}
    table = load_catalog("default", **settings).load_table("travel.flights")
    assert table.scan().to_arrow().sort_by("offset")["flight"].to_pylist() == flights.sort("offset")["flight"].to_list()
    assert rows("lake/status") == [{"flight": "UA2", "status": "on time"}, {"flight": "UA3", "status": "gone"}]
    assert rows("lake/customers") == [{"id": 1, "name": "Ada L."}]

    lines = "".join(f"catalog.{name}={value}\n" for name, value in settings.items())
    (tmp_path / "iceberg.properties").write_text(lines)
    for command in commands():
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
    assert {shlex.split(command)[2] for command in commands()} == {"describe", "optimize", "expire", "vacuum"}


def rows(path: str) -> list[dict[str, object]]:
    return sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=str)
