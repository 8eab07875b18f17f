"""`kafkaraw cluster`: the brokers, log directories, metadata quorum, features and API versions of a cluster."""

from __future__ import annotations

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.log_dirs import describe as log_dirs
from kafkaraw.cli.rendering import TABLE, Row, output_option, show, time_text


@click.group("cluster")
def cluster_group() -> None:
    """The cluster: brokers, log directories, metadata quorum, features, API versions."""


@cluster_group.command()
@cluster_options
@output_option
def info(cluster: Cluster, output: str) -> None:
    """Show the cluster's id, its controller, and the number of brokers, topics and partitions."""
    with cluster.admin() as admin:
        found, topics = admin.describe_cluster(), admin.list_topics()
    row: Row = {
        "CLUSTER-ID": found.cluster_id,
        "CONTROLLER": found.controller_id if found.controller_id >= 0 else None,
        "BROKERS": len(found.brokers),
        "TOPICS": len(topics),
        "PARTITIONS": sum(topic.partitions for topic in topics),
    }
    show([row], output)


@cluster_group.command()
@cluster_options
@output_option
def brokers(cluster: Cluster, output: str) -> None:
    """List the running brokers."""
    with cluster.admin() as admin:
        found = admin.describe_cluster()
    rows: list[Row] = [
        {
            "BROKER": broker.node_id,
            "HOST": broker.host,
            "PORT": broker.port,
            "RACK": broker.rack,
            "CONTROLLER": broker.node_id == found.controller_id,
        }
        for broker in found.brokers
    ]
    show(rows, output)


cluster_group.add_command(log_dirs, "logdirs")


@cluster_group.command()
@cluster_options
@output_option
def quorum(cluster: Cluster, output: str) -> None:
    """Show the metadata quorum: its leader, voters and observers, and how far each of them is.

    LAG is the number of offsets between a node and the leader.
    """
    with cluster.admin() as admin:
        found = admin.describe_metadata_quorum()
    leader = next((one for one in found.voters if one.replica_id == found.leader_id), None)
    end = None if leader is None or leader.log_end_offset < 0 else leader.log_end_offset
    rows: list[Row] = [
        {
            "NODE": one.replica_id,
            "STATUS": "Leader" if one.replica_id == found.leader_id else status,
            "DIRECTORY-ID": one.directory_id,
            "LOG-END-OFFSET": one.log_end_offset if one.log_end_offset >= 0 else None,
            "LAG": None if end is None or one.log_end_offset < 0 else end - one.log_end_offset,
            "LAST-FETCH": time_text(one.last_fetch_ms),
            "LAST-CAUGHT-UP": time_text(one.last_caught_up_ms),
        }
        for status, replicas in (("Follower", found.voters), ("Observer", found.observers))
        for one in replicas
    ]
    if output == TABLE:
        click.echo(f"Leader {found.leader_id}, epoch {found.leader_epoch}, high watermark {found.high_watermark}\n")
    nodes = [{name.lower().replace("-", "_"): value for name, value in row.items()} for row in rows]
    document = {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "nodes": nodes,
    }
    show(rows, output, document)


@cluster_group.command()
@cluster_options
@output_option
def features(cluster: Cluster, output: str) -> None:
    """List features: the levels in force, and those that the broker which answered supports."""
    with cluster.admin() as admin:
        found = admin.describe_features()
    rows: list[Row] = []
    for name in sorted({*found.finalized, *found.supported}):
        supported, finalized = found.supported.get(name), found.finalized.get(name)
        rows.append(
            {
                "FEATURE": name,
                "SUPPORTED-MIN": supported and supported.min,
                "SUPPORTED-MAX": supported and supported.max,
                "LEVEL": 0 if finalized is None else finalized.max,
                "EPOCH": found.finalized_epoch,
            }
        )
    show(rows, output)


@cluster_group.command("api-versions")
@cluster_options
@click.option("--broker", type=int, metavar="ID", help="Only this broker.  [default: all]")
@output_option
def api_versions(cluster: Cluster, broker: int | None, output: str) -> None:
    """List the APIs that brokers support, their versions, and the version that kafkaraw uses."""
    from kafkaraw.errors import UsageError
    from kafkaraw.protocol.apis import API_BY_KEY
    from kafkaraw.protocol.declare import VersionRange

    with cluster.admin() as admin:
        found = admin.describe_api_versions()
    if broker is not None and broker not in found:
        raise UsageError(f"no broker {broker} runs; the brokers are {', '.join(map(str, found))}")
    rows: list[Row] = []
    for node_id, versions in found.items():
        if broker not in (None, node_id):
            continue
        for key, supported in sorted(versions.items()):
            api = API_BY_KEY.get(key)
            ours = VersionRange.parse("none" if api is None else api.offered)
            first, last = max(ours.min, supported.min), min(ours.max, supported.max)
            rows.append(
                {
                    "BROKER": node_id,
                    "KEY": key,
                    "API": None if api is None else api.name,
                    "MIN": supported.min,
                    "MAX": supported.max,
                    "USABLE": last if first <= last else None,
                }
            )
    show(rows, output)
