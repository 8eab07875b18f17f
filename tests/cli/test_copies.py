"""`kafkaraw mirror snapshot`, `backup` and `restore`: options, output, exit codes, and errors in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw import Admin, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from tests.mirror.copies import FEW_PARTITIONS, fill

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"log.retention.ms": -1, **FEW_PARTITIONS}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", partitions=2)])
        fill(broker.bootstrap_servers, "orders", range(20))
        yield broker.bootstrap_servers


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_snapshot_prints_what_was_copied(servers: str, tmp_path: Path) -> None:
    result = run("mirror", "snapshot", "orders", "-b", servers, "--last", 3, "--to", tmp_path / "copy", "-o", "json")
    rows = json.loads(result.stdout)
    assert all(row.pop("bytes") > 0 for row in rows)
    assert rows == [
        {"topic": "orders", "partition": number, "first_offset": 7, "end_offset": 10, "records": 3} for number in (0, 1)
    ]
    assert f"copied 6 records (0.0 MB); open them: kafkaraw broker --data-dir {tmp_path / 'copy'}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        ([], 2, "Missing argument 'TOPIC...'"),
        (["orders", "--keys"], 2, "--keys and --values say what --mask replaces"),
        (["orders", "--mask", "nothing"], 2, "--mask nothing: must be MODULE:FUNCTION"),
        (
            ["orders", "--mask", "no_such_module:f"],
            1,
            "--mask no_such_module:f: cannot be imported: ModuleNotFoundError",
        ),
        (["orders", "--mask", "json:nothing"], 1, "--mask json:nothing: cannot be imported: AttributeError"),
        (["orders", "--mask", "json:__name__"], 1, "--mask json:__name__: is no function"),
        (["orders", "--since", "soon"], 1, "--since soon: a time must be"),
        (["nowhere"], 1, "there is no topic 'nowhere'"),
    ],
)
def test_a_wrong_option_of_a_snapshot_is_reported(
    servers: str, tmp_path: Path, arguments: list[str], exit_code: int, text: str
) -> None:
    result = run("mirror", "snapshot", "-b", servers, "--to", tmp_path / "copy", *arguments)
    assert (result.exit_code, text in result.stderr) == (exit_code, True), result.output
    assert list(tmp_path.iterdir()) == []


def test_a_prune_shows_what_it_would_remove_and_removes_it_when_it_is_told_to(servers: str, tmp_path: Path) -> None:
    for more in ((), ("--full",)):
        run("backup", "create", "orders", "-b", servers, "--to", tmp_path, *more)
    (first, _) = json.loads(run("backup", "list", tmp_path, "-o", "json").stdout)
    removed = [{"topic": "orders", "files": 2, "bytes": first["bytes"], "records": 0}]
    shown = run("backup", "prune", tmp_path, "--keep-last", 1, "-o", "json")
    assert json.loads(shown.stdout) == removed
    assert f"would remove 2 files, {first['bytes']:,} bytes" in shown.stderr
    assert "nothing was changed: --yes removes them" in shown.stderr
    made = run("backup", "prune", tmp_path, "--keep-last", 1, "--yes", "-o", "json")
    assert json.loads(made.stdout) == removed
    assert "run 1 cannot be restored any more; run 2 can" in made.stderr
    assert run("backup", "verify", tmp_path, "-q").exit_code == 0
    assert json.loads(run("backup", "prune", tmp_path, "--older-than", "P1D", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give either --keep-last or --older-than"),
        (["--keep-last", "1", "--older-than", "P1D"], "give either --keep-last or --older-than"),
        (["--older-than", "90d"], "--older-than 90d: must be an ISO 8601 duration, as P90D or PT12H"),
        (["--keep-last", "1", "--yes", "--dry-run"], "--yes and --dry-run exclude each other"),
        (["--keep-last", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_option_of_a_prune_is_reported(tmp_path: Path, arguments: list[str], text: str) -> None:
    result = run("backup", "prune", tmp_path, *arguments)
    assert (result.exit_code, text in result.stderr) == (2, True), result.output


def test_a_damaged_backup_is_reported_with_exit_code_1(servers: str, tmp_path: Path) -> None:
    assert run("backup", "create", "orders", "-b", servers, "--to", tmp_path, "-q").stderr == ""
    (listed,) = json.loads(run("backup", "list", tmp_path, "-o", "json").stdout)
    assert (listed["run"], listed["records"], listed["topics"][0]["name"]) == (1, 20, "orders")
    assert run("backup", "verify", tmp_path).stdout == ""
    path = tmp_path / listed["topics"][0]["partitions"][1]["files"][0]
    path.unlink()
    result = run("backup", "verify", tmp_path, "-o", "json")
    assert result.exit_code == 1
    (damage,) = json.loads(result.stdout)
    assert (damage["topic"], damage["partition"], damage["problem"]) == ("orders", 1, f"{path}: is missing")
    result = run("restore", tmp_path, "-b", servers, "--rename", "orders=copy")
    assert (result.exit_code, result.stderr) == (1, f"Error: {path}: is missing\n")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        (["--rename", "orders"], 2, "--rename orders: must be OLD=NEW"),
        (["--group", "g", "--no-groups"], 2, "--group and --no-groups exclude each other"),
        (["--to-time", "soon"], 1, "--to-time soon: a time must be"),
        (["nowhere"], 1, "the backup has no topic 'nowhere'; it has orders"),
        (["--run", "2"], 1, "has no run 2: it has 1"),
        ([], 1, "topic 'orders' is not empty: orders-0 has offsets 0 to 9"),
    ],
)
def test_a_wrong_option_of_a_restore_is_reported(
    servers: str, tmp_path: Path, arguments: list[str], exit_code: int, text: str
) -> None:
    run("backup", "create", "orders", "-b", servers, "--to", tmp_path)
    result = run("restore", tmp_path, "-b", servers, *arguments)
    assert (result.exit_code, text in result.stderr) == (exit_code, True), result.output


def test_a_restore_prints_partitions_and_translated_offsets(servers: str, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("g", {TopicPartition("orders", 1): 4})
    run("backup", "create", "orders", "-b", servers, "--to", tmp_path, "--format", "parquet")
    result = run("restore", tmp_path, "-b", servers, "--rename", "orders=shown", "--dry-run")
    assert result.stdout.split("\n")[-2].split() == ["g", "shown", "1", "4"]
    assert "20 records would be restored; nothing was changed (--dry-run)" in result.stderr
    result = run("restore", tmp_path, "-b", servers, "--rename", "orders=shown", "-o", "json")
    found = json.loads(result.stdout)
    assert found["created"] == ["shown"]
    assert found["groups"] == [{"group": "g", "topic": "shown", "partition": 1, "offset": 4}]
    assert [row["end_offset"] for row in found["partitions"]] == [10, 10]
