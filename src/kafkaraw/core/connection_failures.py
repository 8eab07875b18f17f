"""Errors of a connection, said again: with the place where they happened, or for one more request.

The connection machine decides who fails; this only makes the errors.
"""

from __future__ import annotations

from kafkaraw.errors import (
    AuthenticationError,
    ClosedError,
    KafkaError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
)


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
