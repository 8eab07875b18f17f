"""What the handlers of delegation tokens share: which connections may ask, and principals as two fields.

Source: kafka.server.KafkaApis.allowTokenRequests.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.security.listener_security import ANONYMOUS
from kafkaraw.broker.state import BrokerState

NO_TIME: Final = -1
REQUESTER_VERSION_MIN: Final = 3
"""The first version of the responses to CreateDelegationToken and DescribeDelegationToken that name the requester."""


def may_request_tokens(state: BrokerState, context: RequestContext) -> bool:
    """Return whether a connection may send requests for tokens.

    Refused are connections that were authenticated by a token, and those without an authenticated client: PLAINTEXT,
    and TLS without a client certificate.
    """
    protocol = state.config.security.listeners[context.listener].protocol
    if context.token_authenticated or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or context.principal != ANONYMOUS


def type_and_name(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal such as "User:ada"."""
    kind, _, name = principal.partition(":")
    return kind, name
