"""Makes and checks the topics of a pipeline, with the client: targets, dead letters, replays.

Must not read or write records, nor import pyspark. Start at `create_topics`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkaraw.client.admin import ConfigResource, NewTopic
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.errors import AuthorizationError, BrokerError
from kafkaraw.pipelines.letters import LARGEST_RECORD
from kafkaraw.pipelines.model import Dataset, Pipeline, PipelineError, Settings, TopicTarget
from kafkaraw.protocol.error_codes import ErrorCode

_log = logging.getLogger(__name__)

_FOREVER: Final = str(2**63 - 1)
KEPT: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(LARGEST_RECORD + (1 << 20)),
    "message.timestamp.type": "CreateTime",
}
"""Configuration of dead-letter and replay topics: records keep their timestamps, so retention by time would delete old
ones immediately."""
_ANY_TIMESTAMP: Final = {"message.timestamp.before.max.ms": _FOREVER, "message.timestamp.after.max.ms": _FOREVER}
"""Since Kafka 3.6, whose default refuses timestamps more than one hour ahead."""

_PREFIX: Final = "kafka."


def client_of(kind: Any, settings: Settings, **own: object) -> Any:  # noqa: ANN401 -- one of the clients
    """Return a client with the settings of a pipeline, which have the names of Java's clients.

    Args:
        kind: `Producer`, `Consumer` or `Admin`.
        settings: of the pipeline.
        own: settings of the client that override them, by its own names.

    Raises:
        PipelineError: no bootstrap servers are set.
        ConfigError: a setting is wrong.
    """
    properties = {name.removeprefix(_PREFIX): value for name, value in settings.kafka.items()}
    if not properties.get("bootstrap.servers"):
        raise PipelineError(
            "the configuration has no kafkaraw.kafka.bootstrap.servers: add it to the `configuration` of "
            "spark-pipeline.yml, such as kafkaraw.kafka.bootstrap.servers: localhost:9092"
        )
    return kind.from_properties(properties, **own)


def create_topics(pipeline: Pipeline, with_dead_letters: bool) -> None:
    """Make the topics of a pipeline that do not exist, and check the targets that do.

    Args:
        pipeline: the pipeline. Without settings of Kafka, nothing is made.
        with_dead_letters: whether the dead-letter and the replay topic are needed: flows read topics.

    Raises:
        PipelineError: a target exists with another number of partitions, or another configuration.
        KafkaError: the brokers cannot be reached, or refuse.
    """
    settings = pipeline.settings
    targets = [each for each in pipeline.datasets if each.topic is not None]
    own = (settings.dead_letter_topic, settings.replay_topic) if with_dead_letters else ()
    if not settings.kafka or not (targets or own):
        return
    with client_of(Admin, settings) as admin:
        for name in own:
            _make_own(admin, name)
        for each in targets:
            assert each.topic is not None, "the dataset is a topic"
            target = each.topic
            if not _make(admin, NewTopic(target.name, target.partitions or -1, configs=dict(target.config))):
                _check(admin, target, each)


def _make_own(admin: Admin, name: str) -> None:
    try:
        _make(admin, NewTopic(name, 1, configs={**KEPT, **_ANY_TIMESTAMP}))
    except BrokerError as error:
        if error.code != ErrorCode.INVALID_CONFIG:
            raise
        _make(admin, NewTopic(name, 1, configs=KEPT))


def _make(admin: Admin, topic: NewTopic) -> bool:
    """Make a topic; return False if it exists."""
    try:
        admin.create_topics([topic])
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def _check(admin: Admin, target: TopicTarget, dataset: Dataset) -> None:
    """Compare an existing topic with its definition."""
    different = []
    if target.partitions is not None:
        found = len(admin.describe_topics([target.name])[target.name].partitions)
        if found != target.partitions:
            different.append(f"has {found} partitions, not partitions={target.partitions}")
    if target.config:
        different += _different_config(admin, target)
    if different:
        raise PipelineError(
            f"topic {target.name!r} {' and '.join(different)}: change the definition, or the topic",
            location=dataset.location,
            dataset=dataset.name,
        )


def _different_config(admin: Admin, target: TopicTarget) -> list[str]:
    resource = ConfigResource.topic(target.name)
    try:
        entries = admin.describe_configs([resource], names=list(target.config))[resource]
    except AuthorizationError as error:
        _log.warning("the configuration of topic %s cannot be checked: %s", target.name, error)
        return []
    present = {name: entries[name].value if name in entries else None for name in target.config}
    return [
        f"has {name}={present[name]}, not {declared}"
        for name, declared in target.config.items()
        if present[name] != str(declared)
    ]


def topic_ids(pipeline: Pipeline, names: Iterable[str]) -> Mapping[str, str]:
    """Return the ids of topics, by name; those that do not exist are left out."""
    wanted = set(names)
    if not wanted or not pipeline.settings.kafka:
        return {}
    with client_of(Admin, pipeline.settings) as admin:
        return {topic.name: str(topic.topic_id) for topic in admin.list_topics() if topic.name in wanted}
