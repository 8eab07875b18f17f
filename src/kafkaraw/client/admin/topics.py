"""Topics for the admin client: create, delete, list and describe them.

A method for several topics sends one request, and raises if one topic failed; the message names each topic that
failed. Retriable errors (a controller that moved) are retried until the timeout.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kafkaraw.client.admin.calls import Calls, failure, milliseconds, names_of
from kafkaraw.client.admin.cluster import NOT_TOLD, operations_in
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.connection import Connection
from kafkaraw.core.cluster import ClusterView, PartitionView, TopicView
from kafkaraw.errors import KafkaError, StaleMetadataError, UnsupportedVersionError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation
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
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TopicKey = TypeVar("TopicKey", bound=str | Uuid)

_METADATA_KEY: Final = 3
_DESCRIBED_BY_ID_FROM_VERSION: Final = 12
_AUTO_CREATION_FROM_VERSION: Final = 4
_DELETE_TOPICS_KEY: Final = 20
_BY_STATE_FROM_VERSION: Final = 6


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
    """A topic with its partitions, in order.

    Attributes:
        name: its name.
        topic_id: its id; zero from a broker before 2.8.
        is_internal: whether it is an internal topic of Kafka.
        partitions: its partitions, in order.
        authorized_operations: the operations on the topic that this client may do; None when not requested.
    """

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    authorized_operations: frozenset[AclOperation] | None = None

    def _repr_html_(self) -> str:
        """Return what notebooks show: the partitions, with what is wrong with them."""
        from kafkaraw.notebooks import table, tables

        rows = (
            (each.partition, each.leader_id if each.leader_id >= 0 else "none", _ids(each.replica_nodes),
             _ids(each.isr_nodes), _ids(each.offline_replicas))
            for each in self.partitions
        )  # fmt: skip
        under = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in self.partitions)
        title = f"topic {self.name}: {len(self.partitions):,} partitions, {under:,} under-replicated"
        names = ("partition", "leader", "replicas", "in sync", "offline")
        return tables(title, table(names, rows, count=len(self.partitions)))


def _ids(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


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
        self, topics: Iterable[TopicKey], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[TopicKey, TopicDescription]:
        wanted = names_of(topics)
        deadline = self._calls.deadline(timeout)
        found: dict[TopicKey, TopicDescription] = {}

        async def once(left: Sequence[TopicKey]) -> dict[TopicKey, KafkaError]:
            names = [topic for topic in left if isinstance(topic, str)]
            ids = [topic for topic in left if isinstance(topic, Uuid)]
            described: dict[str | Uuid, TopicDescription | int] = {}
            if names and authorized_operations:
                described |= await self._metadata(names, authorized_operations, deadline)
            elif names:
                described |= await self._refreshed(names, deadline)
            if ids:  # a Metadata request has either names or ids
                described |= await self._metadata(ids, authorized_operations, deadline)
            failures: dict[TopicKey, KafkaError] = {}
            for topic in left:
                what, outcome = f"describe topic {str(topic)!r}", described.get(topic)
                if isinstance(outcome, TopicDescription):
                    found[topic] = outcome
                elif outcome is None:
                    failures[topic] = StaleMetadataError(f"{what}: the broker's answer leaves it out; try again")
                else:
                    failures[topic] = failure(outcome, None, what, resource=str(topic), operation="DESCRIBE")
            return failures

        await self._calls.each(wanted, once, deadline)
        return {topic: found[topic] for topic in wanted}

    async def _refreshed(self, names: Sequence[str], deadline: Deadline) -> dict[str | Uuid, TopicDescription | int]:
        """Refresh the client's own metadata, and take the descriptions or error codes of topics from it."""
        await self._engine.refresh(names, timeout=deadline.remaining)
        cluster = self._engine.cluster
        found: dict[str | Uuid, TopicDescription | int] = {}
        for name in names:
            code, view = cluster.error_of(name), cluster.topics.get(name)
            if code or view is not None:
                found[name] = code if code or view is None else _description(view, NOT_TOLD)
        return found

    async def _metadata(
        self, topics: Sequence[str | Uuid], authorized_operations: bool, deadline: Deadline
    ) -> dict[str | Uuid, TopicDescription | int]:
        """Ask for the metadata of topics, all by name or all by id; returns descriptions or error codes."""

        def for_version(connection: Connection) -> MetadataRequest:
            version = connection.version_for(_METADATA_KEY)
            if isinstance(topics[0], Uuid) and version < _DESCRIBED_BY_ID_FROM_VERSION:
                raise UnsupportedVersionError(
                    f"topics are described by id with Metadata {_DESCRIBED_BY_ID_FROM_VERSION} and later, this broker "
                    f"has {version}"
                )
            return MetadataRequest(
                topics=[
                    MetadataRequestTopic(topic_id=topic, name=None)
                    if isinstance(topic, Uuid)
                    else MetadataRequestTopic(name=topic)
                    for topic in topics
                ],
                allow_auto_topic_creation=version < _AUTO_CREATION_FROM_VERSION,  # older requests have no such field
                include_topic_authorized_operations=authorized_operations,
            )

        answer = await self._calls.ask_any(for_version, deadline)
        view = ClusterView()
        view.update(answer, 0)
        found: dict[str | Uuid, TopicDescription | int] = {}
        for result in answer.topics:
            name = result.name or ""
            outcome = result.error_code or _description(view.topics[name], result.topic_authorized_operations)
            found[name] = found[result.topic_id] = outcome
        return found


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


def _description(view: TopicView, operations: int) -> TopicDescription:
    return TopicDescription(
        view.name,
        view.topic_id,
        view.is_internal,
        tuple(view.partitions[number] for number in sorted(view.partitions)),
        None if operations == NOT_TOLD else operations_in(operations),
    )
