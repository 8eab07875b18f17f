import pytest

from kafkaraw.core.producer.events import (
    Abandoned,
    MetadataRefreshed,
    PartitionOutcome,
    ProducerIdentity,
    ProducerIdFailed,
    ProducerIdReceived,
    TopicsIdle,
    TransactionBegun,
    TransactionEnded,
)
from kafkaraw.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    DeliveryTimeoutError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import TopicPartition
from tests.core.producer.machine_driver import Driver, FakeBatch


def batches(count, **attributes):
    return [FakeBatch(**attributes) for _ in range(count)]


def started(count=1, **limits):
    """A driver whose partition has had one batch acknowledged, with `count` more in its hands."""
    driver = Driver(**limits)
    driver.seal(FakeBatch()).answer()
    more = batches(count)
    driver.seal(*more)
    return driver, more


# ---- numbers


def test_the_first_batch_waits_for_a_producer_id():
    driver = Driver()
    driver.on_ask_id = lambda: None
    driver.seal(FakeBatch())
    assert driver.id_requests == 1 and not driver.sent
    driver.machine.receive(ProducerIdFailed(KafkaTimeoutError("slow"), retriable=True), 0)
    del driver.on_ask_id
    driver.sleep(99)
    assert driver.id_requests == 1
    driver.sleep(1)
    assert driver.id_requests == 2 and len(driver.sent) == 1


def test_a_refused_producer_id_fails_what_waits_for_it():
    driver = Driver()
    driver.on_ask_id = lambda: None
    batch = FakeBatch()
    driver.seal(batch)
    error = UnsupportedVersionError("no InitProducerId")
    driver.machine.receive(ProducerIdFailed(error, retriable=False), 0)
    driver.work()
    assert driver.failed == {batch: error} and driver.released == [batch]


def test_sequences_count_records_per_partition():
    driver = Driver()
    first = [FakeBatch(partition=0, records_count=3), FakeBatch(partition=1, records_count=5)]
    driver.seal(*first).answer()
    driver.seal(FakeBatch(partition=0, records_count=4), FakeBatch(partition=1), FakeBatch(partition=0))
    assert [(b.partition, s) for b, _, s in driver.in_flight] == [(0, 3), (1, 5), (0, 7)]
    assert {identity for _, identity, _ in driver.in_flight} == {ProducerIdentity(77, 0)}


def test_sequences_wrap_to_zero():
    driver = Driver()
    driver.seal(FakeBatch(records_count=2**31 - 5)).answer()
    driver.seal(FakeBatch(records_count=10)).answer()
    driver.seal(FakeBatch())
    assert driver.sequences_in_flight == [5]


def test_without_idempotence_there_are_no_numbers_and_no_producer_id():
    driver = Driver(idempotent=False)
    driver.seal(FakeBatch())
    assert driver.id_requests == 0
    assert driver.in_flight[0][1:] == (ProducerIdentity(-1, -1), -1)


# ---- requests


def test_one_request_per_node_carries_a_batch_of_each_partition():
    driver = Driver()
    driver.leaders.update({TopicPartition("t", 1): 2, TopicPartition("t", 3): 2})
    driver.seal(*(FakeBatch(partition=p) for p in range(4)))
    by_node = {request.node_id: [n.batch.partition for n in request.batches] for request in driver.sent}
    assert by_node == {1: [0, 2], 2: [1, 3]}


def test_a_request_holds_no_more_than_its_size_but_one_batch_always():
    driver = Driver(request_size_max=250)
    driver.seal(FakeBatch(partition=0, size_bytes=900), *(FakeBatch(partition=p) for p in (1, 2, 3)))
    assert [[n.batch.partition for n in request.batches] for request in driver.sent] == [[0], [1, 2], [3]]


def test_at_most_five_requests_are_in_flight_to_a_node():
    driver, more = started(8)
    assert driver.batches_in_flight == more[:5]
    driver.answer()
    assert driver.batches_in_flight == more[1:6]


def test_a_partition_sends_one_batch_until_the_leader_knows_its_producer():
    """A broker that knows nothing of a producer accepts any sequence, so it would not notice a hole."""
    driver = Driver()
    two = batches(2)
    driver.seal(*two)
    assert driver.batches_in_flight == two[:1]
    driver.answer()
    assert driver.batches_in_flight == two[1:]


def test_a_partition_is_never_in_flight_to_two_leaders():
    driver, (first,) = started(1)
    driver.leaders["default"] = 2
    second = FakeBatch()
    driver.seal(second)
    assert driver.batches_in_flight == [first]
    driver.answer()
    assert driver.batches_in_flight == [second] and driver.sent[0].node_id == 2


def test_a_partition_without_a_leader_does_not_hold_up_others_of_its_topic():
    driver = Driver()
    driver.leaders[TopicPartition("t", 0)] = None
    lost, first, second = FakeBatch(partition=0), FakeBatch(partition=1), FakeBatch(partition=1)
    driver.seal(lost, first)
    driver.answer()
    driver.seal(second)
    driver.answer()
    assert driver.acknowledged.keys() == {first, second}
    assert driver.refreshes == [frozenset({"t"})], "the next refresh waits for its backoff"


def test_partitions_go_on_while_another_one_of_their_topic_waits_for_metadata():
    driver = Driver()
    driver.on_refresh = lambda topics: None
    driver.seal(FakeBatch(partition=0), other := FakeBatch(partition=1))
    driver.answer(ErrorCode.KAFKA_STORAGE_ERROR)
    driver.sleep(1000)
    assert driver.sent == [], "both were refused, and the refresh is not over"
    driver.seal(third := FakeBatch(partition=2))
    driver.answer()
    assert driver.acknowledged.keys() == {third}
    assert other not in driver.failed


def test_a_partition_without_a_leader_waits_for_metadata_with_a_growing_back_off():
    driver = Driver()
    driver.leaders.clear()
    driver.seal(FakeBatch())
    assert driver.refreshes == [{"t"}] and not driver.sent
    driver.sleep(99)
    assert len(driver.refreshes) == 1
    driver.sleep(1)
    assert len(driver.refreshes) == 2
    driver.sleep(199)
    assert len(driver.refreshes) == 2
    driver.leaders["default"] = 4
    driver.sleep(1)
    assert [request.node_id for request in driver.sent] == [4]


def test_partitions_take_turns_when_a_node_is_busy():
    driver = Driver(in_flight_max=1, request_size_max=100)
    driver.seal(*batches(2, partition=0), *batches(2, partition=1))
    order = []
    while driver.sent:
        order.append(driver.in_flight[0][0].partition)
        driver.answer()
    assert order == [0, 1, 0, 1]


# ---- sending again


def test_a_lost_connection_resends_the_same_numbers_in_order():
    driver, more = started(4)
    before = driver.in_flight
    for _ in range(4):
        driver.lose()
    assert not driver.sent, "sent again before the back-off was over"
    driver.sleep(100)
    seen = []
    while driver.sent:
        seen += driver.in_flight
        for _ in list(driver.sent):
            driver.answer()
    assert seen == before
    assert list(driver.acknowledged)[1:] == more


def test_nothing_overtakes_a_batch_that_is_sent_again():
    driver, (first, second, third) = started(3)
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    late = FakeBatch()
    driver.seal(late)
    driver.sleep(1000)
    assert driver.batches_in_flight == [second, third], "the partition was not drained first"
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.sleep(100)
    order = []
    while driver.sent:
        order += driver.batches_in_flight
        for _ in list(driver.sent):
            driver.answer()
    assert order == [first, second, third, late]
    assert driver.machine.idle


def test_out_of_order_behind_a_failed_batch_keeps_its_numbers():
    driver, _ = started(2)
    before = driver.in_flight
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.sleep(100)
    assert driver.in_flight == before[:1]
    driver.answer()
    assert driver.in_flight == before[1:]


def test_out_of_order_at_the_front_starts_over_under_the_next_epoch():
    driver, _ = started(2)
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.sleep(100)
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(77, 1), 0)]
    driver.answer()
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(77, 1), 10)]


def test_starting_over_in_one_partition_leaves_the_others_alone():
    driver, _ = started(1)
    driver.seal(FakeBatch(partition=1))
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).answer()
    driver.seal(FakeBatch(partition=1))
    driver.sleep(100)
    assert {b.partition: (i.epoch, s) for b, i, s in driver.in_flight} == {0: (1, 0), 1: (0, 10)}


def test_used_up_epochs_lead_to_a_new_producer_id():
    driver = Driver()
    driver.identity = ProducerIdentity(77, 0x7FFF)
    driver.seal(FakeBatch()).answer()
    driver.seal(FakeBatch())
    driver.identity = ProducerIdentity(78, 0)
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(100)
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(78, 0), 0)]


# ---- partitions that are idle


def idle(driver, *topics):
    driver.machine.receive(TopicsIdle(frozenset(topics)), driver.now_ms)
    driver.work()


def test_a_partition_that_was_forgotten_begins_again_at_sequence_0_in_a_higher_epoch():
    driver = Driver()
    driver.seal(FakeBatch(), FakeBatch(topic="u")).answer()
    idle(driver, "t")
    driver.seal(FakeBatch(), FakeBatch(topic="u"))
    numbers = {batch.topic: (identity, sequence) for batch, identity, sequence in driver.in_flight}
    assert numbers == {"t": (ProducerIdentity(77, 1), 0), "u": (ProducerIdentity(77, 0), 10)}
    driver.answer()
    idle(driver, "t", "u")
    driver.seal(FakeBatch(), FakeBatch(topic="u"))
    assert {x[1:] for x in driver.in_flight} == {(ProducerIdentity(77, 2), 0)}
    assert driver.id_requests == 1


def test_forgetting_partitions_of_the_highest_epoch_leads_to_a_new_producer_id():
    driver = Driver()
    driver.identity = ProducerIdentity(77, 0x7FFF)
    driver.seal(FakeBatch()).answer()
    idle(driver, "t")
    driver.identity = ProducerIdentity(78, 0)
    driver.seal(FakeBatch())
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(78, 0), 0)]


def test_a_partition_with_batches_under_way_is_not_idle():
    driver, _ = started(3)
    assert driver.machine.busy_topics() == {"t"}
    idle(driver, "t")
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, 0):
        driver.answer(code)
        idle(driver, "t")  # in the end it backs off
        assert driver.machine.busy_topics() == {"t"}
    driver.sleep(1000)
    assert driver.sequences_in_flight == [10]
    driver.answer()
    assert len(driver.acknowledged) == 4
    assert driver.machine.busy_topics() == set()


def test_without_idempotence_a_forgotten_partition_has_nothing_to_begin_again():
    driver = Driver(idempotent=False)
    driver.seal(FakeBatch()).answer()
    idle(driver, "t")
    driver.seal(FakeBatch())
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(-1, -1), -1)]


def test_the_epochs_of_a_transactional_producer_stay_the_coordinators():
    driver = Driver(transactional=True)
    driver.machine.receive(ProducerIdReceived(ProducerIdentity(7, 3)), 0)
    driver.machine.receive(TransactionBegun(implicit=True), 0)
    driver.seal(FakeBatch()).answer()
    idle(driver, "t")  # the same epoch goes on: the numbers, too
    driver.seal(FakeBatch())
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(7, 3), 10)]
    driver.answer()
    driver.machine.receive(TransactionEnded(ProducerIdentity(7, 4)), 0)
    idle(driver, "t")
    driver.seal(FakeBatch())
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(7, 4), 0)]


def test_a_duplicate_counts_as_written():
    driver, (batch,) = started(1)
    driver.lose().sleep(100)
    driver.answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)
    assert driver.acknowledged[batch] == -1


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_a_wrong_leader_leads_to_a_refresh_and_to_the_new_one(code):
    driver, (batch,) = started(1)
    driver.leaders["default"] = 9
    driver.answer(code)
    assert driver.refreshes == [{"t"}]
    driver.sleep(100)
    assert driver.sent[0].node_id == 9 and driver.batches_in_flight == [batch]


def test_queued_batches_of_an_unauthorized_topic_fail_at_once():
    driver = Driver()
    driver.leaders.clear()
    forbidden = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    driver.on_refresh = lambda topics: driver.machine.receive(MetadataRefreshed(None, {"t": forbidden}), driver.now_ms)
    forbidden_batch, other = FakeBatch(), FakeBatch(topic="u")
    driver.seal(forbidden_batch, other)
    assert driver.failed == {forbidden_batch: forbidden}
    driver.leaders["default"] = 1
    driver.sleep(100)
    assert driver.batches_in_flight == [other]


def test_an_answer_that_names_the_new_leader_needs_no_refresh_and_no_pause():
    driver, (batch,) = started(1)
    driver.leaders["default"] = 9
    outcome = PartitionOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, new_leader_known=True)
    driver.answer(outcomes={TopicPartition("t", 0): outcome}).sleep(0)
    assert driver.refreshes == []
    assert driver.sent[0].node_id == 9 and driver.batches_in_flight == [batch]


def test_a_partition_missing_from_the_answer_is_sent_again():
    driver, (batch,) = started(1)
    driver.answer(outcomes={}).sleep(100)
    assert driver.batches_in_flight == [batch]


def test_the_back_off_grows_until_a_batch_is_written():
    driver, _ = started(1)
    waits = []
    for _ in range(4):
        driver.lose(maybe_written=False)
        waits.append(driver.machine.deadline_ms() - driver.now_ms)
        driver.sleep(waits[-1])
    assert waits == [100, 200, 400, 800]
    driver.answer()
    driver.seal(FakeBatch())
    driver.lose()
    assert driver.machine.deadline_ms() - driver.now_ms == 100


def test_retries_are_limited_when_asked_for():
    driver, (batch,) = started(1, idempotent=False, retries=1)
    driver.lose().sleep(100)
    driver.lose()
    assert list(driver.failed) == [batch] and driver.machine.idle


# ---- giving up


def test_a_request_that_can_never_be_sent_fails_its_batches():
    driver, (batch,) = started(1)
    error = UnsupportedVersionError("no common version of Produce")
    driver.lose(error=error, maybe_written=False, retriable=False)
    assert driver.failed == {batch: error} and driver.machine.idle


def test_a_refused_batch_fails_and_the_next_ones_are_written():
    driver, (bad, good, better) = started(3)
    driver.answer(ErrorCode.INVALID_TIMESTAMP, message="too old")
    for _ in range(2):
        driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.sleep(100)
    assert [x[1:] for x in driver.in_flight] == [(ProducerIdentity(77, 1), 0)]
    driver.answer().answer()
    error = driver.failed[bad]
    assert list(driver.acknowledged)[1:] == [good, better]
    assert isinstance(error, BrokerError) and error.name == "INVALID_TIMESTAMP"
    assert "10 records for t-0 (numbers 10 to 19 sent there, not written)" in str(error)
    assert "too old" in str(error) and "message.timestamp" in str(error)


def test_a_batch_that_may_not_be_written_is_not_sent_again():
    driver, (batch,) = started(1)
    driver.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(driver.failed[batch], AuthorizationError)
    assert driver.machine.idle and driver.machine.deadline_ms() is None


def test_a_batch_that_was_never_sent_expires():
    driver = Driver(delivery_timeout_ms=1000)
    driver.leaders.clear()
    batch = FakeBatch()
    driver.seal(batch, age_ms=50)
    driver.sleep(949)
    assert not driver.failed
    driver.sleep(1)
    error = driver.failed[batch]
    assert isinstance(error, DeliveryTimeoutError) and isinstance(error, TimeoutError)
    assert [tuple(entry) for entry in error.unacknowledged] == [("t", 0, 10, 0, 9, False)]
    assert "delivery_timeout_ms=1000" in str(error) and driver.released == [batch]


def test_an_expired_batch_in_flight_keeps_its_memory_until_the_answer():
    driver, (batch,) = started(1, delivery_timeout_ms=1000)
    driver.released.clear()
    driver.sleep(1000)
    assert "possibly written" in str(driver.failed[batch])
    assert not driver.released and not driver.machine.idle
    driver.answer()
    assert driver.released == [batch] and driver.machine.idle


def test_a_batch_that_may_have_been_written_keeps_its_numbers_until_its_time_is_over():
    """A leader that was deposed and has not heard of it takes for a hole what the new one has written."""
    driver, (lost,) = started(1, delivery_timeout_ms=1000)
    second, third = FakeBatch(), FakeBatch()
    driver.sleep(600).seal(second)
    before = driver.in_flight
    driver.sleep(350).lose().lose()
    driver.sleep(100)
    assert list(driver.failed) == [lost]
    assert driver.in_flight == before[1:]
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(200)
    assert driver.in_flight == before[1:] and driver.refreshes, "another broker may lead"
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(400).seal(third)
    assert list(driver.failed) == [lost, second] and "possibly written" in str(driver.failed[second])
    assert driver.in_flight == [(third, ProducerIdentity(77, 0), 30)]
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(800)
    assert driver.in_flight == [(third, ProducerIdentity(77, 1), 0)], "it was refused when it was new, so it is nowhere"


def test_an_expired_batch_in_flight_is_a_gap_that_the_next_epoch_closes():
    driver, (lost,) = started(1, delivery_timeout_ms=1000)
    driver.sleep(1000).lose()
    after = FakeBatch()
    driver.seal(after).sleep(100)
    assert driver.in_flight == [(after, ProducerIdentity(77, 0), 20)], "the lost one may have been written"
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(200)
    assert driver.in_flight == [(after, ProducerIdentity(77, 1), 0)]
    driver.answer()
    assert list(driver.failed) == [lost] and "possibly written" in str(driver.failed[lost])


def test_behind_a_certain_hole_lost_batches_are_numbered_anew():
    driver, (_, second) = started(2)
    driver.answer(ErrorCode.INVALID_TIMESTAMP).lose().sleep(100)
    assert driver.in_flight == [(second, ProducerIdentity(77, 0), 20)]
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(200)
    assert driver.in_flight == [(second, ProducerIdentity(77, 1), 0)]


def test_what_was_last_seen_is_part_of_the_error():
    driver = Driver(delivery_timeout_ms=1000)
    batch = FakeBatch()
    driver.seal(batch)
    driver.lose(maybe_written=False).sleep(1000)
    assert "last seen: the connection was lost" in str(driver.failed[batch])


def test_abandoning_reports_the_records_of_every_batch():
    driver, (flying, waiting) = started(2, in_flight_max=1)
    driver.machine.receive(Abandoned(lambda entry: ClosedError(f"closed: {entry}")), 0)
    driver.work()
    assert str(driver.failed[flying]).endswith("(numbers 10 to 19 sent there, possibly written)")
    assert str(driver.failed[waiting]).endswith("(numbers 20 to 29 sent there, not written)")
    assert waiting in driver.released and flying not in driver.released
    driver.lose()
    assert flying in driver.released and driver.machine.idle


def test_unacknowledged_records_are_summed_up_per_partition():
    driver, _ = started(3)
    driver.seal(FakeBatch(partition=4, records_count=1))
    assert [str(entry) for entry in driver.machine.unacknowledged()] == [
        "30 records for t-0 (numbers 10 to 39 sent there, possibly written)",
        "1 record for t-4 (number 0 sent there, possibly written)",
    ]
    assert len(driver.machine.unsettled()) == 4
