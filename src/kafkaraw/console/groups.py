"""The pages of groups: a list, one group with its lag and why it lags, and the reset of its offsets.

Groups that are looked at are sampled for some minutes, so that the page knows rates. Start at `group_page`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.group_descriptions import GroupDescription, GroupListing, GroupState, GroupType
from kafkaraw.client.admin.offsets import OffsetSpec
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.messages import time_of
from kafkaraw.console.reading import read_heads
from kafkaraw.console.shown import duration_text, first, visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.topics import LIST_STALE_S, check_name, ends_of, numbers_s, part_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.monitoring import (
    GroupPartitionStatus,
    GroupSnapshot,
    LagHistory,
    LagSample,
    TimeLag,
    members_of_group,
    partitions_of_group,
)
from kafkaraw.records import TopicPartition

PER_PAGE: Final = 50
_LIST_S: Final = 2.0
_SAMPLE_S: Final = 5.0
_SAMPLED_FOR_S: Final = 900.0
_SAMPLES_MAX: Final = 180
_SAMPLED_MAX: Final = 50
"""Groups that are sampled at once; the one that was looked at first is given up."""
_SAMPLES_APART_MS: Final = 4_000
_RATE_OVER_MS: Final = 60_000
_HEADS_MAX: Final = 50
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION: Final = re.compile("[0-9]{1,9}")
_OFFSET: Final = re.compile("[0-9]{1,18}")
_PAGES_MAX: Final = 1_000_000
_IDLE: Final = (GroupState.EMPTY, GroupState.DEAD)
_CHART_WIDTH: Final = 600
_CHART_HEIGHT: Final = 80
_REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


@dataclass
class History:
    """Samples of one group.

    Attributes:
        lags: the samples.
        seen_at: when the page was looked at.
        task: takes samples.
    """

    lags: LagHistory = field(default_factory=lambda: LagHistory(_SAMPLES_MAX, _RATE_OVER_MS))
    seen_at: float = 0.0
    task: asyncio.Task[None] | None = None

    def rates(self) -> tuple[float, float] | None:
        """Return records per second that arrive and that are committed; None before there are samples."""
        written, consumed = self.lags.written_per_s, self.lags.consumed_per_s
        return None if written is None or consumed is None else (written, consumed)


async def listed(cluster: ClusterConnection, *, stale_s: float = 0.0) -> list[GroupListing]:
    """Return all groups, by name; `stale_s` as that of `ClusterConnection.kept`."""

    async def ask() -> list[GroupListing]:
        return sorted(await cluster.aside(lambda admin: admin.list_groups()), key=lambda each: each.group_id)

    return await cluster.kept("groups", _LIST_S, ask, stale_s=stale_s)


async def groups(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the list of groups."""
    words = request.query_params.get("q", "").lower().split()
    part, began = part_of(request), time.monotonic()
    stale_s = LIST_STALE_S if part else 0.0
    every = await listed(cluster, stale_s=stale_s)
    found = [each for each in every if all(word in each.group_id.lower() for word in words)]
    page = number_of(request.query_params, "page", 1, _PAGES_MAX) or 1
    chosen = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    key = "lags " + "\0".join(each.group_id for each in chosen)
    known = await cluster.within(
        numbers_s(began, part, len(every)),
        key,
        lambda: cluster.kept(key, _LIST_S, lambda: _lags(cluster, chosen), stale_s=stale_s),
    )
    lags = known or {}
    rows = [
        {
            "id": each.group_id,
            "shown": visible(each.group_id),
            "type": each.group_type.value if each.group_type else "unknown",
            "state": each.state.value if each.state else "unknown",
            "lag": lags.get(each.group_id),
        }
        for each in chosen
    ]
    context: dict[str, Any] = {"rows": rows, "count": len(found), "page_number": page, "per_page": PER_PAGE}
    context["is_partial"] = known is None
    return site.page(request, "groups.html", cluster, tab="groups", **context)


async def _lags(cluster: ClusterConnection, groups: Sequence[GroupListing]) -> dict[str, int]:
    """Return the lag of each group, as far as the cluster tells it."""
    names = [each.group_id for each in groups if each.group_type is not GroupType.SHARE]
    shares = [each.group_id for each in groups if each.group_type is GroupType.SHARE]
    found: dict[str, int] = {}
    with contextlib.suppress(KafkaError):
        committed = await cluster.admin.list_group_offsets(names) if names else {}
        ends = await ends_of(cluster, {key for offsets in committed.values() for key in offsets})
        for name, offsets in committed.items():
            found[name] = sum(max(ends[key] - each.offset, 0) for key, each in offsets.items() if key in ends)
    with contextlib.suppress(KafkaError):
        started = await cluster.admin.list_share_group_offsets(shares) if shares else {}
        for name, infos in started.items():
            found[name] = sum(each.lag or 0 for each in infos.values())
    return found


async def described(cluster: ClusterConnection, group: str) -> GroupDescription:
    """Return a group.

    Raises:
        MissingError: it does not exist.
    """
    try:
        return (await cluster.admin.describe_groups([group]))[group]
    except KafkaError as error:
        failure = error.failures.get(group, error)
        if "GROUP_ID_NOT_FOUND" in str(getattr(failure, "name", "")) or "GROUP_ID_NOT_FOUND" in str(error):
            raise MissingError(f"there is no group {group!r}: it was deleted, or has never existed") from error
        raise


async def snapshot_of(
    cluster: ClusterConnection, group: GroupDescription
) -> tuple[GroupSnapshot, dict[TopicPartition, int]]:
    """Return where a group is, and the ends of its partitions."""
    name, share_lags = group.group_id, {}
    if group.group_type is GroupType.SHARE:
        infos = (await cluster.admin.list_share_group_offsets([name])).get(name, {})
        offsets = {key: each.start_offset for key, each in infos.items() if each.start_offset >= 0}
        share_lags = {key: each.lag for key, each in infos.items() if each.lag is not None}
    else:
        committed = (await cluster.admin.list_group_offsets([name])).get(name, {})
        offsets = {key: each.offset for key, each in committed.items()}
    owned = {key for member in group.members for key in member.assignment}
    ends = await ends_of(cluster, sorted({*offsets, *owned}))
    return GroupSnapshot(name, group.group_type, group.state, "", offsets, share_lags, group), ends


async def partitions_of(cluster: ClusterConnection, group: GroupDescription) -> tuple[GroupPartitionStatus, ...]:
    """Return where a group is in its partitions: those with offsets, and those that members own."""
    return partitions_of_group(*await snapshot_of(cluster, group))


async def _waits(cluster: ClusterConnection, rows: Sequence[GroupPartitionStatus]) -> dict[TopicPartition, TimeLag]:
    """Return the age of the first record that is left, by partition, as far as it can be read quickly."""
    behind = {_key(each): each.committed for each in rows if each.lag and each.committed is not None}
    heads: dict[TopicPartition, int] = {}
    with contextlib.suppress(KafkaError):
        heads = await read_heads(cluster, dict(list(behind.items())[:_HEADS_MAX]))
    now_ms = time.time() * 1_000
    return {key: TimeLag(max((now_ms - at_ms) / 1_000, 0), False) for key, at_ms in heads.items() if at_ms >= 0}


def _key(row: GroupPartitionStatus) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


async def group_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a group."""
    name = _named(request)
    group = await described(cluster, name)
    snapshot, ends = await snapshot_of(cluster, group)
    waits = await _waits(cluster, partitions_of_group(snapshot, ends))
    rows = partitions_of_group(snapshot, ends, time_lags=waits)
    history = _sampled(site, cluster, group)
    _note(history, rows)
    rates = history.rates()
    return site.page(
        request,
        "group.html",
        cluster,
        group=group,
        group_id=name,
        rows=rows,
        rates=rates,
        lag=sum(each.lag or 0 for each in rows),
        sentences=sentences(group, rows, rates),
        members=members_of_group(snapshot, ends),
        chart=chart(history.lags.samples),
        is_share=group.group_type is GroupType.SHARE,
        is_idle=group.state in _IDLE,
        tab="groups",
    )


def _named(request: Request) -> str:
    name: str = request.query_params.get("id", "")
    if not name:
        raise MissingError("the address names no group: it needs ?id=GROUP")
    return name


def sentences(
    group: GroupDescription, rows: Sequence[GroupPartitionStatus], rates: tuple[float, float] | None
) -> list[tuple[str, str]]:
    """Return why a group lags, as pairs of "good", "bad" or "note", and a sentence."""
    lag = sum(each.lag or 0 for each in rows)
    behind = [each for each in rows if each.lag]
    said = [*_about_members(group, rows, lag)]
    if not lag:
        return [
            *said,
            ("good", "The group has processed everything." if rows else "The group has no offsets."),
        ]
    waits = max((each.time_lag.seconds for each in behind if each.time_lag is not None), default=None)
    age = "" if waits is None else f"; the oldest of them was written {duration_text(waits)} ago"
    said.append(("note", f"{lag:,} records are left in {len(behind)} of {len(rows)} partitions{age}."))
    most = max(behind, key=lambda each: each.lag or 0)
    if len(rows) > 1 and (most.lag or 0) > 0.8 * lag:
        where = f"{most.topic} [{most.partition}]"
        why = "either its records take longer, or most keys are in this partition"
        said.append(("note", f"{100 * (most.lag or 0) // lag} % of the lag is in {where}: {why}."))
    if rates is not None:
        said.append(_about_rates(lag, *rates))
    return said


def _about_members(group: GroupDescription, rows: Sequence[GroupPartitionStatus], lag: int) -> list[tuple[str, str]]:
    said = []
    if not group.members and lag:
        said.append(("bad", "The group has no members: nothing reads. Start its consumers, or reset its offsets."))
    if group.state in _REBALANCING:
        said.append(
            ("bad", f"The group rebalances ({group.state.value}): until it is done, some partitions are not read.")
        )
    free = [each for each in rows if not each.member and each.lag]
    if group.members and free and group.group_type not in (GroupType.SHARE, GroupType.STREAMS):
        names = first(f"{each.topic} [{each.partition}]" for each in free)
        said.append(("bad", f"No member owns {names}, where {sum(each.lag or 0 for each in free):,} records are left."))
    idle = [member for member in group.members if not member.assignment]
    if idle and group.group_type in (GroupType.CLASSIC, GroupType.CONSUMER) and group.state is GroupState.STABLE:
        said.append(
            (
                "note",
                f"{len(idle)} of {len(group.members)} members own no partition: there are too many members.",
            )
        )
    if group.state is GroupState.NOT_READY:
        said.append(("bad", "The group is not ready: a source topic of its topology is missing, or is being created."))
    gone = [each for each in rows if each.end_offset is None]
    if gone:
        names = first(f"{each.topic} [{each.partition}]" for each in gone)
        said.append(("note", f"The end of {names} is not known: the topic was deleted, or its leader does not answer."))
    early = [
        each
        for each in rows
        if each.committed is not None and each.end_offset is not None and each.committed > each.end_offset
    ]
    if early:
        names = first(f"{each.topic} [{each.partition}]" for each in early)
        said.append(
            (
                "bad",
                f"The committed offset of {names} is beyond the log's end: the topic is a new one, or lost records.",
            )
        )
    return said


def _about_rates(lag: int, arriving: float, done: float) -> tuple[str, str]:
    pace = f"{arriving:,.1f} records per second arrive, {done:,.1f} are processed"
    if done <= 0:
        return "bad", f"{pace}: the group commits nothing. Its members may be stuck in one record, or do not commit."
    if done > arriving * 1.02:
        return "good", f"{pace}: at this pace the group has caught up in {duration_text(lag / (done - arriving))}."
    if arriving > done * 1.02:
        return (
            "bad",
            f"{pace}: the lag grows. More members (up to one for each partition), or quicker ones, are needed.",
        )
    return "note", f"{pace}: the lag stays as it is."


# -- history


def _sampled(site: Site, cluster: ClusterConnection, group: GroupDescription) -> History:
    key = ("group", cluster.name, group.group_id)
    history = site.history.get(key)
    if not isinstance(history, History):
        known = [each for each in site.history if each[0] == "group"]
        if len(known) >= _SAMPLED_MAX:
            old = site.history.pop(known[0])
            if old.task is not None:
                old.task.cancel()
        history = site.history[key] = History()
    history.seen_at = time.monotonic()
    if history.task is None or history.task.done():
        history.task = asyncio.create_task(_keep_sampling(cluster, group, history))
    return history


async def _keep_sampling(cluster: ClusterConnection, group: GroupDescription, history: History) -> None:
    """Take samples as long as the page was looked at lately."""
    while time.monotonic() - history.seen_at < _SAMPLED_FOR_S:
        await asyncio.sleep(_SAMPLE_S)
        with contextlib.suppress(KafkaError):
            _note(history, await partitions_of(cluster, group))


def _note(history: History, rows: Sequence[GroupPartitionStatus]) -> None:
    known = [each for each in rows if each.committed is not None and each.lag is not None]
    now_ms = time.monotonic() * 1_000
    if history.lags.samples and now_ms - history.lags.samples[-1].at_ms < _SAMPLES_APART_MS:
        return
    lag, committed = sum(each.lag or 0 for each in known), sum(each.committed or 0 for each in known)
    history.lags.add(LagSample(now_ms, lag, committed))


def chart(samples: Sequence[LagSample]) -> dict[str, Any] | None:
    """Return the points of the lag over time, for a picture of fixed size; None before there are some."""
    if len(samples) < 2:
        return None
    start, end = samples[0].at_ms, samples[-1].at_ms
    most = max(each.lag for each in samples) or 1
    span = max(end - start, 1e-6)
    points = " ".join(
        f"{_CHART_WIDTH * (each.at_ms - start) / span:.1f},{_CHART_HEIGHT * (1 - each.lag / most):.1f}"
        for each in samples
    )
    return {
        "points": points,
        "most": most,
        "seconds": (end - start) / 1_000,
        "width": _CHART_WIDTH,
        "height": _CHART_HEIGHT,
    }


# -- reset


@dataclass(frozen=True)
class PlannedOffset:
    """A change of an offset.

    Attributes:
        partition: topic and partition.
        committed: the offset now; None if there is none.
        new: the offset afterwards.
        end: of the log.
    """

    partition: TopicPartition
    committed: int | None
    new: int
    end: int


_WAYS: Final = ("earliest", "latest", "offset", "shift", "time")


async def reset_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a reset and, if it is filled in, what it would change."""
    name = _named(request)
    query = request.query_params
    group = await described(cluster, name)
    rows = await partitions_of(cluster, group)
    topics = sorted({each.topic for each in rows})
    plan: list[PlannedOffset] = []
    if query.get("to"):
        plan = await planned_reset(cluster, rows, query)
    return site.page(
        request, "reset.html", cluster, group=group, group_id=name, topics=topics, plan=plan, ways=_WAYS,
        is_idle=group.state in _IDLE, given=dict(query), tab="groups",
    )  # fmt: skip


async def planned_reset(
    cluster: ClusterConnection, rows: Sequence[GroupPartitionStatus], given: Mapping[str, str]
) -> list[PlannedOffset]:
    """Return the new offset of each partition.

    Raises:
        UsageError: what is given cannot be read.
    """
    way, topic = given.get("to", ""), given.get("topic", "")
    if way not in _WAYS:
        raise UsageError(f"to={way[:40]!r} must be one of {', '.join(_WAYS)}")
    committed = {_key(each): each.committed for each in rows if not topic or each.topic == topic}
    starts, ends = await asyncio.gather(ends_of(cluster, committed, OffsetSpec.EARLIEST), ends_of(cluster, committed))
    known = [key for key in committed if key in starts and key in ends]
    if not known:
        raise UsageError("the group has no offsets in partitions that exist")
    wanted = await _wanted(cluster, way, given, {key: committed[key] for key in known}, starts, ends)
    return [
        PlannedOffset(key, committed[key], min(max(wanted[key], starts[key]), ends[key]), ends[key])
        for key in sorted(wanted)
    ]


async def _wanted(
    cluster: ClusterConnection,
    way: str,
    given: Mapping[str, str],
    committed: Mapping[TopicPartition, int | None],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if way == "earliest":
        return {key: starts[key] for key in committed}
    if way == "latest":
        return {key: ends[key] for key in committed}
    if way == "offset":
        offset = number_of(given, "offset", 0, _OFFSET_MAX)
        return dict.fromkeys(committed, offset)
    if way == "shift":
        text = given.get("shift", "0").strip()
        try:
            by = int(text)
        except ValueError:
            raise UsageError(f"shift={text[:40]!r} must be a whole number, such as -100") from None
        return {key: offset + by for key, offset in committed.items() if offset is not None}
    time_ms = time_of(given.get("time", ""), time.time_ns() // 1_000_000)
    found = await cluster.admin.list_offsets(dict.fromkeys(committed, time_ms))
    return {key: ends[key] if at is None else at.offset for key, at in found.items()}


async def reset(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Reset a group: exactly to the offsets that were shown."""
    fields = await site.form(request)
    name = fields.get("id", "")
    check_name(fields, name)
    group = await described(cluster, name)
    if group.state not in _IDLE:
        raise UsageError(f"group {name!r} has members (its state is {group.state.value}): stop them first")
    offsets = _offsets_in(fields.get("plan", ""))
    facts = {"group": name, "offsets": {f"{key.topic}-{key.partition}": offset for key, offset in offsets.items()}}
    with site.audit.change(request.state.user, cluster.name, "reset group", **facts):
        if group.group_type is GroupType.SHARE:
            await cluster.admin.alter_share_group_offsets(name, offsets)
        else:
            await cluster.admin.alter_group_offsets(name, offsets)
    return site.changed(cluster, url("c", cluster.name, "group", id=name))


def _offsets_in(text: str) -> dict[TopicPartition, int]:
    """Return the offsets of a plan, one on each line: topic, partition and offset."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) != 3 or not (_PARTITION.fullmatch(parts[1]) and _OFFSET.fullmatch(parts[2])):
            raise UsageError(f"{line[:60]!r} is no line of a plan: show the plan again")
        found[TopicPartition(parts[0], int(parts[1]))] = int(parts[2])
    if not found:
        raise UsageError("the plan is empty: show it again")
    return found


async def confirm_delete(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what deleting a group would do."""
    name = _named(request)
    group = await described(cluster, name)
    rows = await partitions_of(cluster, group)
    facts = [
        f"Group {visible(name)} is {group.state.value} and has {len(group.members)} members.",
        f"Its committed offsets in {len(rows)} partitions are deleted: consumers of this name begin where "
        "auto.offset.reset says.",
    ]
    if group.state not in _IDLE:
        facts.append("Kafka refuses to delete a group with members: stop them first.")
    return site.page(
        request, "confirm.html", cluster, title="Delete group", facts=facts, name=name, button="Delete group",
        back=url("c", cluster.name, "group", id=name), tab="groups", hidden={"id": name}, name_of="the group",
    )  # fmt: skip


async def delete(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Delete a group."""
    fields = await site.form(request)
    name = fields.get("id", "")
    check_name(fields, name)
    with site.audit.change(request.state.user, cluster.name, "delete group", group=name):
        await cluster.admin.delete_groups([name])
    return site.changed(cluster, url("c", cluster.name, "groups"))
