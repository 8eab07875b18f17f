"""Logins by user name and password: PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.plain import NAME as PLAIN
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient

NONCE_BYTES: Final = 24


class PasswordCredentials:
    """Logs in with a password.

    Args:
        mechanism: PLAIN or one of SCRAM's.
        username: who.
        password: theirs.
        entropy: source of nonces, which must be unpredictable.
    """

    def __init__(self, mechanism: str, username: str, password: str, entropy: Callable[[int], bytes]) -> None:
        self._name = mechanism
        self._username = username
        self._password = password
        self._entropy = entropy

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """See `Credentials.mechanism`."""
        if self._name == PLAIN:
            return PlainClient(self._username, self._password)
        return ScramClient(self._name, self._username, self._password, self._entropy(NONCE_BYTES).hex())
