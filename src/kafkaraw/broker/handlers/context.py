"""The context of a request: its version, listener and client."""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.quotas.throttling import Client
from kafkaraw.broker.security.listener_security import ANONYMOUS
from kafkaraw.light_classes import dataclass

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The version and the origin of a request.

    Attributes:
        api_version: API version of the request and of its response.
        listener: name of the listener that received it; responses have the addresses of this listener.
        client_id: client id in the request's header.
        peer: the client's address, for logs.
        principal: the authenticated principal, as Kafka writes it.
        token_authenticated: whether a delegation token authenticated it.
        software: name and version of the client, from its request for API versions.
    """

    api_version: int
    listener: str
    client_id: str | None = None
    peer: str = ""
    principal: str = ANONYMOUS
    token_authenticated: bool = False
    software: tuple[str, str] = UNKNOWN_SOFTWARE

    @property
    def host(self) -> str:
        """The client's address, as Java writes it."""
        from ipaddress import ip_address  # only for an authorizer and for groups

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
    def client_attributes(self) -> dict[str, str | None]:
        """What subscriptions to client metrics are matched with, by their names there (KIP-714)."""
        name, version = self.software
        return {
            "client_id": self.client_id,
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": self.host,
            "client_source_port": self.peer.rpartition(":")[2],
        }

    @property
    def client(self) -> Client:
        """The entity whose quotas apply."""
        return Client(self.principal, self.client_id)
