"""What both ends of a connection agree on: the versions of each API, and which versions make throttling binding.

ApiVersions is the one request whose response may be unreadable: a broker that does not know the request's version
responds UNSUPPORTED_VERSION in the format of version 0 (KIP-511), and librdkafka's mock cluster responds in no format
at all. Start at `read_api_versions`; `ConnectionMachine` decides the order of the attempts.

Up to Kafka 1.1, a broker delayed its response to throttle a client, and `throttle_time_ms` reported the past delay.
Since then, the broker responds at once and stops reading, and the client must not send on that connection for that time
(KIP-219). `BINDING_SINCE` has the first version of each API with the newer behaviour; other APIs never throttle.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkaraw.errors import ProtocolError, UnsupportedVersionError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import VersionRange, decode_response
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.api_versions import ApiVersionsResponse

API_VERSIONS_KEY: Final = 18
_METADATA_KEY: Final = 3
_VOTE_KEY: Final = 52
_ERROR_AT: Final = 4  # after the correlation id: the header is v0 and the error code first, in every version


@dataclass(frozen=True, slots=True)
class RetryApiVersions:
    """The broker refused the version of ApiVersions; `version` is the one to try next."""

    version: int


@dataclass(frozen=True, slots=True)
class ApiVersionTable:
    """What one broker offers, and what follows for us.

    Attributes:
        peer: the broker as "host:port", for messages.
        offered: the broker's range for each API key.
        throttle_ms: for how long nothing may be sent, in milliseconds.
        features: the level in force of each feature of the cluster (KIP-584).
    """

    peer: str
    offered: dict[int, VersionRange]
    throttle_ms: int = 0
    features: dict[str, int] = field(default_factory=dict)

    @property
    def _is_controllers(self) -> bool:
        """Whether controllers listen there: they vote, and do not serve Metadata to clients."""
        return _VOTE_KEY in self.offered and _METADATA_KEY not in self.offered

    def version_for(self, api_key: int) -> int:
        """Return the highest version of an API that both ends know.

        Raises:
            UnsupportedVersionError: there is none; names both ranges.
        """
        api = API_BY_KEY.get(api_key)
        name = api.name if api is not None else f"API {api_key}"
        if api is None:
            raise UnsupportedVersionError(f"{name} is not known to this client")
        theirs = self.offered.get(api_key)
        if theirs is None:
            advice = "; this is a controller's listener: give the port of a broker" if self._is_controllers else ""
            raise UnsupportedVersionError(
                f"{self.peer} does not offer {name} (this client knows {api.versions}){advice}"
            )
        version = min(api.supported.max, theirs.max)
        if version < max(api.versions.min, theirs.min):
            raise UnsupportedVersionError(
                f"{self.peer} offers {name} in versions {theirs}, this client knows {api.versions}: no common one"
            )
        return version


def read_api_versions(frame: memoryview, version: int, peer: str) -> ApiVersionTable | RetryApiVersions:
    """Read the answer to an ApiVersions request.

    Args:
        frame: the response, header included.
        version: the version that was asked with.
        peer: the broker as "host:port".

    Raises:
        BrokerError: the broker answered with another error than UNSUPPORTED_VERSION.
        ProtocolError: the bytes are no such answer.
    """
    if len(frame) < _ERROR_AT + 2:
        raise ProtocolError(f"{peer} answered ApiVersions with {len(frame)} bytes; it does not speak Kafka")
    (code,) = struct.unpack_from(">h", frame, _ERROR_AT)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return _next_attempt(frame, version, peer)
    if code != ErrorCode.NONE:
        raise error_for(code, f"{peer} refused ApiVersions v{version}")
    _, response = decode_response(frame, API_VERSIONS_KEY, version, allow_trailing_bytes=True)
    assert isinstance(response, ApiVersionsResponse)
    offered = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
    features = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return ApiVersionTable(peer, offered, binding_throttle_ms(response, API_VERSIONS_KEY, version), features)


def _next_attempt(frame: memoryview, version: int, peer: str) -> RetryApiVersions:
    if version == 0:
        raise UnsupportedVersionError(f"{peer} refuses every version of ApiVersions, even 0")
    try:
        _, response = decode_response(frame, API_VERSIONS_KEY, 0)
    except ProtocolError:
        return RetryApiVersions(0)
    assert isinstance(response, ApiVersionsResponse)
    highest = (entry.max_version for entry in response.api_keys if entry.api_key == API_VERSIONS_KEY)
    return RetryApiVersions(next((v for v in highest if 0 <= v < version), 0))


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
