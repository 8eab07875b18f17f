"""`kafkaraw top` without a screen: the tables once or several times, as text or as JSON. Start at `run`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.cli.rendering import JSON, TABLE, show, time_text
from kafkaraw.cli.top_screen import Place
from kafkaraw.cli.top_tables import BROKERS, GROUPS, TOPICS, View, bytes_text, counted, rate_text, sorted_rows
from kafkaraw.monitoring import ClusterStatus, Monitor, problems_of
from kafkaraw.monitoring.history import Age
from kafkaraw.protocol.printable import printable

if TYPE_CHECKING:
    from kafkaraw.cli.clients import Cluster

LOOKUP_ROUNDS: Final = 12
"""Rounds of lookups for lags in seconds: there is no later snapshot that could make them better."""


REQUEST_TIMEOUT_MS: Final = 10_000


def admin_settings(cluster: Cluster) -> dict[str, Any]:
    """Return the settings of the client: one broker that does not answer must not hold up the others for long."""
    from kafkaraw.client.config import AdminConfig

    wanted = None if cluster.has("request_timeout_ms") else REQUEST_TIMEOUT_MS
    return cluster.settings(AdminConfig, request_timeout_ms=wanted)


def run(  # noqa: PLR0913 -- one for each option
    cluster: Cluster,
    place: Place | None,
    *,
    output: str,
    topics: Sequence[str],
    groups: Sequence[str],
    interval_s: float,
    count: int,
    rows_max: int,
    with_internal: bool,
) -> None:
    """Print the cluster `count` times; rates are those of the interval before.

    Args:
        cluster: the cluster.
        place: the view, with its order and filter; None prints brokers, topics and groups.
        output: "table", "json" or "yaml".
        topics: patterns of topics; empty for all.
        groups: patterns of groups; empty for all.
        interval_s: between two snapshots.
        count: how often.
        rows_max: rows of a table; 0 for all.
        with_internal: whether tables have internal topics.

    Raises:
        KafkaError: the cluster cannot be reached.
    """
    places = [Place(BROKERS), Place(TOPICS), Place(GROUPS)] if place is None else [place]

    def write(status: ClusterStatus) -> None:
        if output == TABLE:
            _print_tables(status, places, rows_max, with_internal=with_internal)
            sys.stdout.write("\n" if count > 1 else "")
        elif output == JSON and count > 1:
            sys.stdout.write(json.dumps(document(status)) + "\n")
        else:
            show([], output, document(status))
        sys.stdout.flush()

    asyncio.run(_run(cluster, write, topics, groups, interval_s, count))


async def _run(
    cluster: Cluster,
    write: Any,  # noqa: ANN401 - called with a status
    topics: Sequence[str],
    groups: Sequence[str],
    interval_s: float,
    count: int,
) -> None:
    from kafkaraw.client.admin import AsyncAdmin

    loop = asyncio.get_running_loop()
    async with AsyncAdmin(runtime=None, **admin_settings(cluster)) as admin:
        monitor = Monitor(admin, topics=topics, groups=groups)
        for number in range(count + 1):
            began_s = loop.time()
            status = await monitor.refresh(lookup_rounds=LOOKUP_ROUNDS)
            if number:
                write(status)
            if number < count:
                took_s = loop.time() - began_s
                await asyncio.sleep(max(interval_s - took_s, took_s))


def _print_tables(status: ClusterStatus, places: Sequence[Place], rows_max: int, *, with_internal: bool) -> None:
    away = sum(not broker.is_online for broker in status.brokers)
    sys.stdout.write(
        f"{time_text(status.snapshot.at_ms)}  {rate_text(status.records_per_s)} records/s  "
        f"{bytes_text(status.bytes_per_s)}/s  {counted(len(status.brokers) - away, 'broker')}  "
        f"{counted(len(status.topics), 'topic')}  {counted(len(status.groups), 'group')}\n"
    )
    for problem in problems_of(status):
        sys.stdout.write(f"{problem.severity}: {printable(problem.text)}\n")
    for place in places:
        rows = _chosen(status, place.view, place, with_internal=with_internal)
        shown = rows[:rows_max] if rows_max else rows
        sys.stdout.write("\n")
        show([{column.title: column.text(row) for column in place.view.columns} for row in shown], TABLE)
        if not rows:
            sys.stdout.write(f"{place.view.nothing}\n")
        if len(rows) > len(shown):
            sys.stdout.write(f"... and {len(rows) - len(shown):,} more {place.view.title}; --rows 0 prints all\n")


def _chosen(status: ClusterStatus, view: View, place: Place, *, with_internal: bool) -> list[Any]:
    wanted = place.filter.lower()
    rows = [
        row
        for row in view.rows(status, "") or ()
        if wanted in view.key(row).lower() and (with_internal or view is not TOPICS or not row.is_internal)
    ]
    return sorted_rows(view, rows, place.sorted_by, descending=place.descending)


def document(status: ClusterStatus) -> dict[str, object]:
    """Return everything that is known, for JSON and YAML."""
    snapshot = status.snapshot
    return {
        "at": time_text(snapshot.at_ms),
        "cluster_id": snapshot.cluster_id,
        "controller_id": snapshot.controller_id,
        "release": snapshot.release,
        "records_per_s": status.records_per_s,
        "bytes_per_s": status.bytes_per_s,
        "problems": [
            {"severity": str(each.severity), "subject": each.subject, "text": each.text, "names": list(each.names)}
            for each in problems_of(status)
        ],
        "brokers": [_broker(each) for each in status.brokers],
        "topics": [_fields(each) | {"partition_list": _all(status.partitions(each.name))} for each in status.topics],
        "groups": [
            _fields(each)
            | {
                "partitions": [_group_partition(row) for row in status.group_partitions(each.group_id) or ()],
                "member_list": [_member(row) for row in status.members(each.group_id) or ()],
            }
            for each in status.groups
        ],
        "took_s": {str(part): round(seconds, 3) for part, seconds in snapshot.took_s.items()},
    }


def _all(rows: Sequence[object] | None) -> list[dict[str, object]]:
    return [_fields(row) for row in rows or ()]


def _fields(row: object) -> dict[str, object]:
    """Return the fields of a status as JSON has them."""
    from dataclasses import fields

    return {each.name: _value(getattr(row, each.name)) for each in fields(row)}  # type: ignore[arg-type]


def _value(value: object) -> object:
    if isinstance(value, Age):
        return {"seconds": round(value.seconds, 3), "is_at_least": value.is_at_least}
    return round(value, 3) if isinstance(value, float) else value


def _broker(row: Any) -> dict[str, object]:  # noqa: ANN401 - a BrokerStatus
    found = _fields(row)
    found["log_dirs"] = [
        {
            "path": each.path,
            "error": None if each.error is None else str(each.error),
            "replicas": len(each.replicas),
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
        }
        for each in row.log_dirs
    ]
    return found


def _group_partition(row: Any) -> dict[str, object]:  # noqa: ANN401 - a GroupPartitionStatus
    return _fields(row) | {"member": None if row.member is None else row.member.member_id}


def _member(row: Any) -> dict[str, object]:  # noqa: ANN401 - a MemberStatus
    member: Mapping[str, object] = {
        "member_id": row.member.member_id,
        "group_instance_id": row.member.group_instance_id,
        "client_id": row.member.client_id,
        "host": row.member.host,
        "partitions": [f"{key.topic}-{key.partition}" for key in row.member.assignment],
    }
    return {**member, "lag": row.lag, "consumed_per_s": row.consumed_per_s}
