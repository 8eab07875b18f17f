"""A part of the cases of a test in `make test`, other ones with each commit, and all of them in `make soak`.

For cases that differ in data only and take long: the cases of one commit show whether the rule holds at all, the
commits together check each case. Start at `rotating`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.simulation import seeds

SLOW_FILES: Final = (
    # whole runs and kills, one test each
    "docs/test_pipelines.py",
    "docs/test_schemas.py",
    "demo/test_pipeline.py",
    "bench/test_network.py",
    "pipelines/test_kills.py",
    "pipelines/test_command_run.py",
    "spark/test_killed_driver.py",
    "spark/test_sink_kill_plans.py",
    "pipelines/test_dead_letters_of_runs.py",
    "spark/test_no_secret_is_shown.py",
    "interop/test_connectors.py",
    "pipelines/test_contents.py",
    "pipelines/test_scaffold.py",
    "pipelines/test_bad_records.py",
    "pipelines/test_analysis.py",
    "pipelines/test_changed_definitions.py",
    "pipelines/test_changes.py",
    "pipelines/test_envelopes.py",
    "pipelines/test_examples.py",
    "pipelines/test_json_columns.py",
    "pipelines/test_plan_command.py",
    "pipelines/test_runs.py",
    "pipelines/test_tables.py",
    "pipelines/testing",
    "spark/databases",
    "spark/lake",
    "spark/launch",
    "spark/test_batch.py",
    "spark/test_clusters.py",
    "spark/test_exactly_once_queries.py",
    "spark/test_late_binding.py",
    "spark/test_log_dirs.py",
    "spark/test_programs.py",
    "spark/test_streaming.py",
    "spark/test_typed_columns.py",
    "interop/test_acls.py",
    "interop/test_apache_directories.py",
    "interop/test_command_line.py",
    "interop/test_commands_on_apache_kafka.py",
    "interop/test_everyone_reads_everyone.py",
    "interop/test_groups.py",
    "interop/test_java_tools_on_both_brokers.py",
    "interop/test_log_files.py",
    "interop/test_mixed_groups.py",
    "interop/test_our_client.py",
    "interop/test_partition_moves.py",
    "interop/test_retention.py",
    "interop/test_security.py",
    "interop/test_users_and_quotas.py",
)
"""Files and folders below `tests` whose tests take seconds each, most with a JVM."""

SLOW_SHARE: Final = 3
"""A commit has each third of the slow tests: three commits have all of them."""


def rotating(cases: Iterable[object], count: int) -> list[ParameterSet]:
    """Return parameters of a test: those that are not this commit's are marked as `soak`.

    Args:
        cases: the parameters; a tuple for several arguments.
        count: about how many of them each commit has: each second, each third, and so on.
    """
    found = list(cases)
    of_commit = set(_places(len(found), count))
    return [
        pytest.param(*_values(case), marks=() if place in of_commit else pytest.mark.soak)
        for place, case in enumerate(found)
    ]


def _places(total: int, count: int) -> range:
    """Return the places of this commit's cases; a commit has at least one."""
    step = max(1, -(-total // count))
    return range(seeds.FIRST // 1000 % step, total, step)


def _values(case: object) -> tuple[object, ...]:
    return case if isinstance(case, tuple) else (case,)


def leave_slow_tests_to_other_commits(items: Sequence[pytest.Item], below: str) -> None:
    """Mark the slow tests that are not this commit's as `soak`.

    Args:
        items: all collected tests.
        below: the folder of `SLOW_FILES`, as node ids begin.
    """
    slow: list[tuple[int, int, pytest.Item]] = []
    for order, item in enumerate(items):
        path = item.nodeid.partition("::")[0].removeprefix(below)
        place = next((place for place, each in enumerate(SLOW_FILES) if (path + "/").startswith(each + "/")), None)
        if place is not None and item.get_closest_marker("soak") is None:
            slow.append((place, order, item))
    for number, (*_, item) in enumerate(sorted(slow, key=lambda each: each[:2])):
        if (number + seeds.FIRST // 1000) % SLOW_SHARE:
            item.add_marker("soak")
