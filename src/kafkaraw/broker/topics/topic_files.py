"""The file that stores the cluster metadata over a restart, `kafkaraw-topics.json`. Text in, text out.

It has the topics, their settings and their partition states, which Kafka stores in its metadata log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkaraw.broker.partitions.elections import PartitionState, first_state
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import Uuid

TOPICS_FILE: Final = "kafkaraw-topics.json"
TOPICS_VERSION: Final = 1


StoredTopic = tuple[Topic, Sequence[PartitionState]]
"""A topic, with the states of its partitions."""


class TopicsWriter:
    """Makes the text of `kafkaraw-topics.json`; a line is made again only when its topic has changed."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[Topic, Sequence[PartitionState], str]] = {}

    def text(self, topics: Iterable[StoredTopic], deleting: Iterable[Uuid] = ()) -> str:
        """The text. States that are those of new partitions go without saying.

        Args:
            topics: the topics.
            deleting: topics that are gone, whose files are being removed.
        """
        lines: dict[str, tuple[Topic, Sequence[PartitionState], str]] = {}
        for topic, states in topics:
            known = self._lines.get(topic.name)
            if known is None or known[0] is not topic or known[1] != states:
                known = (topic, states, _line(topic, states))
            lines[topic.name] = known
        self._lines = lines
        # A line for each topic: to be read by people, and made by the compiled encoder, which cannot indent.
        joined = ",\n".join(line for _, _, line in lines.values())
        ids = [str(topic_id) for topic_id in deleting]
        more = f', "deleting": {json.dumps(ids)}' if ids else ""
        return f'{{"version": {TOPICS_VERSION}{more}, "topics": [\n{joined}\n]}}\n'


def _line(topic: Topic, states: Sequence[PartitionState]) -> str:
    row: dict[str, object] = {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "assignments": [list(brokers) for brokers in topic.assignments],
        "configs": dict(topic.configs),
    }
    if any(state != first_state(state.replicas) for state in states):
        row["partitions"] = [
            [
                *(state.leader, list(state.isr), state.leader_epoch, state.partition_epoch),
                *([list(state.adding), list(state.removing)] if state.is_reassigned else ()),
            ]
            for state in states
        ]
    return json.dumps(row)


def read_deleting(text: str) -> list[Uuid]:
    """Read from `kafkaraw-topics.json` the deleted topics whose files may still exist.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        return [Uuid.parse(topic_id) for topic_id in json.loads(text).get("deleting", ())]
    except (TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{TOPICS_FILE} in the data directory is damaged: {error}") from error


def read_topics(text: str) -> list[StoredTopic]:
    """Read `kafkaraw-topics.json`.

    Raises:
        ConfigError: it is damaged, or of a newer version.
    """
    try:
        content = json.loads(text)
        if content["version"] != TOPICS_VERSION:
            raise ConfigError(f"{TOPICS_FILE}: version {content['version']} is not known, only {TOPICS_VERSION} is")
        return [_read_topic(row) for row in content["topics"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{TOPICS_FILE} in the data directory is damaged: {error}") from error


def _read_topic(row: Mapping[str, Any]) -> StoredTopic:
    topic = Topic(
        name=str(row["name"]),
        topic_id=Uuid.parse(row["topic_id"]),
        assignments=tuple(tuple(int(broker) for broker in brokers) for brokers in row["assignments"]),
        configs={str(name): str(value) for name, value in row["configs"].items()},
    )
    rows = row.get("partitions", ())
    states = [
        PartitionState(
            replicas, int(leader), _nodes(isr), int(leader_epoch), int(partition_epoch), *map(_nodes, reassignment)
        )
        for replicas, (leader, isr, leader_epoch, partition_epoch, *reassignment) in zip(
            topic.assignments, rows, strict=False
        )
    ]
    return topic, states


def _nodes(ids: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(node) for node in ids)
