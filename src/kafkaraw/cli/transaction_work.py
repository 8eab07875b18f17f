"""The work of `kafkaraw transactions abort` and `find-hanging`.

Start at `show_hanging`. Source: KIP-664; Kafka's TransactionsCommand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from kafkaraw.cli.changes import Change, count_of
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.rendering import Row, show, time_text
from kafkaraw.cli.topic_tables import partitions_chosen, topics_described
from kafkaraw.client.admin.producers import OpenTransaction
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition


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
        opened = [
            one for one in admin.list_open_transactions([key]) if one.producer.transaction_start_offset == start_offset
        ]
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
        found = [one for one in admin.list_open_transactions(chosen, before_ms=before_ms) if one.is_hanging]
    show([_row(one) for one in found], output)
    if not found:
        click.echo(f"No hanging transaction in {count_of(len(chosen), 'partition')}.", err=True)


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
