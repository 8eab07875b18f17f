"""The subscription of a consumer: topics by name or by pattern, and whether they exist.

A pattern is a regex that must match the whole name. The client evaluates it against all topics of the cluster except
internal ones, and again after each metadata refresh. With the consumer protocol, the broker evaluates a pattern that is
given as text (RE2). The metadata of topics that do not exist are refreshed every few seconds.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from kafkaraw.client.arguments import check_topic_name
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.group.assignors import Topics
from kafkaraw.core.group.events import Subscription
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable

log: logging.Logger = logging.getLogger(__name__)

REFRESH_MISSING_MS: Final = 5_000
"""How often to refresh the metadata while a subscribed topic does not exist."""
RETRY_MS: Final = 1_000
"""When to refresh again after a failure."""


class SubscribedTopics:
    """The subscription of one consumer.

    Args:
        engine: the client's connections and metadata.
        config: the consumer's settings.

    Attributes:
        subscription: for the membership machine.
        is_active: whether there is a subscription.
        is_known: whether `subscription` is complete: the topics that match a pattern are unknown at first.
    """

    def __init__(self, engine: Engine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        self._pattern: re.Pattern[str] | None = None
        self._names: frozenset[str] = frozenset()
        self._warned: set[str] = set()
        self._refresh_at_ms = 0
        self.subscription: Subscription = Subscription()
        self.is_active: bool = False
        self.is_known: bool = False

    def subscribe(self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None) -> None:
        """Subscribe to topics or to a pattern.

        Raises:
            UsageError: neither or both are given, or one of them is invalid.
        """
        if (topics is None) == (pattern is None):
            raise UsageError("subscribe: give topics or a pattern")
        if topics is not None and not isinstance(topics, Iterable):
            raise UsageError(f"subscribe({topics!r}): must be names of topics, as in subscribe(['orders'])")
        if pattern is not None and not isinstance(pattern, str | re.Pattern):
            raise UsageError(f"subscribe: pattern {pattern!r} must be text or a compiled regular expression")
        names = [topics] if isinstance(topics, str) else list(topics or ())
        checked: list[object] = list(names)
        wrong = [name for name in checked if not isinstance(name, str) or not name]
        if wrong or (pattern is None and not names):
            raise UsageError(f"subscribe({names!r}): must be names of topics; await unsubscribe() ends a subscription")
        for name in names:
            check_topic_name(name, "subscribe")
        broker_side = isinstance(pattern, str) and self._config.group_protocol == "consumer"
        try:
            self._pattern = None if pattern is None or broker_side else re.compile(pattern)
        except re.error as error:
            raise UsageError(f"subscribe: pattern {pattern!r} is not a regular expression: {error}") from None
        self._names = frozenset(names)
        self._refresh_at_ms = 0
        self.is_known = self._pattern is None
        self.is_active = True
        if broker_side:
            self.subscription = Subscription(pattern=str(pattern))
        elif self._pattern is None:
            self.subscription = Subscription(self._names)
        else:
            self.subscription = self._matching()

    def clear(self) -> None:
        """Unsubscribe."""
        self._names, self._pattern, self.subscription, self.is_active = frozenset(), None, Subscription(), False

    def is_refresh_due(self, now_ms: int) -> bool:
        """Return whether it is time to refresh the metadata."""
        return self.is_active and self.subscription.pattern is None and now_ms >= self._refresh_at_ms

    async def refresh(self, now_ms: int, others: Iterable[str] = ()) -> None:
        """Refresh the metadata, and update `subscription`.

        Args:
            now_ms: the time.
            others: further topics to refresh.

        Raises:
            KafkaError: no broker has answered.
        """
        self._refresh_at_ms = now_ms + RETRY_MS
        names, pattern = self._names, self._pattern
        if pattern is None:
            create = self._config.allow_auto_create_topics
            await self._engine.refresh(names | set(others), allow_auto_create=create)
        else:
            await self._engine.refresh(None)
        if (names, pattern) != (self._names, self._pattern):
            return  # the subscription has changed meanwhile: the next refresh is due at once
        if pattern is not None:
            self.subscription = self._matching()
            self.is_known = True
        incomplete = self._missing() or not self.subscription.topics
        every_ms = self._config.metadata_max_age_ms
        self._refresh_at_ms = now_ms + (min(every_ms, REFRESH_MISSING_MS) if incomplete else every_ms)
        for topic in sorted(set(self._missing()) - self._warned):
            if self._is_refused(topic):
                continue  # the next call raises why
            self._warned.add(topic)
            log.warning("group %r: topic %r does not exist yet; waiting for it", self._config.group_id, topic)

    def error(self) -> KafkaError | None:
        """Return the error of a subscribed topic that cannot be read, however long one waits; None if there is none."""
        for topic in sorted(self._names):
            if self._is_refused(topic):
                code = self._engine.cluster.error_of(topic)
                error = error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")
                return with_principal(error, self._config)
        return None

    def topics_of(self, names: Iterable[str]) -> Topics:
        """Return the racks of each partition, for those of these topics that exist."""
        cluster = self._engine.cluster
        return {
            name: [
                frozenset(
                    broker.rack
                    for node_id in view.partitions[number].replica_nodes
                    if (broker := cluster.brokers.get(node_id)) is not None and broker.rack
                )
                for number in sorted(view.partitions)
            ]
            for name in names
            if (view := cluster.topics.get(name)) is not None and view.partitions
        }

    # -- inside

    def _is_refused(self, topic: str) -> bool:
        """Return whether brokers refuse to describe this topic, and will go on doing so."""
        code = self._engine.cluster.error_of(topic)
        return code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) and not is_retriable(code)

    def _missing(self) -> list[str]:
        return [name for name in self._names if name not in self._engine.cluster.topics]

    def _matching(self) -> Subscription:
        pattern = self._pattern
        assert pattern is not None
        matching = frozenset(
            name
            for name, view in self._engine.cluster.topics.items()
            if not view.is_internal and pattern.fullmatch(name)
        )
        return Subscription(matching, matches=lambda name: pattern.fullmatch(name) is not None)
