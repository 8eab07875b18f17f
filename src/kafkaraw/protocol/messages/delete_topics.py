"""DeleteTopics."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, string, uuid


@struct
class DeleteTopicState:
    """Part of DeleteTopics."""

    name: string | None = field(versions="6+", default=None)
    topic_id: uuid = field(versions="6+", default=ZERO_UUID)


@struct
class DeletableTopicResult:
    """Part of DeleteTopics."""

    name: string | None = field(nullable="6+")
    topic_id: uuid = field(versions="6+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field(versions="5+", default=None, ignorable=True)


@request(api_key=20, versions="0-6", flexible="4+", removed="0")
class DeleteTopicsRequest:
    """DeleteTopics request."""

    topics: list[DeleteTopicState] = field(versions="6+", default_factory=list)
    topic_names: list[string] = field(versions="0-5", default_factory=list, ignorable=True)
    timeout_ms: int32


@response(api_key=20, versions="0-6", flexible="4+", removed="0")
class DeleteTopicsResponse:
    """DeleteTopics response."""

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]
