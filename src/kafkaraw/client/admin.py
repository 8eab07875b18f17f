"""`AsyncAdmin`: create, delete, list and describe topics.

One method per operation. A method about several topics does them all in one request and raises when one of them failed,
naming each; what may be tried again (a controller that moved, a topic not known everywhere yet) is, until the timeout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaraw.client.config import INT32_MAX, AdminConfig, parse
from kafkaraw.client.connection import Connection
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.engine import Engine, reply
from kafkaraw.client.metrics import Metrics
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.cluster import PartitionView, TopicView
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import BrokerError, KafkaError, KafkaTimeoutError, NetworkError, RetriableError, UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkaraw.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from types import TracebackType

_DELETE_TOPICS_KEY = 20
_BY_STATE_FROM_VERSION = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: its name.
        partitions: how many; -1 is the broker's default.
        replication_factor: copies of each; -1 is the broker's default.
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
    """What a broker says about a topic that it created (or would, with `validate_only`).

    Attributes:
        name: its name.
        topic_id: its id; zero when only validated, or from a broker before 2.8.
        partitions: how many; -1 when the broker does not say.
        replication_factor: copies of each; -1 when the broker does not say.
        configs: all its settings, defaults included; empty when the broker does not say.
    """

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in short."""

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


class AsyncAdmin:
    """Manages topics. The connection is made on first use.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `AdminConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
    """

    def __init__(self, *, runtime: Runtime | None = None, **settings: object) -> None:
        self._config = parse(AdminConfig, settings)
        self._engine = Engine.on(self._config, runtime)
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, timeout: float | None = None, validate_only: bool = False
    ) -> dict[str, TopicCreated]:
        """Create topics, and wait until the cluster knows them.

        Args:
            topics: what to create; a name alone stands for `NewTopic(name)`.
            timeout: seconds; None is `default_api_timeout_ms`.
            validate_only: only ask whether it could be done.

        Raises:
            BrokerError: one could not be created: it exists, its name or a setting is wrong. When several failed, the
                message names each, and the code is the first one's. The others are created.
            KafkaError: no broker gave an answer in time.
        """
        wanted = {topic.name: topic for topic in map(_new_topic, topics)}
        deadline = self._engine.deadline(timeout)
        done: dict[str, TopicCreated] = {}

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=_milliseconds(deadline),
                validate_only=validate_only,
            )
            answer = await self._engine.request_controller(request, timeout=deadline.remaining)
            results = reply(answer, CreateTopicsResponse).topics
            done.update((result.name, _created(result)) for result in results if not result.error_code)
            return {result.name: _failure(result, "create") for result in results if result.error_code}

        await self._each(list(wanted), once, deadline)
        if not validate_only:
            await self._engine.wait_for_topics(wanted, deadline.remaining, allow_auto_create=False)
        return {name: done[name] for name in wanted if name in done}

    async def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete topics and all that is in them.

        Args:
            names: which.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: one could not be deleted, as when it does not exist; as in `create_topics`.
            KafkaError: no broker gave an answer in time.
        """
        wanted = _names(names)
        deadline = self._engine.deadline(timeout)

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            def for_version(connection: Connection) -> DeleteTopicsRequest:
                request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=_milliseconds(deadline))
                if connection.version_for(_DELETE_TOPICS_KEY) >= _BY_STATE_FROM_VERSION:
                    request.topics = [DeleteTopicState(name=name) for name in names]
                return request

            answer = await self._engine.request_controller(for_version, timeout=deadline.remaining)
            results = reply(answer, DeleteTopicsResponse).responses
            return {result.name or "": _failure(result, "delete") for result in results if result.error_code}

        await self._each(wanted, once, deadline)
        for name in wanted:
            self._engine.cluster.forget_topic(name)

    async def list_topics(self, *, timeout: float | None = None) -> list[TopicListing]:
        """All topics that this client may see, by name, Kafka's internal ones included.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker gave an answer in time.
        """
        await self._engine.refresh(None, timeout=timeout)
        return [
            TopicListing(view.name, view.topic_id, view.is_internal, len(view.partitions))
            for _, view in sorted(self._engine.cluster.topics.items())
        ]

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas.

        Args:
            names: which.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: one cannot be described, as when it does not exist; as in `create_topics`.
            KafkaError: no broker gave an answer in time.
        """
        wanted = _names(names)
        deadline = self._engine.deadline(timeout)

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            await self._engine.refresh(names, timeout=deadline.remaining)
            codes = {name: self._engine.cluster.error_of(name) for name in names}
            return {name: error_for(code, f"describe topic {name!r}") for name, code in codes.items() if code}

        await self._each(wanted, once, deadline)
        return {name: _description(self._engine.cluster.topics[name]) for name in wanted}

    def metrics(self) -> Metrics:
        """What this client has counted about each broker so far; may be called at any time, after `close`, too.

        Returns:
            by node id as text (and "bootstrap"), then by name: requests, requests_failed, in_flight, latency_count,
            latency_sum_s, latency_max_s, latency_histogram (answers within each bound in seconds), bytes_in, bytes_out,
            throttle_time_s, connections_opened, connections_failed, connections_closed.
        """
        return self._engine.metrics.as_dict()

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._engine.close()

    # -- inside

    async def _each(
        self,
        names: Sequence[str],
        once: Callable[[Sequence[str]], Awaitable[dict[str, KafkaError]]],
        deadline: Deadline,
    ) -> None:
        """Do something for every name, trying again with those for which that makes sense."""
        left, attempt = list(names), 0
        final: dict[str, KafkaError] = {}
        while left:
            failures = await self._try(once, left, deadline)
            again = [name for name, error in failures.items() if _passing(error)]
            final.update((name, error) for name, error in failures.items() if name not in again)
            delay_s = self._backoff.delay_ms(attempt, self._engine.runtime.rng) / 1000
            if again and deadline.remaining <= delay_s:
                final.update((name, failures[name]) for name in again)
                break
            if again:
                await deadline.sleep(delay_s)
                with contextlib.suppress(NetworkError, KafkaTimeoutError):  # the next try says what is wrong
                    await self._engine.refresh((), timeout=deadline.remaining)
            left, attempt = again, attempt + 1
        _raise_first(final)

    async def _try(
        self,
        once: Callable[[Sequence[str]], Awaitable[dict[str, KafkaError]]],
        names: Sequence[str],
        deadline: Deadline,
    ) -> dict[str, KafkaError]:
        """One try; an answer lost or late counts for every name, since nobody knows how far it went."""
        try:
            return await once(names)
        except (NetworkError, KafkaTimeoutError) as error:
            if not self._engine.cluster.brokers:
                raise  # the cluster was not even found
            return dict.fromkeys(names, error)


def _passing(error: KafkaError) -> bool:
    """Whether trying again makes sense. An unknown topic is the answer here, not something to wait for."""
    if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    return isinstance(error, RetriableError)


def _raise_first(failures: Mapping[str, KafkaError]) -> None:
    if not failures:
        return
    errors = list(failures.values())
    first = errors[0]
    if len(errors) > 1 and isinstance(first, BrokerError):
        texts = "; ".join([first.message, *map(str, errors[1:])])
        raise type(first)(texts, code=first.code, name=first.name, retriable=first.retriable) from first
    raise first


def _failure(result: CreatableTopicResult | DeletableTopicResult, verb: str) -> KafkaError:
    said = f": {result.error_message}" if result.error_message else ""
    return error_for(result.error_code, f"{verb} topic {result.name!r}{said}")


def _new_topic(topic: NewTopic | str) -> NewTopic:
    if isinstance(topic, str):
        return NewTopic(topic)
    if isinstance(topic, NewTopic):
        return topic
    raise UsageError(f"{topic!r} is not a NewTopic, nor a name")


def _names(names: Iterable[str]) -> list[str]:
    """A list of names; a lone string is a mistake that would otherwise be taken letter by letter."""
    if isinstance(names, str):
        raise UsageError(f"{names!r} is one name: give a list of names, [{names!r}]")
    return list(dict.fromkeys(names))


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


def _milliseconds(deadline: Deadline) -> int:
    return max(1, round(deadline.at_most(INT32_MAX // 1000) * 1000))
