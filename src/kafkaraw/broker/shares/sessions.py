"""Share sessions: the partitions that a member fetches from this node, kept between its requests (KIP-932).

A request with epoch 0 opens a session, each later one has the next epoch, and one with epoch -1 ends it. A session ends
with its connection, too; the caller then releases the member's records. Pure.
Source: org.apache.kafka.server.share.session.{ShareSession, ShareSessionCache}; kafka.server.share.
SharePartitionManager.newContext.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


Part = tuple[Uuid, int]
"""Topic id and number of a partition."""


@dataclass(slots=True)
class ShareSession:
    """One session.

    Attributes:
        peer: the connection that opened it.
        epoch: the epoch that the next request must have.
        partitions: the partitions; True for one that the next response must contain.
    """

    peer: str
    epoch: int = 1
    partitions: dict[Part, bool] = field(default_factory=dict)

    def must_respond(self, part: Part, *, has_records: bool, has_error: bool) -> bool:
        """Return whether a response must contain a partition; one with an error is contained in the next one, too."""
        due = self.partitions.get(part, True)
        if part in self.partitions:
            self.partitions[part] = has_error
        return due or has_records or has_error


class ShareSessions:
    """The sessions of a node.

    Args:
        sessions_max: how many there may be (`group.share.max.share.sessions`).
    """

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self, key: SessionKey, epoch: int, peer: str, added: Iterable[Part], forgotten: Iterable[Part], *, acks: bool
    ) -> ShareSession | None:
        """Return the session of a ShareFetch, updated; None if the request ends it.

        Args:
            key: the member.
            epoch: the epoch of the request.
            peer: the connection.
            added: the partitions that the request names.
            forgotten: the partitions that leave the session.
            acks: the request has acknowledgements.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED, or
                INVALID_REQUEST: acknowledgements without a session.
        """
        if epoch == FINAL_EPOCH:
            self._found(key)
            return None
        if epoch == INITIAL_EPOCH:
            return self._open(key, peer, added, acks=acks)
        session = self._next(key, epoch)
        for part in added:
            session.partitions.setdefault(part, True)
        for part in forgotten:
            session.partitions.pop(part, None)
        return session

    def _open(self, key: SessionKey, peer: str, added: Iterable[Part], *, acks: bool) -> ShareSession:
        if acks:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a session cannot begin with acknowledgements")
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "there is no room for another share session")
        session = self._sessions[key] = ShareSession(peer, partitions=dict.fromkeys(added, False))
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Check the session of a ShareAcknowledge, and expect the next epoch.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge cannot open a session")
        if epoch == FINAL_EPOCH:
            self._found(key)
        else:
            self._next(key, epoch)

    def _found(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the member has no share session")
        return session

    def _next(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._found(key)
        if session.epoch != epoch:
            raise ApiError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"the session expects epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def close(self, key: SessionKey) -> list[Part]:
        """End a session; return its partitions, whose records the member no longer has."""
        session = self._sessions.pop(key, None)
        return [] if session is None else list(session.partitions)

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def of_peer(self, peer: str) -> list[SessionKey]:
        """Return the members whose sessions belong to a connection."""
        return [key for key, session in self._sessions.items() if session.peer == peer]
