"""A cluster of brokers that hold logs in memory and do as the test says; shares no code with the embedded broker.

Answers ApiVersions, Metadata, ListOffsets, Fetch, CreateTopics and DeleteTopics. A test moves leaders, queues errors,
holds answers back, and reads in `seen` what was asked. A Fetch without data is held for its max_wait_ms, and a
connection's answers keep their order, as with real brokers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import KafkaError
from kafkaraw.net import Link
from kafkaraw.protocol import RequestHeader, ResponseHeader, Uuid, decode_request, encode_response
from kafkaraw.protocol.apis import API_TABLE, api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafkaraw.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafkaraw.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.records import TopicPartition, encode_batch, iter_headers, parse_header
from kafkaraw.testing.virtual import Simulation

FRAME_SIZE_MAX = 1 << 26
PORT = 9092
TELEMETRY = (71, 72)
"""APIs that brokers without a metrics reporter do not offer (KIP-714)."""


def runtime_of(simulation: Simulation) -> Runtime:
    return Runtime(simulation.network, simulation.clock, simulation.rng)


class Asked(NamedTuple):
    """One request, as it came in."""

    at_s: float
    node_id: int
    client_port: str
    version: int
    message: object


@dataclass
class Log:
    """One partition: its batches, and who leads it."""

    leader_id: int
    leader_epoch: int = 0
    start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else self.start_offset

    def append(self, *values: bytes | None, timestamp_ms: int = 0, codec: str = "none") -> None:
        records = [(timestamp_ms + i, None, value, None) for i, value in enumerate(values)]
        self.batches.append(encode_batch(records, base_offset=self.end_offset, codec=codec))

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds the offset on; the first one however large it is."""
        got = b""
        for batch in self.batches:
            if parse_header(batch).next_offset <= offset:
                continue
            if got and len(got) + len(batch) > max_bytes:
                break
            got += batch
        return got


@dataclass
class Topic:
    topic_id: Uuid
    logs: list[Log]


class ScriptedCluster:
    """Nodes 1, 2, ... at host broker1, broker2, ...; every node knows everything."""

    def __init__(self, simulation: Simulation, nodes: int = 1) -> None:
        self.simulation = simulation
        self.nodes = list(range(1, nodes + 1))
        self.controller_id = 1
        self.topics: dict[str, Topic] = {}
        self.auto_create = False
        self.seen: list[Asked] = []
        self.versions: dict[int, tuple[int, int]] = {}
        self.errors: dict[tuple[str, object], list[int]] = {}
        self.left_out: Counter[str] = Counter()  # how many answers with metadata leave a topic out
        self.left_out_offsets: Counter[TopicPartition] = Counter()  # ... with offsets leave a partition out
        self.hold: Callable[[object], asyncio.Event | None] = lambda message: None
        self.tasks: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"broker{node_id}:{PORT}" for node_id in self.nodes)

    async def start(self) -> ScriptedCluster:
        for node_id in self.nodes:
            await self.simulation.network.listen(
                f"broker{node_id}",
                PORT,
                lambda node_id=node_id: _Connection(self, node_id),
                frame_size_max=FRAME_SIZE_MAX,
            )
        return self

    def create(self, name: str, *leaders: int) -> list[Log]:
        number = len(self.topics) + sum(1 for asked in self.seen if isinstance(asked.message, CreateTopicsRequest)) + 1
        self.topics[name] = Topic(Uuid(bytes([number]) * 16), [Log(leader) for leader in leaders or (1,)])
        return self.topics[name].logs

    def append(self, name: str, partition: int, *values: bytes | None, **more: object) -> None:
        self.topics[name].logs[partition].append(*values, **more)
        self.wake()

    def move(self, name: str, partition: int, leader_id: int) -> None:
        log = self.topics[name].logs[partition]
        log.leader_id, log.leader_epoch = leader_id, log.leader_epoch + 1
        self.wake()

    def fail(self, api: str, about: object, *codes: int) -> None:
        """Answer the next requests about a topic or partition with these codes, one each."""
        self.errors.setdefault((api, about), []).extend(codes)

    def asked(self, kind: type) -> list[Asked]:
        return [asked for asked in self.seen if isinstance(asked.message, kind)]

    def count(self) -> Counter[str]:
        return Counter(api_of(asked.message).name for asked in self.seen)

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def next_error(self, api: str, about: object) -> int:
        codes = self.errors.get((api, about))
        return codes.pop(0) if codes else 0

    # -- answers

    async def answer(self, node_id: int, message: object) -> object:
        held = self.hold(message)
        if held is not None:
            await held.wait()
        if isinstance(message, FetchRequest):
            return await self._fetch(node_id, message)
        return _ANSWERS[type(message)](self, node_id, message)

    def _api_versions(self, node_id: int, message: ApiVersionsRequest) -> ApiVersionsResponse:
        offered = {api.key: api.supported for api in API_TABLE if api.key not in TELEMETRY} | self.versions
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _metadata(self, node_id: int, message: MetadataRequest) -> MetadataResponse:
        names = [*self.topics] if message.topics is None else [topic.name or "" for topic in message.topics]
        left_out = {name for name in names if self.left_out[name]}
        self.left_out.subtract(left_out)
        return MetadataResponse(
            error_code=self.next_error("Metadata", None),
            brokers=[MetadataResponseBroker(node_id=n, host=f"broker{n}", port=PORT, rack=None) for n in self.nodes],
            cluster_id="scripted",
            controller_id=self.controller_id,
            topics=[
                self._topic_metadata(name, message.allow_auto_topic_creation) for name in names if name not in left_out
            ],
        )

    def _topic_metadata(self, name: str, may_create: bool) -> MetadataResponseTopic:
        error = self.next_error("Metadata", name)
        topic = self.topics.get(name)
        if topic is None and may_create and self.auto_create:
            self.create(name)  # known from the next answer on, as with Kafka
        if error or topic is None:
            code = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(error_code=code, name=name, partitions=[])
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=number,
                leader_id=log.leader_id,
                leader_epoch=log.leader_epoch,
                replica_nodes=self.nodes,
                isr_nodes=self.nodes,
                offline_replicas=[],
            )
            for number, log in enumerate(topic.logs)
        ]
        return MetadataResponseTopic(error_code=0, name=name, topic_id=topic.topic_id, partitions=partitions)

    def _list_offsets(self, node_id: int, message: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in message.topics:
            partitions = [
                self._offset(node_id, tp, asked.timestamp)
                for asked in topic.partitions
                if not self.left_out_offsets[tp := TopicPartition(topic.name, asked.partition_index)]
            ]
            self.left_out_offsets.subtract(
                tp
                for asked in topic.partitions
                if self.left_out_offsets[tp := TopicPartition(topic.name, asked.partition_index)]
            )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _offset(self, node_id: int, tp: TopicPartition, timestamp: int) -> ListOffsetsPartitionResponse:
        log = self.topics[tp.topic].logs[tp.partition]
        error = self.next_error("ListOffsets", tp)
        if not error and log.leader_id != node_id:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        offset, found = {-2: (log.start_offset, -1), -1: (log.end_offset, -1)}.get(timestamp, (-1, -1))
        if timestamp >= 0:
            for batch in log.batches:
                header = parse_header(batch)
                if header.max_timestamp >= timestamp:
                    delta = max(0, timestamp - header.base_timestamp)
                    offset, found = header.base_offset + delta, header.base_timestamp + delta
                    break
        if error:
            offset = found = -1
        return ListOffsetsPartitionResponse(
            partition_index=tp.partition,
            error_code=error,
            timestamp=found,
            offset=offset,
            leader_epoch=log.leader_epoch,
        )

    async def _fetch(self, node_id: int, message: FetchRequest) -> FetchResponse:
        deadline = self.simulation.loop.time() + message.max_wait_ms / 1000
        while True:
            response = FetchResponse(error_code=0, responses=list(self._fetch_now(node_id, message)))
            parts = [part for topic in response.responses for part in topic.partitions]
            left = deadline - self.simulation.loop.time()
            if left <= 0 or any(part.error_code or part.records for part in parts):
                return response
            try:
                async with asyncio.timeout(left):
                    await self.news.wait()
            except TimeoutError:
                continue

    def _fetch_now(self, node_id: int, message: FetchRequest) -> Iterator[FetchableTopicResponse]:
        left = message.max_bytes
        for asked in message.topics:
            name = asked.topic or next((n for n, t in self.topics.items() if t.topic_id == asked.topic_id), "")
            parts = []
            for part in asked.partitions:
                data = self._read(node_id, name, part.partition, part.fetch_offset, min(left, part.partition_max_bytes))
                left -= len(data.records or b"")
                parts.append(data)
            yield FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts)

    def _read(self, node_id: int, name: str, number: int, offset: int, max_bytes: int) -> PartitionData:
        topic = self.topics.get(name)
        log = topic.logs[number] if topic else None
        error = self.next_error("Fetch", TopicPartition(name, number))
        if log is None:
            error = error or ErrorCode.UNKNOWN_TOPIC_ID
        elif log.leader_id != node_id:
            error = error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not log.start_offset <= offset <= log.end_offset:
            error = error or ErrorCode.OFFSET_OUT_OF_RANGE
        records = b"" if error or log is None or max_bytes <= 0 else log.read(offset, max_bytes)
        end, start = (log.end_offset, log.start_offset) if log else (-1, -1)
        return PartitionData(
            partition_index=number, error_code=error, high_watermark=end, log_start_offset=start, records=records
        )

    def _create_topics(self, node_id: int, message: CreateTopicsRequest) -> CreateTopicsResponse:
        results = []
        for topic in message.topics:
            error = self.next_error("CreateTopics", topic.name)
            if node_id != self.controller_id:
                error = ErrorCode.NOT_CONTROLLER
            elif topic.name in self.topics:
                error = ErrorCode.TOPIC_ALREADY_EXISTS
            if not error and not message.validate_only:
                self.create(topic.name, *[self.nodes[0]] * max(1, topic.num_partitions))
            results.append(CreatableTopicResult(name=topic.name, error_code=error, error_message=None, configs=None))
        return CreateTopicsResponse(topics=results)

    def _delete_topics(self, node_id: int, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [topic.name for topic in message.topics] or message.topic_names
        results = []
        for name in names:
            known = self.topics.pop(name or "", None)
            code = 0 if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(DeletableTopicResult(name=name, error_code=code))
        return DeleteTopicsResponse(responses=results)


_ANSWERS: dict[type, Callable[[ScriptedCluster, int, object], object]] = {
    ApiVersionsRequest: ScriptedCluster._api_versions,
    MetadataRequest: ScriptedCluster._metadata,
    ListOffsetsRequest: ScriptedCluster._list_offsets,
    CreateTopicsRequest: ScriptedCluster._create_topics,
    DeleteTopicsRequest: ScriptedCluster._delete_topics,
}


class _Connection:
    """One link to one node: requests are answered one after the other."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.link: Link | None = None
        self.requests: asyncio.Queue[tuple[RequestHeader, object]] = asyncio.Queue()
        self.worker: asyncio.Task[None] | None = None

    def link_made(self, link: Link) -> None:
        self.link = link
        self.worker = asyncio.get_running_loop().create_task(self._work())

    def frame_received(self, frame: memoryview) -> None:
        header, message = decode_request(frame)
        now_s = self.cluster.simulation.loop.time()
        self.cluster.seen.append(Asked(now_s, self.node_id, self.link.peer, header.api_version, message))
        self.requests.put_nowait((header, message))

    async def _work(self) -> None:
        while True:
            header, message = await self.requests.get()
            answer = await self.cluster.answer(self.node_id, message)
            self.link.send([encode_response(ResponseHeader(header.correlation_id), answer, header.api_version)])

    def link_lost(self, error: KafkaError | None) -> None:
        self.worker.cancel()

    def writing_paused(self, paused: bool) -> None:
        pass


def offsets_in(data: bytes) -> list[int]:
    return [header.base_offset for header, _ in iter_headers(memoryview(data))]
