"""What follows from a refusal, case by case, as Kafka's TransactionManager.canRetry has it."""

import itertools

import pytest

from kafkaraw.core.producer.batches import ProducerBatch
from kafkaraw.core.producer.events import PartitionOutcome, ProducerIdentity
from kafkaraw.core.producer.failures import Case, Remedy, Verdict, remedy_for, verdict_on
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable
from kafkaraw.records import TopicPartition
from tests.core.producer.machine_driver import Driver, FakeBatch

IDENTITY = ProducerIdentity(77, 0)


def remedy(
    code, *, first=True, maybe=False, part=False, hole=False, acked=-1, log_start=-1, transactional=False, records=10
):
    batch = ProducerBatch(FakeBatch(records_count=records), TopicPartition("t", 0), 0, 1000, IDENTITY, 5)
    batch.maybe_written, batch.is_split = maybe, part
    outcome = PartitionOutcome(code, log_start_offset=log_start)
    return remedy_for(verdict_on(code), Case(batch, outcome, first, hole, acked, transactional))


def test_every_verdict_but_success_has_a_remedy():
    for verdict, transactional in itertools.product(set(Verdict) - {Verdict.WRITTEN}, [True, False]):
        code = next(code for code in ErrorCode if verdict_on(code) is verdict)
        assert remedy(code, transactional=transactional) in Remedy


@pytest.mark.parametrize("code", [code for code in ErrorCode if is_retriable(code)])
def test_what_kafka_calls_retriable_is_sent_again(code):
    assert remedy(code) in {Remedy.RETRY, Remedy.RETRY_AFTER_REFRESH}


@pytest.mark.parametrize("transactional", [True, False])
def test_out_of_order_behind_an_earlier_batch_waits_for_it(transactional):
    assert remedy(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, first=False, transactional=transactional) is Remedy.RETRY


def test_out_of_order_at_the_front_is_a_gap():
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert remedy(code) is Remedy.NEXT_EPOCH
    assert remedy(code, transactional=True) is Remedy.FAIL, "epochs come from the coordinator: abort"
    assert remedy(code, maybe=True) is Remedy.RETRY_AFTER_REFRESH
    assert remedy(code, maybe=True, hole=True) is Remedy.NEXT_EPOCH
    assert remedy(code, maybe=True, part=True) is Remedy.FAIL, "the whole is there"


def test_a_producer_forgotten_after_retention_starts_anew():
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert remedy(code, acked=99, log_start=100) is Remedy.NEXT_EPOCH
    assert remedy(code, acked=99, log_start=100, transactional=True) is Remedy.SAME_EPOCH


def test_a_producer_forgotten_with_its_records_still_due_is_loss(caplog):
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert remedy(code, acked=99, log_start=99) is Remedy.NEXT_EPOCH
    assert "has lost records that it had acknowledged, up to offset 99" in caplog.text
    assert remedy(code, acked=99, log_start=99, transactional=True) is Remedy.FAIL


def test_a_forgotten_producer_asks_again_while_the_log_start_is_not_told():
    assert remedy(ErrorCode.UNKNOWN_PRODUCER_ID, acked=99) is Remedy.RETRY
    assert remedy(ErrorCode.UNKNOWN_PRODUCER_ID, first=False, acked=99, log_start=100) is Remedy.RETRY


def test_an_old_epoch_leads_to_the_next_one_unless_a_coordinator_gives_them():
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    assert remedy(code) is Remedy.NEXT_EPOCH
    assert remedy(code, first=False) is Remedy.RETRY
    assert remedy(code, maybe=True) is Remedy.RETRY_AFTER_REFRESH
    assert remedy(code, transactional=True) is Remedy.FAIL


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_several_records_are_split_and_one_is_given_up(code):
    assert remedy(code) is Remedy.SPLIT
    assert remedy(code, records=1) is Remedy.FAIL


# ---- the same, seen from outside


def forgotten(driver, log_start):
    code = PartitionOutcome(ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=log_start)
    return driver.answer(outcomes={TopicPartition("t", 0): code})


def test_after_retention_the_numbers_start_at_zero_and_all_records_arrive():
    driver = Driver()
    driver.seal(FakeBatch()).answer(base_offset=90)
    batches = [FakeBatch(), FakeBatch()]
    driver.seal(*batches)
    forgotten(forgotten(driver, 100), 100).sleep(100)
    seen = []
    while driver.sent:
        seen += driver.in_flight
        driver.answer()
    assert seen == [(batches[0], (77, 1), 0), (batches[1], (77, 1), 10)]


def test_after_retention_a_transaction_goes_on_under_its_epoch():
    driver = Driver(transactional=True)
    driver.on_ask_id()
    driver.machine._adds_partitions = False
    driver.seal(FakeBatch()).answer(base_offset=90)
    batch = FakeBatch()
    driver.seal(batch)
    forgotten(driver, 100).sleep(100)
    assert driver.in_flight == [(batch, (77, 0), 0)] and not driver.failed


def test_a_retry_within_a_transaction_does_not_fail_what_is_behind_it():
    driver = Driver(transactional=True)
    driver.on_ask_id()
    driver.machine._adds_partitions = False
    driver.seal(FakeBatch()).answer()
    batches = [FakeBatch(), FakeBatch()]
    driver.seal(*batches)
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER).sleep(100)
    driver.answer().answer()
    assert not driver.failed and list(driver.acknowledged)[1:] == batches
