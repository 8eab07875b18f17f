"""Keys and values of control records, which mark the ends of transactions and the life of the metadata log."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, string, uint16, uuid


@data(versions="0")
class ControlRecordTypeSchema:
    """The key of a control record; follows an int16 with its version.  Source: KIP-98, KIP-595.

    Attributes:
        type: 0 abort, 1 commit, 2 leader change, 3 snapshot header, 4 snapshot footer, 5 KRaft version, 6 voters.
    """

    type: int16


@data(versions="0")
class EndTxnMarker:
    """The value behind abort and commit; follows an int16 with its version.  Source: KIP-98.

    Attributes:
        coordinator_epoch: epoch of the transaction coordinator that wrote it.
    """

    coordinator_epoch: int32


@struct
class Voter:
    """A voter of the metadata quorum.

    Attributes:
        voter_directory_id: id of its metadata directory.
    """

    voter_id: int32
    voter_directory_id: uuid = field(versions="1+", default=ZERO_UUID)


@data(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """The value behind leader change.  Source: KIP-595, KIP-853.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        granting_voters: voters that granted their vote to the leader.
    """

    version: int16
    leader_id: int32
    voters: list[Voter]
    granting_voters: list[Voter]


@data(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The value behind snapshot header.  Source: KIP-630.

    Attributes:
        last_contained_log_timestamp: time of the last record in the snapshot, in milliseconds since 1970.
    """

    version: int16
    last_contained_log_timestamp: int64


@data(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The value behind snapshot footer.  Source: KIP-630."""

    version: int16


@data(versions="0", flexible="0+")
class KRaftVersionRecord:
    """The value behind KRaft version.  Source: KIP-853."""

    version: int16
    k_raft_version: int16


@struct
class Endpoint:
    """An address of a voter."""

    name: string
    host: string
    port: uint16


@struct
class KRaftVersionFeature:
    """Versions of KRaft that a voter supports."""

    min_supported_version: int16
    max_supported_version: int16


@struct
class VotersRecordVoter:
    """A voter with its addresses.

    Attributes:
        voter_directory_id: id of the voter's metadata directory; zero when unknown.
    """

    voter_id: int32
    voter_directory_id: uuid
    endpoints: list[Endpoint]
    k_raft_version_feature: KRaftVersionFeature


@data(versions="0", flexible="0+")
class VotersRecord:
    """The value behind voters.  Source: KIP-853."""

    version: int16
    voters: list[VotersRecordVoter]
