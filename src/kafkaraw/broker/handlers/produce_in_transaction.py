"""Before transactional records are appended: make sure that their partitions belong to the transaction.

Clients with transaction.version 0 or 1 add partitions themselves, which the broker verifies; with version 2 the broker
adds them (KIP-890). A partition that already has records of the transaction needs neither.
Source: kafka.server.{ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.produce import ProduceRequest
from kafkaraw.records import BatchHeader, TopicPartition, parse_header

IMPLICIT_VERSION_MIN: Final = 12
ABORTABLE_VERSION_MIN: Final = 11
TOPIC_ID_VERSION_MIN: Final = 13
# Clients do not expect these codes from Produce; NOT_ENOUGH_REPLICAS makes them retry without updating metadata.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Codes = Mapping[TopicPartition, ErrorCode]


def join_transaction(
    state: BrokerState, context: RequestContext, request: ProduceRequest, go_on: Callable[[Codes], None]
) -> None:
    """Add the partitions of a request to its transaction, or verify that they belong to it.

    Each partition records the batch as attempted: if it is refused, later batches in flight must be refused, too.

    Args:
        state: the node's state.
        context: context of the request.
        request: a Produce request, with transactional records or without.
        go_on: called, now or later, with the code of each partition that had to be added or verified.
    """
    new = _partitions_new_to_it(state, context, request)
    implicit = context.api_version >= IMPLICIT_VERSION_MIN
    for partition, header in new.values():
        partition.attempted(header, bumps_epochs=implicit)
    if not new or not (implicit or state.config.transaction_partition_verification_enable):
        go_on(dict.fromkeys(new, ErrorCode.NONE))
        return
    identities = {ProducerIdAndEpoch(header.producer_id, header.producer_epoch) for _, header in new.values()}
    if len(identities) > 1:
        go_on(dict.fromkeys(new, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return
    knows_abortable = context.api_version >= ABORTABLE_VERSION_MIN

    def on_codes(codes: Codes) -> None:
        for partition, header in new.values():
            partition.attempted(header, bumps_epochs=implicit)  # again, because a marker may have cleared it
        go_on(
            {
                key: _code_for_producers(code_for_clients(code, knows_abortable=knows_abortable), implicit=implicit)
                for key, code in codes.items()
            }
        )

    transactional_id = request.transactional_id or ""
    state.transactions.join(transactional_id, identities.pop(), frozenset(new), add=implicit, done=on_codes)


def code_for_clients(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Convert a coordinator's error code to one that the request's version supports."""
    if code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code


def _code_for_producers(code: ErrorCode, *, implicit: bool) -> ErrorCode:
    own = implicit and code == ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in _TRY_AGAIN and not own else code


def _partitions_new_to_it(
    state: BrokerState, context: RequestContext, request: ProduceRequest
) -> dict[TopicPartition, tuple[Partition, BatchHeader]]:
    """Return the partitions of a request that have no records of its transaction yet, each with its batch header."""
    found: dict[TopicPartition, tuple[Partition, BatchHeader]] = {}
    for topic in request.topic_data:
        by_id = context.api_version >= TOPIC_ID_VERSION_MIN
        known = state.catalog.topic_by_id(topic.topic_id) if by_id else state.catalog.topic(topic.name)
        for data in topic.partition_data:
            header = _header(data.records)
            if known is None or header is None or not header.is_transactional or header.producer_id < 0:
                continue
            key = TopicPartition(known.name, data.index)
            partition = state.partition(key)
            if partition is not None and partition.is_leader and not partition.knows_transaction(header):
                found[key] = (partition, header)
    return found


def _header(records: object) -> BatchHeader | None:
    """Return the header of the first batch; None if it is invalid, for which the append returns the error."""
    try:
        return parse_header(records) if isinstance(records, memoryview) else None
    except ProtocolError:
        return None
