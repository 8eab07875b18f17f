"""Tickets and the promise they share."""

from __future__ import annotations

import logging
import sys
import traceback

import pytest

from kafkaraw.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationError
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import BatchPromise, PromiseState, RecordMetadata, Ticket
from tests.records.promises import FakeWaiter


def promise(waiter: FakeWaiter | None = None) -> BatchPromise:
    return BatchPromise("t", 2, waiter or FakeWaiter())


def test_tickets_count_from_the_base_offset() -> None:
    batch = promise()
    tickets = [Ticket(batch, index, 10 + index) for index in range(3)]
    assert not any(ticket.done for ticket in tickets)
    batch.resolve(100)
    assert all(ticket.done for ticket in tickets)
    assert [ticket.result() for ticket in tickets] == [
        RecordMetadata("t", 2, 100, 10),
        RecordMetadata("t", 2, 101, 11),
        RecordMetadata("t", 2, 102, 12),
    ]


def test_the_brokers_time_replaces_the_producers() -> None:
    batch = promise()
    batch.resolve(5, log_append_time_ms=777)
    assert Ticket(batch, 0, 10).result().timestamp_ms == 777


def test_an_unknown_base_offset_gives_unknown_offsets() -> None:
    batch = promise()
    batch.resolve(-1)
    assert Ticket(batch, 3, 10).result().offset == -1


def test_a_failed_batch_fails_its_tickets() -> None:
    batch = promise()
    ticket = Ticket(batch, 0, 10)
    assert ticket.exception() is None
    assert not batch.is_seen(1)
    error = KafkaError("gone")
    batch.fail(error)
    assert repr(ticket.exception()) == repr(error)
    with pytest.raises(KafkaError, match="gone"):
        ticket.result()


@pytest.mark.parametrize("look", ["result", "exception", "callback"])
def test_an_error_that_somebody_looks_at_is_noted(look: str) -> None:
    batch = promise()
    ticket = Ticket(batch, 0, 10)
    if look == "callback":
        ticket.add_done_callback(lambda _: None)
    batch.fail(KafkaError("gone"))
    assert batch.is_seen(1) == (look == "callback")
    if look == "result":
        with pytest.raises(KafkaError):
            ticket.result()
    ticket.exception()
    assert batch.is_seen(1)
    assert not batch.is_seen(2)  # the other record of the batch
    Ticket(batch, 1, 10).exception()
    assert batch.is_seen(2)


def test_each_call_for_the_outcome_of_a_failed_record_raises_an_error_of_its_own() -> None:
    batch = promise()
    tickets = [Ticket(batch, index, 0) for index in range(300)]
    error = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", resource="t", operation="WRITE")
    error.add_note("a note")
    error.__cause__ = ValueError("the cause")
    batch.fail(error)
    raised: list[TopicAuthorizationError] = []
    for ticket in tickets:
        with pytest.raises(TopicAuthorizationError) as caught:
            ticket.result()
        raised.append(caught.value)
        with pytest.raises(TopicAuthorizationError) as caught:
            ticket.__await__().send(None)
        raised.append(caught.value)
        raised.append(ticket.exception())
    assert len({id(one) for one in [error, *raised]}) == 901
    assert error.__traceback__ is None
    for one in raised:
        assert len(traceback.extract_tb(one.__traceback__)) <= 4
        assert (str(one), one.code, one.name, one.retriable) == (str(error), error.code, error.name, error.retriable)
        assert (one.resource_name, one.operation) == ("t", "WRITE")
        assert (one.__notes__, one.__cause__) == (["a note"], error.__cause__)


def test_the_first_outcome_counts() -> None:
    batch = promise()
    assert batch.state is PromiseState.PENDING
    assert batch.fail(KafkaError("too late"))
    assert not batch.resolve(100)
    assert not batch.fail(KafkaError("again"))
    assert batch.state is PromiseState.DONE
    with pytest.raises(KafkaError, match="too late"):
        Ticket(batch, 0, 0).result()


def test_waiting_is_the_waiters_business() -> None:
    waiter = FakeWaiter()
    batch = promise(waiter)
    ticket = Ticket(batch, 1, 10)
    with pytest.raises(KafkaTimeoutError):
        ticket.result(timeout=0.5)
    waiter.base_offset = 40
    assert ticket.result(3).offset == 41
    assert waiter.waited == [(batch, 0.5), (batch, 3)]
    assert ticket.result().offset == 41
    assert len(waiter.waited) == 2, "what is done is not waited for"


def test_a_ticket_can_be_awaited() -> None:
    batch = promise()
    steps = Ticket(batch, 2, 10).__await__()
    assert next(steps) == "waiting"
    batch.resolve(5)
    with pytest.raises(StopIteration) as stopped:
        next(steps)
    assert stopped.value.value == RecordMetadata("t", 2, 7, 10)


def test_awaiting_what_is_done_does_not_wait() -> None:
    batch = promise()
    batch.resolve(5)
    with pytest.raises(StopIteration) as stopped:
        next(Ticket(batch, 0, 10).__await__())
    assert stopped.value.value.offset == 5


def test_callbacks_run_once_in_order_before_and_after_the_outcome() -> None:
    batch = promise()
    called: list[str] = []
    first, second = Ticket(batch, 0, 10), Ticket(batch, 1, 10)
    first.add_done_callback(lambda ticket: called.append(f"first {ticket.result().offset}"))
    second.add_done_callback(lambda ticket: called.append(f"second {ticket.result().offset}"))
    assert called == []
    batch.resolve(5)
    first.add_done_callback(lambda ticket: called.append("late"))
    batch.resolve(6)
    assert called == ["first 5", "second 6", "late"]


def test_a_callback_that_ends_the_process_keeps_no_other_from_being_told() -> None:
    batch, called = promise(), []
    batch.add_callback(lambda _: sys.exit(3))
    batch.add_callback(called.append)
    batch.add_callback(lambda _: sys.exit(3))
    batch.add_callback(called.append)
    with pytest.raises(SystemExit):
        batch.resolve(5)
    assert called == [batch, batch]


def test_a_failing_callback_is_logged_and_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    batch = promise()
    called = []
    batch.add_callback(lambda _: 1 // 0)
    batch.add_callback(called.append)
    with caplog.at_level(logging.ERROR, "kafkaraw.records"):
        batch.resolve(0)
    assert called == [batch]
    assert "a callback of a batch for t-2 failed" in caplog.text


def test_a_ticket_says_what_it_is_for() -> None:
    assert repr(Ticket(promise(), 3, 10)) == "Ticket(t-2, record 3, pending)"
