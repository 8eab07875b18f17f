"""The first version of each API with which the client must obey the throttle time (KIP-219). A table only.

Up to Kafka 1.1 a broker delayed its response to throttle a client, and `throttle_time_ms` reported the past delay.
Since then the broker responds first and stops reading, and the client must not send on that connection for that time.
A version in this table or above has the newer behaviour; an API that is not listed never throttles.
"""

from __future__ import annotations

from typing import Final

# API key -> version. Source: `shouldClientThrottle` of each response class of Kafka 4.3.
BINDING_SINCE: Final[dict[int, int]] = {
    0: 6,  # Produce
    1: 8,  # Fetch
    2: 3,  # ListOffsets
    3: 6,  # Metadata
    8: 4,  # OffsetCommit
    9: 4,  # OffsetFetch
    10: 2,  # FindCoordinator
    11: 3,  # JoinGroup
    12: 2,  # Heartbeat
    13: 2,  # LeaveGroup
    14: 2,  # SyncGroup
    15: 2,  # DescribeGroups
    16: 2,  # ListGroups
    18: 2,  # ApiVersions
    19: 3,  # CreateTopics
    20: 2,  # DeleteTopics
    21: 1,  # DeleteRecords
    22: 1,  # InitProducerId
    24: 1,  # AddPartitionsToTxn
    25: 1,  # AddOffsetsToTxn
    26: 1,  # EndTxn
    28: 1,  # TxnOffsetCommit
    29: 1,  # DescribeAcls
    30: 1,  # CreateAcls
    31: 1,  # DeleteAcls
    32: 2,  # DescribeConfigs
    33: 1,  # AlterConfigs
    34: 1,  # AlterReplicaLogDirs
    35: 1,  # DescribeLogDirs
    37: 1,  # CreatePartitions
    38: 1,  # CreateDelegationToken
    39: 1,  # RenewDelegationToken
    40: 1,  # ExpireDelegationToken
    41: 1,  # DescribeDelegationToken
    42: 1,  # DeleteGroups
    43: 0,  # ElectLeaders
    44: 0,  # IncrementalAlterConfigs
    45: 0,  # AlterPartitionReassignments
    46: 0,  # ListPartitionReassignments
    47: 0,  # OffsetDelete
    50: 0,  # DescribeUserScramCredentials
    51: 0,  # AlterUserScramCredentials
    64: 0,  # UnregisterBroker
    75: 0,  # DescribeTopicPartitions
}


def binding_throttle_ms(response: object, api_key: int, api_version: int) -> int:
    """Return for how long nothing may be sent on the connection that brought `response`, in milliseconds."""
    since = BINDING_SINCE.get(api_key)
    if since is None or api_version < since:
        return 0
    return max(int(getattr(response, "throttle_time_ms", 0)), 0)
