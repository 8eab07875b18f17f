"""What the handlers about groups share: who asks, and which positions may be kept.

Source: kafka.server.KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from kafkaraw.broker.acl.authorizer import Client
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.means import Caller
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kafkaraw.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

_NO_EXPIRY = -1


def caller_of(state: BrokerState, context: RequestContext) -> Caller:
    """Who asks, as groups remember it."""
    authorizer = state.catalog.authorizer
    client = Client(context.principal, context.host)

    def sees(name: str) -> bool:
        return authorizer is None or authorizer.allows(client, AclOperation.DESCRIBE, ResourceType.TOPIC, name)

    return Caller(context.client_id or "", f"/{context.host}", context.api_version, sees)


def coordinator_or_code(state: BrokerState, group_id: str) -> GroupCoordinator | ErrorCode:
    """The group's coordinator on this node, or what the client is told instead."""
    try:
        return state.groups.coordinator(group_id)
    except Refusal as refusal:
        return refusal.code


def position_of(
    state: BrokerState,
    asked: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: Uuid,
    retention_ms: int = _NO_EXPIRY,
) -> CommittedOffset | None:
    """A position as it is kept; None when its metadata is too long."""
    metadata = asked.committed_metadata or ""
    if len(metadata) > state.config.offset_metadata_max_bytes:
        return None
    now_ms = state.clock.time_ms()
    expires_ms = now_ms + retention_ms if retention_ms >= 0 else _NO_EXPIRY
    return CommittedOffset(
        asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms, expires_ms, Uuid(topic_id)
    )
