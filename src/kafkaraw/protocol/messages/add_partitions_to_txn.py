"""AddPartitionsToTxn (24): make partitions part of a transaction before writing to them."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[int32]


@struct
class AddPartitionsToTxnTransaction:
    """One transaction.

    Attributes:
        verify_only: check that the partitions are in it, but add none.
    """

    transactional_id: string = field(versions="4+", default="")
    producer_id: int64 = field(versions="4+", default=0)
    producer_epoch: int16 = field(versions="4+", default=0)
    verify_only: boolean = field(versions="4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = field(versions="4+", default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    """The answer for one partition."""

    partition_index: int32
    partition_error_code: int16


@struct
class AddPartitionsToTxnTopicResult:
    """The answers for one topic."""

    name: string
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """The answers for one transaction."""

    transactional_id: string = field(versions="4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(versions="4+", default_factory=list)


@request(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """Add partitions; must reach the transaction coordinator.

    Clients use the single form up to version 3; from version 4 the list form is for brokers that verify (KIP-890).

    Attributes:
        transactions: several transactions, from version 4.
        v3_and_below_topics: the partitions, up to version 3.
    """

    transactions: list[AddPartitionsToTxnTransaction] = field(versions="4+", default_factory=list)
    v3_and_below_transactional_id: string = field(versions="0-3", default="")
    v3_and_below_producer_id: int64 = field(versions="0-3", default=0)
    v3_and_below_producer_epoch: int16 = field(versions="0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(versions="0-3", default_factory=list)


@response(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Response):
    """What became of them; lists per transaction from version 4.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(versions="4+", default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(versions="0-3", default_factory=list)
