"""The embedded broker: a Kafka broker for development and tests, with one node or several, for any Kafka client.

Start at `EmbeddedBroker` or `EmbeddedCluster` (in a `with` statement) or `run_broker` (in the foreground). Inside:
`server` connects a node to a network, `connection` reads requests, `handlers/` answers them from `state`, `partitions/`
and `log/` store records, and `controller` holds the state that the nodes of a `cluster` share.
This package never imports the client: broker and client only exchange bytes.
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
    from kafkaraw.broker.telemetry.received import ClientMetric

__all__ = [
    "BrokerConfig",
    "BrokerNode",
    "ClientMetric",
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
    "ClientMetric": "telemetry.received",
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
    """Import a public name on first use: a single broker needs neither the cluster nor the foreground modules."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
