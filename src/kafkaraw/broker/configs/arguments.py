"""How a broker's properties follow from properties and from what has an argument of its own, such as the port.

For `EmbeddedBroker`, `EmbeddedCluster` and `run_broker`, which all take the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.listeners import PORT_MAX, Endpoint
from kafkaraw.broker.settings import Value
from kafkaraw.errors import ConfigError

DEFAULT_PORT: Final = 9092
LOOPBACK: Final = "127.0.0.1"
REPLICAS_MAX: Final = 3


def broker_config(
    properties: Mapping[str, Value] | None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    host: str | None = None,
    port: int | None = None,
    default_port: int = DEFAULT_PORT,
    users: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Properties together with what has an argument of its own.

    Raises:
        ConfigError: a property is unknown or wrong, or contradicts an argument.
    """
    check_mapping("properties", properties, "{'num.partitions': 4}")
    check_mapping("users", users, "{'ada': 'password'}")
    given_port: object = port
    if given_port is not None and (not isinstance(given_port, int) or not 0 <= given_port <= PORT_MAX):
        raise ConfigError(f"port={port!r} must be a whole number from 0 to {PORT_MAX}; 0 takes a free one")
    if data_dir is not None and not isinstance(data_dir, str | os.PathLike):
        raise ConfigError(f"data_dir={data_dir!r} must be the path of a folder, not {type(data_dir).__name__}")
    given = dict(properties or {})
    if data_dir is not None:
        if any(name in given for name in ("log.dirs", "log.dir")):
            raise ConfigError("log.dirs: give either the property or the data directory, not both")
        given["log.dirs"] = os.fspath(data_dir)
    if "listeners" not in given:
        address = host or LOOPBACK
        shown = f"[{address}]" if ":" in address else address
        given["listeners"] = (
            f"{'SASL_PLAINTEXT' if users else 'PLAINTEXT'}://{shown}:{default_port if port is None else port}"
        )
    elif host is not None or port is not None:
        raise ConfigError("listeners: give either the property or host and port, not both")
    return BrokerConfig.parse(given, users)


def cluster_configs(
    nodes: int,
    properties: Mapping[str, Value] | None,
    *,
    host: str | None = None,
    port: int | None,
    users: Mapping[str, str] | None = None,
    racks: Sequence[str] | None = None,
) -> Callable[[int], BrokerConfig]:
    """How the properties of each node follow from those of all: ids and ports are counted up.

    Args:
        nodes: how many nodes there are at first.
        properties: what all have in common.
        host: address to listen on; None is 127.0.0.1.
        port: port of the first node, 0 is any free one for each; None is 9092.
        users: passwords of those who may log in, by user name.
        racks: the rack of each node, in the order of their ids; nodes beyond them have none.

    Raises:
        ConfigError: there are no nodes, or what is each node's own is given for all; from the function: a property is
            unknown or wrong.
    """
    if not isinstance(nodes, int):
        raise ConfigError(f"nodes={nodes!r} must be a whole number, not {type(nodes).__name__}")
    check_mapping("properties", properties, "{'num.partitions': 4}")
    if nodes < 1:
        raise ConfigError(f"a cluster has at least one node, not {nodes}")
    given = dict(properties or {})
    for name in ("node.id", "broker.id", "broker.rack", "log.dirs", "log.dir"):
        if name in given:
            raise ConfigError(f"{name} is each node's own: it cannot be the same for all nodes of a cluster")
    given.setdefault("default.replication.factor", min(REPLICAS_MAX, nodes))

    def config_of(node_id: int) -> BrokerConfig:
        rack = racks[node_id] if racks and node_id < len(racks) else ""
        of_node = {**given, "node.id": node_id, "broker.rack": rack}
        if "listeners" in given:
            config = broker_config(of_node, users=users)
        else:
            config = broker_config(of_node, host=host, port=port, users=users)
        return replace(
            config,
            listeners=tuple(_counted_up(endpoint, node_id) for endpoint in config.listeners),
            advertised_listeners=tuple(_counted_up(endpoint, node_id) for endpoint in config.advertised_listeners),
        )

    return config_of


def check_mapping(name: str, given: object, example: str) -> None:
    """Refuse an argument that is no dict of texts.

    Raises:
        ConfigError: it is none, or one of its names is no text. Values are not shown: they may be passwords.
    """
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} must be a dict, as {name}={example}, not {type(given).__name__}")
    for key in given:
        if not isinstance(key, str):
            raise ConfigError(f"{name}: {key!r} must be text, as in {name}={example}, not {type(key).__name__}")


def _counted_up(endpoint: Endpoint, node_id: int) -> Endpoint:
    if endpoint.port == 0:
        return endpoint
    if endpoint.port + node_id > PORT_MAX:
        raise ConfigError(f"{endpoint}: there is no port for node {node_id}")
    return replace(endpoint, port=endpoint.port + node_id)
