"""The storage of a pipeline: its owner, its lock, generations, and counts that repetitions do not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.running import storage as module
from kafkaraw.pipelines.running.storage import Storage, StorageInUseError, local_path


def test_the_storage_of_another_pipeline_is_refused(tmp_path):
    first = Storage.of(str(tmp_path / "s"), "orders").claim("orders")
    assert Storage.of(f"file://{tmp_path}/s", "orders").claim("orders") == first
    with pytest.raises(ConfigError, match="belongs to pipeline 'orders', not 'flights'"):
        Storage.of(str(tmp_path / "s"), "flights")


def test_a_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="not empty and holds no pipeline"):
        Storage.of(str(tmp_path), "orders")


def test_a_run_that_was_killed_when_it_claimed_the_storage_leaves_it_new(tmp_path):
    (tmp_path / ".pipeline.json.0123abcd").touch()
    assert Storage.of(str(tmp_path), "orders").owner()["name"] == "orders"


def test_a_damaged_owner_file_is_named(tmp_path):
    (tmp_path / "pipeline.json").write_text("{")
    with pytest.raises(ConfigError, match=r"pipeline\.json is damaged"):
        Storage.of(str(tmp_path), "orders")


def test_other_file_systems_are_refused():
    assert local_path("file:///a%20b") == Path("/a b")
    with pytest.raises(ConfigError, match="s3a://bucket/x"):
        local_path("s3a://bucket/x")


def test_one_run_has_the_storage_at_a_time(tmp_path):
    storage = Storage.of(str(tmp_path), "orders")
    assert not storage.is_locked()
    with storage.lock():
        assert storage.is_locked()
        with pytest.raises(StorageInUseError, match=rf"in use by another run \(process {os.getpid()}\)"):
            storage.lock()
    assert not storage.is_locked()
    storage.lock().release()


def test_a_run_waits_for_the_jvm_of_a_killed_run(tmp_path, monkeypatch):
    storage = Storage.of(str(tmp_path), "orders")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        killed = storage.lock()
        killed.note_jvm(process.pid)
        killed._file.close()  # as the kernel does
        monkeypatch.setattr(module, "_FORMER_JVM_TIMEOUT_S", 0.2)
        with pytest.raises(StorageInUseError, match=f"process {process.pid}\\) still runs"):
            storage.lock()
        process.kill()
    storage.lock().release()


def test_generations_start_where_they_are_told_and_keep_earlier_ones(tmp_path):
    flow = Storage(tmp_path).flow("db.clean")
    flow.prepare()
    assert flow.generation == 1
    assert flow.start_offsets() is None
    flow.keep_topic_ids({"orders": "x"})
    assert flow.begin_generation({"orders": {0: 7}}, {}) == 2
    assert flow.start_offsets() == {"orders": {0: 7}}
    assert flow.topic_ids() == {}
    assert flow.generations() == [1, 2]
    assert [each.name for each in Storage(tmp_path).flows()] == ["db.clean"]


def test_a_repeated_batch_counts_once(tmp_path):
    flow = Storage(tmp_path).flow("clean")
    flow.prepare()
    flow.keep_counts(0, {"rows": {"in": 3, "out": 2}})
    flow.keep_counts(1, {"rows": {"in": 5, "out": 5}})
    flow.keep_counts(1, {"rows": {"in": 5, "out": 4}, "bad": {"n": 1}})
    assert flow.counts().totals == {"rows": {"in": 8, "out": 6}, "bad": {"n": 1}}
    assert flow.counts().last == {"rows": {"in": 5, "out": 4}, "bad": {"n": 1}}
    for batch in range(2, 9):
        flow.keep_counts(batch, {"rows": {"in": 1}})
    assert flow.counts().totals["rows"] == {"in": 15, "out": 6}
    assert len(list((flow.folder() / "counts").iterdir())) == 2


def test_a_forked_generation_goes_on_with_the_totals(tmp_path):
    flow = Storage(tmp_path).flow("clean")
    flow.prepare()
    flow.keep_counts(0, {"rows": {"in": 3}})
    flow.begin_generation({}, flow.counts().totals)
    assert flow.counts().totals == {"rows": {"in": 3}}
    flow.keep_counts(0, {"rows": {"in": 1}})
    flow.keep_counts(0, {"rows": {"in": 2}})
    assert flow.counts().totals == {"rows": {"in": 5}}


def test_files_are_replaced_as_a_whole(tmp_path):
    target = tmp_path / "a" / "b.json"
    module.write_atomically(target, "1")
    module.write_atomically(target, json.dumps({"n": 2}))
    assert json.loads(target.read_text()) == {"n": 2}
    assert [each.name for each in target.parent.iterdir()] == ["b.json"]
