"""What brokers and members of one share group said to each other: acquired records, and acknowledgements.

It is read from the frames of a `MemoryNetwork`. A response that a broker sent counts, whether or not it arrived. Start
at `share_traffic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kafkaraw.core.share.acknowledgements import GAP
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.frames import decode_request, decode_response
from kafkaraw.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkaraw.records import TopicPartition
from kafkaraw.testing.memory_network import Sent

_SIZE_BYTES: Final = 4
_SHARE_KEYS: Final = frozenset({78, 79})
Place: TypeAlias = tuple[TopicPartition, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A ShareFetch or ShareAcknowledge, and whether it was answered.

    Attributes:
        member: the client id.
        link: the number of the connection.
        epoch: the epoch of the share session.
        asked_s: when it was sent.
        answered_s: when the response was sent; None if none was.
        code: the error code of the response; None without one.
        is_fetch: it is a ShareFetch.
    """

    member: str
    link: int
    epoch: int
    asked_s: float
    answered_s: float | None
    code: int | None
    is_fetch: bool


class Acquisition(NamedTuple):
    """A record that a broker has locked for a member."""

    place: Place
    delivery_count: int
    exchange: Exchange


class SentAnswer(NamedTuple):
    """An acknowledgement that a member has sent.

    Attributes:
        kind: the number of the `AcknowledgeType`.
        code: the error code of the partition; None if the broker has not answered.
    """

    place: Place
    kind: int
    exchange: Exchange
    code: int | None


@dataclass
class ShareTraffic:
    """Everything of one group, in the order of responses; what was not answered comes last."""

    exchanges: list[Exchange] = field(default_factory=list)
    acquisitions: list[Acquisition] = field(default_factory=list)
    answers: list[SentAnswer] = field(default_factory=list)


class _Waiting(NamedTuple):
    api_key: int
    version: int
    member: str
    asked_s: float
    request: ShareFetchRequest | ShareAcknowledgeRequest


def share_traffic(history: Iterable[Sent], group: str, topic_ids: Mapping[Uuid, str]) -> ShareTraffic:
    """Return what was said in a group.

    Args:
        history: the frames sent, in order.
        group: the group.
        topic_ids: names of the topics, by their ids.
    """
    found, waiting = ShareTraffic(), dict[tuple[int, int], _Waiting]()
    for sent in history:
        frame = sent.data[_SIZE_BYTES:]
        if sent.by == "client":
            if int.from_bytes(frame[:2], "big") not in _SHARE_KEYS:
                continue
            header, request = decode_request(frame)
            assert isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest)
            if request.group_id == group:
                waiting[sent.link, header.correlation_id] = _Waiting(
                    header.api_key, header.api_version, header.client_id or "", sent.at_s, request
                )
            continue
        asked = waiting.pop((sent.link, int.from_bytes(frame[:4], "big")), None)
        if asked is not None:
            _, response = decode_response(frame, asked.api_key, asked.version)
            assert isinstance(response, ShareFetchResponse | ShareAcknowledgeResponse)
            _note(found, sent.link, asked, sent.at_s, response, topic_ids)
    for (link, _), asked in waiting.items():
        _note(found, link, asked, None, None, topic_ids)
    return found


def _note(
    found: ShareTraffic,
    link: int,
    asked: _Waiting,
    answered_s: float | None,
    response: ShareFetchResponse | ShareAcknowledgeResponse | None,
    topic_ids: Mapping[Uuid, str],
) -> None:
    request = asked.request
    exchange = Exchange(
        asked.member,
        link,
        request.share_session_epoch,
        asked.asked_s,
        answered_s,
        None if response is None else response.error_code,
        isinstance(request, ShareFetchRequest),
    )
    found.exchanges.append(exchange)
    codes: dict[TopicPartition, int] = {}
    for answered in () if response is None else response.responses:
        for data in answered.partitions:
            place = TopicPartition(topic_ids[Uuid(answered.topic_id)], data.partition_index)
            codes[place] = getattr(data, "acknowledge_error_code", data.error_code)
            for each in getattr(data, "acquired_records", ()):
                found.acquisitions += [
                    Acquisition((place, offset), each.delivery_count, exchange)
                    for offset in range(each.first_offset, each.last_offset + 1)
                ]
    for topic in request.topics:
        for part in topic.partitions:
            place = TopicPartition(topic_ids[Uuid(topic.topic_id)], part.partition_index)
            code = exchange.code or codes.get(place) if response is not None else None
            for batch in part.acknowledgement_batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    types = batch.acknowledge_types
                    kind = types[0] if len(types) == 1 else types[offset - batch.first_offset]
                    if kind != GAP:
                        found.answers.append(SentAnswer((place, offset), kind, exchange, code))
