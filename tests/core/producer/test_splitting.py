"""Batches that a broker finds too large are sent again in parts: same numbers, same order, each sender told once."""

import pytest

from kafkaraw.core.producer.events import ProducerIdentity
from kafkaraw.errors import BrokerError, DeliveryTimeoutError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.core.producer.machine_driver import Driver, FakeBatch

TOO_LARGE = [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE]
FIRST = ProducerIdentity(77, 0)


def started(count=1, **limits):
    """A driver whose partition has had ten records acknowledged, with `count` more batches of ten in flight."""
    driver = Driver(**limits)
    driver.seal(FakeBatch()).answer()
    more = [FakeBatch() for _ in range(count)]
    driver.seal(*more)
    return driver, more


def drive(driver, records_max, turns=1000):
    """A broker that takes no batch of more records; gives (records, identity, sequence) of each batch in its log."""
    log, expected = [], {}
    for _ in range(turns):
        if not driver.sent:
            if driver.machine.idle:
                break
            driver.sleep(10)
            continue
        (numbered,) = driver.sent[0].batches
        batch, identity, sequence = numbered.batch, numbered.identity, numbered.base_sequence
        if batch.records_count > records_max:
            driver.answer(ErrorCode.MESSAGE_TOO_LARGE)
        elif sequence != expected.get(identity, 10 if identity == FIRST else 0) and sequence >= 0:
            driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            expected[identity] = sequence + batch.records_count
            log.append((batch.records, identity, sequence))
            driver.answer()
    return log


def names(log):
    return [record for records, _, _ in log for record in records]


@pytest.mark.parametrize("code", TOO_LARGE)
def test_a_batch_that_is_too_large_is_sent_again_in_parts_without_a_pause(code):
    driver, (batch,) = started()
    driver.answer(code).sleep(0)
    assert [(b.records, i, s) for b, i, s in driver.in_flight] == [(batch.records[:5], FIRST, 10)]
    driver.answer()
    assert [(b.records, i, s) for b, i, s in driver.in_flight] == [(batch.records[5:], FIRST, 15)]
    driver.answer()
    assert not driver.failed and driver.machine.idle


def test_parts_share_the_numbers_of_the_batch_and_the_next_batch_follows_them():
    driver, batches = started(5)
    log = drive(driver, records_max=3)
    assert names(log) == [record for batch in batches for record in batch.records], "send skip"
    assert {identity for _, identity, _ in log} == {FIRST}, "a split is no reason for another epoch"
    sequences = [sequence for _, _, sequence in log]
    assert sequences == [10 + sum(len(r) for r, _, _ in log[:n]) for n in range(len(log))]


def test_parts_go_before_what_was_in_flight_behind_them():
    driver, (big, *others) = started(5)
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE)
    for _ in others:
        driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    late = FakeBatch()
    driver.seal(late).sleep(0)
    log = drive(driver, records_max=5)
    assert names(log) == [record for batch in (big, *others, late) for record in batch.records]


def test_sequences_of_parts_wrap_to_zero():
    driver = Driver()
    driver.seal(FakeBatch(records_count=2**31 - 6)).answer()
    driver.seal(FakeBatch(records_count=12)).answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(0)
    seen = []
    while driver.sent:
        seen += [(s, b.records_count) for b, _, s in driver.in_flight]
        driver.answer()
    assert seen == [(2**31 - 6, 6), (0, 6)]


def test_a_single_record_that_is_too_large_fails_alone_and_says_what_to_do():
    driver, (one, next_one) = (started(0)[0], [FakeBatch(records_count=1), FakeBatch()])
    driver.seal(one, next_one).answer(ErrorCode.MESSAGE_TOO_LARGE).answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.sleep(100).answer()
    error = driver.failed[one]
    assert isinstance(error, BrokerError) and error.name == "MESSAGE_TOO_LARGE"
    assert "1 record for t-0 (number 10 sent there, not written), 100 bytes uncompressed" in str(error)
    assert "max.message.bytes" in str(error)
    assert driver.acknowledged[next_one] == 0


def test_parts_of_a_batch_that_was_written_whole_are_not_written_again():
    """The limit was lowered after a reply was lost. The broker knows batches by their numbers, but no parts of them."""
    driver, (batch,) = started()
    driver.lose(maybe_written=True).sleep(100)
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(0)
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(0)
    driver.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [part.records for part in driver.failed] == [batch.records[:5], batch.records[5:]]
    assert all("possibly written" in str(error) for error in driver.failed.values())
    driver.seal(FakeBatch())
    assert driver.in_flight[0][1:] == (FIRST, 20), "the numbers go on behind the whole"


def test_parts_of_a_batch_whose_reply_was_lost_are_written_if_it_was_not():
    driver, (batch,) = started()
    driver.lose(maybe_written=True).sleep(100)
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(0)
    assert names(drive(driver, records_max=5)) == batch.records and not driver.failed


def test_without_idempotence_split_batches_are_sent_alone_before_newer_batches():
    driver, batches = started(3, idempotent=False)
    late = FakeBatch()
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE).seal(late).answer().answer().sleep(0)
    seen = []
    while driver.sent:
        assert len(driver.sent) == 1
        seen += driver.batches_in_flight[0].records
        driver.answer()
    assert seen == batches[0].records + late.records


def test_splitting_is_not_a_retry():
    driver, _ = started(1, idempotent=False, retries=0)
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(0)
    driver.answer().answer()
    assert not driver.failed and len(driver.acknowledged) == 3


def test_parts_keep_the_age_of_the_batch_and_all_expire():
    driver, (batch,) = started(1, delivery_timeout_ms=1000)
    driver.sleep(900).answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(0)
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).sleep(100)
    assert [part.records for part in driver.failed] == [batch.records[:5], batch.records[5:]]
    assert all(isinstance(error, DeliveryTimeoutError) for error in driver.failed.values())
    assert [str(entry) for entry in driver.machine.unacknowledged()] == []


def test_an_expired_batch_is_not_split_when_its_response_arrives():
    driver, (batch,) = started(1, delivery_timeout_ms=1000)
    driver.sleep(1000)
    assert list(driver.failed) == [batch]
    driver.answer(ErrorCode.MESSAGE_TOO_LARGE).sleep(1000)
    assert driver.released == [*driver.acknowledged, batch] and driver.machine.idle
