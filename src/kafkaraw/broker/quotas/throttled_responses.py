"""The effect of quotas on a response: its throttle time, an empty Fetch response, and the mute time of the connection.

Source: kafka.server.{KafkaApis.handleProduceRequest, handleFetchRequest}, RequestHandlerHelper.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.quotas.table import QuotaKey
from kafkaraw.broker.quotas.throttling import Client, Throttling
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol import RequestHeader, ResponseHeader, Segment, encode_response_segments, segments_size
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.protocol.messages.produce import ProduceRequest

_PERCENT: Final = 100


@dataclass(slots=True)
class Served:
    """A request that is being answered.

    Attributes:
        size_bytes: size of the request without its header.
        began: when the node began to handle it, in seconds.
        took_s: processing time, in seconds, without the waiting time of a Fetch.
    """

    header: RequestHeader
    client: Client
    request: Request[Response]
    size_bytes: int
    began: float
    took_s: float | None = None

    def worked_until(self, now: float) -> None:
        """Note the end of processing; only the first call counts."""
        if self.took_s is None:
            self.took_s = now - self.began


class Answer(NamedTuple):
    """What to send, None for nothing, and for how long to read nothing more, in milliseconds."""

    segments: list[Segment] | None
    quiet_ms: int


def throttled(throttling: Throttling, served: Served, response: Response | None) -> Answer:
    """Encode a response according to the client's quotas."""
    if isinstance(response, FetchResponse):
        return _fetch(throttling, served, response)
    quiet_ms = int(getattr(response, "throttle_time_ms", 0))  # what a handler has found already
    if isinstance(served.request, ProduceRequest):
        quiet_ms = throttling.record(QuotaKey.PRODUCE, served.client, served.size_bytes)
    if response is not None:  # as in Kafka, acks=0 is exempt: there is no response for the throttle time
        quiet_ms = max(quiet_ms, _request_ms(throttling, served))
    return Answer(None if response is None else _encoded(served, response, quiet_ms), quiet_ms)


def _fetch(throttling: Throttling, served: Served, response: FetchResponse) -> Answer:
    request_ms = _request_ms(throttling, served)
    segments = _encoded(served, response, 0)
    size_bytes = segments_size(segments)
    quiet_ms = max(request_ms, throttling.record(QuotaKey.FETCH, served.client, size_bytes))
    if not quiet_ms:
        return Answer(segments, 0)
    throttling.take_back(QuotaKey.FETCH, served.client, size_bytes)
    nothing = FetchResponse(error_code=0, session_id=response.session_id, responses=[])
    return Answer(_encoded(served, nothing, quiet_ms), quiet_ms)


def _request_ms(throttling: Throttling, served: Served) -> int:
    return throttling.record(QuotaKey.REQUEST, served.client, (served.took_s or 0) * _PERCENT)


def _encoded(served: Served, response: Response, throttle_ms: int) -> list[Segment]:
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    header = served.header
    return encode_response_segments(ResponseHeader(header.correlation_id), response, header.api_version)
