"""How records are collected into batches."""

from __future__ import annotations

import signal
import threading
from collections import Counter, UserList
from typing import NoReturn

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.records import (
    HEADER_SIZE,
    KEY_SIZE_SAFE,
    AppendStatus,
    Batch,
    BatchPromise,
    Headers,
    OpenBatches,
    Partitioner,
    SealedBatch,
    SendFastPath,
    Ticket,
    parse_header,
    partition_for_key,
    verify_crc,
)
from tests.records.promises import FakeClock, FakeWaiter, open_batches


def append(
    batches: OpenBatches,
    value: bytes | None = b"value",
    *,
    key: bytes | None = None,
    headers: Headers | None = None,
    timestamp_ms: int | None = None,
    partition: int | None = None,
    topic: str = "t",
) -> tuple[AppendStatus, Ticket]:
    status, ticket = batches.append(topic, key, value, headers, timestamp_ms, partition)
    assert ticket is not None
    return status, ticket


def values_of(sealed: SealedBatch) -> list[bytes | None]:
    return Batch(sealed.topic, sealed.partition, sealed.encode(), start_offset=0).values()


def test_the_first_record_of_a_batch_is_told_from_the_next_ones() -> None:
    batches = open_batches()
    assert [append(batches)[0] for _ in range(3)] == [AppendStatus.OPENED, AppendStatus.OK, AppendStatus.OK]


def test_a_full_batch_is_sealed_and_wakes_the_loop() -> None:
    batches = open_batches(batch_size=300)
    statuses = [append(batches, bytes(100), partition=1)[0] for _ in range(4)]
    assert statuses == [AppendStatus.OPENED, AppendStatus.OK, AppendStatus.SEALED, AppendStatus.OK]
    (sealed,) = batches.take_sealed()
    assert (sealed.topic, sealed.partition, sealed.records_count) == ("t", 1, 2)
    assert len(sealed.encode()) == sealed.size_bytes <= 300
    assert batches.take_sealed() == []


def test_batches_keep_the_order_of_their_records() -> None:
    batches = open_batches(batch_size=200)
    wanted = [b"%03d" % number for number in range(100)]
    for value in wanted:
        append(batches, value, partition=2)
    sealed = batches.seal_all()
    assert len(sealed) > 3
    assert [value for batch in sealed for value in values_of(batch)] == wanted


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    batches = open_batches(batch_size=200)
    append(batches, b"before", partition=0)
    status, _ = append(batches, bytes(5000), partition=0)
    assert status is AppendStatus.SEALED
    append(batches, b"after", partition=0)
    before, large = batches.take_sealed()
    assert values_of(before) == [b"before"]
    assert values_of(large) == [bytes(5000)]
    assert [values_of(sealed) for sealed in batches.seal_all()] == [[b"after"]]


def test_a_topic_may_have_smaller_batches_than_the_others_from_the_next_one_on() -> None:
    batches = open_batches(batch_size=2_000)
    batches.set_partitions("small", 1)
    append(batches, bytes(100), topic="small")
    batches.limit_batches("small", 300)
    for topic in ("small", "t"):
        for _ in range(30):
            append(batches, bytes(100), topic=topic, partition=0)
    sizes = [(sealed.topic, sealed.size_bytes) for sealed in batches.seal_all()]
    small = [size for topic, size in sizes if topic == "small"]
    assert small[0] > 1_000, "what was open already is filled"
    assert max(small[1:]) <= 300
    assert max(size for topic, size in sizes if topic == "t") > 1_000
    append(batches, bytes(500), topic="small")
    assert batches.take_sealed()[0].records_count == 1, "a record larger than that has a batch of its own"
    batches.limit_batches("small", 10_000)
    for _ in range(30):
        append(batches, bytes(100), topic="small")
    assert 1_000 < max(sealed.size_bytes for sealed in batches.seal_all()) <= 2_000, "the setting is still the most"
    batches.limit_batches("unknown", 300)


def test_everything_about_a_record_arrives() -> None:
    batches = open_batches()
    append(batches, b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=77, partition=1)
    append(batches, None, key=b"k", timestamp_ms=70, partition=1)
    (sealed,) = batches.seal_all()
    first, second = Batch("t", 1, sealed.encode(), start_offset=0)
    assert (first.key, first.value, first.headers, first.timestamp_ms) == (b"k", b"v", [("h", b"1"), ("n", None)], 77)
    assert (second.key, second.value, second.headers, second.timestamp_ms) == (b"k", None, [], 70)
    header = parse_header(sealed.encode())
    assert (header.base_timestamp, header.max_timestamp) == (77, 77)


def test_a_record_that_no_longer_fits_leaves_no_trace_in_the_batch() -> None:
    batches = open_batches(batch_size=300)
    append(batches, bytes(200), timestamp_ms=5, partition=0)
    append(batches, bytes(200), timestamp_ms=9_000_000, partition=0)
    (sealed,) = batches.take_sealed()
    assert parse_header(sealed.encode()).max_timestamp == 5


def test_without_a_timestamp_the_clock_is_asked() -> None:
    clock = FakeClock(123_456)
    batches = open_batches(clock)
    _, ticket = append(batches, partition=0)
    assert ticket.timestamp_ms == 123_456
    (record,) = Batch("t", 0, batches.seal_all()[0].encode(), start_offset=0)
    assert record.timestamp_ms == 123_456


def test_keys_choose_their_partition_as_java_does() -> None:
    batches = open_batches()
    keys = [b"key-%d" % number for number in range(30)]
    for key in keys:
        _, ticket = append(batches, key=key)
        assert ticket.batch_promise.partition == partition_for_key(key, 3)


def test_a_partition_that_is_asked_for_beats_the_key() -> None:
    batches = open_batches()
    assert {append(batches, key=b"key", partition=2)[1].batch_promise.partition for _ in range(3)} == {2}


def test_records_without_a_key_stick_to_a_partition_until_its_batch_is_sealed() -> None:
    batches = open_batches(batch_size=500)
    partitions = [append(batches, bytes(100))[1].batch_promise.partition for _ in range(16)]
    assert partitions == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4


def test_small_batches_move_the_sticky_partition_when_together_they_are_half_a_batch() -> None:
    batches = open_batches(batch_size=2 * 230)
    seen = []
    for _ in range(9):
        seen.append(append(batches, bytes(20))[1].batch_promise.partition)
        (sealed,) = batches.seal_all()
        assert 230 / 3 < sealed.size_bytes < 230 / 2
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_batches_of_any_size_move_the_sticky_partition_after_16_kib() -> None:
    batches = open_batches(batch_size=1_000_000)
    seen = []
    for _ in range(6):
        seen.append(append(batches, bytes(10_000))[1].batch_promise.partition)
        batches.seal_all()
    assert seen == [0, 0, 1, 1, 2, 2]


def test_batches_of_other_partitions_leave_the_sticky_one_alone() -> None:
    batches = open_batches(batch_size=300)
    for _ in range(6):
        append(batches, bytes(200), partition=1)
        assert append(batches, b"")[1].batch_promise.partition == 0


def test_records_without_a_key_join_the_open_batch_of_the_next_partition() -> None:
    batches = open_batches(batch_size=500)
    append(batches, b"keyed", partition=1)
    tickets = [append(batches, bytes(100))[1] for _ in range(5)]
    assert [ticket.batch_promise.partition for ticket in tickets] == [0, 0, 0, 0, 1]
    assert tickets[-1].index == 1


def test_sticky_records_larger_than_a_batch_still_find_a_place() -> None:
    batches = open_batches(batch_size=100)
    for partition in range(2):
        append(batches, b"small", partition=partition)
    tickets = [append(batches, bytes(1000))[1] for _ in range(4)]
    assert [ticket.batch_promise.partition for ticket in tickets] == [2, 0, 1, 2]
    assert sum(sealed.records_count for sealed in batches.seal_all()) == 6


def test_short_lived_producers_do_not_all_begin_with_partition_0() -> None:
    firsts = Counter(append(open_batches(FakeClock(now_ms)))[1].batch_promise.partition for now_ms in range(1000, 1300))
    assert firsts == {0: 100, 1: 100, 2: 100}


def test_unknown_topics_and_partitions_are_not_taken() -> None:
    batches = open_batches()
    assert batches.append("other", None, b"", None, None, None) == (AppendStatus.UNKNOWN_TOPIC, None)
    assert batches.append("t", None, b"", None, None, 3) == (AppendStatus.UNKNOWN_TOPIC, None)
    assert batches.append("t", None, b"", None, None, -1) == (AppendStatus.UNKNOWN_TOPIC, None)
    assert batches.used_bytes == 0


def test_new_partitions_are_used_and_open_batches_stay() -> None:
    batches = open_batches()
    _, before = append(batches, partition=2)
    batches.set_partitions("t", 5)
    _, after = append(batches, partition=2)
    assert after.batch_promise is before.batch_promise
    assert append(batches, partition=4)[1].batch_promise.partition == 4


def test_batches_of_partitions_that_are_gone_are_sealed() -> None:
    batches = open_batches()
    append(batches, partition=2)
    append(batches, partition=0)
    batches.set_partitions("t", 1)
    assert [sealed.partition for sealed in batches.take_sealed()] == [2]
    assert append(batches)[1].batch_promise.partition == 0


def test_a_forgotten_topic_is_refused_and_its_batches_are_sealed() -> None:
    batches = open_batches()
    append(batches, partition=1)
    batches.forget_topic("t")
    batches.forget_topic("never known")
    assert batches.append("t", None, b"", None, None, None)[0] is AppendStatus.UNKNOWN_TOPIC
    assert [sealed.partition for sealed in batches.take_sealed()] == [1]


def test_a_topic_has_partitions() -> None:
    with pytest.raises(UsageError, match="0 partitions"):
        open_batches().set_partitions("t", 0)


def test_lingering_batches_are_due_after_their_time() -> None:
    clock = FakeClock(1000)
    batches = open_batches(clock)
    assert batches.next_due_ms(5) is None
    append(batches, b"first", partition=0)
    clock.now_ms = 1003
    append(batches, b"second", partition=1)
    assert batches.next_due_ms(5) == 1005
    assert batches.seal_due(1004, 5) == []
    assert [sealed.partition for sealed in batches.seal_due(1005, 5)] == [0]
    assert batches.next_due_ms(5) == 1008
    assert [sealed.created_ms for sealed in batches.seal_due(1008, 5)] == [1003]
    assert batches.next_due_ms(5) is None


def test_without_linger_a_batch_is_due_at_once() -> None:
    clock = FakeClock(1000)
    batches = open_batches(clock)
    append(batches)
    assert batches.next_due_ms(0) == 1000
    assert len(batches.seal_due(1000, 0)) == 1


def test_a_clock_set_back_does_not_hold_batches_for_ever() -> None:
    clock = FakeClock(10_000_000)
    batches = open_batches(clock)
    append(batches)
    assert len(batches.seal_due(5_000, 5)) == 1


def test_sealing_hands_over_full_batches_first() -> None:
    batches = open_batches(batch_size=300)
    for number in range(5):
        append(batches, b"%d" % number + bytes(100), partition=0)
    assert [sealed.records_count for sealed in batches.seal_due(10**12, 0)] == [2, 2, 1]


def test_memory_is_counted_until_the_batch_is_released() -> None:
    batches = open_batches()
    append(batches, bytes(100), partition=0)
    append(batches, bytes(100), partition=0)
    (sealed,) = batches.seal_all()
    assert batches.used_bytes == sealed.size_bytes == len(sealed.encode()) > 200 + HEADER_SIZE
    batches.release(sealed)
    batches.release(sealed)
    assert batches.used_bytes == 0


def test_above_the_memory_bound_nothing_is_taken_until_something_is_released() -> None:
    batches = open_batches(buffer_memory=1000)
    taken = 0
    while batches.append("t", None, bytes(100), None, None, 0)[0] is not AppendStatus.FULL:
        taken += 1
    assert 7 <= taken <= 10
    assert batches.append("t", None, b"", None, None, 0) == (AppendStatus.FULL, None)
    sealed = batches.take_sealed()
    assert sum(batch.records_count for batch in sealed) == taken, "all was sealed, so that memory can come back"
    batches.release(sealed[0])
    assert append(batches, partition=0)[0] is AppendStatus.OPENED


def test_a_record_larger_than_the_memory_bound_is_taken_when_all_is_free() -> None:
    batches = open_batches(buffer_memory=1000)
    assert append(batches, bytes(5000))[0] is AppendStatus.SEALED
    assert batches.append("t", None, b"", None, None, None)[0] is AppendStatus.FULL


@pytest.mark.parametrize("open_before", [False, True])
def test_a_field_of_the_wrong_type_changes_nothing(open_before: bool) -> None:
    batches = open_batches()
    if open_before:
        append(batches, partition=0)
    used_bytes = batches.used_bytes
    for key, value, headers in ((None, "text", None), ("text", b"", None), (None, b"", [("h", 1)])):
        with pytest.raises(UsageError):
            batches.append("t", key, value, headers, None, 0)  # type: ignore[arg-type]
    assert batches.used_bytes == used_bytes
    assert [sealed.records_count for sealed in batches.seal_all()] == [1] * open_before


def test_keys_of_other_buffer_types_are_hashed_as_bytes() -> None:
    batches = open_batches()
    _, ticket = append(batches, key=bytearray(b"foobar"))  # type: ignore[arg-type]
    assert ticket.batch_promise.partition == partition_for_key(b"foobar", 3)


def test_threads_lose_and_mix_up_nothing() -> None:
    batches = OpenBatches(2000, "none", None, 100_000_000, FakeClock(), waiter=FakeWaiter(), new_lock=threading.RLock)
    batches.set_partitions("t", 4)
    tickets: list[tuple[bytes, Ticket]] = []

    def send(thread: int) -> None:
        for number in range(2000):
            value = b"%d-%d" % (thread, number)
            _, ticket = append(batches, value, key=b"%d" % number if number % 2 else None)
            tickets.append((value, ticket))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = {sealed.promise: values_of(sealed) for sealed in batches.seal_all()}
    assert sum(map(len, contents.values())) == len(tickets) == 8000
    assert all(contents[ticket.batch_promise][ticket.index] == value for value, ticket in tickets)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_sealed_batch_is_encoded_for_a_producer(codec: str) -> None:
    batches = open_batches(codec=codec)
    for number in range(10):
        append(batches, b"value %d" % number, partition=1)
    (sealed,) = batches.seal_all()
    data = sealed.encode(7, 2, 40, transactional=True)
    verify_crc(data)
    header = parse_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert (header.is_transactional, header.records_count, header.size) == (True, 10, len(data))
    assert values_of(sealed) == [b"value %d" % number for number in range(10)]


def test_a_retry_sends_the_same_bytes() -> None:
    batches = open_batches(codec="gzip")
    append(batches)
    (sealed,) = batches.seal_all()
    assert sealed.encode(7, 0, 3) is sealed.encode(7, 0, 3)


def test_another_sequence_leaves_bytes_that_were_handed_out_alone() -> None:
    batches = open_batches()
    append(batches, b"value", partition=0)
    (sealed,) = batches.seal_all()
    first = sealed.encode(7, 0, 3)
    before = bytes(first)
    second = sealed.encode(8, 0, 0)
    verify_crc(second)
    assert bytes(first) == before
    assert parse_header(second).producer_id == 8
    assert values_of(sealed) == [b"value"]
    assert not parse_header(sealed.encode(8, 0, 0)).is_transactional


def test_a_record_is_taken_at_once_where_a_batch_is_open_for_it() -> None:
    batches = open_batches()
    assert batches.take("t", b"1", None, None, 0, 5) is None
    append(batches, b"1", partition=0, timestamp_ms=5)
    second = batches.take("t", b"2", b"k", None, 0, 6)
    assert second is not None
    assert (second.index, second.timestamp_ms) == (1, 6)
    (sealed,) = batches.seal_all()
    assert [(record.key, record.value) for record in Batch("t", 0, sealed.encode(), start_offset=0)] == [
        (None, b"1"),
        (b"k", b"2"),
    ]


@pytest.mark.parametrize("headers", [[], (), [("trace", b"42"), ("none", None)], (("ä", bytearray(b"1")),)])
def test_a_record_with_headers_that_fits_its_open_batch_is_taken_at_once(headers: Headers) -> None:
    encoded = []
    for at_once in (True, False):
        batches = open_batches()
        append(batches, b"1", partition=0, timestamp_ms=5)
        if at_once:
            assert batches.take("t", b"2", b"k", headers, 0, 6) is not None
        else:
            append(batches, b"2", key=bytearray(b"k"), headers=UserList(headers), partition=0, timestamp_ms=6)  # type: ignore[arg-type]
        (sealed,) = batches.seal_all()
        encoded.append(bytes(sealed.encode()))
    assert encoded[0] == encoded[1]


def test_at_once_or_not_a_record_goes_to_the_same_partition() -> None:
    batches = open_batches()
    for partition in range(3):
        append(batches, partition=partition)
    keys = [b"key-%d" % number for number in range(30)]
    for key in keys:
        ticket = batches.take("t", b"v", key, None, None, None)
        assert ticket is not None
        assert ticket.batch_promise.partition == partition_for_key(key, 3)
    _, appended = append(batches)
    taken = batches.take("t", b"v", None, None, None, None)
    assert taken is not None
    assert taken.batch_promise is appended.batch_promise


@pytest.mark.parametrize(
    ("topic", "value", "key", "headers", "partition"),
    [
        ("other", b"v", None, None, 0),
        ("t", b"v", None, None, 3),
        ("t", b"v", None, None, -1),
        ("t", b"v", None, None, True),
        ("t", b"v", None, [("h", "text")], 0),
        ("t", b"v", None, [("h", bytes(50))], 0),
        ("t", memoryview(b"v"), None, None, 0),
        ("t", bytearray(51), None, None, 0),
        ("t", b"v", memoryview(b"k"), None, 0),
        ("t", "text", None, None, 0),
        ("t", bytes(51), None, None, 0),
        ("t", b"v", bytes(KEY_SIZE_SAFE + 1), None, 0),
    ],
)
def test_what_is_not_plain_small_and_known_is_not_taken_at_once(topic, value, key, headers, partition) -> None:
    batches = open_batches(batch_size=3000, value_size_safe=50)
    for number in range(3):
        append(batches, partition=number)
    assert batches.take(topic, value, key, headers, partition, None) is None
    assert sum(sealed.records_count for sealed in batches.seal_all()) == 3


def test_a_bytearray_is_taken_at_once_as_it_is_then() -> None:
    batches = open_batches(batch_size=3000, value_size_safe=50)
    append(batches, partition=0)
    value = bytearray(b"before")
    assert batches.take("t", value, None, None, 0, None) is not None
    value[:] = b"after!"
    assert values_of(batches.seal_all()[0]) == [b"value", b"before"]


class Interruption(BaseException):
    pass


def test_an_exception_while_sealed_batches_are_taken_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = open_batches()
    for partition in range(3):
        append(batches, partition=partition)
    made = list[SealedBatch]()

    def interrupted(*given: object, **named: object) -> SealedBatch:
        if len(made) == 2:
            raise Interruption
        made.append(SealedBatch(*given, **named))  # type: ignore[arg-type]
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr("kafkaraw.records.open_batches.SealedBatch", interrupted)
        with pytest.raises(Interruption):
            batches.seal_all()
    append(batches, partition=1)
    assert [sealed.partition for sealed in batches.seal_all()] == [0, 1, 2, 1]
    assert batches.take_sealed() == []


def test_batches_that_another_thread_has_taken_meanwhile_are_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = open_batches()
    append(batches, partition=0)
    append(batches, partition=1)
    theirs = list[SealedBatch]()

    def overtaken(*given: object, **named: object) -> SealedBatch:
        patch.undo()
        theirs.extend(batches.take_sealed())
        append(batches, partition=2)
        batches.seal_open()
        return SealedBatch(*given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("kafkaraw.records.open_batches.SealedBatch", overtaken)
        ours = batches.seal_all()
    assert [[sealed.partition for sealed in taken] for taken in (theirs, ours)] == [[0, 1], [2]]


def test_above_the_memory_bound_nothing_is_taken_at_once() -> None:
    batches = open_batches(buffer_memory=100)
    append(batches, bytes(50), partition=0)
    assert batches.take("t", b"v", None, None, 0, None) is None


def test_a_full_batch_is_left_to_be_sealed_by_the_long_way() -> None:
    batches = open_batches(batch_size=200)
    append(batches, bytes(100), partition=0)
    assert batches.take("t", bytes(100), None, None, 0, None) is None
    assert batches.take_sealed() == []


class Refused(Exception):
    pass


def refuse() -> NoReturn:
    raise Refused


def test_while_records_are_refused_none_is_taken() -> None:
    batches = open_batches()
    append(batches, partition=0)
    batches.refuse(refuse)
    assert batches.take("t", b"v", None, None, 0, None) is None
    with pytest.raises(Refused):
        append(batches, partition=0)
    batches.refuse(None)
    assert batches.take("t", b"v", None, None, 0, None) is not None
    (sealed,) = batches.seal_all()
    assert sealed.records_count == 2


def test_a_record_is_refused_when_records_are_refused_while_its_partition_is_chosen() -> None:
    def choose(*_: object) -> int:
        batches.refuse(refuse)  # as a thread that closes the producer does
        assert not batches.seal_all()
        return 0

    partitioner = Partitioner(function=choose)
    waiter = FakeWaiter()
    batches = OpenBatches(
        1000, "none", None, 10_000, FakeClock(), waiter=waiter, new_lock=threading.RLock, partitioner=partitioner
    )
    batches.set_partitions("t", 1)
    with pytest.raises(Refused):
        append(batches)
    assert not batches.seal_all()
    assert batches.used_bytes == 0


def batches_that_refuse_when_the_clock_is_asked(armed: list[int]) -> OpenBatches:
    """Open batches that refuse records, as if told by a thread, when the clock is asked for the `armed[0]`th time."""

    def now_ms() -> int:
        if armed:
            armed[0] -= 1
            if not armed[0]:
                batches.refuse(refuse)
        return 1_000

    batches = OpenBatches(1000, "none", None, 10_000, now_ms, waiter=FakeWaiter(), new_lock=threading.RLock)
    batches.set_partitions("t", 1)
    return batches


def test_a_record_is_not_taken_at_once_when_records_are_refused_meanwhile() -> None:
    armed: list[int] = []
    batches = batches_that_refuse_when_the_clock_is_asked(armed)
    append(batches)
    armed.append(1)
    assert batches.take("t", b"v", None, None, 0, None) is None
    (sealed,) = batches.seal_all()
    assert sealed.records_count == 1


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_a_record_is_in_a_batch_or_refused_when_records_are_refused_meanwhile(questions: int) -> None:
    batches = batches_that_refuse_when_the_clock_is_asked([questions])
    try:
        _, ticket = append(batches)
    except Refused:
        assert not batches.seal_all()
        assert batches.used_bytes == 0
    else:
        (sealed,) = batches.seal_all()
        assert sealed.promise is ticket.batch_promise
    assert not batches.seal_all()


def test_signal_handlers_that_send_in_the_middle_of_a_send_lose_and_mix_up_nothing() -> None:
    batches = OpenBatches(300, "none", None, 100_000_000, FakeClock(), waiter=FakeWaiter(), new_lock=threading.RLock)
    batches.set_partitions("t", 2)
    tickets: list[tuple[bytes, Ticket]] = []

    def send(value: bytes) -> None:
        tickets.append((value, batches.take("t", value, None, None, 0, None) or append(batches, value, partition=0)[1]))

    def interrupt(*_: object) -> None:
        for _ in range(2):
            send(b"handler %d" % len(tickets))

    before = signal.signal(signal.SIGALRM, interrupt)
    sealed = []
    try:
        for number in range(20_000):
            if number % 10 == 0:
                signal.setitimer(signal.ITIMER_REAL, 1e-5)
            send(b"%d" % number)
            if number % 50 == 0:
                sealed += batches.seal_due(0, 1_000)
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    sealed += batches.seal_all()
    assert len(tickets) > 20_000
    contents = {batch.promise: values_of(batch) for batch in sealed}
    assert sum(map(len, contents.values())) == len(tickets)
    assert all(contents[ticket.batch_promise][ticket.index] == value for value, ticket in tickets)
    plain = [int(value) for values in contents.values() for value in values if value and value.isdigit()]
    assert plain == sorted(plain)
    assert batches.used_bytes == sum(batch.size_bytes for batch in sealed)


def test_a_sender_passes_on_what_is_not_taken_at_once() -> None:
    sent_slowly: list[tuple[object, ...]] = []

    class Face(SendFastPath):  # of the twin that is tested
        def _send_slowly(self, *record: object) -> Ticket:
            sent_slowly.append(record)
            return Ticket(BatchPromise("t", 0, FakeWaiter()), 0, -1)

    batches, face = open_batches(), Face()
    face.send("t", b"1")
    face._send_through(batches.table)
    append(batches, partition=0)
    assert face.send("t", b"2", partition=0).index == 1
    face.send("t", b"3", b"k", headers=[("h", b"v")], partition=1, timestamp_ms=7)
    face.send(topic="t", key=b"k", value=b"4", partition=0)
    face._send_through(None)
    face.send("t", partition=2)
    assert sent_slowly == [
        ("t", b"1", None, None, None, None),
        ("t", b"3", b"k", [("h", b"v")], 1, 7),
        ("t", None, None, None, 2, None),
    ]
    (sealed,) = batches.seal_all()
    assert values_of(sealed) == [b"value", b"2", b"4"]


@pytest.mark.parametrize("timestamp_ms", [-1, -(2**63), 2**63, 1.5, "now", True])
def test_a_timestamp_before_1970_or_of_another_type_is_refused(timestamp_ms: object) -> None:
    """Java's ProducerRecord refuses it, too; -1 is what records of the first format have, and not for sending."""
    batches = open_batches()
    for open_before in (False, True):
        if open_before:
            append(batches, partition=0)
        assert batches.take("t", b"v", None, None, 0, timestamp_ms) is None
        with pytest.raises(UsageError, match=f"timestamp '?{timestamp_ms}'? is not a number of milliseconds since"):
            batches.append("t", None, b"v", None, timestamp_ms, 0)
    assert [sealed.records_count for sealed in batches.seal_all()] == [1]
