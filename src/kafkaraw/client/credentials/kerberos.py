"""GSSAPI: logins with Kerberos tickets, by the package gssapi (extra `gssapi`). Source: RFC 4752.

The ticket is the one that `kinit` or a keytab (KRB5_CLIENT_KTNAME) gave this process. Only the first step asks the
ticket service, so it runs off the loop's thread, before any SASL message is sent; the others compute. No security
layer is offered or taken: TLS is for that, and Kafka has none either.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.errors import AuthenticationError, ConfigError
from kafkaraw.net.threads import run_in_daemon_thread

NAME: Final = "GSSAPI"
MISSING: Final = f"sasl_mechanism={NAME!r} needs the package gssapi: pip install 'kafkaraw[gssapi]'"
NO_SECURITY_LAYER: Final = 1
_OFFER_BYTES: Final = 4


class _Message(Protocol):
    @property
    def message(self) -> bytes: ...


class SecurityContext(Protocol):
    """What is used of `gssapi.SecurityContext`."""

    @property
    def complete(self) -> bool:
        """Whether both ends know each other."""
        ...

    def step(self, token: bytes | None = None) -> bytes | None:
        """Take the other end's token; return the next one."""
        ...

    def unwrap(self, message: bytes) -> _Message:
        """Check and open a message."""
        ...

    def wrap(self, message: bytes, encrypt: bool) -> _Message:
        """Sign a message."""
        ...


class Gssapi(Protocol):
    """What is used of the package; `new_context` is `SecurityContext` for a service on a host."""

    errors: tuple[type[Exception], ...]

    def new_context(self, service: str, host: str) -> SecurityContext:
        """Begin a login."""
        ...


class _Installed:
    """The package gssapi."""

    def __init__(self) -> None:
        try:
            import gssapi
        except (ImportError, OSError) as error:  # OSError: the package is there, Kerberos' own library is not
            raise ConfigError(MISSING) from error
        self._gssapi = gssapi
        self.errors: tuple[type[Exception], ...] = (gssapi.exceptions.GSSError,)

    def new_context(self, service: str, host: str) -> SecurityContext:
        """Begin a login."""
        name = self._gssapi.Name(f"{service}@{host}", name_type=self._gssapi.NameType.hostbased_service)
        context: SecurityContext = self._gssapi.SecurityContext(name=name, usage="initiate")
        return context


def load_gssapi() -> Gssapi:
    """The package gssapi.

    Raises:
        ConfigError: it is not installed; says how to.
    """
    return _Installed()


class KerberosCredentials:
    """Logs in with this process' Kerberos ticket.

    Args:
        service: the brokers' service name; their principals are service/host@REALM.
        gssapi: the package.
    """

    def __init__(self, service: str, gssapi: Gssapi) -> None:
        self._service = service
        self._gssapi = gssapi

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """The client's half of one login."""
        return await run_in_daemon_thread(lambda: self._begin(host), "kafkaraw-ticket")

    def _begin(self, host: str) -> ClientMechanism:
        try:
            context = self._gssapi.new_context(self._service, host)
            return KerberosClient(context, context.step() or b"", self._gssapi.errors)
        except self._gssapi.errors as error:
            raise AuthenticationError(
                f"no Kerberos ticket for {self._service}@{host}: {error}; is there one of your own (klist)?"
            ) from error


class _Step(Enum):
    CONTEXT = "context"
    LAYER = "security layer"
    OUTCOME = "outcome"
    DONE = "done"


class KerberosClient:
    """The client's half of one login.

    Args:
        context: begun.
        first: its first token.
        errors: what it raises.
    """

    name = NAME

    def __init__(self, context: SecurityContext, first: bytes, errors: tuple[type[Exception], ...]) -> None:
        self._context = context
        self._first = first
        self._errors = errors
        self._next = _Step.LAYER if context.complete else _Step.CONTEXT

    @property
    def complete(self) -> bool:
        """Whether nothing more is to be said, and the broker has proved what the mechanism lets it prove."""
        return self._next is _Step.DONE

    def computation(self, challenge: bytes) -> None:
        """What has to be computed before `step` can answer, if that takes long enough to hold up an event loop."""

    def step(self, challenge: bytes | None) -> bytes:
        """See `ClientMechanism.step`: tokens until the context stands, then the layer, then an empty answer."""
        if challenge is None:
            return self._first
        try:
            match self._next:
                case _Step.CONTEXT:
                    token = self._context.step(challenge) or b""
                    self._next = _Step.LAYER if self._context.complete else _Step.CONTEXT
                    return token
                case _Step.LAYER:
                    return self._choose_layer(challenge)
        except self._errors as error:
            raise AuthenticationError(f"{NAME}: the broker's token cannot be used: {error}") from error
        self._next = _Step.DONE
        return b""

    def _choose_layer(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge).message
        if len(offer) != _OFFER_BYTES or not offer[0] & NO_SECURITY_LAYER:
            raise AuthenticationError(f"{NAME}: the broker insists on a security layer of SASL's; use TLS instead")
        self._next = _Step.OUTCOME
        return self._context.wrap(bytes((NO_SECURITY_LAYER, 0, 0, 0)), encrypt=False).message
