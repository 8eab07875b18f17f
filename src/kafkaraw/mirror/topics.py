"""Topics of a flow: which ones are copied, and what the target lacks of topics, partitions, configurations and ACLs.

`planned` compares both clusters and returns the changes, without I/O; `MirrorTopics` asks the clusters, with one
request for each kind of question, and makes the changes. The rules are MirrorMaker's: configurations that are not
defaults are copied apart from the excluded ones; ACLs are copied apart from those that allow writing, and an ACL that
allows everything is copied as one that allows reading. A topic is deleted only if the configuration asks for it. Start
at `planned` and `MirrorTopics`.
Source: Kafka's MirrorSourceConnector, DefaultConfigPropertyFilter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.client.admin.acls import AclBinding, AclBindingFilter, ResourcePattern
from kafkaraw.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource
from kafkaraw.client.admin.topics import NewTopic
from kafkaraw.errors import AuthorizationError, BrokerError, KafkaError, UsageError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.mirror.interfaces import CopiedTopic
from kafkaraw.mirror.policies import TopicRoute, Topology
from kafkaraw.mirror.settings import MirrorFlow, TopicSettings
from kafkaraw.protocol.acl_codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.config_codes import AlterOperation, ConfigSource
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkaraw.client.admin.client import AsyncAdmin

_log = logging.getLogger(__name__)

REPLICATION_FACTOR: Final = 2
"""MirrorMaker's default, if the target has as many brokers."""
NAME_LENGTH_MAX: Final = 249
BATCH_CONFIGS: Final = ("message.timestamp.type", "compression.type", "max.message.bytes", "cleanup.policy")
"""Configurations of the copy that bear on batches."""

Configs = Mapping[str, Mapping[str, ConfigEntry]]


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """What a cluster has.

    Attributes:
        partitions: numbers of partitions, by topic.
        configs: by topic; only of topics whose configurations matter now.
        acls: of topics; None if ACLs do not matter now, or the cluster has no authorizer.
    """

    partitions: Mapping[str, int]
    configs: Configs = field(default_factory=dict)
    acls: Collection[AclBinding] | None = None


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """What the target lacks.

    Attributes:
        copied: names in the source and in the target, of all topics of the flow.
        create: topics to create.
        grow: new numbers of partitions.
        alter: changes of configurations.
        acls: ACLs to create.
        delete: topics to delete.
        problems: why topics are left out, by their names in the source.
    """

    copied: Mapping[str, str]
    create: tuple[NewTopic, ...] = ()
    grow: Mapping[str, int] = field(default_factory=dict)
    alter: Mapping[str, tuple[ConfigChange, ...]] = field(default_factory=dict)
    acls: tuple[AclBinding, ...] = ()
    delete: tuple[str, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.create or self.grow or self.alter or self.acls or self.delete)


def planned(
    settings: TopicSettings, topology: Topology, source: ClusterTopics, target: ClusterTopics, brokers_count: int
) -> TopicChanges:
    """Compare two clusters.

    Args:
        settings: of the flow.
        topology: of all flows.
        source: what the source has, with configurations of topics that are new or whose configurations are compared.
        target: what the target has, with configurations of topics that are compared.
        brokers_count: of the target.
    """
    copied, problems = selected(settings.route, topology, source.partitions)
    factor = settings.replication_factor or min(REPLICATION_FACTOR, brokers_count)
    create = tuple(
        NewTopic(copy, source.partitions[name], factor, _copied_configs(settings, source.configs.get(name, {})))
        for name, copy in copied.items()
        if copy not in target.partitions
    )
    grow = {
        copy: source.partitions[name]
        for name, copy in copied.items()
        if source.partitions[name] > target.partitions.get(copy, source.partitions[name])
    }
    alter: dict[str, tuple[ConfigChange, ...]] = {}
    for name, copy in copied.items():
        if name in source.configs and copy in target.configs:
            changes = _config_changes(settings, source.configs[name], target.configs[copy])
            alter |= {copy: changes} if changes else {}
    acls: tuple[AclBinding, ...] = ()
    if source.acls is not None and target.acls is not None:
        there = set(target.acls)
        acls = tuple(acl for acl in _copied_acls(settings, source.acls) if acl not in there)
    delete = _orphans(settings, source, target) if settings.deletes_topics else ()
    return TopicChanges(copied, create, grow, alter, acls, delete, problems)


def selected(route: TopicRoute, topology: Topology, topics: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the topics that a flow copies, and why it leaves out others that it should copy.

    Args:
        route: of the flow.
        topology: of all flows.
        topics: names of the source's topics.

    Returns:
        names in the source and in the target; reasons, by names in the source.
    """
    copied: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name in sorted(filter(route.selects, topics)):
        copy = route.remote_topic(name)
        if circle := topology.circle(route, name):
            problems[name] = (
                f"it would be copied in a circle, {' -> '.join(circle)}: exclude it from one of these flows with "
                "topics.exclude, or use DefaultReplicationPolicy"
            )
        elif len(copy) > NAME_LENGTH_MAX:
            problems[name] = (
                f"the name of its copy would have {len(copy)} characters, and {NAME_LENGTH_MAX} are allowed"
            )
        else:
            copied[name] = copy
    return copied, problems


def _copied_configs(settings: TopicSettings, entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {
        name: entry.value
        for name, entry in entries.items()
        if _is_compared(settings, entry) and (settings.uses_source_defaults or not entry.is_default)
    }


def _is_compared(settings: TopicSettings, entry: ConfigEntry) -> bool:
    is_own = entry.source is not ConfigSource.STATIC_BROKER and not (entry.is_read_only or entry.is_sensitive)
    return is_own and not settings.configs_excluded.selects(entry.name)


def _config_changes(
    settings: TopicSettings, source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]
) -> tuple[ConfigChange, ...]:
    wanted = _copied_configs(settings, source)
    changes = [
        ConfigChange(name, value) for name, value in wanted.items() if name in target and target[name].value != value
    ]
    changes += [
        ConfigChange(name, None, AlterOperation.DELETE)
        for name, entry in source.items()
        if name not in wanted
        and _is_compared(settings, entry)
        and name in target
        and target[name].source is ConfigSource.DYNAMIC_TOPIC
    ]
    return tuple(changes)


def _copied_acls(settings: TopicSettings, acls: Collection[AclBinding]) -> list[AclBinding]:
    """Return the ACLs of the copies: none that allows writing, since only the mirror writes to a copy."""
    found: list[AclBinding] = []
    for acl in acls:
        pattern = acl.pattern
        allows = acl.permission_type is AclPermissionType.ALLOW
        is_literal = pattern.resource_type is ResourceType.TOPIC and pattern.pattern_type is PatternType.LITERAL
        if not is_literal or pattern.name == WILDCARD or (allows and acl.operation is AclOperation.WRITE):
            continue
        if settings.route.selects(pattern.name):
            operation = AclOperation.READ if allows and acl.operation is AclOperation.ALL else acl.operation
            copy = ResourcePattern(ResourceType.TOPIC, settings.route.remote_topic(pattern.name), PatternType.LITERAL)
            found.append(replace(acl, pattern=copy, operation=operation))
    return list(dict.fromkeys(found))


def _orphans(settings: TopicSettings, source: ClusterTopics, target: ClusterTopics) -> tuple[str, ...]:
    """Return copies whose sources are gone; none if the source has no topics at all, which is more likely a mistake."""
    route = settings.route
    if not source.partitions:
        return ()
    return tuple(
        copy
        for copy in sorted(target.partitions)
        if route.policy.topic_source(copy) == route.source_alias
        and not route.policy.is_internal_topic(copy)
        and (upstream := route.policy.upstream_topic(copy)) is not None
        and upstream not in source.partitions
        and route.selects(upstream)
    )


class MirrorTopics:
    """The topics of one flow; a `TopicPlan` of the copier.

    Args:
        source: an admin client of the source.
        target: an admin client of the target.
        flow: its settings.
        topology: of all flows.
    """

    def __init__(
        self,
        source: AsyncAdmin,
        target: AsyncAdmin,
        flow: MirrorFlow,
        topology: Topology,
    ) -> None:
        self._source, self._target = source, target
        self._flow = flow
        self._settings = flow.topics
        self._topology = topology
        self._brokers_count: int | None = None
        self._due = {"configs": 0.0, "acls": 0.0}
        self._reported: dict[str, str] = {}

    async def refresh(self) -> Sequence[CopiedTopic]:
        """Look at both clusters, create what the target lacks, and return the topics to copy.

        Configurations and ACLs are compared at their own intervals.

        Raises:
            UsageError: every topic would be copied in a circle, or source and target are one cluster.
            KafkaError: a cluster does not answer.
        """
        changes = await self.plan(
            configs=self._is_due("configs", self._settings.sync_configs_interval_s),
            acls=self._is_due("acls", self._settings.sync_acls_interval_s),
        )
        problems = {**changes.problems, **await self.apply(changes)}
        self._report(problems)
        if problems and not changes.copied:
            name, why = next(iter(problems.items()))
            raise UsageError(f"{self._flow.name}: topic {name!r}: {why}")
        failed = {changes.copied.get(name, name) for name in problems}
        targets = [copy for copy in changes.copied.values() if copy not in failed]
        configs = await self._described(self._target, targets, BATCH_CONFIGS)
        return [
            CopiedTopic(name, copy, {key: entry.value or "" for key, entry in configs.get(copy, {}).items()})
            for name, copy in changes.copied.items()
            if copy not in failed
        ]

    async def plan(self, *, configs: bool = True, acls: bool = True) -> TopicChanges:
        """Compare both clusters, without a change.

        Args:
            configs: whether configurations of existing topics are compared.
            acls: whether ACLs are compared.

        Raises:
            UsageError: source and target are one cluster.
            KafkaError: a cluster does not answer.
        """
        brokers_count, ours, theirs, (source_acls, target_acls) = await asyncio.gather(
            self._check_clusters(), self._source.list_topics(), self._target.list_topics(), self._acls(wanted=acls)
        )
        source, target = (ClusterTopics({each.name: each.partitions for each in topics}) for topics in (ours, theirs))
        names = list(filter(self._settings.route.selects, source.partitions))
        copies = {name: self._settings.route.remote_topic(name) for name in names}
        wanted = [name for name in names if configs or copies[name] not in target.partitions]
        there = [copies[name] for name in names if configs and copies[name] in target.partitions]
        source_configs, target_configs = await asyncio.gather(
            self._described(self._source, wanted), self._described(self._target, there)
        )
        source = replace(source, configs=source_configs, acls=source_acls)
        target = replace(target, configs=target_configs, acls=target_acls)
        return planned(self._settings, self._topology, source, target, brokers_count)

    async def apply(self, changes: TopicChanges) -> dict[str, str]:
        """Make the changes.

        Returns:
            What could not be done, by topic of the target. The other changes are made.
        """
        problems: dict[str, str] = {}
        timeout = self._flow.admin_timeout_s
        if changes.create:
            await _tried(problems, self._target.create_topics(changes.create, timeout=timeout))
        if changes.grow:
            await _tried(problems, self._target.create_partitions(changes.grow, timeout=timeout))
        if changes.alter:
            altered = {ConfigResource.topic(name): list(each) for name, each in changes.alter.items()}
            failed: dict[str, str] = {}
            await _tried(failed, self._target.alter_configs(altered, timeout=timeout))
            for name, why in failed.items():  # the topic can be copied all the same
                _log.warning("%s: configuration of %s: %s", self._flow.name, name, why)
        if changes.acls:
            failed = {}
            await _tried(failed, self._target.create_acls(changes.acls, timeout=timeout))
            for why in failed.values():
                _log.warning("%s: ACLs: %s", self._flow.name, why)
        if changes.delete:
            await _tried(problems, self._target.delete_topics(changes.delete, timeout=timeout))
        return problems

    def _is_due(self, what: str, interval_s: float | None) -> bool:
        now_s = asyncio.get_running_loop().time()
        if interval_s is None or now_s < self._due[what]:
            return False
        self._due[what] = now_s + interval_s
        return True

    async def _check_clusters(self) -> int:
        if self._brokers_count is None:
            source, target = await asyncio.gather(self._source.describe_cluster(), self._target.describe_cluster())
            if source.cluster_id is not None and source.cluster_id == target.cluster_id:
                raise UsageError(
                    f"{self._flow.name}: source and target are one cluster, {source.cluster_id}: change the "
                    "bootstrap.servers of one of them"
                )
            self._brokers_count = len(target.brokers)
        return self._brokers_count

    async def _described(self, admin: AsyncAdmin, topics: Sequence[str], names: Sequence[str] | None = None) -> Configs:
        if not topics:
            return {}
        wanted = [ConfigResource.topic(topic) for topic in topics]
        while wanted:
            try:
                found = await admin.describe_configs(wanted, names=names)
                return {resource.name: entries for resource, entries in found.items()}
            except AuthorizationError as error:
                readable = [one for one in wanted if one not in error.failures]
                if len(readable) == len(wanted):
                    raise
                self._report_configs(error)
                wanted = readable
        return {}

    def _report_configs(self, error: AuthorizationError) -> None:
        """Log once that configurations cannot be read; their topics are copied without them."""
        text = str(error)
        if self._reported.get("configs") != text:
            self._reported["configs"] = text
            _log.warning("%s: configurations are not compared: %s", self._flow.name, text)

    async def _acls(self, *, wanted: bool) -> tuple[Collection[AclBinding] | None, Collection[AclBinding] | None]:
        """Return the ACLs of topics of both sides; None if they do not matter, or without an authorizer on one side."""
        if not wanted:
            return None, None
        matching = AclBindingFilter(resource_type=ResourceType.TOPIC)
        try:
            source, target = await asyncio.gather(
                self._source.describe_acls(matching), self._target.describe_acls(matching)
            )
        except BrokerError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            if "acls" not in self._reported:
                self._reported["acls"] = ""
                _log.info("%s: a cluster has no authorizer, so no ACLs are copied", self._flow.name)
            return None, None
        return source, target

    def _report(self, problems: Mapping[str, str]) -> None:
        """Log each problem once."""
        for name, why in problems.items():
            if self._reported.get(name) != why:
                self._reported[name] = why
                _log.error("%s: topic %s is not copied: %s", self._flow.name, name, why)


async def _tried(problems: dict[str, str], call: object) -> None:
    """Await a change; collect what has failed, by topic."""
    try:
        await call  # type: ignore[misc]
    except KafkaError as error:
        if not error.failures:
            raise
        for item, each in error.failures.items():
            problems[item.name if isinstance(item, ConfigResource) else str(item)] = str(each)
