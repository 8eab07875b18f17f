"""A part of the slow tests in `make test`, another one with each commit, and all of them in `make soak`.

The tests of one commit show whether each rule holds at all, the commits together check each case. What a commit has
depends on its id alone. Start at `leave_slow_tests_to_other_commits`, or at `rotating` for the cases of one test.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.simulation import seeds

SCENARIOS: Final = (
    "spark/test_clusters.py",
    "docs/test_pipelines.py::test_page_runs_from_an_empty_folder",
    "demo/test_pipeline.py",
    "spark/test_sink_kill_plans.py::test_rows_are_committed_once_or_refused",
    "pipelines/test_kills.py",
    "spark/test_programs.py",
    "interop/test_connectors.py::test_both_connectors_do_what_the_scenario_says",
    "pipelines/test_command_run.py::test_a_run_shows_its_state_ends_at_sigterm_and_is_continued_by_the_next_one",
    "interop/test_apache_directories.py",
    "spark/test_no_secret_is_shown.py::test_spark_shows_no_secret",
    "records/test_building.py::test_without_a_working_compiler_the_build_succeeds_and_compiles_nothing",
    "interop/test_token_answers.py",
    "pipelines/test_envelopes.py",
    "pipelines/test_scaffold.py::test_tests_of_a_new_pipeline_pass",
    "bench/test_network.py::test_every_kind_is_measured_and_every_setting_is_told",
    "demo/test_flights.py",
    "docs/test_schemas.py::test_the_page_runs_from_an_empty_folder",
    "pipelines/test_dead_letters_of_runs.py",
    "spark/test_killed_driver.py::test_no_record_is_lost_with_drawn_faults",
    "bench/test_consume.py::test_rows_are_measured",
    "bench/test_partitions.py",
    "interop/test_internal_topics.py",
    "bench/test_broker.py::test_every_workload_is_measured_on_every_broker",
    "pipelines/test_killed_replays.py",
    "bench/test_produce.py::test_rows_are_measured_and_judged",
    "testing/test_pytest_plugin.py",
    "spark/lake/test_killed_writers.py",
    "pipelines/test_changed_definitions.py",
    "pipelines/test_contents.py",
    "spark/lake/test_guide.py",
    "spark/lake/test_object_stores.py",
    "spark/test_mirror.py",
    "interop/test_kafka_streams.py",
    "interop/test_wireshark.py",
    "interop/test_killed_share_groups.py",
    "interop/test_share_clients.py",
    "mirror/backups/test_object_store.py",
    "spark/lake/test_store_readers.py",
    "spark/lake/test_killed_streams.py",
)
"""Files and tests that take 5 to 80 seconds each: whole programs, clusters, kills, benchmarks, pages.

A commit has each twentieth of them, whole, since the fixtures of a file take most of its time. The order
distributes their seconds evenly: those of a commit stand SCENARIO_SHARE lines apart.
"""

SCENARIO_SHARE: Final = 20

SLOW_FILES: Final = (
    "bench/test_mirror.py",
    "bench/test_tables.py",
    "broker/log/test_cleaner_crashes.py",
    "broker/test_hostile_names.py",
    "cli/test_doctor.py::test_tls_and_sasl_use_the_settings_of_the_client",
    "cli/test_log.py::test_dump_in_several_processes_prints_the_same",
    "cli/test_log.py::test_interrupt_ends_parallel_runs_without_a_traceback",
    "cli/test_log.py::test_verify_in_several_processes_finds_the_same",
    "cli/test_mirror_groups.py",
    "cli/test_mirror_run.py",
    "client/hooks/test_hooks.py::test_an_operation_inside_a_hook_is_carried_out_or_refused_and_no_record_is_lost",
    "client/sending/test_unclosed.py",
    "client/test_leaks.py",
    "client/test_process.py",
    "client/test_uvloop.py",
    "client/threads",
    "demo/test_replay.py",
    "docs/test_first_change.py",
    "docs/test_mirroring.py",
    "docs/test_tap_guide.py",
    "docs/test_other_tools.py",
    "fuzz/test_live.py",
    "fuzz/test_live_faults.py",
    "inspect/tap/test_attack.py",
    "inspect/test_guess.py",
    "interop/test_acls.py",
    "interop/test_auto_creation.py",
    "interop/test_avro_schemas.py",
    "interop/test_command_line.py",
    "interop/test_commands_on_apache_kafka.py",
    "interop/test_everyone_reads_everyone.py",
    "interop/test_failing_disks.py",
    "interop/test_group_members.py",
    "interop/test_groups.py",
    "interop/test_java_tools_on_both_brokers.py",
    "interop/test_killed_logs.py",
    "interop/test_log_cleaner.py",
    "interop/test_log_files.py",
    "interop/test_mirror_copies.py",
    "interop/test_mirror_records.py",
    "interop/test_mixed_groups.py",
    "interop/test_moving_leaders.py",
    "interop/test_our_client.py",
    "interop/test_restarts.py",
    "interop/test_retention.py",
    "interop/test_schema_values.py",
    "interop/test_security.py",
    "interop/test_share_answers.py",
    "interop/test_share_groups.py",
    "interop/test_share_consumers.py",
    "interop/test_share_tools.py",
    "interop/test_tables.py",
    "interop/test_tap.py",
    "interop/test_users_and_quotas.py",
    "mirror/test_flow.py",
    "optimized",
    "pipelines/test_analysis.py",
    "pipelines/test_bad_records.py",
    "pipelines/test_changes.py",
    "pipelines/test_dead_letter_store.py",
    "pipelines/test_examples.py",
    "pipelines/test_json_columns.py",
    "pipelines/test_plan_command.py",
    "pipelines/test_runs.py",
    "pipelines/test_spark_files.py",
    "pipelines/test_tables.py",
    "pipelines/testing",
    "protocol/oracle/test_bytes.py",
    "protocol/test_decoding_bounds.py",
    "protocol_exports/test_kaitai.py",
    "protocol_exports/test_wireshark.py",
    "schemas/server/test_topic.py",
    "spark/databases",
    "spark/lake",
    "spark/launch",
    "spark/test_batch.py",
    "spark/test_exactly_once_queries.py",
    "spark/test_late_binding.py",
    "spark/test_log_dirs.py",
    "spark/test_many_topics.py",
    "spark/test_sql.py",
    "spark/test_streaming.py",
    "spark/test_typed_columns.py",
    "spark/writing/test_decisions.py::test_a_decision_about_100_000_slots_is_written_and_read",
    "worker/test_kills.py",
)
"""Files, folders and tests that take seconds each, most with a JVM; a commit has each eleventh of their tests."""

SLOW_SHARE: Final = 11

REPEATED: Final = (
    "broker/handlers/test_authorization.py",
    "broker/partitions/test_storage_faults.py",
    "broker/test_bounds.py",
    "broker/test_embedded.py",
    "broker/test_hostile.py",
    "cli/test_broker.py",
    "cli/test_perf.py",
    "cli/test_registry.py",
    "cli/test_wire.py",
    "client/fetching/test_interruptions.py",
    "client/fetching/test_old_formats.py",
    "client/groups/test_cancelled_group_calls.py",
    "client/groups/test_group.py",
    "client/sending/test_close.py",
    "client/sending/test_interrupted_sends.py",
    "client/sending/test_transactions.py",
    "client/test_cancelled_calls.py",
    "client/test_timeouts.py",
    "core/producer/test_machine_against_a_broker_model.py",
    "docs/test_guides.py",
    "inspect/test_annotation.py",
    "interop",
    "pipelines/test_bad_definitions.py",
    "property/test_batch.py",
    "protocol/oracle/test_kio.py",
    "protocol/test_messages.py",
    "records/test_decompressed_sizes.py",
    "records/test_legacy.py",
    "records/test_switches_between_threads.py",
    "schemas/arrow/test_protobuf_encoding.py",
    "schemas/languages/test_versions.py",
    "schemas/serializers/test_confluent_serializers.py",
    "simulation/test_scenarios.py",
    "spark/reading/test_shared_plan.py",
    "spark/reading/test_topics_that_vanish.py",
    "spark/test_losses.py",
    "spark/test_planted_bugs.py",
    "spark/writing",
)
"""Files and folders whose tests have many cases that differ in data only; a commit has each third case of a test."""

REPEATED_SHARE: Final = 3


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
    """Mark the tests of the three lists that are not this commit's as `soak`; a test belongs to the first one.

    Args:
        items: all collected tests.
        below: the folder of the lists, as node ids begin.
    """
    slow: list[pytest.Item] = []
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("soak") is not None:
            continue
        test = item.nodeid.partition("[")[0].removeprefix(below)
        scenario = _place(test, SCENARIOS)
        if scenario is not None:
            if not _is_of_commit(scenario, SCENARIO_SHARE):
                item.add_marker("soak")
        elif _place(test, SLOW_FILES) is not None:
            slow.append(item)
        elif _place(test, REPEATED) is not None:
            cases.setdefault(test, []).append(item)
    _leave(slow, SLOW_SHARE)
    for test, each in cases.items():
        _leave(each, min(REPEATED_SHARE, len(each)), test)


def _leave(items: Sequence[pytest.Item], share: int, of: str = "") -> None:
    for number, item in enumerate(items):
        if not _is_of_commit(number, share, of):
            item.add_marker("soak")


def _is_of_commit(number: int, share: int, of: str = "") -> bool:
    """Return whether a commit has the test or case with this number.

    Args:
        number: counts from 0.
        share: one of so many consecutive ones is the commit's.
        of: what the numbers are counted in. Tests begin at different cases, and not where `rotating` begins.
    """
    return (number + zlib.crc32(f"{seeds.FIRST} {of}".encode())) % share == 0


@cache
def _place(test: str, entries: tuple[str, ...]) -> int | None:
    """Return the place of the entry that is this test, its file or one of its folders; None if there is none."""
    return next(
        (place for place, each in enumerate(entries) if test == each or test.startswith((f"{each}/", f"{each}::"))),
        None,
    )
