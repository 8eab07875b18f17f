"""DeleteTopics (20): remove topics with all their records."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, string, uuid


@struct
class DeleteTopicState:
    """A topic by name or id.

    Attributes:
        name: null when the id is given.
        topic_id: zero when the name is given.
    """

    name: string | None = field(versions="6+", default=None)
    topic_id: uuid = field(versions="6+", default=ZERO_UUID)


@struct
class DeletableTopicResult:
    """What became of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
        error_message: the broker's words; null when it has none.
    """

    name: string | None = field(nullable="6+")
    topic_id: uuid = field(versions="6+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field(versions="5+", default=None, ignorable=True)


@request(api_key=20, versions="0-6", flexible="4+", removed="0")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """Delete topics; must reach the controller (any broker passes it on since KIP-590).

    Version 6 takes topic ids beside names (KIP-516) and moves them into `topics`.

    Attributes:
        topics: by name or id, from version 6.
        topic_names: up to version 5.
        timeout_ms: how long to wait for the deletion, in milliseconds.
    """

    topics: list[DeleteTopicState] = field(versions="6+", default_factory=list)
    topic_names: list[string] = field(versions="0-5", default_factory=list, ignorable=True)
    timeout_ms: int32


@response(api_key=20, versions="0-6", flexible="4+", removed="0")
class DeleteTopicsResponse(Response):
    """What became of each topic.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]
