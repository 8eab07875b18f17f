"""What a handler is told about the request besides its message."""

from __future__ import annotations

from ipaddress import ip_address

from kafkaraw.broker.quotas.throttling import Client
from kafkaraw.broker.security.listener_security import ANONYMOUS
from kafkaraw.light_classes import dataclass


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Where a request came from, and in which version.

    Attributes:
        api_version: of the request, and so of the response.
        listener: name of the listener on which it came; decides which addresses the client is told.
        client_id: what the client calls itself.
        peer: the client's address, for logs.
        principal: who the client is, as Kafka writes it.
    """

    api_version: int
    listener: str
    client_id: str | None = None
    peer: str = ""
    principal: str = ANONYMOUS

    @property
    def host(self) -> str:
        """The client's address as Java writes it."""
        host = self.peer.rpartition(":")[0].strip("[]")
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return host
        if address.version == 6:
            mapped = address.ipv4_mapped
            return str(mapped) if mapped else ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
        return host

    @property
    def client(self) -> Client:
        """Whose quotas count."""
        return Client(self.principal, self.client_id)
