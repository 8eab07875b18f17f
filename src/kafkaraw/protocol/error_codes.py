"""The error codes of the protocol: number, name, whether retrying may help, and what it means.

Codes stay data: `error_for` builds the exception for a code, so there is no class per code. The names and the
retriable flags are those of Kafka 4.3.  Source: org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafkaraw.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ClusterAuthorizationError,
    DelegationTokenAuthorizationError,
    GroupAuthorizationError,
    KafkaError,
    RetriableBrokerError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
)
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.printable import printable


class ErrorCode(IntEnum):
    """Kafka's names for its error codes."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class ErrorMeaning(NamedTuple):
    """Name, retriability and meaning of a code."""

    retriable: bool
    meaning: str


_R: Final = True
_F: Final = False

ERROR_TABLE: Final[dict[int, ErrorMeaning]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorMeaning(
        _F, "the broker met an error that it has no code for; its log says more"
    ),
    ErrorCode.NONE: ErrorMeaning(_F, "no error"),
    ErrorCode.OFFSET_OUT_OF_RANGE: ErrorMeaning(_F, "the offset is below the log's start or above its end"),
    ErrorCode.CORRUPT_MESSAGE: ErrorMeaning(
        _R, "a record batch failed its checksum or size check, or has a null key on a compacted topic"
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorMeaning(
        _R, "this broker has no such topic or partition; check the name and the number, or create it"
    ),
    ErrorCode.INVALID_FETCH_SIZE: ErrorMeaning(_F, "the fetch size asked for is not valid"),
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorMeaning(_R, "the partition has no leader, as while one is being elected"),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorMeaning(
        _R, "this broker is not the partition's leader, or not a replica of it"
    ),
    ErrorCode.REQUEST_TIMED_OUT: ErrorMeaning(_R, "the broker did not finish within the request's time limit"),
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorMeaning(_F, "the broker is not available"),
    ErrorCode.REPLICA_NOT_AVAILABLE: ErrorMeaning(_R, "the replica is not available for that partition"),
    ErrorCode.MESSAGE_TOO_LARGE: ErrorMeaning(_F, "the batch is larger than max.message.bytes allows"),
    ErrorCode.STALE_CONTROLLER_EPOCH: ErrorMeaning(_F, "the controller moved to another broker"),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: ErrorMeaning(_F, "the text committed with the offset is too long"),
    ErrorCode.NETWORK_EXCEPTION: ErrorMeaning(_R, "the broker lost a connection before a response came"),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorMeaning(_R, "the coordinator is still loading and cannot answer yet"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorMeaning(_R, "there is no coordinator right now"),
    ErrorCode.NOT_COORDINATOR: ErrorMeaning(_R, "this broker is not the coordinator; look it up again"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: ErrorMeaning(
        _F, "the name is no topic's: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorMeaning(_F, "the batch is larger than a log segment"),
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorMeaning(
        _R, "fewer replicas are in sync than min.insync.replicas asks for; nothing was written"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorMeaning(
        _R, "written, but to fewer in-sync replicas than asked for"
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: ErrorMeaning(_F, "acks must be -1, 0 or 1"),
    ErrorCode.ILLEGAL_GENERATION: ErrorMeaning(_F, "the group has moved on to another generation"),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ErrorMeaning(_F, "the member shares no assignment protocol with its group"),
    ErrorCode.INVALID_GROUP_ID: ErrorMeaning(_F, "the group id is not valid"),
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorMeaning(_F, "the coordinator does not know this member"),
    ErrorCode.INVALID_SESSION_TIMEOUT: ErrorMeaning(
        _F, "the session timeout lies outside the broker's group.min/max.session.timeout.ms"
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorMeaning(_F, "the group is rebalancing; join again"),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorMeaning(_F, "the offset data to commit is too large"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorMeaning(_F, "an ACL forbids this for the topic"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorMeaning(_F, "an ACL forbids this for the group"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorMeaning(_F, "an ACL forbids this for the cluster"),
    ErrorCode.INVALID_TIMESTAMP: ErrorMeaning(_F, "a record's timestamp is outside the topic's limits"),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: ErrorMeaning(_F, "the broker does not offer that SASL mechanism"),
    ErrorCode.ILLEGAL_SASL_STATE: ErrorMeaning(_F, "the request does not fit the connection's state of authentication"),
    ErrorCode.UNSUPPORTED_VERSION: ErrorMeaning(_F, "the broker does not have this version of the API"),
    ErrorCode.TOPIC_ALREADY_EXISTS: ErrorMeaning(
        _F, "a topic of that name exists; delete it first, or choose another name"
    ),
    ErrorCode.INVALID_PARTITIONS: ErrorMeaning(_F, "the number of partitions must be at least 1, and may only grow"),
    ErrorCode.INVALID_REPLICATION_FACTOR: ErrorMeaning(
        _F, "the replication factor must be at least 1, and no more than there are brokers"
    ),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: ErrorMeaning(
        _F, "replicas must be assigned to brokers that exist, each once per partition, to partitions from 0 on"
    ),
    ErrorCode.INVALID_CONFIG: ErrorMeaning(
        _F, "a configuration's name or value is not valid; Admin.describe_configs lists names and values"
    ),
    ErrorCode.NOT_CONTROLLER: ErrorMeaning(_R, "this broker is not the controller; ask the one that metadata names"),
    ErrorCode.INVALID_REQUEST: ErrorMeaning(
        _F, "the request contradicts itself or lacks something; the broker's log says more"
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: ErrorMeaning(_F, "the topic's message format cannot do that"),
    ErrorCode.POLICY_VIOLATION: ErrorMeaning(_F, "a policy of the broker forbids these values"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorMeaning(
        _F, "a batch came with another sequence number than the next one"
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: ErrorMeaning(_F, "this batch has been written before"),
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorMeaning(_F, "a newer producer with the same id took over"),
    ErrorCode.INVALID_TXN_STATE: ErrorMeaning(_F, "the transaction is not in a state that allows this"),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorMeaning(_F, "the producer id does not belong to this transactional id"),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: ErrorMeaning(
        _F, "the transaction timeout is above transaction.max.timeout.ms"
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorMeaning(_R, "the previous transaction of this id is still being finished"),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorMeaning(_F, "another transaction coordinator took over"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorMeaning(_F, "an ACL forbids this for the transactional id"),
    ErrorCode.SECURITY_DISABLED: ErrorMeaning(_F, "the broker has no authorizer"),
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorMeaning(_F, "not tried, because another part of the request failed"),
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorMeaning(_R, "the broker cannot use the disk that holds the partition"),
    ErrorCode.LOG_DIR_NOT_FOUND: ErrorMeaning(_F, "the log directory is not one of the broker's"),
    ErrorCode.SASL_AUTHENTICATION_FAILED: ErrorMeaning(_F, "the broker refused the credentials"),
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorMeaning(
        _F, "the broker has forgotten this producer, as after its records expired"
    ),
    ErrorCode.REASSIGNMENT_IN_PROGRESS: ErrorMeaning(_F, "the partition is being reassigned"),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: ErrorMeaning(_F, "the broker has delegation tokens switched off"),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: ErrorMeaning(_F, "there is no such delegation token"),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: ErrorMeaning(_F, "the token belongs to another principal"),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: ErrorMeaning(
        _F, "tokens may not be asked for on such a connection"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ErrorMeaning(_F, "an ACL forbids this for the delegation token"),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: ErrorMeaning(_F, "the delegation token has expired"),
    ErrorCode.INVALID_PRINCIPAL_TYPE: ErrorMeaning(_F, "the principal type is not supported"),
    ErrorCode.NON_EMPTY_GROUP: ErrorMeaning(_F, "the group still has members"),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorMeaning(
        _F, "there is no such group; check its id, Admin.list_groups lists them"
    ),
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: ErrorMeaning(
        _R, "the broker does not know the fetch session; start a new one"
    ),
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: ErrorMeaning(
        _R, "the epoch of the fetch session is out of step; start a new one"
    ),
    ErrorCode.LISTENER_NOT_FOUND: ErrorMeaning(
        _R, "the leader has no listener that fits the one the request came in on"
    ),
    ErrorCode.TOPIC_DELETION_DISABLED: ErrorMeaning(_F, "delete.topic.enable is off"),
    ErrorCode.FENCED_LEADER_EPOCH: ErrorMeaning(_R, "the leader epoch of the request is older than the broker's"),
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorMeaning(_R, "the leader epoch of the request is newer than the broker's"),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ErrorMeaning(
        _F, "the broker or this version of the API does not know that codec"
    ),
    ErrorCode.STALE_BROKER_EPOCH: ErrorMeaning(_F, "the broker has registered anew since"),
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorMeaning(_R, "the new leader does not know its high watermark yet"),
    ErrorCode.MEMBER_ID_REQUIRED: ErrorMeaning(_F, "join again with the member id of this answer"),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: ErrorMeaning(_R, "the preferred leader is not available"),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ErrorMeaning(_F, "the group has group.max.size members"),
    ErrorCode.FENCED_INSTANCE_ID: ErrorMeaning(_F, "another member took over this static group instance id"),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: ErrorMeaning(_R, "no replica may become leader"),
    ErrorCode.ELECTION_NOT_NEEDED: ErrorMeaning(_R, "the partition has the leader that was asked for"),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: ErrorMeaning(_F, "the partition is not being reassigned"),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ErrorMeaning(
        _F, "the group is subscribed to the topic, so its offsets cannot be deleted"
    ),
    ErrorCode.INVALID_RECORD: ErrorMeaning(_F, "a record was refused, as one without a key on a compacted topic"),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorMeaning(_R, "offsets of an open transaction wait to be committed"),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorMeaning(_R, "a quota is used up; wait for the throttle time"),
    ErrorCode.PRODUCER_FENCED: ErrorMeaning(_F, "a newer producer with the same transactional id took over"),
    ErrorCode.RESOURCE_NOT_FOUND: ErrorMeaning(_F, "what the request names does not exist"),
    ErrorCode.DUPLICATE_RESOURCE: ErrorMeaning(_F, "the request names the same thing twice"),
    ErrorCode.UNACCEPTABLE_CREDENTIAL: ErrorMeaning(_F, "the credential does not meet the broker's rules"),
    ErrorCode.INCONSISTENT_VOTER_SET: ErrorMeaning(_F, "the sets of voters of two nodes differ"),
    ErrorCode.INVALID_UPDATE_VERSION: ErrorMeaning(_F, "the feature version is not valid"),
    ErrorCode.FEATURE_UPDATE_FAILED: ErrorMeaning(_F, "a feature could not be changed"),
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: ErrorMeaning(
        _F, "a forwarded request carries a principal that cannot be read"
    ),
    ErrorCode.SNAPSHOT_NOT_FOUND: ErrorMeaning(_F, "there is no such snapshot"),
    ErrorCode.POSITION_OUT_OF_RANGE: ErrorMeaning(_F, "the position lies outside the snapshot"),
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorMeaning(_R, "this broker does not host a topic with that id"),
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: ErrorMeaning(_F, "the broker id is in use"),
    ErrorCode.BROKER_ID_NOT_REGISTERED: ErrorMeaning(_F, "the broker id is not registered"),
    ErrorCode.INCONSISTENT_TOPIC_ID: ErrorMeaning(_R, "the log's topic id is another one than the request's"),
    ErrorCode.INCONSISTENT_CLUSTER_ID: ErrorMeaning(_F, "the request is meant for another cluster"),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: ErrorMeaning(_F, "there is no such transactional id"),
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: ErrorMeaning(_R, "the fetch session mixes topic names and topic ids"),
    ErrorCode.INELIGIBLE_REPLICA: ErrorMeaning(_F, "the replica may not join the in-sync replicas"),
    ErrorCode.NEW_LEADER_ELECTED: ErrorMeaning(_F, "the change to the partition elected another leader"),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: ErrorMeaning(_F, "the offset lies in tiered storage"),
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorMeaning(_F, "the member's epoch is not the coordinator's; join again"),
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorMeaning(_F, "another member of the group still uses this instance id"),
    ErrorCode.UNSUPPORTED_ASSIGNOR: ErrorMeaning(_F, "the coordinator does not have that assignor"),
    ErrorCode.STALE_MEMBER_EPOCH: ErrorMeaning(_F, "the member's epoch is behind; retry after the next heartbeat"),
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: ErrorMeaning(
        _F, "the request was sent to a broker and meant for a controller, or the reverse"
    ),
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: ErrorMeaning(_F, "the broker does not know that type of endpoint"),
    ErrorCode.UNKNOWN_CONTROLLER_ID: ErrorMeaning(_F, "there is no such controller"),
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: ErrorMeaning(_F, "the telemetry subscription has changed; ask for it again"),
    ErrorCode.TELEMETRY_TOO_LARGE: ErrorMeaning(_F, "the metrics sent are larger than the broker allows"),
    ErrorCode.INVALID_REGISTRATION: ErrorMeaning(_F, "the controller refused the registration"),
    ErrorCode.TRANSACTION_ABORTABLE: ErrorMeaning(_F, "the transaction cannot go on; abort it"),
    ErrorCode.INVALID_RECORD_STATE: ErrorMeaning(_F, "the record's state does not allow this acknowledgement"),
    ErrorCode.SHARE_SESSION_NOT_FOUND: ErrorMeaning(_R, "the broker does not know the share session"),
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: ErrorMeaning(_R, "the epoch of the share session is out of step"),
    ErrorCode.FENCED_STATE_EPOCH: ErrorMeaning(_F, "the share coordinator has a newer state epoch"),
    ErrorCode.INVALID_VOTER_KEY: ErrorMeaning(_F, "the voter key is not the receiver's"),
    ErrorCode.DUPLICATE_VOTER: ErrorMeaning(_F, "the voter is in the set already"),
    ErrorCode.VOTER_NOT_FOUND: ErrorMeaning(_F, "the voter is not in the set"),
    ErrorCode.INVALID_REGULAR_EXPRESSION: ErrorMeaning(_F, "the regular expression is not valid"),
    ErrorCode.REBOOTSTRAP_REQUIRED: ErrorMeaning(_F, "the client should start again from its bootstrap servers"),
    ErrorCode.STREAMS_INVALID_TOPOLOGY: ErrorMeaning(_F, "the topology of the streams application is not valid"),
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: ErrorMeaning(_F, "the topology epoch is not valid"),
    ErrorCode.STREAMS_TOPOLOGY_FENCED: ErrorMeaning(_F, "the topology epoch is out of date"),
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: ErrorMeaning(_R, "the broker has no room for another share session"),
}


def error_name(code: int) -> str:
    """Return Kafka's name for a code, or `UNKNOWN_CODE` for one that this table lacks."""
    return ErrorCode(code).name if code in ERROR_TABLE else "UNKNOWN_CODE"


def is_retriable(code: int) -> bool:
    """Return whether Kafka declares the error retriable; an unknown code is not."""
    return code in ERROR_TABLE and ERROR_TABLE[code].retriable


_AUTHORIZATION_ERRORS: Final[dict[int, type[AuthorizationError]]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ClusterAuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TransactionalIdAuthorizationError,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: DelegationTokenAuthorizationError,
}


def error_for(code: int, message: str = "", *, resource: str = "", operation: str = "") -> KafkaError:
    """Build the exception for an error code.

    Args:
        code: the code that the broker returned; not NONE.
        message: the broker's own message or the values of this case; the meaning of the code is added to it.
        resource: name of the resource, in case an ACL denies the operation; not needed for the cluster.
        operation: the operation to be authorized, such as "READ", for that case.
    """
    name = error_name(code)
    meaning = ERROR_TABLE[code].meaning if code in ERROR_TABLE else "a code that this version does not know"
    text = f"{printable(message)} ({meaning})" if message else meaning
    if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        return AuthenticationError(text)
    forbidden = _AUTHORIZATION_ERRORS.get(code)
    if forbidden is not None:
        from kafkaraw.protocol.acl_codes import CLUSTER_NAME  # only for this error

        resource = CLUSTER_NAME if forbidden is ClusterAuthorizationError else resource
        needed = " ".join(part for part in (operation, "on", forbidden.resource_type, repr(resource)) if part)
        text += f"; it takes {needed}" if operation and resource else ""
        return forbidden(text, code=code, name=name, retriable=False, resource_name=resource, operation=operation)
    kind = RetriableBrokerError if is_retriable(code) else BrokerError
    return kind(text, code=code, name=name, retriable=is_retriable(code))
