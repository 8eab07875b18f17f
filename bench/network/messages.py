"""The bytes that the network benchmark sends and is answered with; made once, by the codec that the clients use."""

from __future__ import annotations

from typing import Final

from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_TABLE, Api, api_of
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkaraw.protocol.messages.metadata import MetadataRequest

API_VERSIONS: Final = 18
FETCH: Final = 1
API_VERSIONS_VERSION: Final = 4
FETCH_VERSION: Final = 11
METADATA_VERSION: Final = 12
BRIEF: Final = (FETCH, API_VERSIONS)
"""The APIs of the brief answer: what the client itself needs here, so that decoding costs next to nothing."""


def framed(message: object, version: int) -> bytes:
    """A request as it goes over the wire, size prefix included."""
    frame = encode_request(RequestHeader(api_of(message).key, version, 7, "bench"), message)
    return len(frame).to_bytes(4, "big") + frame


def api_versions_request() -> ApiVersionsRequest:
    """What every client asks first."""
    return ApiVersionsRequest(client_software_name="bench", client_software_version="1")


def fetch_request(size: int) -> FetchRequest:
    """Asks for one partition's next `size` bytes."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=size, topics=[FetchTopic(topic="t", partitions=[partition])]
    )


def metadata_request() -> MetadataRequest:
    """Asks for every topic."""
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def _offer(api: Api) -> ApiVersion:
    version_max = FETCH_VERSION if api.key == FETCH else api.supported.max
    return ApiVersion(api_key=api.key, min_version=api.supported.min, max_version=version_max)


def api_versions_answer(*, brief: bool) -> bytes:
    """An answer frame, without size prefix: of the two APIs in `BRIEF`, or of all, as from a real broker."""
    offered = [_offer(api) for api in API_TABLE if not brief or api.key in BRIEF]
    return encode_response(ResponseHeader(0), ApiVersionsResponse(error_code=0, api_keys=offered), API_VERSIONS_VERSION)


def fetch_answer(size: int) -> bytes:
    """An answer frame of about `size` bytes."""
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=bytes(size))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    return encode_response(ResponseHeader(0), response, FETCH_VERSION)
