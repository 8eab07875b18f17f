"""The work of `kafkaraw transactions abort` and `find-hanging`.

A transaction hangs if a partition has it open, but the coordinator of its transactional id does not: it will never
write the marker that ends it. Start at `hanging`. Source: KIP-664; Kafka's TransactionsCommand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from kafkaraw.cli.changes import Change, count_of
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.rendering import Row, show, time_text
from kafkaraw.cli.topic_tables import partitions_chosen, topics_described
from kafkaraw.client.admin.producers import ProducerState
from kafkaraw.client.admin.transactions import TransactionDescription
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that a partition has open.

    Attributes:
        partition: the partition.
        producer: the producer's state there.
        transactional_id: None if no coordinator has the producer id.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None = None


def fence(cluster: Cluster, ids: Sequence[str], change: Change, output: str) -> None:
    """Abort the transactions of ids, and fence their producers, after they were shown and confirmed.

    Raises:
        KafkaError: an id does not exist, or a coordinator refuses.
    """
    with cluster.admin() as admin:
        found = admin.describe_transactions(ids)
        rows: list[Row] = [
            {
                "TRANSACTIONAL-ID": name,
                "STATE": one.state,
                "PRODUCER-ID": one.producer_id,
                "START": time_text(one.start_time_ms),
                "PARTITIONS": [f"{key.topic}-{key.partition}" for key in sorted(one.partitions)],
            }
            for name, one in found.items()
        ]
        show(rows, output)
        if change.allows(f"Abort the transactions of {count_of(len(found), 'id')}, and fence the producers?"):
            admin.fence_producers(list(found))
            click.echo(f"Fenced the producers of {count_of(len(found), 'id')}.", err=True)


def abort_hanging(cluster: Cluster, topic: str, partition: int, start_offset: int, change: Change, output: str) -> None:
    """Abort the transaction that begins at an offset of a partition.

    Raises:
        UsageError: no open transaction begins there.
        KafkaError: the leader refuses.
    """
    with cluster.admin() as admin:
        (key,) = partitions_chosen(admin, [f"{topic}:{partition}"])
        opened = [one for one in _open_in(admin, [key]) if one.producer.transaction_start_offset == start_offset]
        if not opened:
            raise UsageError(
                f"no open transaction begins at offset {start_offset} of {topic} [{partition}]; see: "
                f"kafkaraw transactions describe-producers {topic}:{partition}"
            )
        show([_row(one) for one in opened], output)
        if change.allows(f"Abort the transaction in {topic} [{partition}]?"):
            admin.abort_transaction(key, opened[0].producer)
            click.echo("Aborted 1 transaction.", err=True)


def show_hanging(cluster: Cluster, texts: Sequence[str], broker: int | None, longer_than_ms: int, output: str) -> None:
    """Print hanging transactions.

    Raises:
        UsageError: a topic or partition does not exist.
        KafkaError: the brokers cannot answer.
    """
    with cluster.admin() as admin:
        chosen = _partitions(admin, texts, broker)
        before_ms = time.time_ns() // 1_000_000 - longer_than_ms
        old = [one for one in _open_in(admin, chosen) if one.producer.last_timestamp_ms <= before_ms]
        found = hanging(old, _at_coordinators(admin, old))
    show([_row(one) for one in found], output)
    if not found:
        click.echo(f"No hanging transaction in {count_of(len(chosen), 'partition')}.", err=True)


def hanging(
    opened: Iterable[OpenTransaction], known: Mapping[int, Sequence[TransactionDescription]]
) -> list[OpenTransaction]:
    """Return the open transactions that no coordinator will end.

    Args:
        opened: open transactions of partitions.
        known: by producer id, what the coordinators have.
    """
    found = []
    for one in opened:
        described = known.get(one.producer.producer_id, ())
        if not any(one.partition in each.partitions for each in described):
            name = described[0].transactional_id if described else None
            found.append(OpenTransaction(one.partition, one.producer, name))
    return found


def _partitions(admin: Admin, texts: Sequence[str], broker: int | None) -> list[TopicPartition]:
    """Return the partitions with a leader that texts select, or all."""
    names = [topic.name for topic in admin.list_topics()] if not texts else list(texts)
    chosen = partitions_chosen(admin, names)
    described = topics_described(admin, {key.topic for key in chosen})
    views = {
        TopicPartition(name, each.partition): each for name, topic in described.items() for each in topic.partitions
    }
    return [
        key for key in chosen if views[key].leader_id >= 0 and (broker is None or broker in views[key].replica_nodes)
    ]


def _open_in(admin: Admin, partitions: Sequence[TopicPartition]) -> list[OpenTransaction]:
    found = admin.describe_producers(partitions) if partitions else {}
    return [
        OpenTransaction(key, one)
        for key, producers in found.items()
        for one in producers
        if one.transaction_start_offset is not None
    ]


def _at_coordinators(admin: Admin, opened: Sequence[OpenTransaction]) -> dict[int, list[TransactionDescription]]:
    ids = sorted({one.producer.producer_id for one in opened})
    listed = admin.list_transactions(producer_ids=ids) if ids else []
    described = admin.describe_transactions([one.transactional_id for one in listed]) if listed else {}
    found: dict[int, list[TransactionDescription]] = {}
    for one in listed:
        found.setdefault(one.producer_id, []).append(described[one.transactional_id])
    return found


def _row(one: OpenTransaction) -> Row:
    return {
        "TOPIC": one.partition.topic,
        "PARTITION": one.partition.partition,
        "PRODUCER-ID": one.producer.producer_id,
        "PRODUCER-EPOCH": one.producer.producer_epoch,
        "START-OFFSET": one.producer.transaction_start_offset,
        "LAST-TIMESTAMP": time_text(one.producer.last_timestamp_ms),
        "TRANSACTIONAL-ID": one.transactional_id,
    }
