"""The configuration of a broker from its properties and from arguments of their own, such as the port.

For `EmbeddedBroker`, `EmbeddedCluster` and `run_broker`, which all take the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.listeners import PORT_MAX, Endpoint
from kafkaraw.broker.settings import Value
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import replace

DEFAULT_PORT: Final = 9092
LOOPBACK: Final = "127.0.0.1"
REPLICAS_MAX: Final = 3
DataDirs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
"""Data directories: one, several as a list or with commas between them, or None for memory."""
NODES: Final = 3
"""Default number of nodes of a cluster."""


def broker_config(
    properties: Mapping[str, Value] | None,
    *,
    data_dir: DataDirs = None,
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
    directories = data_directories(data_dir)
    given = dict(properties or {})
    if directories:
        if any(name in given for name in ("log.dirs", "log.dir")):
            raise ConfigError("log.dirs: give either the property or the data directory, not both")
        given["log.dirs"] = ",".join(directories)
    if "listeners" not in given:
        address = host or LOOPBACK
        shown = f"[{address}]" if ":" in address else address
        given["listeners"] = (
            f"{'SASL_PLAINTEXT' if users else 'PLAINTEXT'}://{shown}:{default_port if port is None else port}"
        )
    elif host is not None or port is not None:
        raise ConfigError("listeners: give either the property or host and port, not both")
    return BrokerConfig.parse(given, users)


def data_directories(given: DataDirs) -> tuple[str, ...]:
    """Return the paths of data directories; none for memory.

    Raises:
        ConfigError: they are no paths, or a single path has a comma, which separates paths in log.dirs.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        paths = tuple(path.strip() for path in given.split(","))
    elif isinstance(given, os.PathLike):
        paths = (os.fspath(given),)
    else:
        listed: object = given
        if not isinstance(listed, Sequence) or not all(isinstance(path, str | os.PathLike) for path in listed):
            raise ConfigError(f"data_dir={given!r} must be the path of a folder, not {type(given).__name__}")
        paths = tuple(os.fspath(path) for path in given)
    for path in paths:
        if not path or "," in path:
            raise ConfigError(f"data_dir={path!r} must be the path of a folder, without a comma: log.dirs is a list")
    return paths


def chosen_node_ids(nodes: int | None, node_ids: Sequence[int] | None) -> tuple[int, ...]:
    """The ids of a cluster's nodes: those that are given, else 0, 1, 2 and so on.

    Args:
        nodes: how many; None is as many as there are ids, or 3.
        node_ids: their ids; None counts from 0.

    Raises:
        ConfigError: there are no nodes, an id is there twice or negative, or there are more or fewer than `nodes`.
    """
    if nodes is not None and not isinstance(nodes, int):
        raise ConfigError(f"nodes={nodes!r} must be a whole number, not {type(nodes).__name__}")
    if node_ids is None:
        count = NODES if nodes is None else nodes
        if count < 1:
            raise ConfigError(f"a cluster has at least one node, not {count}")
        return tuple(range(count))
    chosen = tuple(node_ids)
    if not chosen:
        raise ConfigError("node_ids: a cluster has at least one node, not 0")
    if len(set(chosen)) != len(chosen) or min(chosen) < 0:
        raise ConfigError(f"node_ids: each is a number of its own, from 0 on, not {list(chosen)}")
    if nodes is not None and nodes != len(chosen):
        raise ConfigError(f"node_ids: {len(chosen)} ids are given for {nodes} nodes; leave out the number of nodes")
    return chosen


def cluster_configs(
    node_ids: Sequence[int],
    properties: Mapping[str, Value] | None,
    *,
    host: str | None = None,
    port: int | None = None,
    ports: Sequence[int] | None = None,
    users: Mapping[str, str] | None = None,
    racks: Sequence[str] | None = None,
) -> Callable[[int], BrokerConfig]:
    """How the properties of each node follow from those of all.

    Args:
        node_ids: the nodes that there are at first.
        properties: what all have in common.
        host: address to listen on; None is 127.0.0.1.
        port: port of the first node, the next one has the next port; 0 is any free one for each; None is 9092.
        ports: the port of each node, in the order of `node_ids`; nodes beyond them go on with the step of a range, and
            have any free port after a list.
        users: users that may authenticate: passwords by user name.
        racks: the rack of each node, in the order of `node_ids`; nodes beyond them have none.

    Raises:
        ConfigError: what is each node's own is given for all, or ports are too few or contradict other arguments; from
            the function: a property is unknown or wrong.
    """
    check_mapping("properties", properties, "{'num.partitions': 4}")
    given = dict(properties or {})
    for name in ("node.id", "broker.id", "broker.rack", "log.dirs", "log.dir"):
        if name in given:
            raise ConfigError(f"{name} is each node's own: it cannot be the same for all nodes of a cluster")
    if ports is not None:
        _check_ports(ports, node_ids, port, given)
    given.setdefault("default.replication.factor", min(REPLICAS_MAX, len(node_ids)))
    positions = {node_id: at for at, node_id in enumerate(node_ids)}
    last = max(node_ids)

    def config_of(node_id: int) -> BrokerConfig:
        at = positions.get(node_id, len(node_ids) + node_id - last - 1)
        if at < 0 or (node_id < last and node_id not in positions):
            raise ConfigError(f"node_ids: node {node_id} belongs to the cluster in the data directory, too: name it")
        of_node = {**given, "node.id": node_id, "broker.rack": racks[at] if racks and at < len(racks) else ""}
        if ports is not None:
            return broker_config(of_node, host=host, port=_port_at(ports, at, node_id), users=users)
        if "listeners" in given:
            config = broker_config(of_node, users=users)
        else:
            config = broker_config(of_node, host=host, port=port, users=users)
        return replace(
            config,
            listeners=tuple(_counted_up(endpoint, at, node_id) for endpoint in config.listeners),
            advertised_listeners=tuple(_counted_up(endpoint, at, node_id) for endpoint in config.advertised_listeners),
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


def _check_ports(ports: Sequence[int], node_ids: Sequence[int], port: int | None, given: Mapping[str, Value]) -> None:
    if port is not None or "listeners" in given:
        other = "listeners" if "listeners" in given else "port"
        raise ConfigError(f"ports: give either ports or {other}, not both")
    if len(ports) < len(node_ids):
        raise ConfigError(f"ports: {len(ports)} are given for {len(node_ids)} nodes, each needs one: {list(ports)}")
    chosen = [number for number in ports if number]
    if len(set(chosen)) != len(chosen):
        raise ConfigError(f"ports: each node needs one of its own, not {list(ports)}")


def _port_at(ports: Sequence[int], at: int, node_id: int) -> int:
    if at < len(ports):
        return ports[at]
    number = ports.start + at * ports.step if isinstance(ports, range) else 0
    if number > PORT_MAX:
        raise ConfigError(f"ports: {ports} has no port for node {node_id}")
    return number


def _counted_up(endpoint: Endpoint, at: int, node_id: int) -> Endpoint:
    if endpoint.port == 0:
        return endpoint
    if endpoint.port + at > PORT_MAX:
        raise ConfigError(f"{endpoint}: there is no port for node {node_id}")
    return replace(endpoint, port=endpoint.port + at)
