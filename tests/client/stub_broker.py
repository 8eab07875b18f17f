"""A broker that answers ApiVersions and Metadata, as told; it shares no code with the embedded one."""

from __future__ import annotations

from kafkaraw.errors import KafkaError
from kafkaraw.net import Link
from kafkaraw.protocol import ResponseHeader, decode_request_header, encode_response
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkaraw.protocol.messages.metadata import MetadataResponse

FRAME_SIZE_MAX = 1 << 20


def api_versions() -> ApiVersionsResponse:
    offer = [
        ApiVersion(api_key=api.key, min_version=api.supported.min, max_version=api.supported.max) for api in API_TABLE
    ]
    return ApiVersionsResponse(error_code=0, api_keys=offer)


class StubBroker:
    """Answers in order. While `holding`, Metadata requests are kept in `held` and answered by `release`."""

    def __init__(self, *, holding: bool = False) -> None:
        self.holding = holding
        self.held: list[tuple[int, int]] = []
        self.seen: list[int] = []
        self.link: Link | None = None

    def link_made(self, link: Link) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        self.seen.append(header.api_key)
        if header.api_key == 18:
            self.link.send([encode_response(ResponseHeader(header.correlation_id), api_versions(), header.api_version)])
        elif header.api_key == 3:
            self.held.append((header.correlation_id, header.api_version))
            if not self.holding:
                self.release()

    def release(self, count: int = 1) -> None:
        for _ in range(count):
            correlation_id, version = self.held.pop(0)
            response = MetadataResponse(brokers=[], topics=[], controller_id=correlation_id)
            self.link.send([encode_response(ResponseHeader(correlation_id), response, version)])

    def link_lost(self, error: KafkaError | None) -> None:
        self.link = None

    def writing_paused(self, paused: bool) -> None:
        pass
