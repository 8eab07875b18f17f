"""Snapshots and backups that are killed with SIGKILL at every step that changes files leave nothing half done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import ConfigError
from kafkaraw.mirror.backups.checking import check
from kafkaraw.mirror.backups.store import BackupStore
from kafkaraw.mirror.slices import Bounds
from kafkaraw.mirror.snapshot import SNAPSHOT_FILE, SnapshotOptions
from tests.mirror.copies import FEW_PARTITIONS, backup, ends_of, fill, snapshot
from tests.rotation import rotating

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

SNAPSHOT_STEPS = 80
BACKUP_STEPS = 25
"""There are a few more steps: how many depends on the sizes of responses."""
CASES = rotating(
    [
        *(("snapshot", step) for step in range(1, SNAPSHOT_STEPS)),
        *(("backup", step) for step in range(1, BACKUP_STEPS)),
    ],
    1,
)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"log.retention.ms": -1, **FEW_PARTITIONS}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", partitions=2)])
        fill(broker.bootstrap_servers, "orders", range(20))
        yield broker.bootstrap_servers


def kill(step: int, *words: object) -> None:
    """Run a command until a step, where it is killed."""
    command = [sys.executable, "-m", "tests.mirror.killed_copy", str(step), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_a_copy_killed_at_any_step_is_whole_or_does_not_count(
    servers: str, tmp_path: Path, kind: str, step: int
) -> None:
    if kind == "snapshot":
        kill_snapshot(servers, tmp_path, step)
    else:
        kill_backup(servers, tmp_path, step)


def kill_snapshot(servers: str, tmp_path: Path, step: int) -> None:
    """The directory has the old snapshot, the new one, or the next run puts the old one back."""
    directory = tmp_path / "copy"
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=1)))
    words = ["mirror", "snapshot", "orders", "-b", servers, "--last", "5", "--replace", "--to", directory]
    kill(step, *words)
    found = sorted(path.name for path in tmp_path.iterdir())
    if directory.exists():
        assert (directory / SNAPSHOT_FILE).exists()
        with EmbeddedBroker(data_dir=str(directory), properties=FEW_PARTITIONS) as copy:
            assert ends_of(copy.bootstrap_servers, "orders")[0] in ((9, 10), (5, 10))
    else:
        assert found == ["copy.incomplete", "copy.replaced"]
    if (tmp_path / "copy.incomplete" / "data").exists():
        with pytest.raises(ConfigError, match="which is not a broker's"):
            EmbeddedBroker(data_dir=str(tmp_path / "copy.incomplete")).start()
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=7), replace=True))
    with EmbeddedBroker(data_dir=str(directory), properties=FEW_PARTITIONS) as copy:
        assert ends_of(copy.bootstrap_servers, "orders")[0] == (3, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def kill_backup(servers: str, tmp_path: Path, step: int) -> None:
    """A run without a manifest does not count, and later runs have its records once."""
    words = ["backup", "create", "orders", "-b", servers, "--to", tmp_path / "backup"]
    kill(step, *words)
    store = BackupStore(str(tmp_path / "backup"))
    manifests = store.manifests()
    if manifests:
        checked = check(store)
        assert (checked.damages, checked.records_count) == ([], 20)
    backup(servers, ["orders"], tmp_path / "backup", run_id="b")
    backup(servers, ["orders"], tmp_path / "backup", run_id="c")
    checked = check(store)
    assert (checked.damages, checked.records_count, checked.unfinished) == ([], 20, [])
