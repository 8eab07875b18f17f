"""The check that a client's view of a partition's leader is the broker's, shared by Fetch and ListOffsets.

Source: KIP-320; kafka.cluster.Partition.checkCurrentLeaderEpoch.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.partition import Partition
from kafkaraw.broker.refusal import Refusal
from kafkaraw.protocol.error_codes import ErrorCode

NO_EPOCH: Final = -1


def check_leader_epoch(partition: Partition, epoch: int) -> None:
    """Compare the leader epoch that a client names with the partition's.

    Raises:
        Refusal: FENCED_LEADER_EPOCH when the client is behind, UNKNOWN_LEADER_EPOCH when the broker is.
    """
    if epoch == NO_EPOCH or epoch == partition.leader_epoch:
        return
    behind = epoch < partition.leader_epoch
    code = ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH
    raise Refusal(code, f"the leader epoch is {partition.leader_epoch}, the request says {epoch}")
