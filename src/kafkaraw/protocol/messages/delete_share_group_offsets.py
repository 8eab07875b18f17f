"""DeleteShareGroupOffsets (92): forget a share group's offsets of topics (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string, uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    """One topic."""

    topic_name: string


@struct
class DeleteShareGroupOffsetsResponseTopic:
    """The answer for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
        error_message: the broker's words; null when it has none.
    """

    topic_name: string
    topic_id: uuid
    error_code: int16
    error_message: string | None = None


@request(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    """Forget offsets; must reach the group's coordinator."""

    group_id: string
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@response(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
