"""`Accounts`: starts authentications. It has the users, and creates the SASL server of a mechanism."""

from __future__ import annotations

from functools import partial

from kafkaraw.broker.ids import RandomBits, random_bytes
from kafkaraw.broker.security.listener_security import BrokerSecurity
from kafkaraw.broker.security.mechanisms import Logins
from kafkaraw.broker.security.scram_credentials import ScramCredentials
from kafkaraw.core.sasl.mechanism import ServerMechanism
from kafkaraw.core.sasl.oauthbearer import UnsecuredOAuthBearerServer
from kafkaraw.core.sasl.plain import PlainServer
from kafkaraw.core.sasl.scram import ScramServer
from kafkaraw.net import Clock


class Accounts:
    """Starts authentications.

    Args:
        security: the settings.
        clock: wall clock, for the expiry of tokens.
        rng: for salts and nonces; the operating system's, outside simulations.
        credentials: the SCRAM credentials; all nodes of a cluster share them.
    """

    def __init__(self, security: BrokerSecurity, clock: Clock, rng: RandomBits, credentials: ScramCredentials) -> None:
        self._security = security
        self.credentials = credentials
        self._clock = clock
        self._rng = rng

    def mechanism(self, listener: str, name: str, *, again: bool = False) -> ServerMechanism:
        """Return the SASL server for one authentication.

        Args:
            listener: name of the client's listener.
            name: a mechanism that is enabled for the listener.
            again: the client reauthenticates (KIP-368).
        """
        logins = self.logins(listener)
        if name == "PLAIN":
            return PlainServer(logins.passwords)
        if name == "OAUTHBEARER":
            return UnsecuredOAuthBearerServer(self._clock.time_ms() / 1000, logins.unsecured)
        during = "re-authentication" if again else "authentication"
        return ScramServer(name, partial(self.credentials.find, name), random_bytes(self._rng).hex(), during)

    def logins(self, listener: str) -> Logins:
        """Return the SASL settings of a listener."""
        return self._security.listeners[listener].logins

    def lifetime_ms(self, listener: str, mechanism: ServerMechanism) -> int | None:
        """Return the lifetime of an authenticated session in milliseconds; None for no expiry."""
        limits = [self.logins(listener).reauth_ms.get(mechanism.name)]
        if mechanism.expires_ms is not None:
            limits.append(mechanism.expires_ms - self._clock.time_ms())
        ends = [limit for limit in limits if limit is not None]
        return max(0, min(ends)) if ends else None
