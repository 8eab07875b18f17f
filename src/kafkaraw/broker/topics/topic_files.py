"""The files that store the cluster metadata over a restart. Text in, text out.

`meta.properties` (cluster id, node id) and `partition.metadata` (topic id) have Kafka's formats. Topics, their settings
and their partition states, which Kafka stores in its metadata log, are in `kafkaraw-topics.json`.
Source: org.apache.kafka.metadata.properties.MetaProperties, org.apache.kafka.storage...PartitionMetadataFile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkaraw.broker.partitions.elections import PartitionState, first_state
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid

META_FILE: Final = "meta.properties"
PARTITION_FILE: Final = "partition.metadata"
TOPICS_FILE: Final = "kafkaraw-topics.json"
TOPICS_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose data directory it is."""

    cluster_id: str
    node_id: int
    directory_id: str


def write_meta(meta: MetaProperties) -> str:
    """The text of `meta.properties`."""
    return f"version=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\ndirectory.id={meta.directory_id}\n"


def read_meta(text: str) -> MetaProperties:
    """Read `meta.properties`.

    Raises:
        ConfigError: it is not one of version 1.
    """
    entries = dict(_pairs(text, "="))
    try:
        if entries["version"] != "1":
            raise ConfigError(f"{META_FILE}: version {entries['version']} is not known, only 1 is")
        return MetaProperties(entries["cluster.id"], int(entries["node.id"]), entries.get("directory.id", ""))
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{META_FILE} in the data directory is damaged: {error}") from error


def _pairs(text: str, separator: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            yield name.strip(), value.strip()


def write_partition_metadata(topic_id: Uuid) -> str:
    """The text of a `partition.metadata`."""
    return f"version: 0\ntopic_id: {topic_id}"


def read_partition_metadata(text: str) -> Uuid | None:
    """The topic id in a `partition.metadata`; None when it is damaged."""
    entries = dict(_pairs(text, ":"))
    try:
        return Uuid.parse(entries["topic_id"]) if entries.get("version") == "0" else None
    except (KeyError, ValueError):
        return None


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
            [state.leader, list(state.isr), state.leader_epoch, state.partition_epoch] for state in states
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
        PartitionState(replicas, int(leader), tuple(int(node) for node in isr), int(leader_epoch), int(partition_epoch))
        for replicas, (leader, isr, leader_epoch, partition_epoch) in zip(topic.assignments, rows, strict=False)
    ]
    return topic, states
