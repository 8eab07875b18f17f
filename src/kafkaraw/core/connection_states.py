"""Where a client's connection is in its life, and how it may go on; `core/connection.py` decides what leads there."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """Where a connection is in its life."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "logging in"
    READY = "ready"
    THROTTLED = "throttled"
    DRAINING = "waiting for answers before the login is renewed"
    REAUTHENTICATING = "renewing the login"
    CLOSED = "closed"


_S = ConnectionState
TRANSITIONS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    _S.NEW: frozenset({_S.NEGOTIATING, _S.CLOSED}),
    _S.NEGOTIATING: frozenset({_S.AUTHENTICATING, _S.READY, _S.CLOSED}),
    _S.AUTHENTICATING: frozenset({_S.READY, _S.CLOSED}),
    _S.READY: frozenset({_S.THROTTLED, _S.DRAINING, _S.CLOSED}),
    _S.THROTTLED: frozenset({_S.READY, _S.CLOSED}),
    _S.DRAINING: frozenset({_S.REAUTHENTICATING, _S.CLOSED}),
    _S.REAUTHENTICATING: frozenset({_S.READY, _S.CLOSED}),
    _S.CLOSED: frozenset(),
}
