"""The first page of a cluster: brokers, disks, and what is wrong, in sentences.

Start at `overview`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.cluster import ClusterDescription
from kafkaraw.client.admin.group_descriptions import GroupListing, GroupState
from kafkaraw.client.admin.log_dirs import LogDirDescription
from kafkaraw.client.admin.topics import TopicDescription
from kafkaraw.client.admin.transactions import TransactionListing
from kafkaraw.console import groups, topics
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import first, size_text
from kafkaraw.console.site import Site, permission_of
from kafkaraw.errors import KafkaError

T = TypeVar("T")

_KEPT_S: Final = 10.0
_FREE_MIN: Final = 0.1
_LONG_TRANSACTION_MS: Final = 15 * 60_000
_DESCRIBED_MAX: Final = 20_000
_REBALANCING: Final = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


@dataclass(frozen=True)
class BrokerRow:
    """A broker.

    Attributes:
        node_id: its id.
        address: host and port.
        rack: its rack; empty if it has none.
        is_controller: whether changes go to it.
        leaders: partitions that it leads; None if that is not known.
        size_bytes: of its logs; None if that is not known.
        free: the share of its disks that is free; None if that is not known.
    """

    node_id: int
    address: str
    rack: str
    is_controller: bool
    leaders: int | None
    size_bytes: int | None
    free: float | None


@dataclass(frozen=True)
class State:
    """What the cluster has told; None for what it has not, with the reasons.

    Attributes:
        cluster: its brokers.
        topics: all of them.
        groups: all of them.
        log_dirs: by broker.
        transactions: those that are open for long.
        unknown: what is not known, and why.
    """

    cluster: ClusterDescription
    topics: Sequence[TopicDescription] | None
    groups: Sequence[GroupListing] | None
    log_dirs: dict[int, tuple[LogDirDescription, ...]] | None
    transactions: Sequence[TransactionListing] | None
    unknown: tuple[str, ...]


async def overview(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the cluster."""
    state = await cluster.kept("overview", _KEPT_S, lambda: _asked(cluster))
    described = state.cluster
    brokers = [
        BrokerRow(
            each.node_id,
            each.address,
            each.rack or "",
            each.node_id == described.controller_id,
            None if state.topics is None else _leaders(state.topics, each.node_id),
            *_disk(state.log_dirs, each.node_id),
        )
        for each in described.brokers
    ]
    facts: dict[str, Any] = {
        "cluster_id": described.cluster_id,
        "brokers": brokers,
        "problems": sentences(state),
        "topics_count": None if state.topics is None else len(state.topics),
        "partitions_count": None if state.topics is None else sum(len(each.partitions) for each in state.topics),
        "groups_count": None if state.groups is None else len(state.groups),
        "size": None if state.log_dirs is None else sum(each.size_bytes or 0 for each in brokers),
    }
    return site.page(request, "overview.html", cluster, tab="overview", **facts)


async def _asked(cluster: ClusterConnection) -> State:
    described = await cluster.admin.describe_cluster()  # if this fails, there is nothing to show
    unknown: list[str] = []

    async def tried(what: str, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except KafkaError as error:
            unknown.append(f"{what}: {permission_of(error) or str(error)[:300]}")
            return None

    async def all_topics() -> Sequence[TopicDescription]:
        names = [each.name for each in await topics.listed(cluster)][:_DESCRIBED_MAX]
        return list((await cluster.admin.describe_topics(names)).values()) if names else []

    found = await asyncio.gather(
        tried("Topics", all_topics()),
        tried("Groups", groups.listed(cluster)),
        tried("Disks", cluster.admin.describe_log_dirs()),
        tried("Transactions", cluster.admin.list_transactions(states=["Ongoing"], longer_than_ms=_LONG_TRANSACTION_MS)),
    )
    return State(described, *found, tuple(unknown))


def _leaders(topics: Sequence[TopicDescription], node_id: int) -> int:
    return sum(partition.leader_id == node_id for each in topics for partition in each.partitions)


def _disk(log_dirs: dict[int, tuple[LogDirDescription, ...]] | None, node_id: int) -> tuple[int | None, float | None]:
    directories = (log_dirs or {}).get(node_id)
    if directories is None:
        return None, None
    used = sum(replica.size_bytes for each in directories for replica in each.replicas.values())
    free = [
        each.usable_bytes / each.total_bytes
        for each in directories
        if each.total_bytes and each.usable_bytes is not None
    ]
    return used, min(free, default=None)


def sentences(state: State) -> list[tuple[str, str]]:
    """Return what is wrong, and what is not known, as pairs of "good", "bad" or "note", and a sentence."""
    said: list[tuple[str, str]] = []
    if state.topics is not None:
        said += _about_partitions(state.topics, {each.node_id for each in state.cluster.brokers})
    if state.cluster.controller_id < 0:
        said.append(("bad", "The cluster names no controller: topics and configurations cannot be changed."))
    for node_id, directories in sorted((state.log_dirs or {}).items()):
        said += _about_disks(node_id, directories)
    rebalancing = [each.group_id for each in state.groups or () if each.state in _REBALANCING]
    if rebalancing:
        said.append(("note", f"{len(rebalancing)} groups rebalance: {first(rebalancing)}."))
    if state.transactions:
        names = first(each.transactional_id for each in state.transactions)
        said.append(
            ("bad", f"{len(state.transactions)} transactions are open for more than {_LONG_TRANSACTION_MS // 60_000} "
             f"minutes: {names}. Readers of committed records wait for their end.")
        )  # fmt: skip
    said += [("note", f"Not known: {each}") for each in state.unknown]
    if not any(kind == "bad" for kind, _ in said):
        brokers = len(state.cluster.brokers)
        partitions = "" if state.topics is None else ", every partition has a leader, and every replica is in sync"
        said.insert(0, ("good", f"{brokers} broker{'s' * (brokers != 1)} answer{'s' * (brokers == 1)}{partitions}."))
    return said


def _about_partitions(topics: Sequence[TopicDescription], running: set[int]) -> list[tuple[str, str]]:
    leaderless, behind, away = [], [], set[int]()
    for topic in topics:
        for each in topic.partitions:
            if each.leader_id < 0:
                leaderless.append(f"{topic.name} [{each.partition}]")
            elif set(each.replica_nodes) - set(each.isr_nodes):
                behind.append(f"{topic.name} [{each.partition}]")
            away |= set(each.replica_nodes) - running
    said = []
    if away:
        said.append(
            (
                "bad",
                f"Brokers {first(sorted(away), 10)} have replicas and do not run: start them, or move these.",
            )
        )
    if leaderless:
        said.append(
            (
                "bad",
                f"{len(leaderless)} partitions have no leader; they cannot be read or written: {first(leaderless)}.",
            )
        )
    if behind:
        said.append(("bad", f"{len(behind)} partitions have replicas that are not in sync: {first(behind)}."))
    return said


def _about_disks(node_id: int, directories: Sequence[LogDirDescription]) -> list[tuple[str, str]]:
    said = []
    for each in directories:
        if each.error is not None:
            said.append(("bad", f"Log directory {each.path} of broker {node_id} cannot be used: {each.error}"))
        elif each.total_bytes and each.usable_bytes is not None and each.usable_bytes < _FREE_MIN * each.total_bytes:
            free = f"{size_text(each.usable_bytes)} of {size_text(each.total_bytes)}"
            said.append(("bad", f"The disk of broker {node_id} is nearly full: {free} are free in {each.path}."))
    return said
