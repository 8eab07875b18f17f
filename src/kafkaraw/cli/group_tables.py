"""The output of `kafkaraw groups list` and `describe`: Kafka's own columns.

A share group has start offsets in place of committed offsets. Start at `describe_all`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.rendering import TABLE, Row, show
from kafkaraw.client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
)
from kafkaraw.client.admin.share_group_offsets import SharePartitionOffsetInfo
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.core.group.consumer_protocol import by_topic
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

_CONSUMERS: Final = ("consumer", "")  # the protocol type of consumer groups; empty if only offsets were committed
_SHARE: Final = "share"  # the protocol type of share groups
_REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)

Offsets: TypeAlias = dict[TopicPartition, int]


def listing(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> list[Row]:
    """Return the groups of the cluster."""
    with cluster.admin() as admin:
        found = admin.list_groups(states=states, types=types)
    return [_listed(group) for group in found]


def consumer_groups(admin: Admin) -> list[str]:
    """Return the names of all groups of consumers."""
    return [group.group_id for group in admin.list_groups(protocol_types=_CONSUMERS)]


def describe_all(
    cluster: Cluster, names: Sequence[str], what: str, *, all_groups: bool, verbose: bool, output: str
) -> bool:
    """Print descriptions of groups.

    Args:
        cluster: the cluster of the groups.
        names: names of the groups.
        what: "offsets", "members" or "state".
        all_groups: describe all groups instead.
        verbose: more columns.
        output: the value of `-o`.

    Returns:
        whether all of them exist.

    Raises:
        KafkaError: the brokers cannot answer.
    """
    with cluster.admin() as admin:
        chosen = list(dict.fromkeys(names))
        if all_groups:
            chosen = [group.group_id for group in admin.list_groups(protocol_types=(*_CONSUMERS, _SHARE))]
        described = described_groups(admin, chosen)
        if what == "offsets":
            tables = _offset_tables(cluster, admin, described, verbose)
        else:
            rows = _member_rows if what == "members" else _state_rows
            tables = {name: rows(group, verbose) for name, group in described.items()}
    if output != TABLE:
        show([row for rows_of_one in tables.values() for row in rows_of_one], output)
    for name in chosen:
        _print_state(name, described.get(name))
        if tables.get(name) and output == TABLE:
            show(tables[name], TABLE)
            sys.stdout.write("\n")
    return len(described) == len(chosen)


def described_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Return the groups that exist, in that order.

    Raises:
        KafkaError: one cannot be described for another reason.
    """
    left = list(names)
    while True:
        try:
            return admin.describe_groups(left)
        except KafkaError as error:
            missing = {name for name, each in error.failures.items() if _code(each) == ErrorCode.GROUP_ID_NOT_FOUND}
            if not missing:
                raise
            left = [name for name in left if name not in missing]


def is_share_group(group: GroupDescription | None) -> bool:
    """Return whether a group exists and is a share group."""
    return group is not None and group.group_type is GroupType.SHARE


def offsets_of(admin: Admin, names: Iterable[str], groups: Mapping[str, GroupDescription]) -> dict[str, Offsets]:
    """Return the committed offsets of groups, or the start offsets of share groups.

    Args:
        admin: looks them up.
        names: the groups; one that does not exist has none.
        groups: the descriptions of those that exist.

    Raises:
        KafkaError: a coordinator cannot answer.
    """
    wanted = list(names)
    share = [name for name in wanted if is_share_group(groups.get(name))]
    committed = admin.list_group_offsets([name for name in wanted if name not in share])
    started = admin.list_share_group_offsets(share) if share else {}
    found = {name: {key: each.offset for key, each in of_one.items()} for name, of_one in committed.items()}
    return found | {name: {key: each.start_offset for key, each in of_one.items()} for name, of_one in started.items()}


class LogEnds:
    """The first and last offsets of partitions, and which partitions exist.

    Args:
        cluster: the cluster of the partitions.
        admin: looks up topics.
    """

    def __init__(self, cluster: Cluster, admin: Admin) -> None:
        settings = cluster.settings(ConsumerConfig)
        self._settings = {name: value for name, value in settings.items() if not name.startswith("group_")}
        self._admin = admin

    def consumer(self) -> Consumer:
        """A client that looks up offsets; it is in no group."""
        return Consumer(runtime=None, **self._settings)

    def partitions(self, topics: Iterable[str]) -> dict[str, list[TopicPartition]]:
        """Return the partitions with a leader, of the topics that exist."""
        there = {topic.name for topic in self._admin.list_topics()}
        described = self._admin.describe_topics([name for name in dict.fromkeys(topics) if name in there])
        return {
            name: [TopicPartition(name, each.partition) for each in topic.partitions if each.leader_id >= 0]
            for name, topic in described.items()
        }

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of partitions, of those that can be looked up."""
        wanted = list(partitions)
        there = {each for found in self.partitions({each.topic for each in wanted}).values() for each in found}
        with self.consumer() as consumer:
            return consumer.end_offsets([each for each in wanted if each in there]) if there else {}


def _code(error: KafkaError) -> int:
    return int(getattr(error, "code", 0))


def _listed(group: GroupListing) -> Row:
    return {
        "GROUP": group.group_id,
        "TYPE": None if group.group_type is None else str(group.group_type),
        "STATE": None if group.state is None else str(group.state),
        "PROTOCOL-TYPE": group.protocol_type or None,
    }


def _print_state(name: str, group: GroupDescription | None) -> None:
    """Print what Kafka's tools print about a group besides the table."""
    kind = "Share" if is_share_group(group) else "Consumer"
    if group is None or group.state is GroupState.DEAD:
        sys.stderr.write(f"Consumer group '{name}' does not exist.\n")
    elif group.state is GroupState.EMPTY:
        sys.stderr.write(f"{kind} group '{name}' has no active members.\n")
    elif group.state in _REBALANCING:
        sys.stderr.write(f"Warning: {kind} group '{name}' is rebalancing.\n")


# -- one kind of table each


def _offset_tables(
    cluster: Cluster, admin: Admin, groups: Mapping[str, GroupDescription], verbose: bool
) -> dict[str, list[Row]]:
    share = [name for name, group in groups.items() if is_share_group(group)]
    others = {name: group for name, group in groups.items() if name not in share}
    tables: dict[str, list[Row]] = {}
    if share:
        found = admin.list_share_group_offsets(share)
        tables = {name: _share_offset_rows(name, found[name], verbose) for name in share}
    if others:
        committed = admin.list_group_offsets(list(others))
        owners = {name: _owners(group) for name, group in others.items()}
        wanted = {each for name in others for each in (*committed[name], *owners[name])}
        ends = LogEnds(cluster, admin).ends(sorted(wanted))
        tables |= {name: _offset_rows(name, committed[name], owners[name], ends, verbose) for name in others}
    return {name: tables[name] for name in groups}


def _share_offset_rows(
    name: str, offsets: Mapping[TopicPartition, SharePartitionOffsetInfo], verbose: bool
) -> list[Row]:
    """Return the columns of kafka-share-groups.sh; no member owns a partition alone."""
    return [
        {"GROUP": name, "TOPIC": partition.topic, "PARTITION": partition.partition}
        | ({"LEADER-EPOCH": info.leader_epoch} if verbose else {})
        | {"START-OFFSET": info.start_offset, "LAG": info.lag}
        for partition, info in sorted(offsets.items())
    ]


def _owners(group: GroupDescription) -> dict[TopicPartition, MemberDescription]:
    """Return the members with their partitions, those with most of them first, as Kafka's tool shows them."""
    members = sorted(group.members, key=lambda member: -len(member.assignment))
    return {partition: member for member in members for partition in member.assignment}


def _offset_rows(
    name: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    owners: Mapping[TopicPartition, MemberDescription],
    ends: Mapping[TopicPartition, int],
    verbose: bool,
) -> list[Row]:
    rows = []
    for partition in [*owners, *sorted(each for each in committed if each not in owners)]:
        position, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        epoch = None if position is None or position.leader_epoch < 0 else position.leader_epoch
        rows.append(
            {"GROUP": name, "TOPIC": partition.topic, "PARTITION": partition.partition}
            | ({"LEADER-EPOCH": epoch} if verbose else {})
            | {
                "CURRENT-OFFSET": None if position is None else position.offset,
                "LOG-END-OFFSET": end,
                "LAG": None if position is None or end is None else end - position.offset,
                "CONSUMER-ID": owner and owner.member_id,
                "HOST": owner and owner.host,
                "CLIENT-ID": owner and owner.client_id,
            }
        )
    return rows


def _member_rows(group: GroupDescription, verbose: bool) -> list[Row]:
    has_names = any(member.group_instance_id for member in group.members)
    return [
        {"GROUP": group.group_id, "CONSUMER-ID": member.member_id}
        | ({"GROUP-INSTANCE-ID": member.group_instance_id} if has_names else {})
        | {"HOST": member.host, "CLIENT-ID": member.client_id, "#PARTITIONS": len(member.assignment)}
        | (_assignments(group, member) if verbose else {})
        for member in group.members
    ]


def _assignments(group: GroupDescription, member: MemberDescription) -> Row:
    return {
        "CURRENT-EPOCH": member.member_epoch,
        "CURRENT-ASSIGNMENT": _assignment(member.assignment),
        "TARGET-EPOCH": group.assignment_epoch,
        "TARGET-ASSIGNMENT": _assignment(member.target_assignment or ()),
    }


def _assignment(partitions: Iterable[TopicPartition]) -> str | None:
    """Return text such as `flights:0,1;trains:2`."""
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic(partitions).items()) or None


def _state_rows(group: GroupDescription, verbose: bool) -> list[Row]:
    coordinator = group.coordinator
    epochs: Row = {"GROUP-EPOCH": group.group_epoch, "TARGET-ASSIGNMENT-EPOCH": group.assignment_epoch}
    return [
        {
            "GROUP": group.group_id,
            "COORDINATOR (ID)": f"{coordinator.host}:{coordinator.port}  ({coordinator.node_id})",
            "ASSIGNMENT-STRATEGY": group.assignor or None,
            "STATE": str(group.state),
        }
        | (epochs if verbose else {})
        | {"#MEMBERS": len(group.members)}
    ]


def partitions_named(
    texts: Iterable[str], partitions_of: Callable[[Iterable[str]], Mapping[str, list[TopicPartition]]]
) -> list[TopicPartition]:
    """Return the partitions that `--topic TOPIC` and `--topic TOPIC:0,2` select.

    Args:
        texts: as given.
        partitions_of: returns the partitions of those topics that exist.

    Raises:
        UsageError: a topic does not exist, or a partition is not a number, does not exist or has no leader.
    """
    named = [_topic_and_numbers(text) for text in texts]
    there = partitions_of([topic for topic, _ in named])
    chosen: dict[TopicPartition, None] = {}
    for topic, numbers in named:
        if topic not in there:
            raise UsageError(f"--topic {topic}: there is no such topic")
        wanted = there[topic] if numbers is None else [TopicPartition(topic, number) for number in numbers]
        missing = [each.partition for each in wanted if each not in there[topic]]
        if missing:
            raise UsageError(f"--topic {topic}: partition {missing[0]} does not exist, or has no leader at present")
        chosen.update(dict.fromkeys(wanted))
    return sorted(chosen)


def _topic_and_numbers(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise UsageError(f"--topic {text}: must be TOPIC, or TOPIC:0,2 for some partitions") from None
