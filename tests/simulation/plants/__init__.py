"""Bugs to plant, one at a time, so that the simulation can show that it finds them.

    python -m tests.simulation.plants [NAME ...]

prints for each how many seeds it took, and by which invariants it was found. A new invariant brings a plant with it.
The bugs are patches of a running program: there is no switch for them in what users install.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafkaraw.testing.audit import Invariant
from tests.simulation import lives
from tests.simulation.plants import closing, groups, one_broker, reports, send_path, several_brokers, transactions

SEEDS = 100
"""Within so many seeds, the same ones always, each bug is found."""

SHOWS_AT = {
    "broker_takes_batches_of_older_epochs": 4,
    "client_takes_stale_metadata": 2,
    "consumer_commits_by_the_clock_what_is_not_processed": 3,
    "consumer_gives_its_last_commit_a_deadline_of_its_own": 3,
    "consumer_gives_what_it_has_in_hand_of_partitions_that_are_paused": 4,
    "consumer_gives_what_it_has_in_hand_while_it_commits_for_others": 54,
    "consumer_keeps_what_it_has_in_hand_when_it_seeks": 1,
    "consumer_stands_behind_what_it_has_not_handed_out": 4,
    "coordinator_acknowledges_positions_before_replication": 59,
    "coordinator_fences_who_aborts_while_the_last_end_is_carried_out": 55,
    "coordinator_forgets_to_check_generations": 16,
    "coordinator_gives_away_what_is_not_free": 7,
    "coordinator_lets_transactions_stay_open": 28,
    "coordinator_that_takes_over_has_lost_positions": 3,
    "coordinator_waits_for_the_dead": 4,
    "flush_leaves_a_batch_out_when_one_record_was_looked_at": 10,
    "flush_that_is_interrupted_takes_failures_with_it": 6,
    "member_does_not_claim_what_it_is_about_to_be_given": 19,
    "member_gives_up_after_it_has_joined_again": 8,
    "member_goes_on_with_heartbeats_after_it_has_left": 9,
    "member_keeps_what_it_had_when_it_was_fenced": 71,
    "member_says_that_it_has_given_up_before_it_has": 7,
    "producer_aborts_while_partitions_are_added": 10,
    "producer_commits_while_offsets_are_in_doubt": 9,
    "producer_forgets_a_failure_when_a_callback_leaves": 2,
    "producer_notes_a_failure_after_it_has_told_of_it": 2,
    "producer_pushes_what_may_be_written_out_of_the_brokers_memory": 11,
    "producer_sends_again_on_a_new_connection_what_may_have_arrived": 5,
    "producer_sends_parts_of_a_batch_the_wrong_way_round": 11,
}
"""Seeds that find a bug which the first ones do not: tried first where only time counts, in `make test`.

A change of the program shifts what a seed does. Then `python -m tests.simulation.plants NAME ...` tells again how many
seeds a bug takes from seed 0 on; the last of them belongs here.
"""


@dataclass(frozen=True)
class Plant:
    """A bug: how to plant it, the life in which it shows, and the invariants by which it may be found."""

    plant: Callable[[pytest.MonkeyPatch], None]
    life: Callable
    invariants: frozenset[Invariant]

    @property
    def name(self) -> str:
        return self.plant.__name__


def _one(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_one_broker, frozenset(invariants))


def _several(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_several_brokers, frozenset(invariants))


def _senders(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_many_senders, frozenset(invariants))


def _transactions(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_transactions, frozenset(invariants))


def _reports(plant: Callable[[pytest.MonkeyPatch], None], invariant: Invariant = Invariant.UNREPORTED) -> Plant:
    return Plant(plant, lives.with_reports, frozenset({invariant}))


def _groups(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_a_group, frozenset(invariants))


def _versatile(plant: Callable[[pytest.MonkeyPatch], None], *invariants: Invariant) -> Plant:
    return Plant(plant, lives.with_a_versatile_group, frozenset(invariants))


_LOSS = (Invariant.LOST_WRITE, Invariant.UNSEEN, Invariant.INCONSISTENT_OFFSETS)
_TORN = (Invariant.TORN_TRANSACTION, Invariant.ABORTED_READ, Invariant.POLL_SKIP)
_TWICE = (Invariant.DUPLICATE, Invariant.SEND_SKIP)
_OPEN = (Invariant.LEFT_OVER, Invariant.OVERDUE)
_WAITING = (Invariant.UNSETTLED, Invariant.OVERDUE, Invariant.LEFT_OVER)
_BACK = (Invariant.POSITION_WENT_BACK, Invariant.PROCESSED_AGAIN)
_UNPROCESSED = (Invariant.UNPROCESSED, Invariant.POSITION_TOO_FAR, Invariant.POLL_SKIP)

PLANTS = {
    plant.name: plant
    for plant in (
        _one(one_broker.broker_acknowledges_without_appending, *_LOSS),
        _one(one_broker.broker_does_not_recognise_repeats, Invariant.DUPLICATE),
        _one(one_broker.broker_forgets_one_sequence_of_five, Invariant.DUPLICATE),
        _one(one_broker.broker_names_the_wrong_offset, Invariant.INCONSISTENT_OFFSETS),
        _one(one_broker.broker_loses_unsynced_bytes_that_it_acknowledged, *_LOSS),
        _one(one_broker.broker_answers_twice, Invariant.ANSWERED_TWICE),
        _one(one_broker.producer_numbers_anew_what_it_sends_again, Invariant.DUPLICATE),
        _one(one_broker.producer_lines_up_what_came_back_the_wrong_way, Invariant.SEND_SKIP),
        _one(one_broker.producer_forgets_to_tell, *_WAITING),
        _one(one_broker.producer_reuses_a_buffer_in_flight, Invariant.DUPLICATE, *_LOSS),
        _several(
            one_broker.producer_sends_again_on_a_new_connection_what_may_have_arrived,
            Invariant.DUPLICATE,
            Invariant.DENIED_WRITE,
        ),
        _one(one_broker.connection_drops_promises_when_it_dies, *_WAITING),
        _one(one_broker.consumer_steps_over_a_record, Invariant.POLL_SKIP, *_LOSS),
        _one(one_broker.consumer_hands_out_a_batch_twice, Invariant.NONMONOTONIC_POLL),
        _one(one_broker.consumer_stands_behind_what_it_has_not_handed_out, Invariant.POLL_SKIP, *_LOSS),
        _several(several_brokers.leader_acknowledges_before_replication, Invariant.POLL_SKIP, *_LOSS),
        _several(several_brokers.leader_drops_its_newest_batch_when_it_begins, Invariant.POLL_SKIP, *_LOSS),
        _several(several_brokers.node_answers_after_it_was_deposed, Invariant.POLL_SKIP, *_LOSS),
        _several(several_brokers.follower_skips_an_epoch_that_was_truncated, Invariant.POLL_SKIP, *_LOSS),
        _several(several_brokers.client_takes_stale_metadata, Invariant.EPOCH_WENT_BACK),
        _senders(send_path.producer_changes_what_it_sends_again, Invariant.REWRITTEN),
        _senders(send_path.producer_sends_new_batches_before_what_came_back, Invariant.OVERTAKEN),
        _senders(send_path.producer_sends_parts_of_a_batch_the_wrong_way_round, Invariant.SEND_SKIP),
        _senders(send_path.producer_takes_a_lost_answer_for_success, *_LOSS),
        _senders(send_path.producer_gives_the_numbers_of_what_it_gave_up_to_the_next, Invariant.REWRITTEN, *_LOSS),
        _senders(send_path.producer_keeps_its_epoch_after_a_gap, Invariant.STUCK, Invariant.REWRITTEN),
        Plant(
            send_path.producer_pushes_what_may_be_written_out_of_the_brokers_memory,
            lives.with_repeated_requests,
            frozenset(_TWICE),
        ),
        _senders(send_path.producer_keeps_the_memory_of_what_it_gave_up, *_WAITING),
        _senders(send_path.ticket_names_the_offset_of_a_neighbour, *_LOSS),
        _senders(send_path.producer_forgets_a_batch_when_the_leader_changes, *_WAITING),
        _senders(send_path.producer_denies_what_may_have_been_written, Invariant.DENIED_WRITE),
        _senders(send_path.broker_answers_a_repetition_with_the_wrong_offset, *_LOSS),
        _senders(send_path.broker_forgets_producers_when_it_begins_to_lead, Invariant.DUPLICATE),
        Plant(send_path.broker_takes_batches_of_older_epochs, lives.with_repeated_requests, frozenset(_TWICE)),
        _transactions(transactions.coordinator_leaves_a_marker_out, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_does_not_wait_for_its_markers, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_answers_by_what_only_it_has, Invariant.REWRITTEN, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_forgets_on_moving_what_was_decided, *_OPEN, *_TORN),
        _transactions(transactions.coordinator_lets_a_zombie_go_on, Invariant.ZOMBIE, Invariant.REWRITTEN, *_TORN),
        _transactions(transactions.coordinator_lets_transactions_stay_open, *_OPEN),
        _transactions(transactions.partition_does_not_hold_back_what_is_open, *_TORN),
        _transactions(transactions.partition_leaves_an_aborted_transaction_out, Invariant.ABORTED_READ),
        _transactions(transactions.group_takes_positions_of_an_aborted_transaction, Invariant.TORN_POSITION),
        _transactions(transactions.producer_commits_before_everything_is_acknowledged, *_TORN),
        _transactions(transactions.producer_commits_without_what_it_gave_up, *_TORN),
        _transactions(transactions.producer_commits_while_offsets_are_in_doubt, Invariant.TORN_POSITION),
        Plant(
            transactions.partition_lets_the_next_batch_take_the_place_of_one_turned_away,
            lives.with_pipelined_transactions,
            frozenset({Invariant.LEFT_OVER, Invariant.SEND_SKIP}),
        ),
        Plant(
            transactions.coordinator_fences_who_aborts_while_the_last_end_is_carried_out,
            lives.with_pipelined_transactions,
            frozenset({Invariant.LEFT_OVER}),
        ),
        Plant(
            transactions.producer_aborts_while_partitions_are_added,
            lives.with_pipelined_transactions,
            frozenset(_OPEN),
        ),
        Plant(
            closing.consumer_gives_its_last_commit_a_deadline_of_its_own,
            lives.with_hasty_closes,
            frozenset({Invariant.CLOSE_OVERDUE}),
        ),
        Plant(
            closing.producer_closes_its_connections_after_its_time_is_over,
            lives.with_hasty_closes,
            frozenset({Invariant.CLOSE_OVERDUE}),
        ),
        _reports(reports.producer_takes_records_while_it_settles_a_transaction),
        _reports(reports.producer_forgets_a_failure_when_a_callback_leaves),
        _reports(reports.producer_notes_a_failure_after_it_has_told_of_it),
        _reports(reports.producer_breaks_without_noting_what_fails),
        _reports(reports.flush_reports_a_failure_to_one_of_those_who_wait_for_it),
        _reports(reports.flush_that_is_interrupted_takes_failures_with_it),
        _reports(reports.flush_leaves_a_batch_out_when_one_record_was_looked_at),
        _reports(reports.consumer_steps_over_a_batch_whose_reading_is_interrupted, Invariant.POSITION_TOO_FAR),
        _transactions(transactions.consumer_shows_aborted_records, Invariant.ABORTED_READ),
        _groups(groups.coordinator_forgets_to_check_generations, *_BACK),
        _groups(groups.coordinator_that_takes_over_has_lost_positions, *_BACK),
        _groups(groups.coordinator_acknowledges_positions_before_replication, *_BACK),
        _groups(groups.coordinator_gives_away_what_is_not_free, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.coordinator_waits_for_the_dead, Invariant.UNOWNED),
        _groups(groups.member_gives_up_after_it_has_joined_again, Invariant.TWO_OWNERS),
        _groups(groups.member_keeps_what_it_had_when_it_was_fenced, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.member_says_that_it_has_given_up_before_it_has, Invariant.TWO_OWNERS),
        _groups(groups.member_does_not_claim_what_it_is_about_to_be_given, Invariant.TWO_OWNERS, *_BACK),
        _groups(groups.member_swallows_what_heartbeats_tell, Invariant.UNOWNED),
        _groups(groups.member_goes_on_with_heartbeats_after_it_has_left, Invariant.GHOST),
        _groups(groups.assignor_takes_without_the_round_of_giving_up, Invariant.TWO_OWNERS),
        _groups(groups.assignor_gives_a_partition_to_two, Invariant.TWO_OWNERS),
        _versatile(groups.consumer_commits_what_another_task_is_busy_with, Invariant.POSITION_TOO_FAR),
        _groups(groups.consumer_commits_what_it_has_fetched_and_not_handed_out, Invariant.POSITION_TOO_FAR),
        Plant(
            groups.consumer_commits_what_it_had_under_the_next_generation,
            lives.with_a_held_commit,
            frozenset({Invariant.POSITION_WENT_BACK}),
        ),
        _groups(groups.consumer_drops_what_it_has_in_hand_of_partitions_that_it_keeps, *_UNPROCESSED),
        _groups(groups.consumer_gives_what_it_has_in_hand_of_partitions_that_it_has_lost, Invariant.STRAY),
        Plant(
            groups.consumer_gives_what_it_has_in_hand_while_it_commits_for_others,
            lives.with_a_calm_versatile_group,
            frozenset({Invariant.PROCESSED_AGAIN}),
        ),
        _groups(groups.consumer_begins_without_asking_where, Invariant.PROCESSED_AGAIN),
        _groups(groups.consumer_commits_by_the_clock_what_is_not_processed, *_UNPROCESSED),
        _versatile(groups.consumer_keeps_what_it_has_in_hand_when_it_seeks, Invariant.SEEK_MISSED),
        _versatile(groups.consumer_gives_what_it_has_in_hand_of_partitions_that_are_paused, Invariant.STRAY),
    )
}


def find(name: str, *, seeds: int = SEEDS, hint: bool = False) -> tuple[int, set[Invariant]]:
    """Plant a bug and simulate until it is found, by one of the invariants by which it may be.

    Args:
        name: of the plant.
        seeds: how many to try.
        hint: begin with the seed at which it is known to show.

    Returns:
        How many seeds it took, and which invariants were violated in the last life that was not as it should be.
    """
    seen: set[Invariant] = set()
    plant, first = PLANTS[name], [SHOWS_AT[name]] if hint and name in SHOWS_AT else []
    for tried, seed in enumerate([*first, *range(seeds)], 1):
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant.plant(monkeypatch)
            violations = lives.live(plant.life, seed).violations
        seen = {violation.invariant for violation in violations} or seen
        if seen & plant.invariants:
            return tried, seen
    return seeds, seen
