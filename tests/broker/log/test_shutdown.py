"""What a broker leaves when it stops, and what the next one reads: marker, recovery points, producers."""

from __future__ import annotations

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE
from kafkaraw.core.log.offset_checkpoint import RECOVERY_POINTS_FILE, read_offsets
from kafkaraw.records import ControlType, TopicPartition, encode_control_batch
from tests.broker.support import NOW_MS, append_sent, batch, make_state

KEY = TopicPartition("t", 0)


def partition_of(state: BrokerState) -> Partition:
    partition = state.partition(KEY)
    assert partition is not None
    return partition


def state_with_records(storage: MemoryStorage) -> BrokerState:
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,),), {"internal.segment.bytes": "300"}))
    for sequence in range(10):
        sent = batch(bytes(50), producer_id=7, producer_epoch=0, base_sequence=sequence)
        append_sent(partition_of(state), sent)
    return state


def recovered_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "recovered to offset" in record.getMessage()]


def test_after_a_clean_shutdown_no_log_is_recovered(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "kafkaraw.broker")
    storage = MemoryStorage()
    state_with_records(storage).close()
    assert storage.read_text(ROOT, CLEAN_SHUTDOWN_FILE) == '{"version":0,"brokerEpoch":-1}'
    assert read_offsets(storage.read_text(ROOT, RECOVERY_POINTS_FILE) or "") == {KEY: 10}
    again = make_state(storage)
    assert storage.read_text(ROOT, CLEAN_SHUTDOWN_FILE) is None
    assert (partition_of(again).log.log_end_offset, partition_of(again).log.recovery_point) == (10, 10)
    assert recovered_lines(caplog) == []


def test_after_a_kill_each_log_is_recovered_and_says_so_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "kafkaraw.broker")
    storage = MemoryStorage()
    state_with_records(storage).close(sync=False)
    assert storage.read_text(ROOT, CLEAN_SHUTDOWN_FILE) is None
    again = make_state(storage)
    assert partition_of(again).log.log_end_offset == 10
    assert len(recovered_lines(caplog)) == 1
    again.close()
    make_state(storage)
    assert len(recovered_lines(caplog)) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_that_sends_five_batches_again_after_a_restart_is_told_their_offsets(clean: bool):
    storage = MemoryStorage()
    state_with_records(storage).close(sync=clean)
    partition = partition_of(make_state(storage))
    for sequence in range(5, 10):
        sent = batch(bytes(50), producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert append_sent(partition, sent) == (sequence, sequence + 1, NOW_MS)
    assert partition.log.log_end_offset == 10


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_and_open_transactions_are_known_after_a_restart(clean: bool):
    storage = MemoryStorage()
    state = state_with_records(storage)
    partition = partition_of(state)
    for producer_id in (8, 9):
        begun = batch(bytes(50), producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        append_sent(partition, begun, in_transaction=True)
    marker = encode_control_batch(
        ControlType.ABORT, producer_id=8, producer_epoch=0, coordinator_epoch=3, timestamp_ms=NOW_MS
    )
    partition.append_as_leader(marker)
    append_sent(partition, batch(b"behind"))
    before = (partition.last_stable_offset, partition.aborted_transactions(10, 1000))
    assert before == (11, [(8, 10, 12, 11)])
    state.close(sync=clean)
    again = partition_of(make_state(storage))
    assert (again.last_stable_offset, again.aborted_transactions(10, 1000)) == before
    assert again.transactions.first_offset_of(9) == 11
