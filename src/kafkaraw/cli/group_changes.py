"""The work of `kafkaraw groups delete`, `delete-offsets` and `remove-members`: show, and execute on request."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_tables import LogEnds, described_groups, is_share_group, offsets_of, partitions_named
from kafkaraw.cli.rendering import Row, show
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition


def delete_groups(cluster: Cluster, names: Sequence[str], *, execute: bool, output: str) -> bool:
    """Delete groups.

    Returns:
        whether the groups were deleted; else they were only shown.

    Raises:
        UsageError: a group does not exist.
        KafkaError: a broker refuses, as it does if the group has members.
    """
    with cluster.admin() as admin:
        found = described_groups(admin, names)
        _check_all(names, list(found))
        offsets = offsets_of(admin, names, found)
        rows: list[Row] = [
            {"GROUP": name, "STATE": str(found[name].state), "#MEMBERS": len(found[name].members),
             "#OFFSETS": len(offsets[name])}
            for name in found
        ]  # fmt: skip
        show(rows, output)
        busy = [name for name, group in found.items() if group.members]
        if busy:
            raise UsageError(f"group {busy[0]!r} has {len(found[busy[0]].members)} members: stop them first")
        if execute:
            admin.delete_groups(names)
            _done(f"Deleted {len(found)} group{'' if len(found) == 1 else 's'}.")
    return execute


def delete_group_offsets(cluster: Cluster, name: str, topics: Sequence[str], *, execute: bool, output: str) -> bool:
    """Delete offsets of a group; those of a share group by topic.

    Returns:
        whether the offsets were deleted; else they were only shown.

    Raises:
        UsageError: the group does not exist, or has no offsets of these, or partitions of a share group are named.
        KafkaError: a broker refuses, as it does if a member reads the topic.
    """
    with cluster.admin() as admin:
        found = described_groups(admin, [name])
        _check_all([name], list(found))
        is_share = is_share_group(found[name])
        if is_share and any(":" in topic for topic in topics):
            raise UsageError(
                f"group {name!r} is a share group, whose offsets are deleted by topic: --topic TOPIC; to move "
                f"partitions use: kafkaraw groups reset {name} --topic TOPIC:P"
            )
        offsets = offsets_of(admin, [name], found)[name]

        def partitions_of(wanted: object) -> dict[str, list[TopicPartition]]:
            """Include topics that no longer exist: their offsets are the usual reason for this command."""
            there = LogEnds(cluster, admin).partitions([text.partition(":")[0] for text in topics])
            for each in offsets:
                known = there.setdefault(each.topic, [])
                if each not in known:
                    known.append(each)
            return there

        chosen = [each for each in partitions_named(topics, partitions_of) if each in offsets]
        if not chosen:
            raise UsageError(f"group {name!r} has no offsets of {', '.join(topics)}")
        rows: list[Row] = [
            {
                "GROUP": name,
                "TOPIC": each.topic,
                "PARTITION": each.partition,
                "START-OFFSET" if is_share else "CURRENT-OFFSET": offsets[each],
            }
            for each in chosen
        ]
        show(rows, output)
        if execute:
            if is_share:
                admin.delete_share_group_offsets(name, {each.topic for each in chosen})
            else:
                admin.delete_group_offsets(name, chosen)
            _done(f"Deleted {len(chosen)} offset{'' if len(chosen) == 1 else 's'}.")
    return execute


def remove_group_members(
    cluster: Cluster, name: str, instances: Sequence[str] | None, *, execute: bool, output: str
) -> bool:
    """Remove members.

    Returns:
        whether the members were removed; else they were only shown.

    Raises:
        UsageError: there is no such group or member, or it is a share group.
        KafkaError: a broker refuses.
    """
    with cluster.admin() as admin:
        found = described_groups(admin, [name])
        _check_all([name], list(found))
        if is_share_group(found[name]):
            raise UsageError(
                f"group {name!r} is a share group, which has no static members: stop the members, or wait until the "
                f"session of one that has ended times out"
            )
        members = [
            member for member in found[name].members if instances is None or member.group_instance_id in instances
        ]
        missing = set(instances or ()) - {member.group_instance_id for member in members}
        if missing or not members:
            who = f"static member {min(missing)!r}" if missing else "members"
            raise UsageError(f"group {name!r} has no {who}; see: kafkaraw groups describe {name} --members")
        rows: list[Row] = [
            {"GROUP": name, "CONSUMER-ID": member.member_id, "GROUP-INSTANCE-ID": member.group_instance_id,
             "HOST": member.host, "#PARTITIONS": len(member.assignment)}
            for member in members
        ]  # fmt: skip
        show(rows, output)
        if execute:
            admin.remove_members(name, instances, reason="kafkaraw groups remove-members")
            _done(f"Removed {len(members)} member{'' if len(members) == 1 else 's'}.")
    return execute


def _check_all(names: Sequence[str], found: Sequence[str]) -> None:
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(f"group {missing[0]!r} does not exist; see: kafkaraw groups list")


def _done(text: str) -> None:
    sys.stderr.write(f"{text}\n")
