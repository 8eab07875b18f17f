"""Listener addresses: `NAME://host:port`, as Kafka writes them in `listeners` and `advertised.listeners`.

Pure text handling; the sockets are opened by `server`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

_ENDPOINT: Final = re.compile(r"(?P<name>\w+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\],]*)):(?P<port>\d+)")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
PORT_MAX: Final = 65535
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener.

    Attributes:
        name: the listener's name, such as PLAINTEXT.
        host: a name or address; empty means every address.
        port: 0 means any free port (in `advertised.listeners`: the port listened on).
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def without_controllers(text: str, controllers: str) -> str:
    """A list of listeners without those of a quorum of controllers, which there is none of here.

    Args:
        text: as in `listeners` and `advertised.listeners`.
        controllers: as in `controller.listener.names`.
    """
    names = {name.strip().upper() for name in controllers.split(",")}
    return ",".join(entry for entry in text.split(",") if entry.partition("://")[0].strip().upper() not in names)


def parse_endpoints(setting: str, text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Read a list of listeners.

    Args:
        setting: the property's name, for messages.
        text: its value.
        protocols: the security protocol of each listener name.

    Raises:
        ConfigError: an entry is malformed, twice there, or asks for a protocol that this broker lacks.
    """
    endpoints: list[Endpoint] = []
    for entry in text.split(","):
        found = _ENDPOINT.fullmatch(entry.strip())
        if found is None or int(found["port"]) > PORT_MAX:
            raise ConfigError(f"{setting}: {entry.strip()!r} is not NAME://host:port")
        name = found["name"].upper()
        protocol = protocols.get(name)
        if protocol not in PROTOCOLS:
            wanted = f"protocol {protocol}" if protocol else "no protocol in listener.security.protocol.map"
            raise ConfigError(f"{setting}: {entry.strip()!r} has {wanted}; choose one of {', '.join(PROTOCOLS)}")
        if any(name == other.name for other in endpoints):
            raise ConfigError(f"{setting}: each listener needs a name of its own, {name} is there twice")
        endpoints.append(Endpoint(name, found["v6"] or found["host"] or "", int(found["port"])))
    return tuple(endpoints)


def advertised_endpoints(
    text: str, listeners: tuple[Endpoint, ...], protocols: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """Return the advertised address of each listener, in the order of `listeners`.

    Raises:
        ConfigError: a listener has no address that a client could use.
    """
    given = (
        {endpoint.name: endpoint for endpoint in parse_endpoints("advertised.listeners", text, protocols)}
        if text
        else {}
    )
    extra = given.keys() - {endpoint.name for endpoint in listeners}
    if extra:
        raise ConfigError(f"advertised.listeners: {', '.join(sorted(extra))} is not among the listeners")
    chosen = tuple(given.get(endpoint.name, endpoint) for endpoint in listeners)
    for endpoint in chosen:
        if endpoint.host in _EVERY_ADDRESS:
            raise ConfigError(
                f"clients cannot connect to {endpoint}: set advertised.listeners to {endpoint.name}://<host>:<port> "
                "with a host that they can reach"
            )
    return chosen
