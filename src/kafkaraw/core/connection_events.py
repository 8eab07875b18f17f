"""The events, actions and errors of the connection machine: what goes in, what comes out, and the errors it passes on.

Plain values; `core/connection.py` decides. Start at `Event` and `Action`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkaraw.core.negotiation import ApiVersionTable
from kafkaraw.errors import (
    AuthenticationError,
    ClosedError,
    KafkaError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Segment
from kafkaraw.protocol.declare import Request, Response

if TYPE_CHECKING:
    from kafkaraw.core.sasl.mechanism import ClientMechanism

# -- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkMade:
    """The link stands.

    Attributes:
        deadline_ms: when the versions must be known and the login be complete.
        wants_login: whether the broker wants one.
    """

    deadline_ms: float
    wants_login: bool = False


@dataclass(slots=True)
class FrameReceived:
    """A whole frame has come."""

    frame: memoryview


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The link is gone; `error` as in `LinkHandler.link_lost`."""

    error: KafkaError | None


@dataclass(slots=True)
class Submit:
    """A caller submits a request.

    Attributes:
        key: names the request in `Succeed`, `Fail` and `Abandon`; compared by identity.
        message: the request.
        version: to encode it in; None for the highest that both ends know.
        timeout_ms: for waiting, sending and answering together, in milliseconds.
        oneway: the broker will not answer (Produce with acks=0): it succeeds, with None, once its bytes have left.
    """

    key: object
    message: Request[Response]
    version: int | None
    timeout_ms: float
    oneway: bool = False


@dataclass(frozen=True, slots=True)
class Abandon:
    """The caller does not wait for this request any more."""

    key: object


@dataclass(frozen=True, slots=True)
class BytesLeft:
    """The operating system has taken the whole frame of the oldest `SendOneway` for which this was not said yet."""


@dataclass(frozen=True, slots=True)
class MechanismReady:
    """What `NeedMechanism` asked for."""

    mechanism: ClientMechanism


@dataclass(frozen=True, slots=True)
class MechanismFailed:
    """What `NeedMechanism` asked for cannot be had: no token, no ticket."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Computed:
    """What `Compute` asked for was called."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The client wants the connection closed."""


Event: TypeAlias = (
    LinkMade
    | FrameReceived
    | LinkLost
    | Submit
    | Abandon
    | BytesLeft
    | MechanismReady
    | MechanismFailed
    | Computed
    | CloseRequested
)


# -- actions -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Send:
    """Send this frame."""

    segments: list[Segment]


@dataclass(slots=True)
class SendOneway:
    """Send this frame, which the broker does not answer, and report `BytesLeft` once it has left."""

    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class BecomeReady:
    """The versions are known and the login is complete: requests may be submitted."""

    api_versions: ApiVersionTable


@dataclass(slots=True)
class Succeed:
    """The request was answered."""

    key: object
    response: object


@dataclass(frozen=True, slots=True)
class Fail:
    """The request failed."""

    key: object
    error: KafkaError


@dataclass(frozen=True, slots=True)
class NeedMechanism:
    """Time to authenticate: `MechanismReady` or `MechanismFailed` is awaited until `deadline_ms`."""

    deadline_ms: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Call this on another thread: the login goes on with `Computed`."""

    computation: Callable[[], None]


@dataclass(frozen=True, slots=True)
class End:
    """The connection is over, for this reason; close the link. Comes once, after the `Fail` of every request."""

    error: KafkaError


Action: TypeAlias = Send | SendOneway | BecomeReady | Succeed | Fail | NeedMechanism | Compute | End


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may do.

    Attributes:
        client_id: sent with every request, for the broker's logs and quotas.
        request_timeout_ms: how long a broker may be silent while it owes an answer, in milliseconds.
        max_in_flight: how many requests may be unanswered at once.
        first_correlation_id: of the first request.
        login_timeout_ms: how long a renewal's mechanism may take to come, and how long the renewal, in milliseconds.
        session_share: the part of a login's lifetime after which it is renewed.
    """

    client_id: str | None = None
    request_timeout_ms: float = 30_000
    max_in_flight: int = 5
    first_correlation_id: int = 0
    login_timeout_ms: float = 10_000
    session_share: float = 0.85


def at_stage(error: ProtocolError, where: str) -> ProtocolError:
    """Return the same error with the place where it happened in front."""
    if isinstance(error, UnsupportedVersionError):
        return error
    explained = ProtocolError(f"{where}: {error.message}", path=error.path, offset=error.offset)
    explained.__cause__ = error
    return explained


def with_stage(error: NetworkError, stage: Stage) -> NetworkError:
    """Return the same error at another stage."""
    moved = NetworkError(str(error), stage=stage)
    moved.__cause__ = error.__cause__
    return moved


def copy_for(error: KafkaError, fate: str) -> KafkaError:
    """Return a separate error for one request: a shared one would collect the tracebacks of all requests."""
    copy: KafkaError
    if isinstance(error, NetworkError):
        copy = NetworkError(f"{error}; {fate}", stage=error.stage)
    elif isinstance(error, AuthenticationError):
        copy = AuthenticationError(f"{error}; {fate}")
    else:
        copy = ClosedError(f"{error}; {fate}")
    copy.__cause__ = error.__cause__
    return copy
