"""New generations of checkpoints start where the old one has ended, or at given offsets; nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.running.checkpoints import checkpoint_of, fork, rewind
from kafkaraw.pipelines.running.storage import Storage, StorageInUseError

METADATA = {"batchWatermarkMs": 1_700_000_000_000, "batchTimestampMs": 1, "conf": {}}
FILES = {"logOffset": 3}
WRITTEN = {"kafkaraw.written": {"rows": 7}}


@pytest.fixture
def storage(tmp_path) -> Storage:
    return Storage.of(str(tmp_path / "sales" / "storage"), "sales")


def write_checkpoint(storage: Storage, name: str, batches: int, finished: int, *sources: Mapping[str, object]) -> None:
    """Write the files that Spark would: `batches` planned micro-batches, of which some are finished."""
    flow = storage.flow(name)
    flow.prepare()
    for kind, count in (("offsets", batches), ("commits", finished)):
        (flow.checkpoint / kind).mkdir(parents=True)
        for number in range(count):
            shown = [json.dumps({"orders": {"0": 10 * (number + 1), "1": number}}), *map(json.dumps, sources)]
            lines = ["v1", json.dumps(METADATA), *shown] if kind == "offsets" else ["v1", "{}"]
            (flow.checkpoint / kind / str(number)).write_text("\n".join(lines))
    for number in range(finished):
        flow.keep_counts(number, WRITTEN)


def test_a_fork_starts_where_the_finished_micro_batches_end_and_keeps_the_counts(storage):
    write_checkpoint(storage, "clean", 2, 2)
    begun = fork(storage, "clean")
    assert (begun.number, begun.start) == (2, {"orders": {0: 20, 1: 1}})
    flow = storage.flow("clean")
    assert (flow.generation, flow.start_offsets()) == (2, {"orders": {0: 20, 1: 1}})
    assert flow.counts().totals == {"kafkaraw.written": {"rows": 14}}
    assert checkpoint_of(flow, 1).finished.number == 1, "the old generation stays"


def test_an_unfinished_micro_batch_that_was_written_is_not_read_again(storage):
    write_checkpoint(storage, "clean", 2, 1)
    storage.flow("clean").keep_counts(1, WRITTEN)  # written, and killed before Spark noted it
    assert fork(storage, "clean").start == {"orders": {0: 20, 1: 1}}


def test_an_unfinished_micro_batch_that_the_table_has_is_not_read_again(storage):
    write_checkpoint(storage, "clean", 2, 1)
    manifest = storage.table("clean") / "_kafkaraw/manifests/clean/000001-000000000001.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    assert fork(storage, "clean").start == {"orders": {0: 20, 1: 1}}


@pytest.mark.parametrize(("unfinished", "offset"), [("skip", 20), ("repeat", 10)])
def test_an_unfinished_micro_batch_of_a_topic_needs_a_decision(storage, unfinished, offset):
    write_checkpoint(storage, "out", 2, 1)
    with pytest.raises(ConfigError, match=r"killed in micro-batch 1.*--unfinished skip"):
        fork(storage, "out")
    assert storage.flow("out").generation == 1
    assert fork(storage, "out", unfinished=unfinished).start["orders"][0] == offset


def test_a_fork_of_a_fork_that_has_not_run_starts_at_the_same_offsets(storage):
    write_checkpoint(storage, "clean", 1, 1)
    fork(storage, "clean")
    assert fork(storage, "clean").start == {"orders": {0: 10, 1: 0}}


def test_a_fork_reads_a_topic_that_was_made_anew_from_its_beginning(storage):
    write_checkpoint(storage, "clean", 1, 1, {"sales.replays": {"0": 2}})
    with pytest.raises(ConfigError, match=r"--anew order: .*did you mean 'orders'"):
        fork(storage, "clean", anew=["order"])
    assert fork(storage, "clean", anew=["sales.replays"]).start == {"orders": {0: 10, 1: 0}, "sales.replays": {}}
    assert storage.flow("clean").start_offsets() == {"orders": {0: 10, 1: 0}, "sales.replays": {}}


def test_a_rewind_keeps_the_offset_of_replays_unless_all_records_are_read_again(storage):
    write_checkpoint(storage, "clean", 1, 1, {"sales.replays": {"0": 2}})
    start = {"orders": {0: 5, 1: 0}}
    assert rewind(storage, "clean", start, is_beginning=False).start == {**start, "sales.replays": {0: 2}}
    assert rewind(storage, "clean", start, is_beginning=True).start == start


def test_what_cannot_be_forked_is_refused_with_what_to_do(storage):
    write_checkpoint(storage, "copy", 1, 1, FILES)
    with pytest.raises(ConfigError, match="would read all rows again"):
        fork(storage, "copy")
    with pytest.raises(ConfigError, match="only be rewound --to earliest"):
        rewind(storage, "copy", {"orders": {0: 5}}, is_beginning=False)
    with pytest.raises(ConfigError, match="no checkpoint of a flow 'cop'; did you mean 'copy'"):
        fork(storage, "cop")
    storage.flow("new").prepare()
    with pytest.raises(ConfigError, match="nothing to fork"):
        fork(storage, "new")
    with storage.lock(), pytest.raises(StorageInUseError):
        fork(storage, "copy")


def test_files_that_are_no_offsets_are_named(storage):
    write_checkpoint(storage, "clean", 1, 1)
    path = storage.flow("clean").checkpoint / "offsets" / "0"
    path.write_text("v9\n{}")
    with pytest.raises(ConfigError, match=r"offsets/0 cannot be read as Spark's offsets: it has version 'v9'"):
        checkpoint_of(storage.flow("clean"))


def test_commands_show_fork_and_rewind_by_word_and_time(storage, tmp_path):
    write_checkpoint(storage, "clean", 1, 1)
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(3):
                producer.send("orders", b"x", timestamp_ms=1_700_000_000_000 + number).result(30)
        settings = f"configuration:\n  kafkaraw.kafka.bootstrap.servers: {broker.bootstrap_servers}\n"
        folder = tmp_path / "sales"
        (folder / "a.py").write_text("")
        libraries = "libraries:\n  - glob:\n      include: a.py\n"
        (folder / "spark-pipeline.yml").write_text(f"name: sales\nstorage: storage\n{libraries}{settings}")
        assert command(folder, "show").splitlines() == [
            "clean: generation 1",
            "  finished   micro-batch 0, up to orders 0:10 1:0, watermark 2023-11-14T22:13:20Z",
            "  written    7 rows since the first run or full refresh",
        ]
        assert command(folder, "fork", "clean").startswith("clean: generation 2 starts at orders 0:10 1:0\n")
        assert "generation 3 starts at orders 0:0\n" in command(folder, "rewind", "clean", "--to", "earliest")
        assert "generation 4 starts at orders 0:3\n" in command(folder, "rewind", "clean", "--to", "latest")
        assert "generation 5 starts at orders 0:2\n" in command(folder, "rewind", "clean", "--to", "1700000000002")
        shown = json.loads(command(folder, "show", "clean", "--all", "--json"))
        assert [each["generation"] for each in shown] == [1, 2, 3, 4, 5]


def command(folder: Path, name: str, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["pipelines", "checkpoint", name, *arguments, "--pipeline", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output
