"""Topics for the admin client: create, delete, list and describe them.

A method for several topics sends one request, and raises if one topic failed; the message names each topic that
failed. Retriable errors (a controller that moved) are retried until the timeout.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkaraw.client.admin.calls import Calls, failure, milliseconds, names_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.connection import Connection
from kafkaraw.core.cluster import PartitionView, TopicView
from kafkaraw.errors import KafkaError, StaleMetadataError, UnsupportedVersionError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kafkaraw.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)

_DELETE_TOPICS_KEY = 20
_BY_STATE_FROM_VERSION = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: its name.
        partitions: the number of partitions; -1 is the broker's default.
        replication_factor: the number of replicas of each partition; -1 is the broker's default.
        configs: topic settings under Kafka's own names, such as `{"cleanup.policy": "compact"}`.
        assignments: node ids of the replicas by partition, instead of numbers of partitions and replicas.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic that a broker created (or would create, with `validate_only`).

    Attributes:
        name: its name.
        topic_id: its id; zero when only validated, or from a broker before 2.8.
        partitions: the number of partitions; -1 when the broker does not return it.
        replication_factor: the number of replicas of each partition; -1 when the broker does not return it.
        configs: all its settings, defaults included; empty when the broker does not return them.
    """

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in the result of `list_topics`."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, in order."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class TopicAdmin:
    """The operations on topics.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._engine = calls.engine

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, timeout: float | None = None, validate_only: bool = False
    ) -> dict[str, TopicCreated]:
        if isinstance(topics, str):
            raise UsageError(f"create_topics({topics!r}): give a list, as in create_topics([{topics!r}])")
        if isinstance(topics, Mapping):
            raise UsageError(
                "create_topics: give a list of NewTopic, as in [NewTopic('orders', partitions=3)], not a dict"
            )
        if isinstance(topics, NewTopic) or not isinstance(topics, Iterable):
            raise UsageError(f"create_topics({topics!r}): give a list, as in create_topics([NewTopic('orders')])")
        wanted = {topic.name: topic for topic in map(_new_topic, topics)}
        deadline = self._calls.deadline(timeout)
        done: dict[str, TopicCreated] = {}

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=milliseconds(deadline),
                validate_only=validate_only,
            )
            answer = await self._calls.ask_controller(request, deadline)
            results = answer.topics
            done.update((result.name, _created(result)) for result in results if not result.error_code)
            return {
                result.name: failure(
                    result.error_code,
                    result.error_message,
                    f"create topic {result.name!r}",
                    resource=result.name,
                    operation="CREATE",
                )
                for result in results
                if result.error_code
            }

        await self._calls.each(wanted, once, deadline)
        if not validate_only:
            await self._engine.wait_for_topics(wanted, deadline.remaining, allow_auto_create=False)
        return {name: done[name] for name in wanted if name in done}

    async def delete_topics(self, topics: Iterable[str | Uuid], *, timeout: float | None = None) -> None:
        wanted = names_of(topics)
        deadline = self._calls.deadline(timeout)

        async def once(left: Sequence[str | Uuid]) -> dict[str | Uuid, KafkaError]:
            answer = await self._calls.ask_controller(lambda link: _deletion(left, link, deadline), deadline)
            failures: dict[str | Uuid, KafkaError] = {}
            for result in answer.responses:
                topic = result.topic_id if result.topic_id in left else result.name or ""
                if result.error_code:
                    failures[topic] = failure(
                        result.error_code,
                        result.error_message,
                        f"delete topic {str(topic)!r}",
                        resource=result.name or str(topic),
                        operation="DELETE",
                    )
            return failures

        await self._calls.each(wanted, once, deadline)
        for topic in wanted:
            name = self._engine.cluster.name_of(topic) if isinstance(topic, Uuid) else topic
            if name is not None:
                self._engine.cluster.forget_topic(name)

    async def list_topics(self, *, timeout: float | None = None) -> list[TopicListing]:
        await self._engine.refresh(None, timeout=timeout)
        return [
            TopicListing(view.name, view.topic_id, view.is_internal, len(view.partitions))
            for _, view in sorted(self._engine.cluster.topics.items())
        ]

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        wanted = names_of(names)
        deadline = self._calls.deadline(timeout)
        cluster = self._engine.cluster
        found: dict[str, TopicDescription] = {}

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            await self._engine.refresh(names, timeout=deadline.remaining)
            failures: dict[str, KafkaError] = {}
            for name in names:
                what, code, view = f"describe topic {name!r}", cluster.error_of(name), cluster.topics.get(name)
                if code:
                    failures[name] = failure(code, None, what, resource=name, operation="DESCRIBE")
                elif view is None:
                    failures[name] = StaleMetadataError(f"{what}: the broker's answer leaves it out; try again")
                else:
                    found[name] = _description(view)
            return failures

        await self._calls.each(wanted, once, deadline)
        return {name: found[name] for name in wanted}


def _new_topic(topic: NewTopic | str) -> NewTopic:
    if isinstance(topic, str):
        return NewTopic(topic)
    if not isinstance(topic, NewTopic):
        raise UsageError(f"create_topics: {topic!r} is not a NewTopic, nor a name; write NewTopic('orders')")
    where = f"create topic {topic.name!r}"
    if not isinstance(topic.name, str):
        raise UsageError(f"{where}: the name must be text, as in NewTopic('orders')")
    for name in ("partitions", "replication_factor"):
        number = getattr(topic, name)
        if type(number) is not int:
            raise UsageError(f"{where}: {name}={number!r} must be a whole number, not {type(number).__name__}")
    for name, kind in (("configs", "{'retention.ms': '60000'}"), ("assignments", "{0: [1, 2]}")):
        given = getattr(topic, name)
        if given is not None and not isinstance(given, Mapping):
            raise UsageError(f"{where}: {name}={given!r} must be a dict, as {kind}")
    return topic


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = topic.assignments or {}
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(nodes))
            for number, nodes in assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=None if value is None else str(value))
            for name, value in topic.configs.items()
        ],
    )


def _deletion(topics: Sequence[str | Uuid], connection: Connection, deadline: Deadline) -> DeleteTopicsRequest:
    """The request in the form that a broker knows."""
    names = [topic for topic in topics if not isinstance(topic, Uuid)]
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=milliseconds(deadline))
    version = connection.version_for(_DELETE_TOPICS_KEY)
    if version >= _BY_STATE_FROM_VERSION:
        request.topics = [
            DeleteTopicState(name=None, topic_id=topic) if isinstance(topic, Uuid) else DeleteTopicState(name=topic)
            for topic in topics
        ]
    elif len(names) < len(topics):
        raise UnsupportedVersionError(
            f"topics are deleted by id with DeleteTopics {_BY_STATE_FROM_VERSION} and later, this broker has {version}"
        )
    return request


def _created(result: CreatableTopicResult) -> TopicCreated:
    return TopicCreated(
        name=result.name,
        topic_id=result.topic_id,
        partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs={config.name: config.value for config in result.configs or ()},
    )


def _description(view: TopicView) -> TopicDescription:
    partitions = tuple(view.partitions[number] for number in sorted(view.partitions))
    return TopicDescription(view.name, view.topic_id, view.is_internal, partitions)
