"""The configuration of a mirror, with MirrorMaker 2's property names: clusters, and flows between them.

A property of one flow, `east->west.topics`, overrides the one of all flows, `topics`. Properties of a cluster's clients
begin with its alias: `east.bootstrap.servers`, `east.consumer.fetch.min.bytes`. Each property is declared once, in
`properties.py`. An error names the file, the line and what to do; all problems of a file are reported together. Start
at `read_mirror_settings`.
Source: Kafka 4.3's MirrorMakerConfig, MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig; KIP-382.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.java_names import known_names, settings_from_properties
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.mirror.interfaces import Delivery, FlowSettings, OnLoss, StartAt
from kafkaraw.mirror.policies import (
    IdentityReplicationPolicy,
    NameFilter,
    ReplicationPolicy,
    TopicRoute,
    Topology,
)
from kafkaraw.mirror.properties import FILTERS_OF_KAFKA, IDENTITY_POLICY, PROPERTIES, REFUSED, WITHOUT_EFFECT, names_in
from kafkaraw.mirror.property_files import Entry, read_entries
from kafkaraw.records import TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a flow does with topics.

    Attributes:
        route: which topics it copies, and their names in the target.
        replication_factor: of new topics; None for 2, or the number of brokers of the target if it has fewer.
        configs_excluded: patterns of configurations that are not copied.
        uses_source_defaults: whether defaults of the source are set in the target, too.
        sync_configs_interval_s: seconds between comparisons of configurations; None for never.
        sync_acls_interval_s: seconds between comparisons of ACLs; None for never.
        deletes_topics: whether a copy is deleted when its source is.
    """

    route: TopicRoute
    replication_factor: int | None
    configs_excluded: NameFilter
    uses_source_defaults: bool
    sync_configs_interval_s: float | None
    sync_acls_interval_s: float | None
    deletes_topics: bool


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """What a flow does with offsets and heartbeats.

    Attributes:
        groups: whose offsets are translated.
        refresh_groups_interval_s: seconds between looks for new groups; None for never.
        checkpoints_interval_s: seconds between checkpoints; None for none.
        group_offsets_interval_s: seconds between commits for inactive groups of the target; None for none.
        heartbeats_interval_s: seconds between heartbeats; None for none.
        emits_offset_syncs: whether offset syncs are written, which MirrorMaker's checkpoint connector needs.
        offset_syncs_in_source: whether the source has the topic with them; otherwise the target has.
        offset_lag_max: records between two offset syncs of a partition, at most.
        replication_factors: of MirrorMaker's own topics, by name; None as for `TopicSettings`, with 3.
    """

    groups: NameFilter
    refresh_groups_interval_s: float | None
    checkpoints_interval_s: float | None
    group_offsets_interval_s: float | None
    heartbeats_interval_s: float | None
    emits_offset_syncs: bool
    offset_syncs_in_source: bool
    offset_lag_max: int
    replication_factors: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class MirrorFlow:
    """One flow of a configuration.

    Attributes:
        copy: settings of the copier.
        topics: settings of topics.
        offsets: settings of offsets.
        admin_timeout_s: seconds that a task of administration may take.
    """

    copy: FlowSettings
    topics: TopicSettings
    offsets: OffsetSettings
    admin_timeout_s: float

    @property
    def name(self) -> str:
        """The name, as `east->west`."""
        return self.copy.name

    @property
    def route(self) -> TopicRoute:
        """Which topics the flow copies."""
        return self.topics.route


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """A configuration.

    Attributes:
        path: of the file.
        clusters: settings of the clients of each cluster, for `AdminConfig`, by alias.
        flows: those that are enabled, in the order of the clusters.
    """

    path: Path
    clusters: Mapping[str, Mapping[str, object]]
    flows: tuple[MirrorFlow, ...]

    @property
    def topology(self) -> Topology:
        """All flows, to find circles."""
        return Topology(flow.route for flow in self.flows)

    def reverse_of(self, flow: MirrorFlow) -> MirrorFlow | None:
        """Return the flow in the other direction, None if there is none."""
        aliases = (flow.route.target_alias, flow.route.source_alias)
        return next(
            (each for each in self.flows if (each.route.source_alias, each.route.target_alias) == aliases), None
        )

    def flow(self, name: str | None) -> MirrorFlow:
        """Return a flow.

        Args:
            name: as `east->west`; None for the only one.

        Raises:
            ConfigError: there is none of that name, or there are several.
        """
        names = ", ".join(flow.name for flow in self.flows)
        if name is None:
            if len(self.flows) == 1:
                return self.flows[0]
            raise ConfigError(f"{self.path} has {len(self.flows)} flows: choose one with --flow: {names}")
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise ConfigError(f"{self.path} has no enabled flow {name!r}; it has {names}")


_CLIENTS: Final[Mapping[str, type[ClientConfig]]] = {
    "admin": AdminConfig,
    "consumer": ConsumerConfig,
    "producer": ProducerConfig,
}
_ISOLATION_LEVEL: Final = "isolation.level"
_OFFSET_RESET: Final = "auto.offset.reset"
_SHARED: Final = re.compile(r"bootstrap\.servers|security\.protocol|(ssl|sasl)\..*")
"""Client properties that may stand without an alias, for all clusters."""
_OF_CLIENTS: Final = re.compile(r"((source|target)\.)?(admin|consumer|producer)\.|(source|target)\.cluster\.")
"""Client properties of one flow."""


def read_mirror_settings(path: Path) -> MirrorSettings:
    """Read a configuration.

    Args:
        path: of `mirror.properties` or `mirror.yml`.

    Raises:
        ConfigError: the file cannot be read, or its properties are unknown, invalid or contradict each other; all
            problems are named with their lines.
    """
    return _Reader(path, read_entries(path)).settings()


@dataclass(slots=True)
class _Scope:
    """Properties of all flows, of a cluster, or of one flow, by their names without the prefix."""

    own: dict[str, Entry] = field(default_factory=dict)
    clients: dict[str, Entry] = field(default_factory=dict)


class _Reader:
    """Reads the properties of one file, and collects its problems."""

    def __init__(self, path: Path, entries: Iterable[Entry]) -> None:
        self._path = path
        self._entries = {entry.name: entry for entry in entries}
        self._problems: list[tuple[int, str]] = []
        self._aliases = self._clusters()
        self._all = _Scope()
        self._of_cluster = {alias: _Scope() for alias in self._aliases}
        self._of_flow = {
            (source, target): _Scope() for source in self._aliases for target in self._aliases if source != target
        }

    def settings(self) -> MirrorSettings:
        ignored = [entry.name for entry in self._entries.values() if not self._placed(entry)]
        self._raise()
        flows = tuple(
            flow for source, target in self._of_flow if (flow := self._flow_settings(source, target)) is not None
        )
        clusters = {alias: self._connection(alias) for alias in self._aliases}
        self._raise()
        if not flows:
            names = " or ".join(f"{source}->{target}.enabled = true" for source, target in list(self._of_flow)[:2])
            raise ConfigError(f"{self._path}: no flow is enabled: add {names}")
        self._check_same_cluster(flows)
        if ignored:
            _log.warning("%s: without effect here: %s", self._path, ", ".join(sorted(ignored)))
        return MirrorSettings(self._path, clusters, flows)

    # -- where each property belongs

    def _clusters(self) -> list[str]:
        entry = self._entries.get("clusters")
        if entry is None:
            raise ConfigError(f"{self._path}: the property clusters is missing: add clusters = east, west")
        aliases = list(names_in(entry.value))
        for alias in aliases:
            if not re.fullmatch(r"[A-Za-z0-9._-]+", alias):
                self._wrong(entry, f"clusters: {alias!r} must have letters, digits and ._- only: topics have this name")
        if len(set(aliases)) < max(2, len(aliases)):
            self._wrong(entry, f"clusters: must name two clusters or more, each once, not {entry.value!r}")
        self._raise()
        return aliases

    def _placed(self, entry: Entry) -> bool:
        """Put a property where it belongs; return False for one without effect."""
        if entry.name == "clusters":
            return True
        if "->" in entry.name:
            return self._placed_in_flow(entry)
        if entry.name == "enabled":
            self._wrong(entry, f"enabled: each flow has its own: write {'->'.join(self._aliases[:2])}.enabled")
            return True
        if entry.name in PROPERTIES or entry.name in REFUSED:
            return self._put(self._all, entry, entry.name)
        for alias in sorted(self._aliases, key=len, reverse=True):
            if entry.name.startswith(f"{alias}."):
                return self._placed_in_cluster(alias, entry)
        if _SHARED.fullmatch(entry.name):
            self._all.clients[entry.name] = entry
            return True
        if WITHOUT_EFFECT.fullmatch(entry.name):
            return False
        if entry.name.split(".")[0] in _CLIENTS:
            example = f"{self._aliases[0]}.{entry.name}"
            self._wrong(entry, f"{entry.name}: MirrorMaker ignores this without a cluster: write {example}")
            return True
        self._unknown(entry, entry.name)
        return True

    def _placed_in_flow(self, entry: Entry) -> bool:
        for (source, target), scope in self._of_flow.items():
            prefix = f"{source}->{target}."
            if entry.name.startswith(prefix):
                name = entry.name.removeprefix(prefix)
                is_plain = name in PROPERTIES or WITHOUT_EFFECT.fullmatch(name)
                if not is_plain and _OF_CLIENTS.match(name):
                    scope.clients[name] = entry
                    return True
                return self._put(scope, entry, name)
        pair = entry.name.partition("->")
        if any(entry.name.startswith(f"{alias}->{alias}.") for alias in self._aliases):
            self._wrong(entry, f"{entry.name}: a cluster cannot be mirrored onto itself")
        else:
            self._wrong(
                entry,
                f"{entry.name}: clusters has {', '.join(self._aliases)}, and a flow is one of them, ->, and another "
                f"one; this begins with {pair[0]}->{pair[2].partition('.')[0]}",
            )
        return True

    def _placed_in_cluster(self, alias: str, entry: Entry) -> bool:
        name = entry.name.removeprefix(f"{alias}.")
        scope = self._of_cluster[alias]
        if name.startswith("exactly.once."):
            return self._put(scope, entry, name)
        if name.split(".")[0] in _CLIENTS and not name.startswith("admin.timeout"):
            scope.clients[name] = entry
            return True
        if WITHOUT_EFFECT.fullmatch(name):
            return False
        if name in known_names():
            scope.clients[name] = entry
            return True
        if name in PROPERTIES:
            self._wrong(
                entry, f"{entry.name}: this is a property of a flow: write {name}, or {alias}->OTHER.{name} for one"
            )
        else:
            self._unknown(entry, name)
        return True

    def _put(self, scope: _Scope, entry: Entry, name: str) -> bool:
        if name in REFUSED:
            if entry.value and entry.value not in FILTERS_OF_KAFKA:
                self._wrong(entry, f"{entry.name}: {REFUSED[name]}")
            return bool(entry.value) and entry.value not in FILTERS_OF_KAFKA
        if name not in PROPERTIES:
            if WITHOUT_EFFECT.fullmatch(name):
                return False
            self._unknown(entry, name)
        scope.own[name] = entry
        return True

    # -- values

    def _value(self, scopes: Iterable[_Scope], name: str) -> Any:  # noqa: ANN401 - each property has its own type
        """Return the value of the first scope that has the property, or its default."""
        entry = next((scope.own[name] for scope in scopes if name in scope.own), None)
        declared = PROPERTIES[name]
        if entry is None:
            return declared.default
        try:
            return declared.read(entry.value)
        except (ValueError, ConfigError) as error:
            self._wrong(entry, f"{entry.name} = {entry.value}: {error}")
            return declared.default

    def _flow_settings(self, source: str, target: str) -> MirrorFlow | None:
        own = self._of_flow[source, target]
        scopes = (own, self._all)
        if not self._value((own,), "enabled"):
            return None

        def value(name: str) -> Any:  # noqa: ANN401
            return self._value(scopes, name)

        def interval(name: str) -> float | None:
            seconds: float = value(f"{name}.interval.seconds")
            return seconds if value(f"{name}.enabled") else None

        def patterns(include: str, exclude: str) -> NameFilter:
            try:
                return NameFilter(value(include), value(exclude))
            except ConfigError as error:
                entry = next(scope.own[n] for scope in scopes for n in (include, exclude) if n in scope.own)
                self._wrong(entry, f"{entry.name}: {error}")
                return NameFilter(())

        policy = self._policy(scopes)
        route = TopicRoute(
            source, target, policy, patterns("topics", "topics.exclude"), value("heartbeats.replication.enabled")
        )
        topics = TopicSettings(
            route,
            value("replication.factor"),
            NameFilter(value("config.properties.exclude")),
            value("use.defaults.from") == "source",
            interval("sync.topic.configs"),
            interval("sync.topic.acls"),
            value("sync.topic.deletions.enabled"),
        )
        offsets = OffsetSettings(
            patterns("groups", "groups.exclude"),
            interval("refresh.groups"),
            interval("emit.checkpoints"),
            interval("sync.group.offsets"),
            interval("emit.heartbeats"),
            value("emit.offset-syncs.enabled"),
            value("offset-syncs.topic.location") == "source",
            value("offset.lag.max"),
            {name: value(f"{name}.topic.replication.factor") for name in ("offset-syncs", "checkpoints", "heartbeats")},
        )
        self._check_together(scopes, policy, topics)
        claim = TopicPartition(policy.offset_mapping_topic(source), 0)
        copy = self._copy_settings(source, target, interval("refresh.topics"), claim)
        return MirrorFlow(copy, topics, offsets, value("admin.timeout.ms") / 1000)

    def _policy(self, scopes: tuple[_Scope, ...]) -> ReplicationPolicy:
        separator: str = self._value(scopes, "replication.policy.separator")
        in_internal: bool = self._value(scopes, "replication.policy.internal.topic.separator.enabled")
        if not re.fullmatch(r"[A-Za-z0-9._-]+", separator):
            entry = next(s.own[n] for s in scopes for n in ("replication.policy.separator",) if n in s.own)
            self._wrong(entry, f"{entry.name}: a topic cannot have {separator!r} in its name")
        if self._value(scopes, "replication.policy.class") == IDENTITY_POLICY:
            return IdentityReplicationPolicy(separator, in_internal)
        return ReplicationPolicy(separator, in_internal)

    def _check_together(self, scopes: tuple[_Scope, ...], policy: ReplicationPolicy, topics: TopicSettings) -> None:
        def entry_of(name: str) -> Entry:
            return next(scope.own[name] for scope in scopes if name in scope.own)

        if isinstance(policy, IdentityReplicationPolicy) and topics.deletes_topics:
            self._wrong(
                entry_of("sync.topic.deletions.enabled"),
                "sync.topic.deletions.enabled: with IdentityReplicationPolicy a topic's name does not tell whether it "
                "is a copy, so it could delete topics of the target: remove this, and delete topics by hand",
            )
        if not self._value(scopes, "emit.offset-syncs.enabled"):
            for scope in scopes:
                for name, entry in scope.own.items():
                    if name.startswith("offset-syncs.topic."):
                        self._wrong(entry, f"{entry.name}: there is no such topic with emit.offset-syncs.enabled=false")

    # -- clients

    def _copy_settings(self, source: str, target: str, refresh_s: float | None, claim: TopicPartition) -> FlowSettings:
        own = self._of_flow[source, target]
        scopes = (own, self._all)
        consumer = self._client("consumer", source, (own, "consumer."), (own, "source.consumer."))
        producer = self._client("producer", target, (own, "producer."), (own, "target.producer."))
        isolation = consumer.pop("isolation_level", None)
        start_at = self._start_at(source, own, consumer.pop("auto_offset_reset", None))
        return FlowSettings(
            source,
            target,
            self._connection(source, (own, "source.cluster.")),
            self._connection(target, (own, "target.cluster.")),
            consumer,
            producer,
            self._delivery(source, target, isolation),
            read_committed=isolation != "read_uncommitted",
            on_loss=OnLoss(self._value(scopes, "on.loss")),
            start_at=start_at,
            refresh_topics_interval_s=float("inf") if refresh_s is None else refresh_s,
            commit_interval_s=self._value(scopes, "commit.interval.ms") / 1000,
            in_flight_max_bytes=self._value(scopes, "in.flight.max.bytes"),
            claim=claim,
        )

    def _start_at(self, source: str, own: _Scope, reset: object) -> StartAt | None:
        if reset is None:
            return None
        if reset not in [each.value for each in StartAt]:
            names = (f"source.consumer.{_OFFSET_RESET}", f"consumer.{_OFFSET_RESET}")
            found = [scope.clients[n] for scope in (own, self._of_cluster[source]) for n in names if n in scope.clients]
            self._wrong(found[0], f"{found[0].name} = {found[0].value}: must be earliest or latest")
            return StartAt.EARLIEST
        return StartAt(str(reset))

    def _delivery(self, source: str, target: str, isolation: object) -> Delivery:
        """Exactly once, unless a property says otherwise; properties that contradict each other are an error."""
        scopes = (self._of_flow[source, target], self._of_cluster[target], self._all)
        chosen: str | None = self._value(scopes, "delivery")
        support: str | None = self._value(scopes, "exactly.once.source.support")
        required = self._value(scopes, "exactly.once.support") == "required"
        entries = [
            scope.own[name]
            for name in ("delivery", "exactly.once.source.support")
            for scope in scopes
            if name in scope.own
        ]
        is_off = chosen == Delivery.AT_LEAST_ONCE.value or (chosen is None and support not in (None, "enabled"))
        if chosen == Delivery.EXACTLY_ONCE.value and support not in (None, "enabled"):
            self._wrong(entries[0], f"delivery = {chosen} contradicts exactly.once.source.support = {support}")
        if is_off and required:
            self._wrong(
                entries[0], f"{entries[0].name} = {entries[0].value} contradicts exactly.once.support = required"
            )
        if required and isolation == "read_uncommitted":
            entry = next(scope.own["exactly.once.support"] for scope in scopes if "exactly.once.support" in scope.own)
            self._wrong(
                entry,
                "exactly.once.support = required needs consumer.isolation.level = read_committed: otherwise records of "
                "aborted transactions are copied",
            )
        return Delivery.AT_LEAST_ONCE if is_off else Delivery.EXACTLY_ONCE

    def _connection(self, alias: str, *more: tuple[_Scope, str]) -> dict[str, object]:
        """Return the settings that all clients of a cluster have."""
        scope = self._of_cluster[alias]
        entries = dict(self._all.clients)
        entries |= {name: each for name, each in scope.clients.items() if name.split(".")[0] not in _CLIENTS}
        for other, prefix in more:
            entries |= _stripped(other.clients, prefix)
        if "bootstrap.servers" not in entries:
            self._problems.append(
                (0, f"{alias}.bootstrap.servers is missing: add {alias}.bootstrap.servers = HOST:PORT")
            )
            return {}
        return self._translated(AdminConfig, entries, check=True)

    def _client(self, kind: str, alias: str, *more: tuple[_Scope, str]) -> dict[str, object]:
        """Return the settings of one kind of client of a cluster."""
        entries = _stripped(self._of_cluster[alias].clients, f"{kind}.")
        for scope, prefix in more:
            entries |= _stripped(scope.clients, prefix)
        return self._translated(_CLIENTS[kind], entries)

    def _translated(
        self, kind: type[ClientConfig], entries: Mapping[str, Entry], *, check: bool = False
    ) -> dict[str, object]:
        try:
            found = settings_from_properties(kind, {name: entry.value for name, entry in entries.items()})
            if check:
                parse(kind, found)
        except ConfigError as error:
            named = [entry for name, entry in entries.items() if name in str(error)]
            entry = named[0] if named else next(iter(entries.values()))
            self._wrong(entry, f"{entry.name}: {error}")
            return {}
        return dict(found)

    def _check_same_cluster(self, flows: tuple[MirrorFlow, ...]) -> None:
        for flow in flows:
            servers = flow.copy.source["bootstrap_servers"], flow.copy.target["bootstrap_servers"]
            if servers[0] == servers[1]:
                raise ConfigError(
                    f"{self._path}: {flow.name} would mirror a cluster onto itself: both have the bootstrap servers "
                    f"{servers[0]}"
                )

    # -- problems

    def _wrong(self, entry: Entry, text: str) -> None:
        self._problems.append((entry.line, text))

    def _unknown(self, entry: Entry, name: str) -> None:
        known = [*PROPERTIES, *REFUSED, "bootstrap.servers", "security.protocol"]
        near = difflib.get_close_matches(name, known, n=1)
        self._wrong(entry, f"{entry.name}: unknown property" + (f"; did you mean {near[0]}?" if near else ""))

    def _raise(self) -> None:
        if self._problems:
            found = dict.fromkeys(sorted(self._problems))
            raise ConfigError(
                "\n".join(
                    f"{self._path}, line {line}: {text}" if line else f"{self._path}: {text}" for line, text in found
                )
            )


def _stripped(entries: Mapping[str, Entry], prefix: str) -> dict[str, Entry]:
    return {name.removeprefix(prefix): entry for name, entry in entries.items() if name.startswith(prefix)}
