"""Dead letters are found, replayed and discarded: each exactly once, whatever a replay is interrupted by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw import Consumer, TopicPartition
from kafkaraw.errors import KafkaError, TransactionError
from kafkaraw.light_classes import replace
from kafkaraw.pipelines.dead_letters.store import DeadLetters, Filter, State
from kafkaraw.pipelines.letters import HEADERS, letter_of
from kafkaraw.pipelines.model import Settings
from tests.pipelines.letters import NAME, Topics, letter


@pytest.fixture
def topics(kafka) -> Topics:
    return Topics(kafka)


def test_filters_choose_by_reason_dataset_expectation_topic_time_and_place(topics):
    topics.add(
        letter(0),
        letter(1, reason="expectation", expectation="positive, small", dataset="clean"),
        letter(2, topic="others", dataset="clean"),
        letter(3, pipeline="another"),
    )
    topics.kafka.producer.send(topics.dead, b"no dead letter").result(30)

    def offsets(**conditions: object) -> list[int]:
        return [each.letter.offset for each in topics.store.find(Filter(**conditions))]

    assert offsets() == [0, 1, 2]
    assert offsets(reasons=frozenset({"decode"})) == [0, 2]
    assert offsets(datasets=frozenset({"clean"})) == [1, 2]
    assert offsets(expectations=frozenset({"small"})) == [1]
    assert offsets(topics=frozenset({"others"})) == [2]
    assert offsets(since_ms=1_001, until_ms=1_002) == [1]
    assert offsets(places=frozenset({(0, 2)})) == [2]
    assert offsets(reasons=frozenset({"decode"}), datasets=frozenset({"clean"})) == [2]


def test_a_letter_is_replayed_once_and_a_discarded_one_never_with_any_filters(topics):
    topics.add(*(letter(number, dataset="ab"[number % 2]) for number in range(6)))
    store = topics.store
    assert store.replay(dry_run=True).count == 6 and topics.replayed() == []
    assert store.replay(Filter(datasets=frozenset({"b"})), limit=2).count == 2
    assert topics.replayed() == [1, 3]
    assert store.discard(Filter(since_ms=1_004), dry_run=True).count == 2
    assert store.discard(Filter(since_ms=1_004)).by_kind == {("a", "decode"): 1, ("b", "decode"): 1}
    done = store.replay()
    assert (done.count, done.to, done.by_kind) == (2, (topics.replays,), {("a", "decode"): 2})
    assert store.replay().count == store.discard(Filter()).count == 0
    assert topics.replayed() == [0, 1, 2, 3]
    states = {each.letter.offset: each.state for each in store.find()}
    assert states == {number: State.DISCARDED if number > 3 else State.REPLAYED for number in range(6)}
    assert [each.letter.offset for each in store.find(states=[State.DISCARDED])] == [4, 5]
    topics.add(letter(7))
    assert store.replay().count == 1 and topics.replayed() == [0, 1, 2, 3, 7]


def test_the_group_s_offset_is_the_first_open_letter_of_each_partition(kafka):
    topics = Topics(kafka, partitions=2)
    topics.add(letter(0), letter(1), letter(2))
    topics.add(letter(3), partition=1)
    topics.store.replay(Filter(since_ms=1_002))
    found = kafka.admin.list_group_offsets([topics.store.group])[topics.store.group]
    assert {tp: each.offset for tp, each in found.items() if tp.topic == topics.dead} == {
        TopicPartition(topics.dead, 0): 0,
        TopicPartition(topics.dead, 1): 1,
    }


def test_partitions_of_different_lengths_are_read_once(kafka):
    topics = Topics(kafka, partitions=3)
    topics.add(*(letter(number) for number in range(2_000)))
    topics.add(letter(2_000), partition=2)
    assert [each.letter.offset for each in topics.store.find()].count(2_000) == 1
    assert topics.store.replay().count == 2_001
    assert topics.replayed() == list(range(2_001))


def test_to_origin_writes_the_record_as_it_was_to_its_partition(kafka, topics):
    origin = kafka.new_topic(partitions=2)
    headers = (("h", None), ("h", b"\xff"), (HEADERS[0], b"mine"))
    topics.add(
        letter(0, topic=origin, partition=1, headers=headers, key=None, value=b"\x00"),
        letter(1, topic=origin, partition=7, value=None),
    )
    assert topics.store.replay(to_origin=True).to == (origin,)
    first, second = sorted(kafka.records(origin), key=lambda record: record.timestamp_ms)
    assert (first.key, first.value, tuple(first.headers), first.partition) == (None, b"\x00", headers, 1)
    assert (second.key, second.value, second.timestamp_ms, tuple(second.headers)) == (b"k", None, 501, ())
    assert topics.store.replay().count == 0 and topics.replayed() == []


def test_what_a_topic_did_not_take_goes_to_that_topic(kafka, topics):
    target = kafka.new_topic()
    topics.add(letter(-1, reason="sink", topic=target, partition=-1, value=b"large", headers=(("h", b"1"),)))
    assert topics.store.replay().to == (target,)
    (record,) = kafka.records(target)
    assert (record.value, tuple(record.headers)) == (b"large", (("h", b"1"),))


def test_a_second_replay_fences_the_first(topics):
    topics.add(letter(0), letter(1))
    first, second = DeadLetters(topics.name, topics.settings), DeadLetters(topics.name, topics.settings)
    read = first._read

    def read_late(wanted):
        found = read(wanted)
        assert second.replay().count == 2
        return found

    first._read = read_late
    with pytest.raises(TransactionError, match=r"0 of 2 .* another replay or discard of 'sales-.*' has taken over"):
        first.replay()
    assert topics.replayed() == [0, 1]


@pytest.mark.usefixtures("short_topic_grace")
def test_a_missing_topic_is_named_with_the_remedy(kafka):
    absent = Settings("absent", "absent", NAME, kafka={"kafka.bootstrap.servers": kafka.servers})
    with pytest.raises(KafkaError, match=r"topic 'absent' does not exist: a run of the pipeline makes it"):
        DeadLetters(NAME, absent).find()


_bytes = st.none() | st.binary(max_size=20)
_headers = st.lists(st.tuples(st.sampled_from(["h", "", "ü", *HEADERS]), _bytes), max_size=4).map(tuple)


@pytest.fixture(scope="module")
def shared(kafka) -> Topics:
    return Topics(kafka)


@settings(max_examples=25)
@given(key=_bytes, value=_bytes, headers=_headers, timestamp=st.integers(0, 2**52), error=st.text(max_size=20))
def test_a_replayed_record_has_the_same_bytes(shared, key, value, headers, timestamp, error):
    sent = letter(0, key=key, value=value, headers=headers, timestamp_ms=timestamp, error=error)
    with Consumer(bootstrap_servers=shared.kafka.servers) as consumer:
        at = TopicPartition(shared.replays, 0)
        start = consumer.end_offsets([at])[at]
        shared.add(sent)
        assert shared.store.replay().count == 1
        consumer.assign([at])
        consumer.seek(at, start)
        (record,) = next(found for found in iter(lambda: consumer.poll(5.0), None) if found)[at]
    got = letter_of(record)
    assert (got.key, got.value, got.headers, got.timestamp_ms) == (key, value, headers, timestamp)
    assert (got.error, got.dataset, got.topic, got.offset) == (error, "orders", "orders-in", 0)


@pytest.mark.parametrize("header", ["kafkaraw.error.as.json", "kafkaraw.error.left.out"])
def test_a_row_of_which_a_part_is_missing_is_not_replayed_but_can_be_discarded(topics, header):
    target = topics.kafka.new_topic()
    whole = letter(-1, reason="sink", topic=target, partition=-1, value=b"whole")
    topics.add(replace(whole, value=None, headers=((header, b"value"),)), whole)
    assert topics.store.replay(dry_run=True).left == 1
    done = topics.store.replay()
    assert (done.count, done.left) == (1, 1)
    assert [record.value for record in topics.kafka.records(target)] == [b"whole"]
    assert topics.store.discard(Filter()).count == 1
