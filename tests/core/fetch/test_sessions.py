"""Fetch sessions: a request says what has changed, and everything anew when the two ends may disagree (KIP-227)."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from kafkaraw.core.fetch.requests import NO_SESSION, FetchLimits, FetchTarget, SessionStep
from kafkaraw.core.fetch.schedule import FetchSession
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import TopicPartition
from tests.core.fetch.test_fetcher import P0, P1, answer, batch, cluster, data, fetcher

T_ID, OTHER_ID = Uuid(b"t" * 16), Uuid(b"o" * 16)


def target(partition: int, offset: int = 0, topic_id: Uuid = T_ID, generation: int = 0) -> FetchTarget:
    return FetchTarget(
        topic_partition=TopicPartition("t", partition),
        topic_id=topic_id,
        offset=offset,
        generation=generation,
        leader_epoch=3,
        size_wanted_bytes=0,
    )


def shown(step: SessionStep) -> tuple[int, int, list[tuple[int, int]], list[int]]:
    return (
        step.session_id,
        step.epoch,
        [(one.topic_partition.partition, one.offset) for one in step.targets or ()],
        [one.topic_partition.partition for one in step.forgotten],
    )


def ok(session_id: int = 7) -> FetchResponse:
    return FetchResponse(session_id=session_id, responses=[])


def ask(session: FetchSession, targets: Iterable[FetchTarget]) -> SessionStep:
    """The next request when exactly these are wanted."""
    wanted = {target.topic_partition: target for target in targets}
    for of in [of for of in session.targets if of not in wanted]:
        session.leave_out(of)
    for target in wanted.values():
        if session.targets.get(target.topic_partition) != target:
            session.want(target)
    return session.ask()


def opened(*targets: FetchTarget) -> FetchSession:
    session = FetchSession()
    ask(session, targets)
    session.answered(ok())
    return session


def test_the_first_request_says_everything_and_later_ones_what_has_changed() -> None:
    session = FetchSession()
    assert shown(ask(session, [target(0), target(1)])) == (0, 0, [(0, 0), (1, 0)], [])
    session.answered(ok())
    assert shown(ask(session, [target(0), target(1, 5)])) == (7, 1, [(1, 5)], [])
    session.answered(ok())
    assert shown(ask(session, [target(1, 5), target(2)])) == (7, 2, [(2, 0)], [0])
    session.answered(ok())
    assert shown(ask(session, [target(1, 5), target(2)])) == (7, 3, [], [])


def test_a_broker_that_keeps_no_sessions_is_told_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        assert shown(ask(session, [target(0)])) == (0, 0, [(0, 0)], [])
        session.answered(ok(0))


def test_after_no_answer_the_session_is_closed_and_another_one_opened() -> None:
    session = opened(target(0))
    ask(session, [target(0, 5)])
    session.failed()
    assert shown(ask(session, [target(0, 5)])) == (7, 0, [(0, 5)], [])
    session.answered(ok(8))
    assert shown(ask(session, [target(0, 5)])) == (8, 1, [], [])


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7)],
)
def test_after_an_error_everything_is_said_anew(code: int, session_id: int) -> None:
    session = opened(target(0))
    ask(session, [target(0, 5)])
    session.answered(FetchResponse(error_code=code, responses=[]))
    assert shown(ask(session, [target(0, 5)])) == (session_id, 0, [(0, 5)], [])


def test_a_request_beside_the_one_that_is_under_way_is_without_session() -> None:
    session = opened(target(0))
    ask(session, [target(0)])
    assert ask(session, [target(0, 9)]) is NO_SESSION
    session.answered(ok())
    assert shown(ask(session, [target(0, 9)])) == (7, 2, [(0, 9)], [])


def test_ids_and_names_never_meet_in_one_session() -> None:
    session = opened(target(0))
    assert shown(ask(session, [target(0, topic_id=ZERO_UUID)])) == (7, 0, [(0, 0)], [])
    session.answered(ok(8))
    assert shown(ask(session, [target(0)])) == (8, 0, [(0, 0)], [])


def test_a_topic_that_was_made_again_replaces_the_old_one() -> None:
    session = opened(target(0), target(1))
    step = ask(session, [target(0, topic_id=OTHER_ID), target(1)])
    assert [(one.topic_partition.partition, one.topic_id) for one in step.targets or ()] == [(0, OTHER_ID)]
    assert [one.topic_id for one in step.forgotten] == [T_ID]


def test_the_epoch_begins_at_one_again_after_the_largest() -> None:
    session = opened(target(0))
    session._epoch = 2**31 - 1
    ask(session, [target(0)])
    session.answered(ok())
    assert ask(session, [target(0)]).epoch == 1


def test_a_request_is_written_with_what_the_session_says() -> None:
    session = opened(target(0), target(1))
    chosen = (target(1, 5), target(2))
    session.leave_out(P0)
    for one in chosen:
        session.want(one)
    plan = session.plan(1)
    request = plan.request(FetchLimits(rack="r1"), 17)
    assert (request.session_id, request.session_epoch, request.rack_id) == (7, 1, "r1")
    assert [part.partition for topic in request.topics for part in topic.partitions] == [1, 2]
    assert [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data] == [
        ("t", T_ID, [0])
    ]
    assert (plan.in_session, plan.is_full) == (True, False)


def test_the_fetch_session_always_matches_the_wanted_partitions() -> None:
    """Against a broker that does what KIP-227 says: after each answer both have the same partitions and offsets."""
    for seed in range(200):
        rng = random.Random(seed)
        session, kept, next_id = FetchSession(), None, 1
        for _ in range(30):
            wanted = [target(number, rng.randrange(3)) for number in range(4) if rng.random() < 0.8] or [target(0)]
            step = ask(session, wanted)
            if rng.random() < 0.1:
                session.failed()
                continue
            if step.epoch == 0:
                kept, epoch = {}, 0
                session_id, next_id = next_id, next_id + 1
            elif kept is None or (step.session_id, step.epoch) != (session_id, epoch + 1) or rng.random() < 0.1:
                kept = None
                session.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]))
                continue
            epoch = step.epoch
            for old in step.forgotten:
                del kept[old.topic_partition]
            for new in step.targets or ():
                kept[new.topic_partition] = new.offset
            assert kept == {one.topic_partition: one.offset for one in wanted}, seed
            session.answered(ok(session_id))


# -- in the fetcher


def test_partitions_without_news_may_be_left_out_of_an_answer_in_a_session() -> None:
    made, view = fetcher(P0, P1), cluster()
    (plan,) = made.plan(view, 0, busy=())
    opening = answer(data(0, batch(0)), data(1))
    opening.session_id = 5
    made.receive(plan, opening, view, 0)
    made.subscriptions.take()
    (plan,) = made.plan(view, 0, busy=())
    assert shown(plan.session) == (5, 1, [(0, 5)], [])
    assert made.receive(plan, FetchResponse(session_id=5, responses=[]), view, 0) == set()
    assert made.retry_at_ms(0) is None
    assert made.problem(10**9, patience_ms=1, unknown_patience_ms=1) is None


def test_a_partition_reassigned_between_two_requests_is_sent_again() -> None:
    made, view = fetcher(P0, P1), cluster()
    (plan,) = made.plan(view, 0, busy=())
    opening = answer(data(0), data(1))
    opening.session_id = 5
    made.receive(plan, opening, view, 0)
    made.subscriptions.assign([P1])
    made.subscriptions.assign([P0, P1])
    made.subscriptions.seek(P0, 0)
    (plan,) = made.plan(view, 0, busy=())
    assert shown(plan.session) == (5, 0, [(0, 0), (1, 0)], [])
    opening.session_id = 6
    made.receive(plan, opening, view, 0)
    assert made.subscriptions.partition(P0).high_watermark == 100
    assert shown(made.plan(view, 0, busy=())[0].session) == (6, 1, [], [])


def test_a_session_that_is_gone_is_opened_again_without_a_pause() -> None:
    made, view = fetcher(P0), cluster()
    for error in (0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        (plan,) = made.plan(view, 0, busy=())
        made.receive(plan, FetchResponse(error_code=error, session_id=0 if error else 5, responses=[]), view, 0)
        made.subscriptions.partition(P0).succeeded()
    (plan,) = made.plan(view, 0, busy=())
    assert shown(plan.session) == (0, 0, [(0, 0)], [])


def test_a_broker_that_refuses_to_open_sessions_is_given_a_pause() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    gone = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    made.receive(plan, gone, view, 0)
    assert made.plan(view, 0, busy=()) == []
    assert made.retry_at_ms(0) is not None


def test_names_of_topics_that_were_read_once_are_not_kept_for_ever() -> None:
    session = FetchSession()
    for number in range(200):
        of = TopicPartition(f"topic-{number}", 0)
        session.want(target(0, topic_id=Uuid(number.to_bytes(16, "big")))._replace(topic_partition=of))
        plan = session.plan(1)
        assert plan.names[Uuid(number.to_bytes(16, "big"))] == of.topic
        session.answered(FetchResponse(session_id=5, responses=[]))
        session.leave_out(of)
    assert len(session.plan(1).names) < 20
