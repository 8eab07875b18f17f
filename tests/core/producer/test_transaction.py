"""Which calls a transactional producer may make when, and what a coordinator's refusals mean."""

from __future__ import annotations

import pytest

from kafkaraw.core.producer.transaction import Change, Phase, Reaction, TransactionMachine, reaction_to
from kafkaraw.errors import KafkaError, ProducerFencedError, TransactionAbortableError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition


def machine(*changes: Change) -> TransactionMachine:
    made = TransactionMachine()
    for change in (Change.INITIALISED, *changes):
        made.change(change)
    return made


COMMIT = (Change.SETTLES, Change.COMMITS)
ABORT = (Change.ABORTS,)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_one_transaction_follows_the_other(outcome: tuple[Change, ...]) -> None:
    producer = machine(Change.BEGUN, *outcome, Change.ENDED, Change.BEGUN)
    assert producer.phase is Phase.OPEN


@pytest.mark.parametrize(
    ("changes", "call", "words"),
    [
        ((), Change.COMMITS, "no open transaction"),
        ((), Change.ABORTS, "no open transaction"),
        ((Change.BEGUN,), Change.BEGUN, "has an open transaction"),
        ((Change.BEGUN,), Change.COMMITS, "has an open transaction"),
        ((Change.BEGUN, *COMMIT), Change.ABORTS, "commit_transaction\\(\\) again"),
        ((Change.BEGUN, Change.ABORTS), Change.COMMITS, "abort_transaction\\(\\) again"),
    ],
)
def test_a_call_at_the_wrong_time_says_which_one_is_right(
    changes: tuple[Change, ...], call: Change, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        machine(*changes).change(call)


def test_nothing_goes_before_the_start() -> None:
    with pytest.raises(UsageError, match="init_transactions"):
        TransactionMachine().change(Change.BEGUN)


def test_what_failed_can_only_be_aborted_and_then_all_is_well_again() -> None:
    producer = machine(Change.BEGUN)
    producer.fail(KafkaError("the first reason"))
    producer.fail(KafkaError("the second reason"))
    for call in (Change.COMMITS, Change.BEGUN):
        with pytest.raises(TransactionAbortableError, match="the first reason"):
            producer.change(call)
    with pytest.raises(TransactionAbortableError):
        producer.check_open()
    producer.change(Change.ABORTS)
    producer.change(Change.ENDED)
    assert (producer.phase, producer.cause) == (Phase.READY, None)


@pytest.mark.parametrize("call", [COMMIT, ABORT])
def test_an_outcome_that_is_not_known_yet_may_be_asked_for_again(call: tuple[Change, ...]) -> None:
    producer = machine(Change.BEGUN, *call, call[-1])
    producer.change(Change.ENDED)
    assert producer.phase is Phase.READY


@pytest.mark.parametrize("end", [Change.COMMITS, Change.PREPARES, Change.ABORTS])
def test_a_transaction_takes_no_records_from_settling_on(end: Change) -> None:
    producer = machine(Change.BEGUN, Change.SETTLES)
    with pytest.raises(UsageError, match="accepts no more records"):
        producer.check_open()
    assert producer.is_ongoing
    producer.change(Change.SETTLES)
    producer.change(end)
    assert not producer.is_ongoing


@pytest.mark.parametrize("call", list(Change))
def test_a_fenced_producer_says_so_whatever_is_asked(call: Change) -> None:
    producer = machine(Change.BEGUN)
    producer.break_down(ProducerFencedError("taken over"))
    if call is Change.BROKE:
        producer.change(call)
        return
    with pytest.raises(ProducerFencedError, match="taken over"):
        producer.change(call)


def test_a_failure_outside_of_a_transaction_changes_nothing() -> None:
    producer = machine()
    producer.fail(KafkaError("late"))
    assert (producer.phase, producer.cause) == (Phase.READY, None)


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.NONE, Reaction.NONE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Reaction.AGAIN),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.AGAIN),
        (ErrorCode.NOT_COORDINATOR, Reaction.ELSEWHERE),
        (ErrorCode.TRANSACTION_ABORTABLE, Reaction.ABORT),
        (ErrorCode.PRODUCER_FENCED, Reaction.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Reaction.FENCED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Reaction.FATAL),
        (ErrorCode.INVALID_TXN_STATE, Reaction.ABORT),
        (12345, Reaction.FATAL),
    ],
)
def test_each_refusal_says_what_to_do(code: int, reaction: Reaction) -> None:
    assert reaction_to(code) is reaction


def test_offsets_are_in_doubt_until_the_attempt_that_sent_them_last_is_confirmed() -> None:
    producer = machine(Change.BEGUN, Change.SETTLES)
    first = producer.offsets_sent("g", [TopicPartition("t", 0), TopicPartition("t", 1)])
    second = producer.offsets_sent("g", [TopicPartition("t", 0)])
    producer.offsets_stored(first)
    for call in (Change.COMMITS, Change.PREPARES):
        with pytest.raises(TransactionAbortableError, match="group 'g' for t-0 are in doubt"):
            producer.change(call)
    assert producer.phase is Phase.SETTLING
    producer.offsets_stored(second)
    producer.change(Change.COMMITS)


def test_the_offsets_of_another_group_stay_in_doubt() -> None:
    producer = machine(Change.BEGUN, Change.SETTLES)
    producer.offsets_sent("g", [TopicPartition("t", number) for number in range(5)])
    producer.offsets_stored(producer.offsets_sent("h", [TopicPartition("t", 0)]))
    with pytest.raises(TransactionAbortableError, match="group 'g' for t-0, t-1, t-2 and 2 more are in doubt"):
        producer.change(Change.COMMITS)


def test_an_abort_ends_the_doubt_and_a_confirmation_that_comes_later_counts_for_nothing() -> None:
    producer = machine(Change.BEGUN)
    late = producer.offsets_sent("g", [TopicPartition("t", 0)])
    producer.change(Change.ABORTS)
    assert producer.has_offsets_in_doubt
    for change in (Change.ENDED, Change.BEGUN, Change.SETTLES):
        producer.change(change)
    assert not producer.has_offsets_in_doubt
    producer.offsets_sent("g", [TopicPartition("t", 0)])
    producer.offsets_stored(late)
    with pytest.raises(TransactionAbortableError, match="in doubt"):
        producer.change(Change.COMMITS)


def test_offsets_are_taken_in_an_open_transaction_only() -> None:
    with pytest.raises(UsageError, match="begin_transaction"):
        machine().offsets_sent("g", [TopicPartition("t", 0)])
