"""What a copy takes from a cluster besides records: topics with their settings, committed offsets, and ACLs.

Names may be patterns with `*`, `?` and `[...]`; patterns do not match internal topics. Must not change a cluster.
Start at `topic_facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import BrokerError, UnknownTopicError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.config_codes import ConfigSource
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.admin.acls import AclBinding
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.consumer import AsyncConsumer

_GLOB: Final = frozenset("*?[")
_WITHOUT_OFFSETS: Final = ("share",)
"""Types of groups that commit no offsets."""


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster that is read.

    Attributes:
        make_consumer: makes a consumer without a group, with `isolation_level="read_committed"` and
            `auto_offset_reset="none"`.
        make_admin: makes an admin client.
    """

    make_consumer: Callable[[], AsyncConsumer]
    make_admin: Callable[[], AsyncAdmin]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic.

    Attributes:
        name: its name.
        topic_id: its id; zero from a broker before 2.8.
        partitions_count: number of partitions.
        configs: the settings that were given for it; defaults of brokers are not among them.
    """

    name: str
    topic_id: Uuid
    partitions_count: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset that a group has committed, with the metadata of the commit."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[str, dict[TopicPartition, CommittedOffset]]
"""Committed offsets by group, then by partition."""


async def topic_facts(admin: AsyncAdmin, patterns: Collection[str]) -> list[TopicFacts]:
    """Return the topics that names or patterns choose, by name.

    Raises:
        UnknownTopicError: a name is that of no topic, or a pattern matches none.
        UsageError: a topic is internal.
        KafkaError: no broker answered in time, or a broker refuses.
    """
    from kafkaraw.client.admin.configs import ConfigResource

    listed = {one.name: one for one in await admin.list_topics()}
    chosen: set[str] = set()
    for pattern in patterns:
        if pattern in listed:
            if listed[pattern].is_internal:
                raise UsageError(
                    f"topic {pattern!r} is internal: its records are the state of its cluster; committed offsets are "
                    "copied with the topics"
                )
            found = {pattern}
        else:
            found = {name for name, one in listed.items() if not one.is_internal and fnmatchcase(name, pattern)}
        if not found:
            what = f"no topic matches {pattern!r}" if _GLOB.intersection(pattern) else f"there is no topic {pattern!r}"
            raise UnknownTopicError(f"{what}; the cluster has {len(listed)} topics that this client may describe")
        chosen |= found
    names = sorted(chosen)
    described = await admin.describe_configs([ConfigResource.topic(name) for name in names])
    return [
        TopicFacts(
            name,
            listed[name].topic_id,
            listed[name].partitions,
            {
                config: entry.value
                for config, entry in sorted(described[ConfigResource.topic(name)].items())
                if entry.source is ConfigSource.DYNAMIC_TOPIC and entry.value is not None
            },
        )
        for name in names
    ]


async def group_offsets(admin: AsyncAdmin, patterns: Collection[str], topics: Collection[str]) -> GroupOffsets:
    """Return the committed offsets in some topics, of the groups that names or patterns choose.

    Raises:
        KafkaError: no broker answered in time, or a broker refuses.
    """
    if not patterns:
        return {}
    names = [
        one.group_id
        for one in await admin.list_groups()
        if one.group_type not in _WITHOUT_OFFSETS and any(fnmatchcase(one.group_id, pattern) for pattern in patterns)
    ]
    committed = await admin.list_group_offsets(names) if names else {}
    found: GroupOffsets = {}
    for group, offsets in sorted(committed.items()):
        kept = {
            key: CommittedOffset(one.offset, one.metadata)
            for key, one in sorted(offsets.items())
            if key.topic in topics and one.offset >= 0
        }
        if kept:
            found[group] = kept
    return found


async def acls_of(admin: AsyncAdmin) -> Sequence[AclBinding] | None:
    """Return all ACLs of the cluster; None if it has no authorizer.

    Raises:
        KafkaError: no broker answered in time, or a broker refuses.
    """
    from kafkaraw.client.admin.acls import AclBindingFilter

    try:
        return list(await admin.describe_acls(AclBindingFilter()))
    except BrokerError as error:
        if error.code == ErrorCode.SECURITY_DISABLED:
            return None
        raise
