"""The commands of `kafkaraw broker nodes` to a running cluster, through its control socket.

Requests and answers are JSON objects: `{"command": "stop", "node": 2}` is answered by `{"nodes": [...]}` or by
`{"error": TEXT}`. One command is carried out at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kafkaraw.broker.cluster import Cluster
from kafkaraw.errors import KafkaError

RUNNING: Final = "running"
STOPPED: Final = "stopped"
KILLED: Final = "killed"


class NodeCommands:
    """Carries out commands on a cluster.

    Args:
        cluster: it runs.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._killed: set[int] = set()
        self._lock = asyncio.Lock()

    async def answer(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        """Run a command, and return the state of the nodes afterwards, or the error."""
        command, node_id = request.get("command"), request.get("node")
        async with self._lock:
            try:
                if command != "list":
                    await self._change(command, node_id)
            except (KafkaError, OSError) as error:
                return {"error": str(error)}
            return {"nodes": [self._described(one) for one in self._cluster.node_ids]}

    async def _change(self, command: object, node_id: object) -> None:
        changes = {
            "start": self._cluster.start_node,
            "stop": self._cluster.stop_node,
            "kill": self._cluster.kill_node,
        }
        if not isinstance(command, str) or command not in changes or not isinstance(node_id, int):
            raise KafkaError(f"the broker does not know the command {command!r} of node {node_id!r}")
        self._check_not_so(command, node_id)
        await changes[command](node_id)
        (self._killed.add if command == "kill" else self._killed.discard)(node_id)

    def _check_not_so(self, command: str, node_id: int) -> None:
        """Check that a command other than start is for a running node."""
        if command != "start" and node_id in self._cluster.node_ids and node_id not in self._cluster.nodes:
            raise KafkaError(f"node {node_id} was {self._state_of(node_id)} already; start it first")

    def _state_of(self, node_id: int) -> str:
        if node_id in self._cluster.nodes:
            return RUNNING
        return KILLED if node_id in self._killed else STOPPED

    def _described(self, node_id: int) -> dict[str, object]:
        return {
            "node": node_id,
            "state": self._state_of(node_id),
            "address": self._cluster.address_of(node_id),
            "controller": node_id == self._cluster.controller_id and node_id in self._cluster.nodes,
        }
