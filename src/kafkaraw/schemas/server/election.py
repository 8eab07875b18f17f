"""How instances of a registry elect their primary: what the members of the group say, and who is chosen. Pure.

The instances form a group of the classic protocol, of protocol type `sr`. A member's metadata is its identity; the
group's leader chooses the primary and tells all members in the same words as Confluent's registry, so that instances of
both can be in one group. Start at `choose_primary`.
Source: Confluent's `SchemaRegistryProtocol`, `SchemaRegistryIdentity` and `SchemaRegistryCoordinator`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from kafkaraw.light_classes import dataclass

PROTOCOL_TYPE: Final = "sr"
PROTOCOL_NAME: Final = "v0"
_VERSION: Final = 1
_NO_ERROR, _DUPLICATE_URLS = 0, 1


@dataclass(frozen=True, slots=True)
class Identity:
    """An instance, as the others reach it.

    Attributes:
        scheme: http or https.
        host: its host.
        port: its port.
        eligible: whether it may become the primary.
    """

    scheme: str
    host: str
    port: int
    eligible: bool = True

    @property
    def url(self) -> str:
        """Where the others reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def encode(self) -> bytes:
        """Return the metadata of a member."""
        return _json(self._fields())

    def _fields(self) -> dict[str, object]:
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
            "leader": False,
        }

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the metadata of a member.

        Raises:
            ValueError: it is no identity.
        """
        return cls._of(_object(data))

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Self:
        host, port = fields.get("host"), fields.get("port")
        if not isinstance(host, str) or not isinstance(port, int) or isinstance(port, bool):
            raise ValueError(f"an identity needs a host and a port, not {host!r} and {port!r}")
        scheme = fields.get("scheme") or "http"
        return cls(str(scheme), host.strip("[]"), port, fields.get("master_eligibility") is True)


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of an election.

    Attributes:
        primary: the primary; None if no member is eligible.
        member_id: its id in the group.
        duplicate_urls: whether two members have the same URL, so that no request could be forwarded.
    """

    primary: Identity | None
    member_id: str | None = None
    duplicate_urls: bool = False

    def encode(self) -> bytes:
        """Return the assignment of a member; every member gets the same one."""
        fields: dict[str, object] = {
            "version": _VERSION,
            "error": _DUPLICATE_URLS if self.duplicate_urls else _NO_ERROR,
        }
        if self.primary is not None:
            fields |= {"master": self.member_id, "master_identity": json.loads(self.primary.encode())}
        return _json(fields)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read an assignment.

        Raises:
            ValueError: it is none.
        """
        fields = _object(data)
        found = fields.get("master_identity")
        primary = None if found is None else Identity.decode(_json(found))
        return cls(primary, fields.get("master"), fields.get("error", _NO_ERROR) != _NO_ERROR)


def choose_primary(members: Mapping[str, Identity]) -> Choice:
    """Choose the eligible member with the first URL, in the order of text; `members` is by member id."""
    eligible = [(identity.url, member_id) for member_id, identity in members.items() if identity.eligible]
    duplicates = len({identity.url for identity in members.values()}) != len(members)
    if not eligible:
        return Choice(None, duplicate_urls=duplicates)
    member_id = min(eligible)[1]
    return Choice(members[member_id], member_id, duplicates)


def _json(fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("utf-8")


def _object(data: bytes) -> dict[str, Any]:
    parsed = json.loads(bytes(data))
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed
