"""Logins by user name and password: PLAIN and SCRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.plain import NAME as PLAIN
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient

if TYPE_CHECKING:
    import random

NONCE_BITS = 192


class PasswordCredentials:
    """Logs in with a password.

    Args:
        mechanism: PLAIN or one of SCRAM's.
        username: who.
        password: theirs.
        rng: source of nonces.
    """

    def __init__(self, mechanism: str, username: str, password: str, rng: random.Random) -> None:
        self._name = mechanism
        self._username = username
        self._password = password
        self._rng = rng

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """See `Credentials.mechanism`."""
        if self._name == PLAIN:
            return PlainClient(self._username, self._password)
        return ScramClient(self._name, self._username, self._password, f"{self._rng.getrandbits(NONCE_BITS):048x}")
