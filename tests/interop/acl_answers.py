"""What of an answer is compared: error codes and authorized operations, by what they are about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

_KEYS = (
    "name",
    "topic",
    "topic_name",
    "transactional_id",
    "group_id",
    "key",
    "resource_name",
    "user",
    "partition_index",
    "index",
    "partition",
)
_COMPARED = ("error_code", "authorized_operations")


def shape(answer: object, names: Mapping[bytes, str]) -> dict[str, int]:
    """The error codes and authorized operations in an answer, by what they are about; ids are told by name.

    Topics that Apache Kafka makes for itself are left out.
    """
    return {where: value for where, value in _walk(answer, "", names) if "[__" not in where}


def _walk(value: object, path: str, names: Mapping[bytes, str]) -> Iterator[tuple[str, int]]:
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _walk(one, f"{path}[{_key(one, names) or number}]", names)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found: Any = getattr(value, field.name)
            if field.name.endswith(_COMPARED):
                yield f"{path}.{field.name}", found
            elif field.name not in ("brokers", "configs", "current_leader"):
                yield from _walk(found, f"{path}.{field.name}", names)


def _key(value: object, names: Mapping[bytes, str]) -> str:
    parts = [str(getattr(value, key)) for key in _KEYS if getattr(value, key, None) not in (None, "")]
    topic_id = getattr(value, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID and not parts:
        parts.append("id of " + names.get(bytes(topic_id), "no topic"))
    return " ".join(parts)


_ASKED_TOPICS = ("f", "fl", "fla", "flights", "flying", "p", "public", "planes", "x", "xy")


def what_one_may_do(ask: Callable[[object, int], object]) -> list[dict[str, int]]:
    """Everything that a user is told of its rights."""
    topics = [MetadataRequestTopic(name=name) for name in _ASKED_TOPICS]
    about_topics = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    groups = FindCoordinatorRequest(coordinator_keys=list(_ASKED_TOPICS))
    producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    return [shape(ask(*asked), {}) for asked in ((about_topics, 10), (groups, 4), (producer, 5))]
