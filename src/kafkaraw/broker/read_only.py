"""What a broker with `read.only` refuses: every request that changes topics, records, offsets, groups or the cluster.

Start at `refused`. The response of each API is built from its declaration, as `fault_responses` does for faults.
"""

from __future__ import annotations

from typing import Any, Final

from kafkaraw.broker.fault_responses import refuse
from kafkaraw.broker.replies import CloseConnection
from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import ArrayOf, Request, Response, StructOf, spec_of
from kafkaraw.protocol.error_codes import ErrorCode

READING_APIS: Final = frozenset(
    {
        "ApiVersions",
        "ConsumerGroupDescribe",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "Fetch",
        "FindCoordinator",
        "GetTelemetrySubscriptions",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListPartitionReassignments",
        "ListTransactions",
        "Metadata",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "PushTelemetry",
        "SaslAuthenticate",
        "SaslHandshake",
        "ShareGroupDescribe",
    }
)
MESSAGE: Final = (
    "this broker serves a copy of a data directory and changes nothing (read.only): read with assigned partitions, or "
    "start the broker without it"
)


def is_refused(api: Api) -> bool:
    """Return whether requests of an API are refused."""
    return api.name not in READING_APIS


def refused(api: Api, version: int, request: Request[Response]) -> Response | CloseConnection:
    """Return the response to a request that would change something: POLICY_VIOLATION for each of its entries."""
    if getattr(request, "acks", None) == 0:
        return CloseConnection(MESSAGE)
    found = refuse(api, version, request, ErrorCode.POLICY_VIOLATION)
    if found is None:
        return CloseConnection(f"{api.name}: {MESSAGE}")
    _explain(found.response, version)
    return found.response


def _explain(message: Any, version: int) -> None:  # noqa: ANN401 -- of any declared class
    """Set the error message next to each error code."""
    for field in spec_of(type(message)).fields:
        if not field.versions.includes(version):
            continue
        if field.name == "error_message" and message.error_code:
            message.error_message = MESSAGE
        elif isinstance(field.kind, ArrayOf) and isinstance(field.kind.element, StructOf):
            for element in getattr(message, field.name) or ():
                _explain(element, version)
