"""Conversations of a client and a broker, as bytes: random messages, and the SASL handshakes of all times."""

from __future__ import annotations

import random
from typing import Any

from kafkaraw.inspect import Node, annotate
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.declare import Request, Response
from tests.inspect.packet_writing import Turn
from tests.protocol.message_values import random_message

APIS = [
    "ApiVersions",
    "Metadata",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "ListOffsets",
    "Fetch",
    "Produce",
    "InitProducerId",
    "LeaveGroup",
    "CreateTopics",
    "DescribeConfigs",
    "ConsumerGroupHeartbeat",
    "ShareFetch",
]


def prefixed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4) + frame


def request(message: Request[Any], version: int, correlation_id: int, client_id: str | None = "rdkafka") -> Turn:
    key = next(api.key for api in API_BY_NAME.values() if api.request is type(message))
    return True, prefixed(encode_request(RequestHeader(key, version, correlation_id, client_id), message))


def response(message: Response, version: int, correlation_id: int) -> Turn:
    return False, prefixed(encode_response(ResponseHeader(correlation_id), message, version))


def random_turns(seed: int, count: int = 30) -> list[Turn]:
    """Requests and responses in turn, of random APIs, versions and contents."""
    rng = random.Random(seed)
    turns: list[Turn] = []
    for number in range(count):
        api = API_BY_NAME[rng.choice(APIS)]
        version = rng.randint(api.supported.min, api.supported.max)
        asked, answer = random_message(api.request, version, rng), random_message(api.response, version, rng)
        if api.name == "Produce":
            asked.acks = -1
        turns += [request(asked, version, number), response(answer, version, number)]
    return turns


def values(frame: bytes) -> list[Node]:
    """All nodes of a frame."""
    nodes = [annotate(frame).root]
    for node in nodes:
        nodes += node.children
    return nodes
