"""The principal of a request that a broker forwards to the controller."""

from __future__ import annotations

from kafkaraw.protocol.declare import data
from kafkaraw.protocol.types import boolean, string


@data(versions="0", flexible="0+")
class DefaultPrincipalData:
    """A principal inside an Envelope; follows an int16 with its version.  Source: KIP-590.

    Attributes:
        type: such as User.
        token_authenticated: whether a delegation token authenticated it.
    """

    type: string
    name: string
    token_authenticated: boolean
