"""Fetch sessions at the broker: what is left out, what is asked anew, and who gives way (KIP-227)."""

from __future__ import annotations

import pytest

from kafkaraw.broker import fetch_sessions
from kafkaraw.broker.fetch_sessions import EVICTION_MS
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import run_virtual
from tests.broker.handlers.test_fetch import BATCH, append
from tests.broker.handlers.test_metadata import create
from tests.broker.support import FixedClock, ask, make_state, through_bytes


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def state(clock: FixedClock):
    made = make_state(clock=clock, max_incremental_fetch_session_cache_slots=2)
    create(made, "t", partitions=4)
    create(made, "u")
    yield made
    made.close()


def fetch(
    state: BrokerState,
    offsets: dict[int, int],
    session: tuple[int, int] = (0, 0),
    *,
    topic: str = "t",
    forget: tuple[int, ...] = (),
    version: int = 18,
    **fields,
) -> FetchResponse:
    """Ask for partitions from offsets on, in the session with that id and epoch."""
    known = state.catalog.topic(topic)
    topic_id = ZERO_UUID if known is None or version < 13 else known.topic_id
    request = FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "session_id": session[0], "session_epoch": session[1]} | fields,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                    for index, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(forget))]
        if forget
        else [],
    )
    return ask(state, request, version)


def shown(answer: FetchResponse) -> dict[int, int]:
    """Bytes by partition."""
    assert not answer.error_code
    return {part.partition_index: len(part.records) for topic in answer.responses for part in topic.partitions}


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_full_request_opens_a_session_and_is_answered_in_full(state: BrokerState, version: int) -> None:
    append(state, 1)
    answer = fetch(state, {0: 0, 1: 0}, version=version)
    assert answer.session_id > 0
    assert shown(answer) == {0: 0, 1: len(BATCH)}
    again = fetch(state, {1: 1}, (answer.session_id, 1), version=version)
    assert (again.session_id, shown(again)) == (answer.session_id, {})


def test_partitions_with_news_are_in_the_answer_whether_named_or_not(state: BrokerState) -> None:
    session = fetch(state, {0: 0, 1: 0, 2: 0}).session_id
    append(state, 1)
    assert shown(fetch(state, {}, (session, 1))) == {1: len(BATCH)}
    assert shown(fetch(state, {1: 1}, (session, 2))) == {}
    state.partition(TopicPartition("t", 2)).delete_records(0)
    append(state, 0)
    append(state, 2)
    assert list(shown(fetch(state, {3: 0}, (session, 3)))) == [0, 2, 3]


def test_a_position_that_goes_back_is_news_again(state: BrokerState) -> None:
    append(state, 0, 2)
    session = fetch(state, {0: 2}).session_id
    assert shown(fetch(state, {}, (session, 1))) == {}
    assert shown(fetch(state, {0: 1}, (session, 2))) == {0: len(BATCH)}


def test_what_is_forgotten_is_not_read(state: BrokerState) -> None:
    session = fetch(state, {0: 0, 1: 0}).session_id
    append(state, 0)
    append(state, 1)
    assert shown(fetch(state, {}, (session, 1), forget=(0,))) == {1: len(BATCH)}


def test_a_session_that_reads_nothing_any_more_is_closed(state: BrokerState) -> None:
    session = fetch(state, {0: 0}).session_id
    answer = fetch(state, {}, (session, 1), forget=(0,))
    assert (answer.session_id, answer.responses) == (0, [])
    assert len(state.fetch_sessions) == 0


def test_a_partition_that_gave_records_comes_after_the_others(state: BrokerState) -> None:
    for index in range(3):
        append(state, index, 2)
    session = fetch(state, {0: 2, 1: 2, 2: 2}).session_id
    size = len(BATCH)
    assert shown(fetch(state, {0: 0, 1: 0, 2: 0}, (session, 1), max_bytes=size)) == {0: size}
    assert shown(fetch(state, {0: 1}, (session, 2), max_bytes=size)) == {1: size}
    assert shown(fetch(state, {1: 1}, (session, 3), max_bytes=size)) == {2: size}
    assert shown(fetch(state, {2: 1}, (session, 4), max_bytes=size)) == {0: size}


def test_errors_are_repeated_in_each_response_and_new_data_follows(state: BrokerState) -> None:
    session = fetch(state, {0: 0}).session_id
    for epoch in (1, 2):
        (topic,) = fetch(state, {0: 9}, (session, epoch)).responses
        assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert shown(fetch(state, {0: 0}, (session, 3))) == {0: 0}


def test_a_session_that_is_not_known_is_refused(state: BrokerState) -> None:
    assert fetch(state, {0: 0}, (99, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_epoch_out_of_turn_is_refused_and_the_session_lives_on(state: BrokerState) -> None:
    session = fetch(state, {0: 0}).session_id
    for epoch in (2, 7):
        assert fetch(state, {}, (session, epoch)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert shown(fetch(state, {}, (session, 1))) == {}


def test_names_and_ids_do_not_meet_in_one_session(state: BrokerState) -> None:
    session = fetch(state, {0: 0}, version=12).session_id
    assert fetch(state, {0: 0}, (session, 1), version=13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_request_closes_the_session_whose_id_it_gives(state: BrokerState) -> None:
    first = fetch(state, {0: 0}).session_id
    second = fetch(state, {0: 0}, (first, 0)).session_id
    assert second not in (0, first)
    assert fetch(state, {}, (first, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch(state, {0: 0}, (second, -1)).session_id == 0
    assert len(state.fetch_sessions) == 0


def test_requests_before_version_7_have_no_session(state: BrokerState) -> None:
    fetch(state, {0: 0}, version=6)
    assert len(state.fetch_sessions) == 0


def test_when_all_places_are_taken_by_new_sessions_there_is_none(state: BrokerState) -> None:
    kept = [fetch(state, {0: 0}).session_id for _ in range(2)]
    assert fetch(state, {0: 0, 1: 0}).session_id == 0
    assert all(shown(fetch(state, {}, (session, 1))) == {} for session in kept)


def test_an_idle_session_gives_way(state: BrokerState, clock: FixedClock) -> None:
    idle, used = (fetch(state, {0: 0}).session_id for _ in range(2))
    clock.now_ms += EVICTION_MS + 1
    fetch(state, {}, (used, 1))
    assert fetch(state, {0: 0}).session_id > 0
    assert fetch(state, {}, (idle, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert shown(fetch(state, {}, (used, 2))) == {}


def test_a_smaller_session_that_is_not_new_gives_way_to_a_larger_one(state: BrokerState, clock: FixedClock) -> None:
    small, large = fetch(state, {0: 0}).session_id, fetch(state, {0: 0, 1: 0, 2: 0}).session_id
    clock.now_ms += EVICTION_MS
    fetch(state, {}, (small, 1))
    fetch(state, {}, (large, 1))
    assert fetch(state, {0: 0, 1: 0}).session_id == 0
    clock.now_ms += 1
    assert fetch(state, {0: 0, 1: 0}).session_id > 0
    assert fetch(state, {}, (small, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_idle_session_expires_though_there_are_free_places(state: BrokerState, clock: FixedClock) -> None:
    session_id = fetch(state, {0: 0}).session_id
    clock.now_ms += EVICTION_MS + 1
    fetch(state, {0: 0})
    assert len(state.fetch_sessions) == 1
    assert fetch(state, {}, (session_id, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", 20)
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 100)


@pytest.mark.usefixtures("small_limits")
def test_a_client_that_names_too_many_partitions_has_no_session(state: BrokerState) -> None:
    answer = fetch(state, dict.fromkeys(range(21), 0))
    assert (answer.session_id, len(state.fetch_sessions)) == (0, 0)
    opened = fetch(state, dict.fromkeys(range(20), 0))
    assert opened.session_id
    grown = fetch(state, {20: 0}, (opened.session_id, 1))
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(state.fetch_sessions) == 0


@pytest.mark.usefixtures("small_limits")
def test_all_sessions_together_have_a_limit_of_partitions(clock: FixedClock) -> None:
    state = make_state(clock=clock)
    create(state, "t")
    sessions = [fetch(state, dict.fromkeys(range(20), 0)).session_id for _ in range(6)]
    assert [bool(session) for session in sessions] == [True] * 5 + [False]
    assert fetch(state, {0: 0}).session_id == 0
    fetch(state, {}, (sessions[0], -1))
    assert fetch(state, {0: 0}).session_id
    clock.now_ms += EVICTION_MS + 1
    assert fetch(state, {0: 0}).session_id
    assert len(state.fetch_sessions) == 1
    state.close()


def test_an_unknown_topic_is_in_every_response(state: BrokerState) -> None:
    session = fetch(state, {0: 0}, topic="nope", version=12).session_id
    (topic,) = fetch(state, {}, (session, 1), version=12).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_long_poll_in_a_session_is_woken_by_what_is_not_named() -> None:
    async def main(_) -> None:
        state = make_state()
        create(state, "t", partitions=2)
        session = fetch(state, {0: 0, 1: 0}).session_id
        waiting = fetch(state, {}, (session, 1), max_wait_ms=60_000)
        answers: list[FetchResponse] = []
        waiting.when_done(lambda answer: answers.append(through_bytes(answer, 18)))
        append(state, 1)
        assert shown(answers[0]) == {1: len(BATCH)}
        state.close()

    run_virtual(main, seed=1)
