"""WriteTxnMarkers (27): a transaction coordinator writes commit and abort markers into partitions."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, int64, string


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: string
    partition_indexes: list[int32]


@struct
class WritableTxnMarker:
    """The end of one transaction.

    Attributes:
        transaction_result: true commits, false aborts.
        coordinator_epoch: epoch of the partition of __transaction_state that holds the transaction.
        transaction_version: protocol of the transaction: 2 bumps epochs with every transaction.
    """

    producer_id: int64
    producer_epoch: int16
    transaction_result: boolean
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32
    transaction_version: int8 = field(versions="2+", default=0, ignorable=True)


@struct
class WritableTxnMarkerPartitionResult:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class WritableTxnMarkerTopicResult:
    """The answers for one topic."""

    name: string
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    """The answers for one producer."""

    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


@request(api_key=27, versions="0-2", flexible="1+", removed="0")
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """Write markers; sent by the coordinator to the partitions' leaders.

    Administrators send it too, to end a hanging transaction. Version 2 carries the transaction version (KIP-1228).
    """

    markers: list[WritableTxnMarker]


@response(api_key=27, versions="0-2", flexible="1+", removed="0")
class WriteTxnMarkersResponse(Response):
    """What became of them."""

    markers: list[WritableTxnMarkerResult]
