"""Auto-creation of topics: they are created after the Metadata response that reports them as unknown.

As in Apache Kafka, a Metadata request never waits for a topic: the client retries. Topics are created in turns with
other work of the event loop, and the metadata of those in one turn is written together. A node queues a limited number
of names; other topics are created when they are requested again.
Source: kafka.server.{AutoTopicCreationManager, KafkaApis.getTopicMetadata}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.coordinator_runtime.internal_topic import InternalTopic
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import PARTITIONS_PER_TURN, TopicSpec, plan_topic
from kafkaraw.broker.turns import Steps, Turn
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable

WAITING_MAX: Final = 1_000
"""Maximum number of queued topic names of a node."""

_logger = logging.getLogger("kafkaraw.broker")


class AutoCreation:
    """The topics that one node is to create.

    Args:
        controller: makes them.
        config: the node's properties, as they are now.
        internal_topics: internal topics, which have partitions and settings of their own, by name.
    """

    def __init__(
        self, controller: Controller, config: Callable[[], BrokerConfig], internal_topics: Mapping[str, InternalTopic]
    ) -> None:
        self._controller = controller
        self._config = config
        self._internal_topics = internal_topics
        self._waiting: dict[str, TopicSpec] = {}
        self._failures: dict[str, str] = {}
        self._beginning: asyncio.Handle | None = None
        self._is_creating = False

    def want(self, name: str) -> None:
        """Queue a topic for creation; no effect if it is already queued, or the queue is full."""
        self.want_with(TopicSpec(name))

    def failure_of(self, name: str) -> str | None:
        """Return why the last attempt to create a topic failed; None if it did not."""
        return self._failures.get(name)

    def want_with(self, spec: TopicSpec) -> None:
        """Queue a topic with partitions and settings of its own, as `want` does."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting.setdefault(spec.name, spec)
            if self._beginning is None and not self._is_creating:
                self._beginning = asyncio.get_running_loop().call_soon(self._begin)

    def close(self) -> None:
        """Stop creating topics."""
        self._waiting.clear()
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None

    def _begin(self) -> None:
        self._beginning, self._is_creating = None, True
        self._controller.changes.run(self._creating())

    def _creating(self) -> Steps[None]:
        try:
            while self._waiting:
                yield from self._next_together()
                if self._waiting:
                    yield True
        finally:
            self._is_creating = False

    def _next_together(self) -> Steps[None]:
        """Create the next topics, and write their metadata together, within one turn of the loop."""
        turn = Turn()
        made: list[Topic] = []
        partitions = 0
        while self._waiting and partitions < PARTITIONS_PER_TURN and not (partitions and turn.is_over()):
            topic = yield from self._create(self._waiting.pop(next(iter(self._waiting))))
            if topic is not None:
                made.append(topic)
            partitions += 1 if topic is None else topic.partitions_count
        try:
            yield from self._controller.publishing(made)
        except OSError as error:
            _logger.error("cannot create topics automatically: %s", error)

    def _create(self, spec: TopicSpec) -> Steps[Topic | None]:
        name, config = spec.name, self._config()
        self._failures.pop(name, None)
        try:
            if name in self._internal_topics:
                self._internal_topics[name].create_if_missing(self._controller, config)
                return None
            plan = plan_topic(spec, self._controller.catalog, config)
            return (yield from self._controller.making_topic(plan))
        except ApiError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _logger.info("topic %r is not created automatically: %s", name, printable(error.message))
                self._note_failure(name, error.message or error.code.name)
        except OSError as error:
            _logger.error("cannot create topic %r automatically: %s", name, error)
            self._note_failure(name, str(error))
        return None

    def _note_failure(self, name: str, why: str) -> None:
        if len(self._failures) >= WAITING_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = why
