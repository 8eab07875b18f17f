"""The pages of topics: a list, one topic with its partitions and configuration, and changes of topics.

Start at `topics`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.configs import ConfigEntry, ConfigResource
from kafkaraw.client.admin.offsets import OffsetSpec
from kafkaraw.client.admin.topics import NewTopic, TopicDescription, TopicListing
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site, number_of, url
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.protocol.config_codes import ConfigSource
from kafkaraw.records import TopicPartition

PER_PAGE: Final = 100
_LIST_S: Final = 2.0
_SIZES_S: Final = 15.0
_SIZES_STALE_S: Final = 120.0
LIST_STALE_S: Final = 60.0
"""How old a list may be in which the reader searches; a newer one is asked for meanwhile."""
_NUMBERS_S: Final = 0.4
"""How long a page with a list may take because of its numbers."""
_LEAST_S: Final = 0.04
_QUICK_MAX: Final = 1_000
"""Numbers of a longer list are not asked for as the reader types, but when the script asks again."""
_PAGES_MAX: Final = 1_000_000
_RATE_MIN_S: Final = 2.0
_RATE_MAX_S: Final = 600.0
_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC: "this topic",
    ConfigSource.DYNAMIC_BROKER: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.STATIC_BROKER: "server.properties",
    ConfigSource.DEFAULT: "default",
}


@dataclass(frozen=True)
class TopicRow:
    """A topic in the list.

    Attributes:
        name: its name.
        partitions: how many it has.
        records: the number of offsets; None if it is not known.
        size_bytes: of all replicas; None if it is not known.
        is_internal: whether Kafka keeps it for itself.
    """

    name: str
    partitions: int
    records: int | None
    size_bytes: int | None
    is_internal: bool


@dataclass(frozen=True)
class PartitionRow:
    """A partition.

    Attributes:
        number: of the partition.
        leader: the id of the leader's broker; -1 if there is none.
        replicas: ids of brokers.
        missing: replicas that are not in sync.
        start: the first offset; None if it is not known.
        end: the offset behind the last record.
    """

    number: int
    leader: int
    replicas: tuple[int, ...]
    missing: tuple[int, ...]
    start: int | None
    end: int | None


async def listed(cluster: ClusterConnection, *, stale_s: float = 0.0) -> list[TopicListing]:
    """Return all topics, by name; `stale_s` as that of `ClusterConnection.kept`."""

    async def ask() -> list[TopicListing]:
        return sorted(await cluster.aside(lambda admin: admin.list_topics()), key=lambda each: each.name)

    return await cluster.kept("topics", _LIST_S, ask, stale_s=stale_s)


async def sizes_of(cluster: ClusterConnection) -> dict[str, int]:
    """Return the bytes of all replicas by topic; nothing if the cluster does not tell it."""

    async def ask() -> dict[str, int]:
        try:
            return await cluster.aside(_sizes)
        except KafkaError:
            return {}

    return await cluster.kept("sizes", _SIZES_S, ask, stale_s=_SIZES_STALE_S)


async def _sizes(admin: AsyncAdmin) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for directories in (await admin.describe_log_dirs()).values():
        for directory in directories:
            for partition, replica in directory.replicas.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + replica.size_bytes
    return sizes


async def ends_of(
    cluster: ClusterConnection, partitions: Iterable[TopicPartition], place: OffsetSpec = OffsetSpec.LATEST
) -> dict[TopicPartition, int]:
    """Return the first or last offsets of partitions, as far as their leaders answer."""
    wanted = list(partitions)
    if not wanted:
        return {}
    try:
        found = await cluster.admin.list_offsets(dict.fromkeys(wanted, place))
    except KafkaError:
        if len(wanted) == 1:
            return {}
        halves = [await ends_of(cluster, [each], place) for each in wanted[:_SINGLE_MAX]]
        return {each: offset for half in halves for each, offset in half.items()}
    return {each: at.offset for each, at in found.items() if at is not None}


_SINGLE_MAX: Final = 20


async def topics(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the list of topics."""
    words = request.query_params.get("q", "").lower().split()
    shows_internal = request.query_params.get("internal") == "1"
    part, began = part_of(request), time.monotonic()
    stale_s = LIST_STALE_S if part else 0.0
    every = await listed(cluster, stale_s=stale_s)
    found = [
        each
        for each in every
        if (shows_internal or not each.is_internal) and all(word in each.name.lower() for word in words)
    ]
    page = number_of(request.query_params, "page", 1, _PAGES_MAX) or 1
    chosen = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    partitions = [TopicPartition(each.name, number) for each in chosen for number in range(each.partitions)]

    async def offsets() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        starts, ends = await asyncio.gather(
            ends_of(cluster, partitions, OffsetSpec.EARLIEST), ends_of(cluster, partitions)
        )
        return starts, ends

    key = "offsets " + "\0".join(each.name for each in chosen)
    wait_s = numbers_s(began, part, len(every))
    known, sizes = await asyncio.gather(
        cluster.within(wait_s, key, lambda: cluster.kept(key, _LIST_S, offsets, stale_s=stale_s)),
        cluster.within(wait_s, "sizes", lambda: sizes_of(cluster)),
    )
    starts, ends = known or ({}, {})
    rows = [_row(each, starts, ends, sizes or {}) for each in chosen]
    context: dict[str, Any] = {
        "rows": rows,
        "count": len(found),
        "page_number": page,
        "per_page": PER_PAGE,
        "shows_internal": shows_internal,
        "is_partial": known is None or sizes is None,
    }
    return site.page(request, "topics.html", cluster, tab="topics", **context)


def numbers_s(began: float, part: str, count: int) -> float:
    """Return how long to wait for the numbers of a list; when the names took long, the numbers come later.

    Args:
        began: when the request arrived, in seconds, monotonic.
        part: as `part_of` returns it.
        count: how long the whole list is.
    """
    if part == TYPED:
        return _LEAST_S if count <= _QUICK_MAX else 0.0
    return max(_LEAST_S, _NUMBERS_S - (time.monotonic() - began))


TYPED: Final = "typed"


def part_of(request: Request) -> str:
    """Return why the page's script asks for a part of the page: `TYPED` as the reader types; empty for a whole page."""
    return request.headers.get("x-part", "")


def _row(
    topic: TopicListing,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    sizes: Mapping[str, int],
) -> TopicRow:
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    is_known = all(each in starts and each in ends for each in partitions)
    records = sum(ends[each] - starts[each] for each in partitions) if is_known else None
    return TopicRow(topic.name, topic.partitions, records, sizes.get(topic.name), topic.is_internal)


async def described(cluster: ClusterConnection, topic: str) -> TopicDescription:
    """Return a topic.

    Raises:
        BrokerError: it does not exist.
    """
    found: TopicDescription = (await cluster.admin.describe_topics([topic]))[topic]
    return found


async def topic_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a topic: its partitions, rates and configuration."""
    name = request.path_params["topic"]
    found = await described(cluster, name)
    keys = [TopicPartition(name, each.partition) for each in found.partitions]
    led = [key for key, each in zip(keys, found.partitions, strict=True) if each.leader_id >= 0]
    starts, ends, sizes, configs = await asyncio.gather(
        ends_of(cluster, led, OffsetSpec.EARLIEST), ends_of(cluster, led), sizes_of(cluster), _configs(cluster, name)
    )
    rows = [
        PartitionRow(
            each.partition,
            each.leader_id,
            each.replica_nodes,
            tuple(sorted(set(each.replica_nodes) - set(each.isr_nodes))),
            starts.get(key),
            ends.get(key),
        )
        for key, each in zip(keys, found.partitions, strict=True)
    ]
    rate = _rate(site, cluster, name, sum(ends.values()))
    entries, refused = configs
    return site.page(
        request,
        "topic.html",
        cluster,
        topic=name,
        rows=rows,
        records=sum(ends[key] - starts[key] for key in led if key in starts and key in ends),
        size=sizes.get(name),
        rate=rate,
        configs=entries,
        refused=refused,
        is_internal=found.is_internal,
        tab="topic",
    )


def _rate(site: Site, cluster: ClusterConnection, topic: str, end: int) -> float | None:
    """Return records per second since the page was looked at before, if that was neither just now nor long ago."""
    now = time.monotonic()
    key = ("rate", cluster.name, topic)
    before = site.history.get(key)
    if len(site.history) > _HISTORY_MAX:
        for old in [each for each in site.history if each[0] == "rate"]:
            del site.history[old]
    if before is None or now - before[0] > _RATE_MAX_S:
        site.history[key] = (now, end, None)
        return None
    elapsed = now - before[0]
    if elapsed < _RATE_MIN_S:
        rate: float | None = before[2]
        return rate
    rate = max(end - before[1], 0) / elapsed
    site.history[key] = (now, end, rate)
    return rate


_HISTORY_MAX: Final = 5_000


async def _configs(cluster: ClusterConnection, topic: str) -> tuple[list[dict[str, Any]], str]:
    """Return the configuration, those settings first that the topic has itself; and why it is not known."""
    resource = ConfigResource.topic(topic)
    try:
        found = (await cluster.admin.describe_configs([resource], synonyms=True, documentation=True))[resource]
    except KafkaError as error:
        return [], str(error)
    entries = sorted(found.values(), key=lambda each: (each.source is not ConfigSource.DYNAMIC_TOPIC, each.name))
    return [_config(each) for each in entries], ""


def _config(entry: ConfigEntry) -> dict[str, Any]:
    default = next((each.value for each in entry.synonyms if each.source is ConfigSource.DEFAULT), None)
    return {
        "name": entry.name,
        "value": "(secret)" if entry.is_sensitive else entry.value,
        "source": _SOURCES.get(entry.source, entry.source.name.lower()),
        "is_own": entry.source is ConfigSource.DYNAMIC_TOPIC,
        "default": default,
        "documentation": entry.documentation or "",
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
    }


# -- changes


async def create_form(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a new topic."""
    return site.page(request, "create_topic.html", cluster, tab="topics")


async def create(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Create a topic."""
    fields = await site.form(request)
    name = fields.get("name", "").strip()
    partitions = number_of(fields, "partitions", -1, 100_000)
    replication = number_of(fields, "replication_factor", -1, 100)
    configs: dict[str, str | None] = {}
    for line in fields.get("configs", "").splitlines():
        if line.strip():
            key, equals, value = line.partition("=")
            if not equals:
                raise UsageError(f"{line[:60]!r}: one setting on each line, as NAME=VALUE")
            configs[key.strip()] = value.strip()
    with site.audit.change(request.state.user, cluster.name, "create topic", topic=name, partitions=partitions):
        await cluster.admin.create_topics([NewTopic(name, partitions, replication, configs)])
    return site.changed(cluster, url("c", cluster.name, "topics", name))


async def confirm(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what deleting or emptying a topic would do, and ask for its name."""
    name, action = request.path_params["topic"], request.path_params["action"]
    found = await described(cluster, name)
    keys = [TopicPartition(name, each.partition) for each in found.partitions]
    starts, ends = await asyncio.gather(ends_of(cluster, keys, OffsetSpec.EARLIEST), ends_of(cluster, keys))
    records = sum(ends[key] - starts.get(key, 0) for key in keys if key in ends)
    size = (await sizes_of(cluster)).get(name)
    facts = [f"Topic {name} has {len(keys)} partitions and {records:,} records."]
    if size is not None:
        facts.append(f"Its replicas have {size:,} bytes.")
    if action == "delete":
        facts.append("The topic and all its records are deleted. Committed offsets of its groups are deleted, too.")
    else:
        facts.append("All records are deleted. The topic, its configuration and committed offsets stay.")
    return site.page(
        request, "confirm.html", cluster, title=f"{action.capitalize()} topic", facts=facts, name=name,
        button=f"{action.capitalize()} {name}", back=url("c", cluster.name, "topics", name), tab="topic", hidden={},
        name_of="the topic",
    )  # fmt: skip


async def destroy(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Delete or empty a topic."""
    fields = await site.form(request)
    name, action = request.path_params["topic"], request.path_params["action"]
    check_name(fields, name)
    found = await described(cluster, name)
    with site.audit.change(request.state.user, cluster.name, f"{action} topic", topic=name):
        if action == "delete":
            await cluster.admin.delete_topics([name])
            return site.changed(cluster, url("c", cluster.name, "topics"))
        await cluster.admin.delete_records({TopicPartition(name, each.partition): -1 for each in found.partitions})
    return site.changed(cluster, url("c", cluster.name, "topics", name))


def check_name(fields: Mapping[str, str], name: str) -> None:
    """Check that the reader has typed the name of what is destroyed.

    Raises:
        UsageError: it is another one.
    """
    if fields.get("confirm", "") not in (name, visible(name)):
        raise UsageError(f"the name that was typed is not {name!r}: nothing was changed")


async def set_config(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Set a setting of a topic, or delete it so that its default counts."""
    fields = await site.form(request)
    name, setting = request.path_params["topic"], fields.get("setting", "")
    value = None if fields.get("reset") else fields.get("value", "")
    with site.audit.change(request.state.user, cluster.name, "set config", topic=name, setting=setting, value=value):
        await cluster.admin.alter_configs({ConfigResource.topic(name): {setting: value}})
    return site.changed(cluster, url("c", cluster.name, "topics", name) + "#configuration")


async def add_partitions(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Give a topic more partitions."""
    fields = await site.form(request)
    name = request.path_params["topic"]
    count = number_of(fields, "count", 0, 100_000)
    with site.audit.change(request.state.user, cluster.name, "add partitions", topic=name, count=count):
        await cluster.admin.create_partitions({name: count})
    return site.changed(cluster, url("c", cluster.name, "topics", name))
