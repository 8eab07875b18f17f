"""`Collector`: asks a cluster for a `Snapshot`. It remembers only what keeps the next one cheap.

A snapshot takes these requests, each of a constant number per broker: Metadata of all topics, ListOffsets for the ends
of all partitions (and once in a minute for their starts); for `Part.SIZES` one DescribeLogDirs to each broker; for
`Part.GROUPS` one ListGroups to each broker, OffsetFetch for 1,000 groups at a time, and descriptions of at most 500
groups. What fails is left out and named in `Snapshot.missing`; only a cluster without an answer is an error. What was
refused is not asked for again for a minute. Start at `Collector.collect`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.client.admin import (
    AsyncAdmin,
    ClusterDescription,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    LogDirDescription,
    OffsetSpec,
    TopicDescription,
)
from kafkaraw.errors import BrokerError, KafkaError, RetriableError, UnsupportedVersionError
from kafkaraw.monitoring.snapshot import ALL_PARTS, GroupSnapshot, Missing, Part, Snapshot
from kafkaraw.net.clock import Clock, SystemClock
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.fetching.offsets import OffsetAndTimestamp

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TIMEOUT_S: Final = 30.0
GROUPS_OF_A_REQUEST: Final = 1000
DESCRIBED_MAX: Final = 500
"""Groups whose members one snapshot asks for."""
DESCRIPTION_AGE_S: Final = 30.0
"""Descriptions of groups that are not looked at are asked for again after this time."""
LISTED_EACH: Final = 20
NAMES_AGE_S: Final = 20.0
"""Topics are listed again after 20 times as long as that took, and at most after this time: all metadata is in it."""
STARTS_AGE_S: Final = 60.0
CLUSTER_AGE_S: Final = 60.0
"""Age at which starts, and facts of the cluster that seldom change, are asked for again."""
REFUSED_S: Final = 60.0
"""How long what was refused is not asked for again."""
FAILED_S: Final = 30.0
"""How long what failed otherwise is not asked for again: a broker that is away costs no time-out in each snapshot."""
ATTEMPT_S: Final = 10.0
"""How long the answer to one question may take; a broker that does not answer leaves time for the others."""
_ROUNDS_MAX: Final = 4
"""Requests for what is left after failures."""
_GONE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_CONSUMERS: Final = ("consumer", "")
_WITHOUT_MEMBERS: Final = (GroupState.EMPTY, GroupState.DEAD)
_METADATA_VERSION: Final = "metadata.version"


class Collector:
    """Asks one cluster for snapshots. It must not be used by two tasks at once.

    Args:
        admin: the client; it stays the caller's, who closes it.
        topics: names of topics, with * and ?; empty for all.
        groups: names of groups, with * and ?; empty for all.
        clock: of the times in snapshots; the system's when None.
    """

    def __init__(
        self,
        admin: AsyncAdmin,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._admin = admin
        self._is_topic_chosen = _chooser(topics)
        self._is_group_chosen = _chooser(groups)
        self._clock = SystemClock() if clock is None else clock
        self._avoided: dict[tuple[str, object], tuple[float, KafkaError]] = {}
        self._missing: dict[str, KafkaError] = {}
        self._names: list[str] = []
        self._names_due_s = 0.0
        self._starts: dict[TopicPartition, int] = {}
        self._starts_due_s = 0.0
        self._descriptions: dict[str, tuple[float, GroupDescription]] = {}
        self._cluster_due_s = 0.0
        self._quorum_leader: int | None = None
        self._metadata_version: int | None = None

    async def collect(
        self, parts: Collection[Part] = ALL_PARTS, *, focus: Sequence[str] = (), timeout_s: float = TIMEOUT_S
    ) -> Snapshot:
        """Ask the cluster.

        Args:
            parts: what to ask for besides brokers, topics and ends.
            focus: groups whose members are asked for in any case.
            timeout_s: of the whole, in seconds.

        Raises:
            KafkaError: the cluster cannot be reached, or refuses the client.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        until_s = began_s + timeout_s
        self._missing = {}
        self._avoided = {key: known for key, known in self._avoided.items() if known[0] > began_s}
        took_s: dict[str, float] = {}
        times_ms: dict[Part, int] = {}

        async def timed(part: Part, work: Awaitable[V]) -> V:
            at_s, times_ms[part] = loop.time(), self._clock.time_ms()
            try:
                return await work
            finally:
                took_s[part] = loop.time() - at_s

        cluster = await self._admin.describe_cluster(timeout=_left(until_s))
        await self._look_at_cluster(until_s)
        topics = await self._topics(until_s)
        groups: dict[str, GroupSnapshot] = {}
        log_dirs: dict[int, tuple[LogDirDescription, ...]] = {}
        if Part.GROUPS in parts:  # before the ends: a group may not be ahead of them
            groups = await timed(Part.GROUPS, self._groups(focus, until_s))
        if Part.SIZES in parts:
            log_dirs = await timed(Part.SIZES, self._log_dirs(cluster, until_s))
        ends = await self._ends(topics, until_s)
        at_ms = self._clock.time_ms()
        took_s["topics"] = loop.time() - began_s - sum(took_s.values())
        return Snapshot(
            at_ms=at_ms,
            cluster_id=cluster.cluster_id,
            controller_id=self._controller(cluster),
            metadata_version=self._metadata_version,
            brokers={broker.node_id: broker for broker in cluster.brokers},
            topics=topics,
            starts=self._starts,
            ends=ends,
            log_dirs=log_dirs,
            groups=groups,
            group_ends=ends if Part.GROUPS in parts else {},
            part_times_ms=times_ms,
            took_s=took_s,
            missing=tuple(Missing(what, error) for what, error in self._missing.items()),
        )

    async def look_up(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first records from timestamps on: one ListOffsets request to each leader.

        Args:
            timestamps: in milliseconds since 1970, by partition.
            timeout_s: of the whole, in seconds.

        Returns:
            the record by partition, None if there is none from that time on; partitions that failed are left out.
        """
        return await self._offsets(timestamps, asyncio.get_running_loop().time() + timeout_s)

    # -- the cluster and its topics

    async def _look_at_cluster(self, until_s: float) -> None:
        """Ask for the quorum and the features now and then; clusters without them, and refusals, are no failures."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._cluster_due_s:
            return
        try:
            features = await self._admin.describe_features(timeout=_left(until_s))
            level = features.finalized.get(_METADATA_VERSION)
            self._metadata_version = None if level is None else level.max
            self._quorum_leader = (await self._admin.describe_metadata_quorum(timeout=_left(until_s))).leader_id
        except (BrokerError, UnsupportedVersionError):
            self._quorum_leader = None
        self._cluster_due_s = now_s + CLUSTER_AGE_S

    def _controller(self, cluster: ClusterDescription) -> int | None:
        if self._quorum_leader is not None and self._quorum_leader >= 0:
            return self._quorum_leader
        return cluster.controller_id if cluster.controller_id >= 0 else None

    async def _topics(self, until_s: float) -> dict[str, TopicDescription]:
        """Describe the topics; their names are as old as a few times what it takes to list them."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if began_s >= self._names_due_s:
            listed = await self._admin.list_topics(timeout=_left(until_s))
            self._names = [topic.name for topic in listed if self._is_topic_chosen(topic.name)]
            self._names_due_s = loop.time() + min(NAMES_AGE_S, LISTED_EACH * (loop.time() - began_s))
        found = await self._without_failures("topic", self._names, until_s, self._describe_topics)
        return dict(sorted(found.items()))

    async def _describe_topics(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicDescription]:
        return await self._admin.describe_topics(names, timeout=timeout_s)

    async def _ends(self, topics: Mapping[str, TopicDescription], until_s: float) -> dict[TopicPartition, int]:
        with_leader = [
            TopicPartition(name, each.partition)
            for name, topic in topics.items()
            for each in topic.partitions
            if each.leader_id >= 0
        ]
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._starts_due_s or any(key not in self._starts for key in with_leader):
            found = await self._offsets(dict.fromkeys(with_leader, OffsetSpec.EARLIEST), until_s)
            self._starts = {key: place.offset for key, place in found.items() if place is not None}
            self._starts_due_s = now_s + STARTS_AGE_S
        ends = await self._offsets(dict.fromkeys(with_leader, OffsetSpec.LATEST), until_s)
        return {key: place.offset for key, place in ends.items() if place is not None}

    async def _offsets(
        self, places: Mapping[TopicPartition, OffsetSpec | int], until_s: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        async def ask(
            left: Sequence[TopicPartition], timeout_s: float
        ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]:
            return await self._admin.list_offsets({key: places[key] for key in left}, timeout=timeout_s)

        return await self._without_failures("offsets of partition", list(places), until_s, ask)

    async def _log_dirs(self, cluster: ClusterDescription, until_s: float) -> dict[int, tuple[LogDirDescription, ...]]:
        """Ask each broker, all at once: one that is away does not hide the others."""

        async def ask(left: Sequence[int], timeout_s: float) -> Mapping[int, tuple[LogDirDescription, ...]]:
            answers = await asyncio.gather(
                *(self._admin.describe_log_dirs([node_id], timeout=timeout_s) for node_id in left),
                return_exceptions=True,
            )
            found: dict[int, tuple[LogDirDescription, ...]] = {}
            for node_id, answer in zip(left, answers, strict=True):
                if isinstance(answer, KafkaError):
                    self._avoid("log directories of broker", {node_id: answer})
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    found |= answer
            return found

        nodes = [broker.node_id for broker in cluster.brokers]
        return await self._without_failures("log directories of broker", nodes, until_s, ask)

    # -- groups

    async def _groups(self, focus: Sequence[str], until_s: float) -> dict[str, GroupSnapshot]:
        try:
            listed = await self._admin.list_groups(timeout=_left(until_s))
        except KafkaError as error:
            self._missing["groups"] = error
            return {}
        chosen = [group for group in listed if self._is_group_chosen(group.group_id)]
        offsets: dict[str, dict[TopicPartition, int]] = {}
        share_lags: dict[str, dict[TopicPartition, int]] = {}
        shared = [group.group_id for group in chosen if group.group_type is GroupType.SHARE]
        others = [
            group.group_id
            for group in chosen
            if group.group_type is GroupType.STREAMS
            or (group.group_type is not GroupType.SHARE and group.protocol_type in _CONSUMERS)
        ]
        for names in _chunks(others, GROUPS_OF_A_REQUEST):
            offsets |= await self._committed(names, until_s)
        for names in _chunks(shared, GROUPS_OF_A_REQUEST):
            await self._started(names, until_s, offsets, share_lags)
        await self._describe(chosen, focus, until_s)
        return {
            group.group_id: GroupSnapshot(
                group.group_id,
                group.group_type,
                group.state,
                group.protocol_type,
                offsets.get(group.group_id, {}),
                share_lags.get(group.group_id, {}),
                self._description(group),
            )
            for group in chosen
        }

    async def _committed(self, names: Sequence[str], until_s: float) -> dict[str, dict[TopicPartition, int]]:
        async def ask(left: Sequence[str], timeout_s: float) -> Mapping[str, dict[TopicPartition, int]]:
            found = await self._admin.list_group_offsets(left, timeout=timeout_s)
            return {name: {key: each.offset for key, each in of_one.items()} for name, of_one in found.items()}

        return await self._without_failures("offsets of group", names, until_s, ask)

    async def _started(
        self,
        names: Sequence[str],
        until_s: float,
        offsets: dict[str, dict[TopicPartition, int]],
        lags: dict[str, dict[TopicPartition, int]],
    ) -> None:
        found = await self._without_failures(
            "offsets of share group",
            names,
            until_s,
            lambda left, timeout_s: self._admin.list_share_group_offsets(left, timeout=timeout_s),
        )
        for name, of_one in found.items():
            offsets[name] = {key: each.start_offset for key, each in of_one.items()}
            lags[name] = {key: each.lag for key, each in of_one.items() if each.lag is not None}

    async def _describe(self, listed: Sequence[GroupListing], focus: Sequence[str], until_s: float) -> None:
        """Ask for the members of groups: those in focus, and those whose description is missing or old."""
        now_s = asyncio.get_running_loop().time()
        there = {group.group_id for group in listed}
        self._descriptions = {name: known for name, known in self._descriptions.items() if name in there}
        asked_s = {name: at_s for name, (at_s, _) in self._descriptions.items()}
        old = [
            group.group_id
            for group in listed
            if group.state not in _WITHOUT_MEMBERS
            and now_s - asked_s.get(group.group_id, -DESCRIPTION_AGE_S) >= DESCRIPTION_AGE_S
        ]
        old.sort(key=lambda name: asked_s.get(name, -1.0))
        wanted = dict.fromkeys([name for name in focus if name in there] + old)
        found = await self._without_failures(
            "members of group",
            list(islice(wanted, DESCRIBED_MAX)),
            until_s,
            lambda left, timeout_s: self._admin.describe_groups(left, timeout=timeout_s),
        )
        self._descriptions |= {name: (now_s, description) for name, description in found.items()}

    def _description(self, group: GroupListing) -> GroupDescription | None:
        known = self._descriptions.get(group.group_id)
        return None if known is None or group.state in _WITHOUT_MEMBERS else known[1]

    # -- failures

    async def _without_failures(
        self,
        what: str,
        items: Sequence[K],
        until_s: float,
        ask: Callable[[Sequence[K], float], Awaitable[Mapping[K, V]]],
    ) -> dict[K, V]:
        """Ask for several things, and again without those that fail: an admin call returns all or raises.

        Args:
            what: the things, for `Snapshot.missing`, such as "offsets of group".
            items: the things.
            until_s: the deadline, on the loop's clock.
            ask: asks for some of them, within a number of seconds.
        """
        left = [item for item in items if (what, item) not in self._avoided]
        found: Mapping[K, V] = {}
        for _ in range(_ROUNDS_MAX):
            if not left:
                break
            try:
                found = await ask(left, min(ATTEMPT_S, _left(until_s)))
                break
            except KafkaError as error:
                failures = {item: error.failures[item] for item in left if item in error.failures}
                failures = failures or dict.fromkeys(left, error)
                self._avoid(what, {item: each for item, each in failures.items() if not _is_gone(each)})
                left = [item for item in left if item not in failures]
        self._note_missing(what, items)
        return dict(found)

    def _avoid(self, what: str, failures: Mapping[K, KafkaError]) -> None:
        now_s = asyncio.get_running_loop().time()
        for item, error in failures.items():
            due_s = now_s + (FAILED_S if isinstance(error, RetriableError) else REFUSED_S)
            self._avoided[what, item] = (due_s, error)

    def _note_missing(self, what: str, items: Sequence[K]) -> None:
        missing = [item for item in items if (what, item) in self._avoided] if self._avoided else []
        if missing:
            more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            self._missing[f"{what} {_named(missing[0])}{more}"] = self._avoided[what, missing[0]][1]


def _chooser(patterns: Sequence[str]) -> Callable[[str], bool]:
    if not patterns:
        return lambda name: True
    pattern = re.compile("|".join(map(fnmatch.translate, patterns)))
    return lambda name: pattern.match(name) is not None


def _chunks(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _left(until_s: float) -> float:
    """Return the seconds until a deadline; a call gets some time in any case, to say what it waited for."""
    return max(0.1, until_s - asyncio.get_running_loop().time())


def _is_gone(error: KafkaError) -> bool:
    """Return whether something was deleted since it was listed, which is no failure."""
    return isinstance(error, BrokerError) and error.code in _GONE


def _named(item: object) -> str:
    return f"{item.topic}-{item.partition}" if isinstance(item, TopicPartition) else str(item)
