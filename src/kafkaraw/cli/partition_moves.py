"""The work of `kafkaraw partitions`: elections, the plan of a reassignment, and its start.

`plan` is the algorithm: it keeps a replica where it is unless its broker is not wanted or has more than its share, puts
the others on the brokers with the fewest replicas, in racks that the partition does not use yet, and makes the broker
with the fewest preferred leaders the first one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import click

from kafkaraw.cli.changes import Change, count_of
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.rendering import Row, show
from kafkaraw.cli.topic_tables import partitions_chosen, topics_described
from kafkaraw.client.admin.replicas import ElectionType
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.core.cluster import PartitionView
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition


def elect_leaders(cluster: Cluster, texts: Sequence[str], election_type: str, change: Change, output: str) -> None:
    """Elect leaders of partitions; without texts, of all that need it.

    Raises:
        UsageError: a topic or partition does not exist.
        KafkaError: no replica can be elected.
    """
    kind = ElectionType[election_type]
    with cluster.admin() as admin:
        views = _views(admin, texts)
        needed = {key: view for key, view in views.items() if _needs(view, kind)}
        rows: list[Row] = [
            {
                "TOPIC": key.topic,
                "PARTITION": key.partition,
                "LEADER": view.leader_id if view.leader_id >= 0 else None,
                "REPLICAS": list(view.replica_nodes),
                "ISR": list(view.isr_nodes),
            }
            for key, view in needed.items()
        ]
        show(rows, output)
        if not needed:
            click.echo(f"None of {count_of(len(views), 'partition')} needs this election.", err=True)
            return
        if kind is ElectionType.PREFERRED and not change.dry_run:
            change = Change(dry_run=False, yes=True)  # it can be undone, and loses nothing
        if change.allows(
            f"Elect leaders that are not in sync for {count_of(len(needed), 'partition')}, losing records?"
        ):
            elected = admin.elect_leaders(kind, list(needed))
            click.echo(f"Elected leaders of {count_of(sum(elected.values()), 'partition')}.", err=True)


def _needs(view: PartitionView, kind: ElectionType) -> bool:
    if kind is ElectionType.UNCLEAN:
        return view.leader_id < 0
    return bool(view.replica_nodes) and view.leader_id != view.replica_nodes[0]


def reassign_partitions(
    cluster: Cluster,
    texts: Sequence[str],
    to_brokers: Sequence[int] | None,
    replication_factor: int | None,
    change: Change,
    output: str,
) -> None:
    """Plan moves of replicas, show them, and begin them when they are confirmed.

    Raises:
        UsageError: a topic, partition or broker does not exist, or there are too few brokers.
        KafkaError: the controller refuses a move.
    """
    with cluster.admin() as admin:
        racks = {broker.node_id: broker.rack for broker in admin.describe_cluster().brokers}
        missing = [broker for broker in to_brokers or () if broker not in racks]
        if missing:
            raise UsageError(f"--to-brokers: no broker {missing[0]} runs; the brokers are {_text(sorted(racks))}")
        allowed = {broker: racks[broker] for broker in to_brokers or sorted(racks)}
        current = {key: view.replica_nodes for key, view in _views(admin, texts).items()}
        wanted = plan(current, allowed, replication_factor)
        moves = {key: replicas for key, replicas in wanted.items() if replicas != current[key]}
        rows: list[Row] = [
            {
                "TOPIC": key.topic,
                "PARTITION": key.partition,
                "REPLICAS": list(current[key]),
                "NEW-REPLICAS": list(replicas),
                "ADDING": [broker for broker in replicas if broker not in current[key]],
                "REMOVING": [broker for broker in current[key] if broker not in replicas],
            }
            for key, replicas in moves.items()
        ]
        show(rows, output)
        if not moves:
            click.echo(f"Nothing to move: {count_of(len(current), 'partition')} as wanted.", err=True)
        elif change.allows(f"Reassign {count_of(len(moves), 'partition')}?"):
            admin.alter_partition_reassignments(moves)
            click.echo(f"Began to reassign {count_of(len(moves), 'partition')}.", err=True)


def cancel_moves(cluster: Cluster, texts: Sequence[str], change: Change, output: str) -> None:
    """Cancel the moves of partitions that are in progress.

    Raises:
        UsageError: a topic or partition does not exist.
        KafkaError: the controller refuses.
    """
    with cluster.admin() as admin:
        found = admin.list_partition_reassignments(partitions_chosen(admin, texts))
        rows: list[Row] = [
            {"TOPIC": key.topic, "PARTITION": key.partition, "REPLICAS": list(one.replicas),
             "ADDING": list(one.adding_replicas), "REMOVING": list(one.removing_replicas)}
            for key, one in sorted(found.items())
        ]  # fmt: skip
        show(rows, output)
        if not found:
            click.echo("No reassignment is in progress.", err=True)
        elif change.allows(f"Cancel the reassignment of {count_of(len(found), 'partition')}?"):
            admin.alter_partition_reassignments(dict.fromkeys(found))
            click.echo(f"Cancelled the reassignment of {count_of(len(found), 'partition')}.", err=True)


def plan(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first.

    Args:
        current: the ids of the brokers with replicas now, by partition.
        racks: the brokers that may have replicas, with their racks.
        replication_factor: the number of replicas of each partition; None is as many as now.

    Raises:
        UsageError: there are fewer brokers than replicas of a partition.
    """
    counts = {key: replication_factor or len(replicas) for key, replicas in current.items()}
    for key, count in counts.items():
        if count > len(racks):
            raise UsageError(
                f"{key.topic} [{key.partition}] would have {count} replicas on {count_of(len(racks), 'broker')} "
                f"({_text(racks)}): give --to-brokers with more brokers, or a smaller --replication-factor"
            )
    share = math.ceil(sum(counts.values()) / len(racks))
    loads, leaders = dict.fromkeys(racks, 0), dict.fromkeys(racks, 0)
    kept: dict[TopicPartition, list[int]] = {}
    for key, replicas in current.items():
        stay = [broker for broker in replicas if loads.get(broker, share) < share][: counts[key]]
        for broker in stay:
            loads[broker] += 1
        kept[key] = stay
    found = {}
    for key, stay in kept.items():
        while len(stay) < counts[key]:
            used = {racks[broker] for broker in stay} - {None}
            free = [broker for broker in racks if broker not in stay]
            chosen = min(free, key=lambda broker: (racks[broker] in used, loads[broker], broker))
            loads[chosen] += 1
            stay.append(chosen)
        first = min(stay, key=lambda broker: (leaders[broker], stay.index(broker)))
        leaders[first] += 1
        found[key] = (first, *(broker for broker in stay if broker != first))
    return found


def _views(admin: Admin, texts: Sequence[str]) -> dict[TopicPartition, PartitionView]:
    chosen = partitions_chosen(admin, texts or [topic.name for topic in admin.list_topics()])
    described = topics_described(admin, {key.topic for key in chosen})
    views = {
        TopicPartition(name, each.partition): each for name, topic in described.items() for each in topic.partitions
    }
    return {key: views[key] for key in chosen}


def _text(brokers: Sequence[int] | Mapping[int, object]) -> str:
    return ", ".join(map(str, brokers))
