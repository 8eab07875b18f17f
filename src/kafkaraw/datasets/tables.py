"""The topics of a session as tables: formats are found once, and a query sees one snapshot of each topic.

Must not know DuckDB. Start at `SessionTables.begin`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from kafkaraw.datasets.dataset import KafkaDataset, Source, check_formats, with_formats
from kafkaraw.datasets.origins import Origin, Topics
from kafkaraw.datasets.statements import Call
from kafkaraw.errors import UsageError
from kafkaraw.ranges.planning import OffsetRange

_ROWS_PER_BATCH: Final = 10_000
_BYTES_PER_BATCH: Final = 16 << 20


@dataclass(frozen=True)
class TableDefaults:
    """How a topic is decoded of which a query says no more.

    Attributes:
        key: how keys are decoded.
        value: how values are decoded.
        formats: by topic, how its values are decoded.
    """

    key: str
    value: str
    formats: Mapping[str, str]


class SessionTables:
    """What a session knows of topics.

    Args:
        source: where they are, without formats.
        defaults: how they are decoded.

    Raises:
        UsageError: there is no such format.
    """

    def __init__(self, source: Source, defaults: TableDefaults) -> None:
        for value in (defaults.value, *defaults.formats.values()):
            check_formats(defaults.key, value)
        self.source: Source = source
        self.defaults: TableDefaults = defaults
        self.known: dict[tuple[Topics, str, str, str | None], Source] = {}
        self.seen: set[str] = set()

    def begin(self) -> QueryTables:
        """Return the tables of a query, as of now."""
        return QueryTables(self, self.source.origin.refreshed())


class QueryTables:
    """The topics that a query reads.

    Args:
        session: what is known of topics.
        origin: where they are, as of now.

    Attributes:
        read: the data sets that the query reads.
    """

    def __init__(self, session: SessionTables, origin: Origin) -> None:
        self.read: list[KafkaDataset] = []
        self._session = session
        self._origin = origin
        self._snapshots: dict[Topics, list[OffsetRange]] = {}

    @cached_property
    def topics(self) -> list[str]:
        """The names of all topics; Kafka's internal ones, too."""
        return self._origin.topics()

    def among(self, names: set[str]) -> set[str]:
        """Return which of these names are topics; those that the session has read are not asked for again."""
        seen = self._session.seen
        if not names <= seen:
            seen |= names & set(self.topics)
        return names & seen

    def called(self, call: Call) -> KafkaDataset:
        """Return what one of our functions stands for; errors as for `dataset`."""
        if call.function != "topics":
            return self.dataset((call.topic,), call.arguments)
        try:
            return self.dataset(re.compile(call.topic), call.arguments)
        except re.error as error:
            raise UsageError(f"topics({call.topic!r}): not a regex: {error}") from None

    def dataset(self, topics: Topics, arguments: Mapping[str, str]) -> KafkaDataset:
        """Return the data set of topics; errors as for `kafkaraw.dataset`."""
        defaults = self._session.defaults
        by_topic = None if isinstance(topics, re.Pattern) else defaults.formats.get(topics[0])
        key, value = arguments.get("key", defaults.key), arguments.get("value", by_topic or defaults.value)
        check_formats(key, value)
        if topics not in self._snapshots:
            self._snapshots[topics] = self._origin.snapshot(topics)
        plain = KafkaDataset(replace(self._session.source, topics=topics, origin=self._origin), self._snapshots[topics])
        formats = (topics, key, value, arguments.get("subject"))
        known = self._session.known.get(formats)
        if known is not None:
            made = KafkaDataset(replace(known, origin=self._origin), plain.ranges)
        else:
            made = with_formats(plain, key, value, None, arguments.get("subject"))
            if plain.offsets_count:  # an empty topic does not tell its columns yet
                self._session.known[formats] = made.source
        self.read.append(made)
        return made.tail(int(arguments["tail"])) if "tail" in arguments else made

    @property
    def rows_per_batch(self) -> int:
        """How many rows of a result are about 16 MiB if they are as large as the records."""
        largest = max((each.source.record_bytes or 0 for each in self.read), default=0)
        return max(1, min(_ROWS_PER_BATCH, int(_BYTES_PER_BATCH / largest) if largest else _ROWS_PER_BATCH))
