"""WriteTxnMarkers: end transactions in partitions that this node leads. Administrators abort hanging ones with it.

Source: kafka.server.KafkaApis.handleWriteTxnMarkersRequest; KIP-664.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import NAME, Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkaraw.records import ControlType, TopicPartition


def authorize(
    call: Call[WriteTxnMarkersRequest, WriteTxnMarkersResponse], request: WriteTxnMarkersRequest
) -> Reply[WriteTxnMarkersResponse]:
    """ALTER on the cluster, or CLUSTER_ACTION, which brokers have."""
    if call.allows_on_cluster(AclOperation.ALTER, log_denial=False) or call.allows_on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        return call.go_on(request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


@handles(
    WriteTxnMarkersRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.ALTER, ResourceType.CLUSTER),
        Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "or, as brokers have"),
    ),
    divided={
        0: Divided(
            ("markers", "topics", "partition_indexes"),
            ("markers", "topics", "partitions"),
            (("producer_id",), NAME),
        )
    },
)
def handle(
    state: BrokerState, context: RequestContext, request: WriteTxnMarkersRequest
) -> Reply[WriteTxnMarkersResponse]:
    """Write each marker; answered when all of them are replicated."""
    return answered(lambda done: _Writing(state, request, done).begin())


class _Writing:
    """One request; collects the results of all its partitions."""

    def __init__(
        self, state: BrokerState, request: WriteTxnMarkersRequest, done: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        self._state = state
        self._request = request
        self._done = done
        self._left = 1

    def begin(self) -> None:
        """Write all markers."""
        response = WriteTxnMarkersResponse(markers=[self._marker(marker) for marker in self._request.markers])
        self._response = response
        self._ended()

    def _marker(self, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        return WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        self._partition(marker, TopicPartition(topic.name, index)) for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )

    def _partition(self, marker: WritableTxnMarker, key: TopicPartition) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=key.partition, error_code=ErrorCode.NONE)
        try:
            led_partition(self._state, key)
        except ApiError as error:
            result.error_code = error.code
            return result
        self._left += 1

        def written(code: ErrorCode) -> None:
            result.error_code = code
            self._ended()

        self._state.transactions.append_marker(
            key,
            ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch),
            marker.coordinator_epoch,
            written,
            transaction_version=marker.transaction_version,
        )
        return result

    def _ended(self) -> None:
        self._left -= 1
        if not self._left:
            self._done(self._response)
