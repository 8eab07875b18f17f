"""TxnOffsetCommit: what a client is told when its group is not part of the transaction, or cannot be just now."""

from __future__ import annotations

import pytest

from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.support import ask, make_state


def commit(state: BrokerState, version: int) -> ErrorCode:
    asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[asked])]
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=7, producer_epoch=0, topics=topics
    )
    answer = ask(state, request, version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("found", "version", "told"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, 3, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_error_codes_are_converted_to_the_requests_version(
    monkeypatch: pytest.MonkeyPatch, found: ErrorCode, version: int, told: ErrorCode
) -> None:
    state = make_state()
    ask(
        state,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])]
        ),
    )

    def join(transactional_id, identity, partitions, *, add, done):  # type: ignore[no-untyped-def]
        assert add == (version >= 5)
        done(dict.fromkeys(partitions, found))

    commit(state, version)  # makes the topic of positions
    monkeypatch.setattr(state.transactions, "join", join)
    assert commit(state, version) == told
