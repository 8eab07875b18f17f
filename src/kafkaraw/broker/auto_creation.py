"""Topics that clients ask for before they exist: made behind the answer that there is no such topic (yet).

As in Apache Kafka, a Metadata request never waits for a topic: the client asks again. Topics are made in turns with
other work of the event loop, and those of a turn are written down together. A node has a bounded number of names
waiting; the rest are made when they are asked for again.
Source: kafka.server.{AutoTopicCreationManager, KafkaApis.getTopicMetadata}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state_topics.state_topic import StateTopic
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import CreationTurn, Wish, plan_topic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable

WAITING_MAX: Final = 1_000
"""Names that may wait on a node."""

_logger = logging.getLogger("kafkaraw.broker")


class AutoCreation:
    """The topics that one node is to create.

    Args:
        controller: makes them.
        config: the node's properties, as they are now.
        state_topics: internal topics, which have partitions and settings of their own, by name.
    """

    def __init__(
        self, controller: Controller, config: Callable[[], BrokerConfig], state_topics: Mapping[str, StateTopic]
    ) -> None:
        self._controller = controller
        self._config = config
        self._state_topics = state_topics
        self._waiting: dict[str, None] = {}
        self._next_turn: asyncio.Handle | None = None

    def want(self, name: str) -> None:
        """Have a topic made soon; nothing happens when it waits already, or too many do."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting[name] = None
            self._schedule()

    def close(self) -> None:
        """Create nothing any more."""
        self._waiting.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def _schedule(self) -> None:
        if self._next_turn is None and self._waiting:
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        turn = CreationTurn(asyncio.get_running_loop().time)
        made: list[Topic] = []
        try:
            while self._waiting and not turn.is_over:
                name = next(iter(self._waiting))
                del self._waiting[name]
                topic = self._create(name)
                if topic is not None:
                    made.append(topic)
                turn.takes(1 if topic is None else topic.partitions_count)
            self._controller.complete_topics(made)
        except OSError as error:
            _logger.error("cannot create topics that clients ask for: %s", error)
        self._schedule()

    def _create(self, name: str) -> Topic | None:
        config = self._config()
        try:
            if name in self._state_topics:
                self._state_topics[name].have(self._controller, config)
                return None
            return self._controller.begin_topic(plan_topic(Wish(name), self._controller.catalog, config))
        except Refusal as refusal:
            if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _logger.info("topic %r, which a client asks for, is not created: %s", name, printable(refusal.message))
        except OSError as error:
            _logger.error("cannot create topic %r, which a client asks for: %s", name, error)
        return None
