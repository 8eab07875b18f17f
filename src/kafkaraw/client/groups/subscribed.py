"""What a consumer is subscribed to: topics by name or by pattern, and whether they exist.

A pattern is a regular expression that must match the whole name; it is applied here, to all topics of the cluster but
Kafka's own, and again whenever the metadata are renewed. With the protocol of KIP-848 a pattern given as text is the
broker's business (RE2). Topics that do not exist are looked for every few seconds: they may be made any time.
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

log = logging.getLogger(__name__)

MISSING_LOOK_MS: Final = 5_000
"""How often topics are looked for that do not exist."""
LOOK_AGAIN_MS: Final = 1_000
"""When to look again after no broker gave an answer."""


class Subscribed:
    """The subscription of one consumer.

    Args:
        engine: the way to the cluster.
        config: the consumer's settings.

    Attributes:
        wanted: what the membership machine is to be told.
        is_active: whether there is a subscription.
        is_known: whether `wanted` can be told.
    """

    def __init__(self, engine: Engine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        self._pattern: re.Pattern[str] | None = None
        self._names: frozenset[str] = frozenset()
        self._warned: set[str] = set()
        self._look_at_ms = 0
        self.wanted = Subscription()
        self.is_active = False
        self.is_known = False

    def subscribe(self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None) -> None:
        """Want these.

        Raises:
            UsageError: neither or both are given, a name is no name, or the pattern is no pattern.
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
        self._look_at_ms = 0
        self.is_known = self._pattern is None
        self.is_active = True
        if broker_side:
            self.wanted = Subscription(pattern=str(pattern))
        elif self._pattern is None:
            self.wanted = Subscription(self._names)
        else:
            self.wanted = self._matching()

    def clear(self) -> None:
        """Want nothing any more."""
        self._names, self._pattern, self.wanted, self.is_active = frozenset(), None, Subscription(), False

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to look at the cluster's topics."""
        return self.is_active and self.wanted.pattern is None and now_ms >= self._look_at_ms

    async def look(self, now_ms: int, others: Iterable[str] = ()) -> None:
        """Look at the cluster's topics, and see what is wanted now.

        Args:
            now_ms: the time.
            others: topics to look at, too.

        Raises:
            KafkaError: no broker gave an answer.
        """
        self._look_at_ms = now_ms + LOOK_AGAIN_MS
        names, pattern = self._names, self._pattern
        if pattern is None:
            create = self._config.allow_auto_create_topics
            await self._engine.refresh(names | set(others), allow_auto_create=create)
        else:
            await self._engine.refresh(None)
        if (names, pattern) != (self._names, self._pattern):
            return  # the user has changed their mind meanwhile: the next look is due at once
        if pattern is not None:
            self.wanted = self._matching()
            self.is_known = True
        incomplete = self._missing() or not self.wanted.topics
        every_ms = self._config.metadata_max_age_ms
        self._look_at_ms = now_ms + (min(every_ms, MISSING_LOOK_MS) if incomplete else every_ms)
        for topic in sorted(set(self._missing()) - self._warned):
            if self._is_refused(topic):
                continue  # the next call raises why
            self._warned.add(topic)
            log.warning("group %r: topic %r does not exist (yet); looking for it", self._config.group_id, topic)

    def problem(self) -> KafkaError | None:
        """Why a topic can never be read; None when there is no such topic."""
        for topic in sorted(self._names):
            if self._is_refused(topic):
                code = self._engine.cluster.error_of(topic)
                error = error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")
                return with_principal(error, self._config)
        return None

    def topics_of(self, names: Iterable[str]) -> Topics:
        """Those of these topics that exist, as assignors want them."""
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
        """Whether brokers will not say anything of this topic, however long one waits."""
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
