"""The topics of a pipeline on the brokers: those that flows write to are made before the first query starts.

Must not read records. Start at `create_missing` and `topic_ids`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from kafkaraw.client.admin.configs import ConfigResource
from kafkaraw.client.admin.topics import NewTopic
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.config import AdminConfig
from kafkaraw.errors import AuthorizationError, BrokerError, UnknownTopicError
from kafkaraw.pipelines.model import Dataset, Pipeline, PipelineError
from kafkaraw.spark.errors import CLIENT_PREFIX
from kafkaraw.spark.options.client import client_settings, settings_for, typed_settings

_log = logging.getLogger(__name__)

_EXISTS = "TOPIC_ALREADY_EXISTS"
_MISSING = "UNKNOWN_TOPIC_OR_PARTITION"


def admin_of(pipeline: Pipeline) -> Admin:
    """Return an admin client for the pipeline's brokers.

    Raises:
        ConfigError: the settings name no broker, or one of them is wrong.
    """
    java = {name.removeprefix(CLIENT_PREFIX): text for name, text in pipeline.settings.kafka.items()}
    settings = settings_for(AdminConfig, client_settings(java))
    return Admin(**typed_settings(AdminConfig, settings))  # type: ignore[arg-type]  # checked by the call before


def topic_ids(pipeline: Pipeline, names: Iterable[str]) -> Mapping[str, str]:
    """Return the ids of topics, by name; topics that do not exist are left out."""
    wanted, found = list(names), dict[str, str]()
    if not wanted or not pipeline.settings.kafka:
        return found
    with admin_of(pipeline) as admin:
        for name in wanted:
            with suppress(UnknownTopicError, BrokerError):
                found[name] = str(admin.describe_topics([name])[name].topic_id)
    return found


def create_missing(pipeline: Pipeline, *, with_dead_letters: bool) -> tuple[str, ...]:
    """Make the topics that flows write to, and those of dead letters and replays, if they do not exist.

    Returns:
        the names of the topics that were made.

    Raises:
        PipelineError: a topic exists with other settings than the definition gives.
        KafkaError: a topic cannot be made.
    """
    targets = [each for each in pipeline.datasets if each.topic is not None]
    wanted = {each.topic.name: _new(each) for each in targets if each.topic is not None}
    if with_dead_letters:
        for name in (pipeline.settings.dead_letter_topic, pipeline.settings.replay_topic):
            wanted.setdefault(name, NewTopic(name))
    if not wanted or not pipeline.settings.kafka:
        return ()
    with admin_of(pipeline) as admin:
        present = {each.name for each in admin.list_topics()}
        made = [name for name in wanted if name not in present and _create(admin, wanted[name])]
        for each in targets:
            if each.topic is not None and each.topic.name in present:
                _check(admin, each)
    return tuple(made)


def _new(dataset: Dataset) -> NewTopic:
    assert dataset.topic is not None, "the dataset is a topic"
    partitions = -1 if dataset.topic.partitions is None else dataset.topic.partitions
    return NewTopic(dataset.topic.name, partitions=partitions, configs=dict(dataset.topic.config))


def _create(admin: Admin, topic: NewTopic) -> bool:
    try:
        admin.create_topics([topic])
    except BrokerError as error:
        if error.name == _EXISTS:  # somebody else was quicker
            return False
        raise
    return True


def _check(admin: Admin, dataset: Dataset) -> None:
    """Compare an existing topic with its definition."""
    target = dataset.topic
    assert target is not None, "the dataset is a topic"
    partitions = len(admin.describe_topics([target.name])[target.name].partitions)
    if target.partitions is not None and partitions != target.partitions:
        raise PipelineError(
            f"topic {target.name!r} has {partitions} partitions, not partitions={target.partitions}: change the "
            "definition, or the topic",
            location=dataset.location,
            dataset=dataset.name,
        )
    if not target.config:
        return
    resource = ConfigResource.topic(target.name)
    try:
        entries = admin.describe_configs([resource], names=list(target.config))[resource]
    except AuthorizationError as error:
        _log.warning("the settings of topic %s cannot be checked: %s", target.name, error)
        return
    for name, text in target.config.items():
        value = entries[name].value if name in entries else None
        if value != text:
            raise PipelineError(
                f"topic {target.name!r} has {name}={value}, not {text}: change the definition, or the topic",
                location=dataset.location,
                dataset=dataset.name,
            )
