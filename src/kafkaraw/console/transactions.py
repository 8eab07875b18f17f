"""The page of transactions: those that are open, those that hang, and the abort of both.

Which transactions hang the admin client tells. Start at `transactions`. Source: KIP-664.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.producers import OpenTransaction
from kafkaraw.client.admin.transactions import TransactionDescription, TransactionListing
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import duration_text, first, time_text, visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.topics import check_name
from kafkaraw.console.topics import listed as topics_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import TopicPartition

ROWS_MAX: Final = 200
PARTITIONS_MAX: Final = 5_000
"""More partitions are not asked for their producers at once; the reader chooses topics."""
_LIST_S: Final = 2.0
_MINUTES: Final = 15
"""transaction.max.timeout.ms of brokers, and what Kafka's tool takes."""
_MINUTES_MAX: Final = 1_000_000
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1
_ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


async def transactions(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show transactions: those that are open, or all; and, if it is asked for, those that hang."""
    query = request.query_params
    listed: Sequence[TransactionListing] = await cluster.kept("transactions", _LIST_S, cluster.admin.list_transactions)
    words = query.get("q", "").lower().split()
    shows_all = query.get("all") == "1"
    chosen = [
        each
        for each in listed
        if (shows_all or each.state not in _ENDED) and all(word in each.transactional_id.lower() for word in words)
    ]
    described = await _described(cluster, chosen[:ROWS_MAX])
    now_ms = time.time_ns() // 1_000_000
    rows = [_row(each, described.get(each.transactional_id), now_ms) for each in chosen[:ROWS_MAX]]
    context: dict[str, Any] = {"rows": rows, "count": len(chosen), "shows_all": shows_all, "known": len(listed)}
    context |= {"said": _sentences(described, now_ms), "found": None, "asked": 0, "minutes": _MINUTES, "now_ms": now_ms}
    if query.get("hanging") == "1":
        context["minutes"] = minutes = number_of(query, "minutes", _MINUTES, _MINUTES_MAX)
        partitions = await _partitions(cluster, query.get("topic", "").strip())
        opened = await cluster.admin.list_open_transactions(partitions, before_ms=now_ms - minutes * 60_000)
        context |= {"found": [each for each in opened if each.is_hanging], "asked": len(partitions)}
    return site.page(request, "transactions.html", cluster, tab="transactions", rows_max=ROWS_MAX, **context)


async def _described(
    cluster: ClusterConnection, listed: Sequence[TransactionListing]
) -> dict[str, TransactionDescription]:
    """Return the details of ids, as far as coordinators tell them."""
    ids = [each.transactional_id for each in listed]
    if not ids:
        return {}
    try:
        return await cluster.admin.describe_transactions(ids)
    except KafkaError as error:
        left = [each for each in ids if each not in error.failures]
        if not left or len(left) == len(ids):
            return {}
    with contextlib.suppress(KafkaError):
        return await cluster.admin.describe_transactions(left)
    return {}


def _row(listing: TransactionListing, one: TransactionDescription | None, now_ms: int) -> dict[str, Any]:
    began_ms = one.start_time_ms if one else None
    return {
        "id": listing.transactional_id,
        "state": one.state if one else listing.state,
        "producer": f"{listing.producer_id}, epoch {one.producer_epoch}" if one else str(listing.producer_id),
        "age_s": None if began_ms is None else max(now_ms - began_ms, 0) / 1_000,
        "timeout_s": one.timeout_ms / 1_000 if one else None,
        "partitions": first((f"{key.topic} [{key.partition}]" for key in sorted(one.partitions)), 8) if one else "",
        "is_open": (one.state if one else listing.state) not in _ENDED,
    }


def _sentences(described: Mapping[str, TransactionDescription], now_ms: int) -> list[tuple[str, str]]:
    said = []
    for one in described.values():
        if one.start_time_ms is not None and now_ms - one.start_time_ms > one.timeout_ms:
            age, limit = (now_ms - one.start_time_ms) / 1_000, one.timeout_ms / 1_000
            text = f"{visible(one.transactional_id)} is open for {duration_text(age)}, longer than its timeout of "
            said.append(("bad", f"{text}{duration_text(limit)}: its coordinator should have aborted it."))
    return said[:10]


async def _partitions(cluster: ClusterConnection, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, or of all.

    Raises:
        UsageError: they are too many for one question.
    """
    if topic:
        described = (await cluster.admin.describe_topics([topic]))[topic]
        return [TopicPartition(topic, each.partition) for each in described.partitions if each.leader_id >= 0]
    listed = await topics_of(cluster)
    found = [TopicPartition(each.name, number) for each in listed for number in range(each.partitions)]
    if len(found) > PARTITIONS_MAX:
        raise UsageError(
            f"the cluster has {len(found):,} partitions, at most {PARTITIONS_MAX:,} are asked: give a topic"
        )
    return found


# -- abort


async def confirm(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what aborting a transaction would do: that of a transactional id, or one in a partition."""
    given = dict(request.query_params)
    if given.get("id"):
        name, title = given["id"], "Abort transaction"
        facts = await _facts_of_id(cluster, name)
        hidden, name_of = {"id": name}, "the transactional id"
    else:
        opened = await _opened(cluster, given)
        name, title = _place_text(opened.partition), "Abort hanging transaction"
        facts = _facts_of_place(opened)
        hidden, name_of = {key: given.get(key, "") for key in ("topic", "partition", "offset")}, "the partition"
    return site.page(
        request, "confirm.html", cluster, title=title, facts=facts, name=name, button=f"Abort {name}", hidden=hidden,
        back=url("c", cluster.name, "transactions"), tab="transactions", name_of=name_of,
    )  # fmt: skip


async def _facts_of_id(cluster: ClusterConnection, name: str) -> list[str]:
    one = (await cluster.admin.describe_transactions([name]))[name]
    facts = [f"Transactional id {name} is {one.state}; its producer is {one.producer_id}, epoch {one.producer_epoch}."]
    if one.partitions:
        places = first((f"{key.topic} [{key.partition}]" for key in sorted(one.partitions)), 8)
        facts.append(f"Its open transaction is aborted: consumers that read committed records skip it in {places}.")
    else:
        facts.append("It has no open transaction.")
    return [*facts, "Its producer is fenced: if it still runs, its next request fails."]


def _facts_of_place(opened: OpenTransaction) -> list[str]:
    producer = opened.producer
    facts = [
        f"The transaction of producer {producer.producer_id}, epoch {producer.producer_epoch}, in "
        f"{_place_text(opened.partition)} from offset {producer.transaction_start_offset} on is aborted in this "
        f"partition. The producer wrote last at {time_text(producer.last_timestamp_ms)}.",
        "Its records are skipped by consumers that read committed records, which go on behind it.",
    ]
    if not opened.is_hanging:
        facts.append(f"The coordinator still has it, as {opened.transactional_id}: abort the transactional id instead.")
    return facts


def _place_text(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


async def _opened(cluster: ClusterConnection, given: Mapping[str, str]) -> OpenTransaction:
    """Return the open transaction that begins at an offset of a partition.

    Raises:
        MissingError: there is none.
    """
    key = TopicPartition(given.get("topic", ""), number_of(given, "partition", 0, _PARTITION_MAX))
    offset = number_of(given, "offset", 0, _OFFSET_MAX)
    if not key.topic:
        raise MissingError("the address names no transaction: it needs ?id=ID or ?topic=T&partition=P&offset=O")
    for each in await cluster.admin.list_open_transactions([key]):
        if each.producer.transaction_start_offset == offset:
            return each
    raise MissingError(f"no open transaction begins at offset {offset} of {_place_text(key)} (any more)")


async def abort(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Abort a transaction."""
    fields = await site.form(request)
    if fields.get("id"):
        name = fields["id"]
        check_name(fields, name)
        with site.audit.change(request.state.user, cluster.name, "abort transaction", id=name):
            await cluster.admin.fence_producers([name])
        return site.changed(cluster, url("c", cluster.name, "transactions"))
    opened = await _opened(cluster, fields)
    name = _place_text(opened.partition)
    check_name(fields, name)
    if not opened.is_hanging:
        raise UsageError(f"the coordinator still has it, as {opened.transactional_id!r}: abort that instead")
    facts = {"partition": name, "producer": opened.producer.producer_id, "offset": fields.get("offset", "")}
    with site.audit.change(request.state.user, cluster.name, "abort hanging transaction", **facts):
        await cluster.admin.abort_transaction(opened.partition, opened.producer)
    return site.changed(cluster, url("c", cluster.name, "transactions", hanging="1", minutes="0"))
