"""The embedded broker: speaks Kafka to any client, on one node or several, for development and tests.

Start at `EmbeddedBroker` or `EmbeddedCluster` (in a `with` statement) or `run_broker` (in the foreground). Inside:
`server` puts a node on a network, `connection` takes requests, `handlers/` answers them from `state`, `partitions/` and
`log/` keep records; `controller` keeps what the nodes of a `cluster` share.
It never imports the client: the two meet as bytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.broker.cluster import Cluster, Surroundings
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.embedded import EmbeddedBroker
    from kafkaraw.broker.embedded_cluster import EmbeddedCluster
    from kafkaraw.broker.faults import Fault, Faults, Held
    from kafkaraw.broker.foreground import run_broker
    from kafkaraw.broker.server import BrokerNode

__all__ = [
    "BrokerConfig",
    "BrokerNode",
    "Cluster",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "Fault",
    "Faults",
    "Held",
    "Surroundings",
    "run_broker",
]

_MODULES = {
    "BrokerConfig": "configs.config",
    "BrokerNode": "server",
    "Cluster": "cluster",
    "EmbeddedBroker": "embedded",
    "EmbeddedCluster": "embedded_cluster",
    "Fault": "faults",
    "Faults": "faults",
    "Held": "faults",
    "Surroundings": "cluster",
    "run_broker": "foreground",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: one broker needs neither clusters nor the command line's."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
