"""Frames of many kinds, made by our own encoders: what the tests of the annotated view read."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kafkaraw.protocol.embedded.group_offsets import OffsetCommitKey, OffsetCommitValue
from kafkaraw.protocol.frames import encode_message
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafkaraw.records import codec_by_name, encode_batch, encode_control_batch
from kafkaraw.records.control import ControlType

NOW_MS = 1_700_000_000_000
ROWS = [
    (NOW_MS, b"k1", b'{"amount": 1}', [("trace", b"abc"), ("empty", None)]),
    (NOW_MS + 5, None, b'{"amount": 2}', []),
    (NOW_MS + 9, b"k3", None, []),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Sample:
    """A frame with its size prefix, and what it is."""

    name: str
    frame: bytes
    api: str
    version: int
    direction: str


def prefixed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def request(name: str, message: object, api: str, key: int, version: int) -> Sample:
    body = encode_request(RequestHeader(key, version, 7, "kafkaraw"), message)
    return Sample(name, prefixed(body), api, version, "request")


def response(name: str, message: object, api: str, version: int) -> Sample:
    return Sample(name, prefixed(encode_response(ResponseHeader(7), message, version)), api, version, "response")


def versioned(version: int, message: object) -> bytes:
    return version.to_bytes(2) + encode_message(message, version)


def subscription() -> bytes:
    owned = [TopicPartition(topic="orders", partitions=[0, 2])]
    return versioned(1, ConsumerProtocolSubscription(topics=["orders"], user_data=None, owned_partitions=owned))


def assignment() -> bytes:
    assigned = [ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=[1, 3])]
    return versioned(0, ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=b"\1"))


def offsets_batch() -> bytes:
    """What a broker keeps in __consumer_offsets."""
    key = b"\0\1" + encode_message(OffsetCommitKey(group="billing", topic="orders", partition=3), 0)
    value = versioned(3, OffsetCommitValue(offset=42, leader_epoch=5, metadata="", commit_timestamp=NOW_MS))
    return bytes(encode_batch([(NOW_MS, key, value, []), (NOW_MS, key, None, [])], base_offset=100))


def fetch(records: bytes | None, topic: str = "orders", version: int = 11) -> FetchResponse:
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=12, last_stable_offset=12, records=records
    )
    if version >= 13:
        raise ValueError("topics have ids from version 13 on")
    return FetchResponse(responses=[FetchableTopicResponse(topic=topic, partitions=[partition])])


def produce(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="orders", partition_data=[partition])]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=topics)


def message_v0(offset: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    return _message(offset, struct.pack(">bb", 0, attributes), key, value)


def message_v1(offset: int, timestamp: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    return _message(offset, struct.pack(">bbq", 1, attributes, timestamp), key, value)


def _message(offset: int, head: bytes, key: bytes | None, value: bytes | None) -> bytes:
    blobs = b"".join(b"\xff" * 4 if blob is None else len(blob).to_bytes(4) + blob for blob in (key, value))
    body = head + blobs
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def old_message_set() -> bytes:
    inner = message_v1(0, NOW_MS, b"k", b"first") + message_v1(1, NOW_MS + 1, None, b"second")
    packed = codec_by_name("gzip").compress(inner, None)
    return message_v0(5, None, b"old") + message_v1(7, NOW_MS, None, packed, attributes=1)


def join_group() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription())],
    )


def sync_group() -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="billing",
        generation_id=3,
        member_id="m-1",
        assignments=[SyncGroupRequestAssignment(member_id="m-1", assignment=assignment())],
    )


def _samples() -> list[Sample]:
    batch = {codec: bytes(encode_batch(ROWS, codec=codec, base_offset=12)) for codec in CODECS}
    marker = {"producer_id": 9, "producer_epoch": 0, "coordinator_epoch": 4, "timestamp_ms": NOW_MS}
    abort = bytes(encode_control_batch(ControlType.ABORT, base_offset=20, **marker))
    client = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version="1.0")
    topics = MetadataRequest(topics=[MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="clicks")])
    return [
        request("ApiVersions request v3", client, "ApiVersions", 18, 3),
        request("Metadata request v1", topics, "Metadata", 3, 1),
        request("Metadata request v12", topics, "Metadata", 3, 12),
        request("Produce request v3", produce(batch["none"]), "Produce", 0, 3),
        request("Produce request v9, two batches", produce(batch["none"] + batch["lz4"]), "Produce", 0, 9),
        *(response(f"Fetch response v11, {codec}", fetch(batch[codec]), "Fetch", 11) for codec in CODECS),
        response("Fetch response v12, a marker", fetch(abort, version=12), "Fetch", 12),
        response("Fetch response v4, offsets", fetch(offsets_batch(), "__consumer_offsets"), "Fetch", 4),
        response("Fetch response v4, old messages", fetch(old_message_set()), "Fetch", 4),
        request("JoinGroup request v5", join_group(), "JoinGroup", 11, 5),
        request("SyncGroup request v3", sync_group(), "SyncGroup", 14, 3),
        response(
            "SyncGroup response v5",
            SyncGroupResponse(error_code=0, protocol_type="consumer", protocol_name="range", assignment=assignment()),
            "SyncGroup",
            5,
        ),
    ]


SAMPLES = _samples()
SAMPLE = {sample.name: sample for sample in SAMPLES}
