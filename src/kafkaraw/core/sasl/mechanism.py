"""The interfaces of a SASL mechanism, for client and broker. Tokens are secrets, and must not be logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkaraw.light_classes import dataclass, field

SASL_HANDSHAKE_KEY: Final = 17


@dataclass(frozen=True, slots=True)
class BareToken:
    """A token that is a frame of its own, in either direction."""

    token: bytes = field(repr=False)


class ClientMechanism(Protocol):
    """The client's half of one login; used once."""

    @property
    def name(self) -> str:
        """The mechanism's registered name, such as SCRAM-SHA-256."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing more is to be said, and the broker has proved what the mechanism lets it prove."""
        ...

    def computation(self, challenge: bytes) -> Callable[[], None] | None:
        """What has to be computed before `step` can answer, if that takes long enough to hold up an event loop.

        Args:
            challenge: as for `step`.

        Returns:
            what to call once, on any thread, before `step`; None when `step` is quick.
        """
        ...

    def step(self, challenge: bytes | None) -> bytes:
        """Answer the broker.

        Args:
            challenge: its token; None to begin.

        Raises:
            AuthenticationError: the broker's token is wrong, or it is not who it should be.
        """
        ...


class ServerMechanism(Protocol):
    """The broker's half of one login; used once."""

    @property
    def name(self) -> str:
        """The mechanism's registered name."""
        ...

    @property
    def user(self) -> str | None:
        """Who has logged in; None until that is proved."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """Until when that holds, on the wall clock, in milliseconds; None for no end of its own."""
        ...

    @property
    def token_authenticated(self) -> bool:
        """Whether the client authenticates with a delegation token (KIP-48)."""
        ...

    def step(self, response: bytes) -> bytes:
        """Answer the client.

        Raises:
            AuthenticationError: it is refused; the text is for the client and names no secret.
        """
        ...
