"""`kafkaraw mirror topics`: create and change the topics of a mirror in the targets, or show what would be done."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.changes import Change, change_options
from kafkaraw.cli.mirror_options import clients_of, mirror_option
from kafkaraw.cli.rendering import Row, output_option, show

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings
    from kafkaraw.mirror.topics import TopicChanges

EPILOG: Final = """\b
Examples:
  kafkaraw mirror topics --dry-run
  kafkaraw mirror topics
\b
Exit codes: 0, or 1 if a topic cannot be copied, or a change was refused.
"""


@click.command(epilog=EPILOG)
@mirror_option
@change_options
@output_option
def topics(mirror: MirrorSettings, change: Change, output: str) -> None:
    """Create topics and partitions that the targets lack, and copy configurations and ACLs.

    `kafkaraw mirror run` does the same at the intervals of the configuration; with --dry-run, this command shows what
    it would do. Topics are deleted only with sync.topic.deletions.enabled=true.
    """
    found = asyncio.run(_plans(mirror))
    show([row for flow, changes in found for row in _rows(flow.name, changes)], output)
    problems = [(flow.name, name, why) for flow, changes in found for name, why in changes.problems.items()]
    if not any(changes for _, changes in found):
        click.echo("The targets lack nothing.", err=True)
    elif change.allows(""):
        problems += asyncio.run(_apply(mirror, found))
    for flow_name, name, why in problems:
        click.echo(f"Error: {flow_name}: topic {name}: {why}", err=True)
    if problems:
        sys.exit(1)


async def _plans(mirror: MirrorSettings) -> list[tuple[MirrorFlow, TopicChanges]]:
    from kafkaraw.mirror.topics import MirrorTopics

    found = []
    for flow in mirror.flows:
        clients = clients_of(flow)
        async with AsyncExitStack() as stack:
            source, target = [await stack.enter_async_context(clients.admin(of_source=side)) for side in (True, False)]
            plan = MirrorTopics(source, target, flow, mirror.topology)
            settings = flow.topics
            changes = await plan.plan(
                configs=settings.sync_configs_interval_s is not None, acls=settings.sync_acls_interval_s is not None
            )
            found.append((flow, changes))
    return found


async def _apply(mirror: MirrorSettings, found: list[tuple[MirrorFlow, TopicChanges]]) -> list[tuple[str, str, str]]:
    from kafkaraw.mirror.topics import MirrorTopics

    problems: list[tuple[str, str, str]] = []
    for flow, changes in found:
        clients = clients_of(flow)
        async with AsyncExitStack() as stack:
            source, target = [await stack.enter_async_context(clients.admin(of_source=side)) for side in (True, False)]
            refused = await MirrorTopics(source, target, flow, mirror.topology).apply(changes)
            problems += [(flow.name, name, why) for name, why in refused.items()]
    return problems


def _rows(flow_name: str, changes: TopicChanges) -> list[Row]:
    rows: list[tuple[str, str, object]] = []
    for topic in changes.create:
        what = {"partitions": topic.partitions, "replication.factor": topic.replication_factor, **topic.configs}
        rows.append(("create", topic.name, what))
    rows += [("grow", name, {"partitions": count}) for name, count in changes.grow.items()]
    for name, each in changes.alter.items():
        rows.append(("configure", name, {change.name: change.value for change in each}))
    for acl in changes.acls:
        what = {acl.permission_type.name.lower(): acl.operation.name, "principal": acl.principal, "host": acl.host}
        rows.append(("acl", acl.pattern.name, what))
    rows += [("delete", name, None) for name in changes.delete]
    return [{"FLOW": flow_name, "CHANGE": kind, "TOPIC": name, "WHAT": what} for kind, name, what in rows]
