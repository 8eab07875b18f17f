"""The embedded broker: speaks Kafka to any client, on one node, for development and tests.

Start at `EmbeddedBroker` (in a `with` statement) or `run_broker` (in the foreground). Inside: `server` puts a node on
a network, `connection` takes requests, `handlers/` answers them from `state`, `partition` and `log/` keep records.
It never imports the client: the two meet as bytes.
"""

from __future__ import annotations

from kafkaraw.broker.config import BrokerConfig
from kafkaraw.broker.embedded import EmbeddedBroker
from kafkaraw.broker.faults import Fault, Faults, Held
from kafkaraw.broker.foreground import run_broker
from kafkaraw.broker.server import BrokerNode

__all__ = ["BrokerConfig", "BrokerNode", "EmbeddedBroker", "Fault", "Faults", "Held", "run_broker"]
