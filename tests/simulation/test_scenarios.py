"""The invariants hold in every scenario of `scenarios.py`, for every seed."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.scenarios import (
    ScenarioResult,
    run_scenario,
    with_at_least_once_mirror,
    with_compacted_group_offsets,
    with_compacted_topic,
    with_compacted_transaction_state,
    with_failing_disk,
    with_failing_disks,
    with_failure_reports,
    with_graceful_group,
    with_graceful_seeking_group,
    with_group,
    with_many_senders,
    with_migrating_group,
    with_mirror,
    with_one_broker,
    with_pipelined_transactions,
    with_seeking_group,
    with_several_brokers,
    with_share_group,
    with_share_workers,
    with_short_closes,
    with_transactions,
    with_unclean_elections,
    with_workers,
)
from tests.simulation.seeds import every_seed


def check(scenario: Callable, seed: int) -> ScenarioResult:
    """Run a scenario, which must not violate an invariant."""
    result = run_scenario(scenario, seed)
    assert result.violations == [], result.log
    return result


@every_seed("one broker")
def test_invariants_hold_with_one_broker(seed: int):
    assert check(with_one_broker, seed).history.acknowledged, "no record was acknowledged: nothing was tested"


@every_seed("several brokers")
def test_invariants_hold_with_several_brokers(seed: int):
    assert check(with_several_brokers, seed).history.acknowledged, "no record was acknowledged: nothing was tested"


@every_seed("unclean elections", soak=150)
def test_unclean_elections_lose_records_but_duplicate_none_and_no_call_hangs(seed: int):
    check(with_unclean_elections, seed)


@every_seed("failing disk", soak=500)
def test_what_a_broker_acknowledged_after_a_sync_survives_crashes_and_failures_of_its_disk(seed: int):
    assert check(with_failing_disk, seed).history.acknowledged, "no record was acknowledged: nothing was tested"


@every_seed("failing disks", soak=500)
def test_what_in_sync_replicas_have_survives_crashes_and_failures_of_disks(seed: int):
    assert check(with_failing_disks, seed).history.acknowledged, "no record was acknowledged: nothing was tested"


@every_seed("senders", soak=1_000)
def test_each_producer_configuration_keeps_its_delivery_and_ordering_guarantees(seed: int):
    assert check(with_many_senders, seed).history.sent, "no record was sent: nothing was tested"


@every_seed("transactions", soak=1_000)
def test_read_committed_consumers_see_all_or_nothing_of_a_transaction(seed: int):
    assert check(with_transactions, seed).history.transactions, "there was no transaction: nothing was tested"


@every_seed("pipelined transactions", soak=1_000)
def test_a_transaction_succeeds_that_begins_while_the_previous_one_ends(seed: int):
    check(with_pipelined_transactions, seed)


@every_seed("compacted topic", soak=1_000)
def test_compaction_keeps_the_last_value_of_each_key(seed: int):
    assert check(with_compacted_topic, seed).covered["gaps"], "nothing was compacted: nothing was tested"


@every_seed("compacted groups", soak=300)
def test_every_record_is_processed_while_the_committed_offsets_are_compacted(seed: int):
    assert check(with_compacted_group_offsets, seed).covered["assigned"], "no partition was assigned"


@every_seed("compacted transactions", soak=300)
def test_transactions_hold_while_the_transaction_state_is_compacted(seed: int):
    assert check(with_compacted_transaction_state, seed).history.transactions, "there was no transaction"


@every_seed("short closes")
def test_close_returns_within_its_timeout_plus_the_stated_bound(seed: int):
    calls = check(with_short_closes, seed).history.calls
    assert any(call.is_close for call in calls), "no client was closed: nothing was tested"


@every_seed("failure reports")
def test_flush_commit_and_close_report_every_record_that_is_not_in_the_log(seed: int):
    reports = check(with_failure_reports, seed).history.reports
    assert reports.confirmed or reports.committed  # a seed may have one of them only


@every_seed("groups", soak=1_000)
def test_every_record_is_processed_by_the_owner_of_its_partition(seed: int):
    assert check(with_group, seed).covered["assigned"], "no partition was assigned: nothing was tested"


@every_seed("migrating groups", soak=1_000)
def test_every_record_is_processed_while_the_group_migrates_between_the_protocols(seed: int):
    check(with_migrating_group, seed)


@every_seed("graceful groups", soak=1_000)
def test_every_record_is_processed_exactly_once_when_members_leave_gracefully(seed: int):
    assert check(with_graceful_group, seed).covered["assigned"], "no partition was assigned: nothing was tested"


@every_seed("seeking groups", soak=1_000)
def test_every_record_is_processed_by_members_that_use_all_read_methods_and_seek_and_pause(seed: int):
    check(with_seeking_group, seed)


@every_seed("graceful seeking groups", soak=1_000)
def test_only_seeks_cause_repeated_processing_when_members_leave_gracefully(seed: int):
    covered = check(with_graceful_seeking_group, seed).covered
    assert covered["assigned"], "no partition was assigned: nothing was tested"


@every_seed("workers", soak=1_000)
def test_workers_lose_and_skip_no_record_and_keep_the_order_by_key(seed: int):
    assert check(with_workers, seed).covered["results"], "no record was handled: nothing was tested"


@every_seed("share groups")
def test_a_share_group_loses_no_record_and_delivers_none_again_that_is_done_with(seed: int):
    assert check(with_share_group, seed).covered["confirmed"], "no acknowledgement was confirmed: nothing was tested"


@every_seed("mirror")
def test_mirror_copies_each_committed_record_once_and_translates_no_offset_ahead(seed: int):
    assert check(with_mirror, seed).covered["records copied"], "no record was copied: nothing was tested"


@every_seed("at-least-once mirror")
def test_at_least_once_mirror_copies_each_committed_record_in_order_and_translates_no_offset_ahead(seed: int):
    assert check(with_at_least_once_mirror, seed).covered["records copied"], "no record was copied: nothing was tested"


@every_seed("workers in a share group")
def test_workers_in_a_share_group_lose_no_record_and_write_all_dead_letters(seed: int):
    assert check(with_share_workers, seed).covered["results"], "no record was handled: nothing was tested"
