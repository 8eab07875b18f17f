"""Several nodes on virtual time, with a client that speaks straight to one of them: for tests of one rule each."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from kafkaraw.broker.cluster import Cluster, Surroundings
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkaraw.records import Batch, Record, TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import append_sent, ask, batch, content_bytes, through_bytes

HOST, PORT = "127.0.0.1", 9092


class VirtualNodes:
    """A cluster on virtual time."""

    def __init__(self, simulation: Simulation, nodes: int, properties: dict[str, Any]) -> None:
        self.simulation = simulation
        self.properties = properties
        self.storages: dict[int, LogStorage] = {}
        self.facts = MemoryStorage()
        self.cluster = self.new_cluster(nodes)

    def new_cluster(self, nodes: int = 3) -> Cluster:
        rng = random.Random(self.simulation.seed)
        around = Surroundings(
            network=self.simulation.network,
            storage_of=self.storage_of,
            facts=self.facts,
            clock=self.simulation.clock,
            rng=rng,
            replication_delay_s=lambda: rng.uniform(0.001, 0.01),
        )
        return Cluster(range(nodes), self.config_of, around)

    def storage_of(self, node_id: int) -> LogStorage:
        """The files of a node, which outlive it."""
        return self.storages.setdefault(node_id, MemoryStorage())

    def config_of(self, node_id: int) -> BrokerConfig:
        address = f"PLAINTEXT://{HOST}:{PORT + node_id}"
        return BrokerConfig.parse({"node.id": node_id, "listeners": address, **self.properties})

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.simulation.loop.time()

    def create(self, name: str = "t", partitions: int = 1, replicas: int = 3, **configs: str) -> None:
        spec = TopicSpec(
            name, partitions, replicas, configs={key.replace("_", "."): value for key, value in configs.items()}
        )
        node = next(iter(self.cluster.nodes.values()))
        node.state.create_topic(plan_topic(spec, node.state.catalog, node.config))

    def replica(self, node_id: int, topic: str = "t", partition: int = 0) -> Partition:
        found = self.cluster.nodes[node_id].state.partition(TopicPartition(topic, partition))
        assert found is not None
        return found

    def leader(self, topic: str = "t", partition: int = 0) -> Partition:
        leader = self.cluster.leader_of(topic, partition)
        assert leader is not None
        return self.replica(leader, topic, partition)

    def ends(self, topic: str = "t", partition: int = 0) -> dict[int, int]:
        """Where each replica's log ends."""
        return {
            node_id: found.log.log_end_offset
            for node_id, node in sorted(self.cluster.nodes.items())
            if (found := node.state.partition(TopicPartition(topic, partition))) is not None
        }

    def append(self, *values: bytes, topic: str = "t", **settings: Any) -> int:
        """Write to the leader, past the network, and return the offset."""
        return append_sent(self.leader(topic), batch(*values, **settings)).base_offset

    async def ask(self, node_id: int, request: Any, version: int) -> Any:
        """What a node answers, also when it takes its time."""
        answer = ask(self.cluster.nodes[node_id].state, request, version)
        if not isinstance(answer, Deferred):
            return answer
        came = self.simulation.loop.create_future()
        answer.when_done(came.set_result)
        return through_bytes(await came, version)

    async def produce(
        self, node_id: int, *values: bytes, acks: int = -1, timeout_ms: int = 5_000, version: int = 12, **settings: Any
    ) -> ProduceResponse:
        """Produce to partition 0 of topic "t" by a request."""
        data = PartitionProduceData(index=0, records=batch(*values, **settings))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        return await self.ask(node_id, request, version)

    def records(self, node_id: int, topic: str = "t", partition: int = 0) -> list[Record]:
        """All that is in a replica's log, also beyond the high watermark."""
        log = self.replica(node_id, topic, partition).log
        data = content_bytes(log.read(log.log_start_offset, 1 << 30, at_least_one=True))
        return list(Batch(topic, partition, memoryview(data), start_offset=0)) if data else []

    def values(self, node_id: int, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.records(node_id, topic, partition)]


def on_nodes(
    test: Callable[[VirtualNodes], Awaitable[None]],
    nodes: int = 3,
    seed: int = 1,
    kind: type[VirtualNodes] = VirtualNodes,
    **properties: Any,
) -> None:
    """Run a test on a cluster; properties with `_` for `.`."""

    async def life(simulation: Simulation) -> None:
        made = kind(simulation, nodes, {key.replace("_", "."): value for key, value in properties.items()})
        await made.cluster.start()
        try:
            await test(made)
        finally:
            await made.cluster.kill()

    run_virtual(life, seed)


def outcome(response: ProduceResponse) -> tuple[ErrorCode, int]:
    """The code and the offset in an answer about one partition."""
    ((answer,),) = [topic.partition_responses for topic in response.responses]
    return ErrorCode(answer.error_code), answer.base_offset
