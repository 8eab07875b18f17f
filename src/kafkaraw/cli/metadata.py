"""`kafkaraw -L`: brokers, topics and partitions in kcat's format, as text or with `-J` as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_topics

if TYPE_CHECKING:
    from kafkaraw.client.admin.cluster import ClusterDescription
    from kafkaraw.client.admin.topics import TopicDescription


@click.command()
@cluster_options
@click.option("-t", "--topic", metavar="TOPIC", shell_complete=complete_topics, help="Only this topic.  [default: all]")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print JSON.")
def metadata(cluster: Cluster, topic: str | None, as_json: bool) -> None:
    """List brokers, topics and partitions in kcat's format; `kafkaraw -L` is the same command.

    `topics describe` and `cluster brokers` show the same as tables.
    """
    from kafkaraw.cli.topic_tables import topics_described

    with cluster.admin() as admin:
        found = admin.describe_cluster()
        names = [each.name for each in admin.list_topics()] if topic is None else [topic]
        topics = topics_described(admin, names)
    where = str(cluster.properties.get("bootstrap.servers") or cluster.properties["bootstrap_servers"])
    if as_json:
        click.echo(json.dumps(_document(found, topics, topic, where)))
    else:
        _print(found, topics, topic, where)


def _print(found: ClusterDescription, topics: dict[str, TopicDescription], topic: str | None, where: str) -> None:
    click.echo(f"Metadata for {topic or 'all topics'} (from broker -1: {where}/bootstrap):")
    click.echo(f" {len(found.brokers)} brokers:")
    for broker in found.brokers:
        controller = " (controller)" if broker.node_id == found.controller_id else ""
        click.echo(f"  broker {broker.node_id} at {broker.address}{controller}")
    click.echo(f" {len(topics)} topics:")
    for name, described in topics.items():
        click.echo(f'  topic "{name}" with {len(described.partitions)} partitions:')
        for each in described.partitions:
            replicas, isrs = (",".join(map(str, nodes)) for nodes in (each.replica_nodes, each.isr_nodes))
            click.echo(f"    partition {each.partition}, leader {each.leader_id}, replicas: {replicas}, isrs: {isrs}")


def _document(
    found: ClusterDescription, topics: dict[str, TopicDescription], topic: str | None, where: str
) -> dict[str, object]:
    return {
        "originating_broker": {"id": -1, "name": f"{where}/bootstrap"},
        "query": {"topic": topic or "*"},
        "controllerid": found.controller_id,
        "brokers": [{"id": broker.node_id, "name": broker.address} for broker in found.brokers],
        "topics": [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": each.partition,
                        "leader": each.leader_id,
                        "replicas": [{"id": node} for node in each.replica_nodes],
                        "isrs": [{"id": node} for node in each.isr_nodes],
                    }
                    for each in described.partitions
                ],
            }
            for name, described in topics.items()
        ],
    }
