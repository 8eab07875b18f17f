"""How the tests of a run are distributed to its processes, with `-n`.

Tests of one file run in one process, so that its fixtures are made once. Tests that share something slow (Spark's JVM,
Apache Kafka's) form a group that stays in one process; simulations are distributed one by one.

Tests with other processes mostly wait, so their groups start first, and one process runs other tests meanwhile: two
cores are busy with three processes. Start at `Distribution`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WAITING_GROUPS = (
    "pipelines",
    "spark",
    "interop",
    "interop/test_connectors.py",
    "demo",
    "interop/test_acls.py",
    "interop/test_security.py",
    "interop/test_group_members.py",
    "interop/test_apache_directories.py",
    "interop/test_retention.py",
    "interop/test_killed_logs.py",
    "interop/test_killed_share_groups.py",
    "interop/test_partition_moves.py",
    "interop/test_failing_disks.py",
    "interop/test_broker_log_files.py",
    "interop/test_log_files.py",
    "interop/test_log_cleaner.py",
    "spark/test_no_secret_is_shown.py",
)
"""Folders and files below `tests` whose tests share slow fixtures and wait for other processes, in starting order.

The longest group is first: it stays in one process, so a run takes at least as long. Files of `interop` that start
brokers of their own are groups: in one process, all would be the end of a run.
"""
WITH_SPARK = {
    "demo/test_pipeline.py": "spark",
    "docs/test_pipelines.py": "pipelines",
    "docs/test_schemas.py": "spark",
}
"""Files that use the Spark session of another group, after its tests: the first ones decide on Spark's workers."""
WITHOUT_JVM = (
    "spark/reading/test_ranges_without_records.py",
    "spark/reading/test_topics_that_vanish.py",
    "spark/test_losses.py",
    "spark/writing",
)
"""Folders and files of waiting groups whose tests share nothing and compute: each file is a group."""
LONG_FILES = ("fuzz", "client/hooks", "client/threads")
"""Folders of files that take ten seconds or more: at the end of a run, the other processes would wait for them."""
SPREAD_FOLDERS = ("simulation",)
"""Folders whose tests share nothing and take a second or so: any process takes the next one, at the end of a run."""


def group_of(nodeid: str) -> str:
    """Return what a test shares its process with: a group of `WAITING_GROUPS`, its file, or no other test."""
    path = nodeid.partition("::")[0]
    below = path.removeprefix("tests/")
    folder = below.partition("/")[0]
    if below.startswith(WITHOUT_JVM):
        return path
    if below in WITH_SPARK:
        return WITH_SPARK[below]
    if below in WAITING_GROUPS:
        return below
    if folder in WAITING_GROUPS:
        return folder
    return nodeid if folder in SPREAD_FOLDERS else path


def is_last_of_its_group(nodeid: str) -> bool:
    """Whether a test comes after the others of its group."""
    return nodeid.partition("::")[0].removeprefix("tests/") in WITH_SPARK


def in_starting_order(groups: Iterable[str]) -> dict[str, int]:
    """Rank groups: waiting ones in their order, long files, other files, and what fills the time at the end."""
    return {group: _rank(group) for group in groups}


def _rank(group: str) -> int:
    if group in WAITING_GROUPS:
        return WAITING_GROUPS.index(group)
    below = group.removeprefix("tests/")
    if below.startswith(WITHOUT_JVM + LONG_FILES):
        return len(WAITING_GROUPS)
    return len(WAITING_GROUPS) + (2 if below.startswith(SPREAD_FOLDERS) else 1)


def send_only_what_is_read(config: pytest.Config) -> None:
    """Let this worker send no event that the first process ignores: half of the six events of a test.

    That a test starts, and that its setup and teardown passed, matters for `-v`, `--durations` and `--junitxml` only.
    """
    if config.option.verbose > 0 or config.option.durations is not None or config.option.xmlpath is not None:
        return
    # By name: the worker has the source of its class, not the module.
    worker: Any = next(it for it in config.pluginmanager.get_plugins() if type(it).__name__ == "WorkerInteractor")
    send = worker.sendevent

    def sendevent(name: str, **contents: Any) -> None:
        report = contents.get("data", {})
        ignored = name == "testreport" and report["when"] != "call" and report["outcome"] == "passed"
        if name != "logstart" and not ignored:
            send(name, **contents)

    worker.sendevent = sendevent


class _Collection(list[str]):
    """Collected tests whose places are found by a table: a search takes seconds in all for 16,000 tests."""

    def __init__(self, nodeids: Sequence[str]) -> None:
        super().__init__(nodeids)
        self._places = {nodeid: place for place, nodeid in enumerate(nodeids)}

    def index(self, nodeid: str, *_: Any) -> int:
        return self._places[nodeid]


class Distribution(LoadScopeScheduling):
    """Hand out groups in the order of collection, but no waiting one to a process if all others have one.

    xdist's own `--dist loadgroup` needs node ids that can be written to, which pytest 9.2 has no more.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        group = group_of(self.registered_collections[node][item_index])
        units = self.assigned_work[node]
        super().mark_test_complete(node, item_index, duration)
        if all(units[group].values()):
            del units[group]  # each later completion would count its tests again

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(self._next_group(node), last=False)
        super()._assign_work_unit(node)

    def _next_group(self, node: Any) -> str:
        """Return the first group, or the first that computes if all other processes have a waiting group."""
        first = next(iter(self.workqueue))
        others = [units for other, units in self.assigned_work.items() if other is not node]
        if first in WAITING_GROUPS and others and all(any(map(WAITING_GROUPS.__contains__, units)) for units in others):
            return next((group for group in self.workqueue if group not in WAITING_GROUPS), first)
        return first
