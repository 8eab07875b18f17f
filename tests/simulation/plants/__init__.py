"""Bugs to plant, one at a time, so that the simulation can show that it finds them.

    python -m tests.simulation.plants [NAME ...]

prints for each the number of seeds until it was found, and the invariants that found it; with `--refresh`, it chooses
the seeds of `make test` anew (`seeds_that_show`). A new invariant needs a planted bug.

The bugs are patches of the running program; the installed package has no switch for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafkaraw.testing.audit import Invariant
from tests.simulation import scenarios
from tests.simulation.plants import (
    client_calls,
    clients_and_brokers,
    disks,
    groups,
    mirrors,
    send_path,
    shares,
    transactions,
    workers,
)
from tests.simulation.plants.seeds_that_show import SHOWS_AT

SEEDS = 200
"""The number of seeds, always the same ones, within which each bug is found."""


@dataclass(frozen=True)
class Plant:
    """A bug: how to plant it, the scenario that shows it, and the invariants that may find it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: Callable
    invariants: frozenset[Invariant]

    @property
    def name(self) -> str:
        return self.plant.__name__


def _one(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_one_broker, frozenset(invariants))


def _compaction(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_compacted_topic, frozenset(invariants))


def _several(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_several_brokers, frozenset(invariants))


def _senders(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_many_senders, frozenset(invariants))


def _transactions(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_transactions, frozenset(invariants))


def _reports(plant: Callable[[pytest.MonkeyPatch], None], invariant: Invariant = Invariant.UNREPORTED) -> Plant:
    return Plant(plant, scenarios.with_failure_reports, frozenset({invariant}))


def _groups(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_group, frozenset(invariants))


def _disk(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_failing_disk, frozenset(invariants))


def _versatile(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_seeking_group, frozenset(invariants))


def _workers(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_workers, frozenset(invariants))


def _share_workers(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_share_workers, frozenset(invariants))


def _mirrors(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_mirror, frozenset(invariants))


def _shares(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, scenarios.with_share_group, frozenset(invariants))


_LOSS = (Invariant.LOST_WRITE, Invariant.UNSEEN, Invariant.INCONSISTENT_OFFSETS)
_TORN = (Invariant.TORN_TRANSACTION, Invariant.ABORTED_READ, Invariant.POLL_SKIP)
_TWICE = (Invariant.DUPLICATE, Invariant.SEND_SKIP)
_OPEN = (Invariant.LEFT_OVER, Invariant.OVERDUE)
_WAITING = (Invariant.UNSETTLED, Invariant.OVERDUE, Invariant.LEFT_OVER)
_BACK = (Invariant.POSITION_WENT_BACK, Invariant.PROCESSED_AGAIN)
_FORGOTTEN = (Invariant.DELIVERED_AGAIN, Invariant.STATE_CHANGED, Invariant.DELIVERY_COUNT, Invariant.UNPROCESSED)
_UNPROCESSED = (Invariant.UNPROCESSED, Invariant.POSITION_TOO_FAR, Invariant.POLL_SKIP)

PLANTS = {
    plant.name: plant
    for plant in (
        _disk(disks.broker_does_not_sync_files, *_LOSS),
        _disk(disks.broker_does_not_sync_folders, *_LOSS),
        _disk(disks.broker_goes_on_after_a_failed_sync, *_LOSS),
        Plant(
            disks.recovery_does_not_verify_checksums,
            scenarios.with_failing_disks,
            frozenset({Invariant.TORN_BATCH, Invariant.DAMAGED_LOG}),
        ),
        Plant(disks.recovery_keeps_old_index_files, scenarios.with_failing_disks, frozenset({Invariant.DAMAGED_LOG})),
        _one(clients_and_brokers.broker_acknowledges_without_appending, *_LOSS),
        _one(clients_and_brokers.broker_does_not_detect_duplicates, Invariant.DUPLICATE),
        _one(clients_and_brokers.broker_forgets_one_of_five_batches, Invariant.DUPLICATE),
        _one(clients_and_brokers.broker_returns_the_wrong_offset, Invariant.INCONSISTENT_OFFSETS),
        _one(clients_and_brokers.broker_loses_unsynced_bytes_that_it_acknowledged, *_LOSS),
        _compaction(clients_and_brokers.cleaner_drops_the_last_batch_of_a_segment, Invariant.COMPACTED_AWAY),
        _compaction(clients_and_brokers.cleaner_ignores_the_last_stable_offset, Invariant.COMPACTED_AWAY),
        _one(clients_and_brokers.broker_responds_twice, Invariant.ANSWERED_TWICE),
        _one(clients_and_brokers.producer_renumbers_retried_batches, Invariant.DUPLICATE),
        _one(clients_and_brokers.producer_retries_batches_in_reverse_order, Invariant.SEND_SKIP),
        _one(clients_and_brokers.producer_does_not_complete_some_tickets, *_WAITING),
        _one(clients_and_brokers.producer_reuses_a_buffer_in_flight, Invariant.DUPLICATE, *_LOSS),
        _several(
            clients_and_brokers.producer_resends_maybe_written_batches_as_new_requests,
            Invariant.DUPLICATE,
            Invariant.DENIED_WRITE,
        ),
        _one(clients_and_brokers.connection_drops_pending_requests_when_it_breaks, *_WAITING),
        _one(clients_and_brokers.consumer_skips_a_record, Invariant.POLL_SKIP, *_LOSS),
        _one(clients_and_brokers.consumer_delivers_a_batch_twice, Invariant.NONMONOTONIC_POLL),
        _one(clients_and_brokers.consumer_position_is_ahead_of_delivered_records, Invariant.POLL_SKIP, *_LOSS),
        _several(clients_and_brokers.leader_acknowledges_before_replication, Invariant.POLL_SKIP, *_LOSS),
        _several(clients_and_brokers.new_leader_truncates_its_newest_batch, Invariant.POLL_SKIP, *_LOSS),
        _several(clients_and_brokers.deposed_leader_serves_requests, Invariant.POLL_SKIP, *_LOSS),
        _several(clients_and_brokers.follower_fetches_without_its_last_epoch, Invariant.POLL_SKIP, *_LOSS),
        _several(clients_and_brokers.client_accepts_stale_metadata, Invariant.EPOCH_WENT_BACK),
        _senders(send_path.producer_changes_retried_batches, Invariant.REWRITTEN),
        _senders(send_path.producer_sends_new_batches_before_retried_ones, Invariant.OVERTAKEN),
        _senders(send_path.producer_reverses_the_batches_of_a_split, Invariant.SEND_SKIP),
        _senders(send_path.producer_treats_a_lost_response_as_success, *_LOSS),
        _senders(send_path.producer_reuses_sequence_numbers_of_expired_batches, Invariant.REWRITTEN, *_LOSS),
        _senders(send_path.producer_keeps_its_epoch_after_a_sequence_gap, Invariant.STUCK, Invariant.REWRITTEN),
        Plant(
            send_path.producer_has_more_batches_in_flight_than_brokers_remember,
            scenarios.with_repeated_requests,
            frozenset(_TWICE),
        ),
        _senders(send_path.producer_does_not_release_memory_of_failed_batches, *_WAITING),
        _senders(send_path.ticket_has_the_offset_of_another_record, *_LOSS),
        _senders(send_path.producer_forgets_a_batch_when_the_leader_changes, *_WAITING),
        _senders(send_path.producer_reports_maybe_written_records_as_not_written, Invariant.DENIED_WRITE),
        _senders(send_path.broker_returns_the_wrong_offset_for_duplicates, *_LOSS),
        _senders(send_path.new_leader_forgets_producer_states, Invariant.DUPLICATE),
        Plant(send_path.broker_accepts_batches_of_older_epochs, scenarios.with_repeated_requests, frozenset(_TWICE)),
        _transactions(transactions.coordinator_omits_some_markers, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_does_not_wait_for_its_markers, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_responds_before_replication, Invariant.REWRITTEN, *_OPEN, *_TORN),
        _transactions(transactions.new_coordinator_forgets_ending_transactions, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_does_not_fence_zombies, Invariant.ZOMBIE, Invariant.REWRITTEN, *_TORN),
        _transactions(transactions.coordinator_does_not_abort_expired_transactions, *_OPEN),
        _transactions(transactions.partition_ignores_the_last_stable_offset, *_TORN),
        _transactions(transactions.partition_omits_an_aborted_transaction, Invariant.ABORTED_READ),
        _transactions(transactions.group_commits_offsets_of_aborted_transactions, Invariant.TORN_POSITION),
        _transactions(transactions.producer_commits_before_all_records_are_acknowledged, *_TORN),
        _transactions(transactions.producer_commits_despite_failed_records, *_TORN),
        _transactions(transactions.producer_commits_while_offsets_are_in_doubt, Invariant.TORN_POSITION),
        Plant(
            transactions.partition_accepts_a_batch_after_a_refused_one,
            scenarios.with_pipelined_transactions,
            frozenset({Invariant.LEFT_OVER, Invariant.SEND_SKIP}),
        ),
        Plant(
            transactions.coordinator_fences_an_abort_while_the_previous_transaction_ends,
            scenarios.with_pipelined_transactions,
            frozenset({Invariant.LEFT_OVER}),
        ),
        Plant(
            transactions.producer_aborts_while_partitions_are_added,
            scenarios.with_pipelined_transactions,
            frozenset(_OPEN),
        ),
        Plant(
            client_calls.consumer_close_ignores_its_timeout_in_the_last_commit,
            scenarios.with_short_closes,
            frozenset({Invariant.CLOSE_OVERDUE}),
        ),
        Plant(
            client_calls.producer_close_exceeds_its_timeout,
            scenarios.with_short_closes,
            frozenset({Invariant.CLOSE_OVERDUE}),
        ),
        _reports(client_calls.producer_accepts_records_while_it_commits),
        _reports(client_calls.producer_forgets_a_failure_when_a_callback_raises),
        _reports(client_calls.producer_records_a_failure_after_its_callbacks),
        _reports(client_calls.broken_producer_does_not_record_failures),
        _reports(client_calls.flush_reports_a_failure_to_one_caller_only),
        _reports(client_calls.cancelled_flush_consumes_failures),
        _reports(client_calls.flush_skips_a_batch_when_one_ticket_was_read),
        _reports(client_calls.consumer_skips_a_batch_when_its_reader_is_interrupted, Invariant.POSITION_TOO_FAR),
        _transactions(transactions.consumer_delivers_aborted_records, Invariant.ABORTED_READ),
        _groups(groups.coordinator_does_not_check_generations, *_BACK),
        _groups(groups.new_coordinator_forgets_committed_offsets, *_BACK),
        _groups(groups.coordinator_acknowledges_offsets_before_replication, *_BACK),
        _groups(groups.coordinator_assigns_partitions_before_they_are_revoked, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.coordinator_ignores_session_timeouts, Invariant.UNOWNED),
        _groups(groups.member_revokes_after_it_has_rejoined, Invariant.TWO_OWNERS),
        _groups(groups.fenced_member_keeps_its_partitions, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.member_acknowledges_a_revocation_too_early, Invariant.TWO_OWNERS),
        _groups(groups.member_does_not_report_partitions_being_assigned, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.member_ignores_heartbeat_errors, Invariant.UNOWNED),
        _groups(groups.member_sends_heartbeats_after_leaving, Invariant.GHOST),
        _groups(groups.cooperative_assignor_skips_the_revocation_round, Invariant.TWO_OWNERS),
        _groups(groups.assignor_assigns_a_partition_twice, Invariant.TWO_OWNERS),
        _versatile(groups.consumer_commits_records_that_another_task_processes, Invariant.POSITION_TOO_FAR),
        _groups(groups.consumer_commits_fetched_records_before_delivery, Invariant.POSITION_TOO_FAR),
        Plant(
            groups.consumer_commits_revoked_partitions_in_the_next_generation,
            scenarios.with_delayed_commit,
            frozenset({Invariant.POSITION_WENT_BACK}),
        ),
        _groups(groups.consumer_drops_buffered_records_of_kept_partitions, *_UNPROCESSED),
        _groups(groups.consumer_delivers_buffered_records_of_lost_partitions, Invariant.STRAY),
        Plant(
            groups.consumer_delivers_buffered_records_during_a_revocation,
            scenarios.with_graceful_seeking_group,
            frozenset({Invariant.PROCESSED_AGAIN}),
        ),
        _groups(groups.consumer_ignores_committed_offsets, Invariant.PROCESSED_AGAIN),
        _groups(groups.auto_commit_includes_unprocessed_records, *_UNPROCESSED),
        _versatile(groups.consumer_keeps_buffered_records_when_it_seeks, Invariant.SEEK_MISSED),
        _versatile(groups.consumer_delivers_buffered_records_of_paused_partitions, Invariant.STRAY),
        _workers(workers.worker_commits_unfinished_records, Invariant.POSITION_TOO_FAR),
        _workers(
            workers.worker_commits_before_results_are_acknowledged, Invariant.KEY_ORDER, Invariant.POSITION_TOO_FAR
        ),
        _workers(workers.worker_runs_records_of_a_key_at_the_same_time, Invariant.KEY_ORDER),
        _workers(workers.worker_releases_the_key_of_a_record_that_waits_for_its_next_call, Invariant.KEY_ORDER),
        _workers(workers.worker_releases_the_key_before_results_are_acknowledged, Invariant.KEY_ORDER),
        _workers(workers.worker_ignores_its_concurrency, Invariant.CONCURRENCY),
        _workers(workers.worker_commits_transactions_without_its_generation, Invariant.DUPLICATE),
        _share_workers(workers.share_worker_accepts_records_whose_call_failed, Invariant.UNPROCESSED),
        _share_workers(workers.share_worker_rejects_records_of_cancelled_handlers, Invariant.UNPROCESSED),
        _share_workers(workers.share_worker_ignores_its_concurrency, Invariant.CONCURRENCY),
        _mirrors(mirrors.mirror_commits_positions_before_records, Invariant.NOT_COPIED),
        _mirrors(mirrors.mirror_sends_records_again_outside_the_transaction, Invariant.COPIED_TWICE),
        _mirrors(mirrors.mirror_copies_records_of_aborted_transactions, Invariant.ABORTED_COPIED),
        _mirrors(mirrors.mirror_sends_batches_in_reverse_order, Invariant.COPY_ORDER),
        _mirrors(mirrors.mirror_translates_offsets_of_a_gap_to_its_end, Invariant.TRANSLATED_AHEAD),
        Plant(
            mirrors.at_least_once_mirror_commits_positions_before_it_sends,
            scenarios.with_at_least_once_mirror,
            frozenset({Invariant.NOT_COPIED}),
        ),
        Plant(
            mirrors.at_least_once_mirror_is_not_fenced,
            scenarios.with_at_least_once_mirror,
            frozenset({Invariant.REPORTED_TWICE, Invariant.TRANSLATED_AHEAD}),
        ),
        _mirrors(mirrors.mirror_copies_a_part_of_transactions, Invariant.TORN_TRANSACTION),
        _mirrors(mirrors.mirror_writes_offset_syncs_of_the_next_record, Invariant.TRANSLATED_AHEAD),
        _mirrors(mirrors.mirror_writes_checkpoints_behind_the_next_record, Invariant.TRANSLATED_AHEAD),
        _mirrors(mirrors.mirror_commits_no_offsets_for_groups_that_have_some, Invariant.STUCK),
        _mirrors(mirrors.failover_counts_offsets_from_the_log_start, Invariant.TRANSLATED_AHEAD),
        _mirrors(mirrors.mapping_joins_a_filled_gap_with_any_next_run, Invariant.TRANSLATED_AHEAD),
        _shares(shares.leader_confirms_acknowledgements_without_storing_them, Invariant.DELIVERED_AGAIN),
        _shares(shares.leader_takes_confirmed_acknowledgements_back, Invariant.DELIVERED_AGAIN),
        _shares(shares.leader_forgets_stored_records_when_it_loads_the_state, Invariant.DELIVERED_AGAIN),
        _shares(shares.leader_does_not_count_deliveries_whose_lock_expired, Invariant.DELIVERY_COUNT),
        _shares(shares.leader_delivers_records_more_often_than_the_limit, Invariant.DELIVERY_COUNT),
        _shares(shares.leader_counts_each_delivery_twice, Invariant.DELIVERY_COUNT),
        _shares(shares.locks_expire_early, Invariant.LOCKED_TWICE),
        _shares(shares.leader_archives_released_records, Invariant.UNPROCESSED),
        _shares(shares.leader_moves_the_start_offset_past_an_open_record, Invariant.UNPROCESSED),
        _shares(shares.leader_delivers_records_of_aborted_transactions, Invariant.ABORTED_READ),
        _shares(shares.share_coordinator_omits_batches_of_snapshots, *_FORGOTTEN),
        _shares(shares.share_coordinator_prunes_records_that_it_needs, *_FORGOTTEN),
        _shares(
            shares.share_consumer_accepts_records_that_the_application_has_not_got,
            Invariant.MISREPORTED,
            Invariant.UNREPORTED,
        ),
        _shares(shares.share_consumer_sends_the_first_type_for_a_whole_range, Invariant.MISREPORTED),
        _shares(shares.share_consumer_reports_lost_responses_as_success, Invariant.MISREPORTED),
        _shares(shares.share_consumer_returns_records_that_it_has_not_acquired, Invariant.STRAY),
        _shares(shares.share_consumer_returns_the_delivery_count_of_another_range, Invariant.STRAY),
        _shares(shares.share_consumer_skips_the_last_record_of_a_batch, Invariant.MISREPORTED),
        _shares(shares.share_consumer_accepts_renewed_records, Invariant.MISREPORTED),
    )
}


def violated(plant: Plant, seed: int) -> set[Invariant]:
    """Plant a bug, run its scenario with a seed, and return the invariants that were violated."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant.plant(monkeypatch)
        return {violation.invariant for violation in scenarios.run_scenario(plant.scenario, seed).violations}


def find(name: str, *, seeds: int = SEEDS, hint: bool = False) -> tuple[int, set[Invariant]]:
    """Plant a bug and run its scenario until one of its invariants finds it.

    Args:
        name: name of the plant.
        seeds: number of seeds to try.
        hint: begin with the seed of `SHOWS_AT`.

    Returns:
        The number of seeds tried, and the invariants violated in the last run with violations.
    """
    seen: set[Invariant] = set()
    plant, first = PLANTS[name], [SHOWS_AT[name]] if hint and name in SHOWS_AT else []
    for tried, seed in enumerate([*first, *range(seeds)], 1):
        seen = violated(plant, seed) or seen
        if seen & plant.invariants:
            return tried, seen
    return seeds, seen
