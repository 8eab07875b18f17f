"""The pages of messages: browse, search, live, one record, download, send and send again.

Start at `messages`.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import re
import shlex
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console import conditions
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.filters import Candidate, Term, parse_filter
from kafkaraw.console.reading import COUNT_MAX, Found, offsets_of, read_from, read_newest, read_one
from kafkaraw.console.searching import KEPT_MAX, Scope, Search
from kafkaraw.console.shown import (
    FORMATS,
    WHOLE_CHARACTERS,
    Decoder,
    Shown,
    UnreadableJsonError,
    hex_dump,
    parsed,
    time_text,
    visible,
)
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.streams import EventStream, event
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Batch, Record, TopicPartition

COUNT: Final = 50
LARGE_OFFSETS: Final = 20_000_000
LARGE_BYTES: Final = 5_000_000_000
LARGE_RECORD_BYTES: Final = 16 << 10
TURN_S: Final = 0.005
"""What other pages have between large records: a request takes several turns of the event loop."""
_WHERE: Final = "where "
_FROM: Final = ("newest", "beginning", "offset", "time")
_MS_DIGITS: Final = 10
_TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last one that a calendar here has."""
_AGO: Final = re.compile(r"(\d{1,9})\s*(s|m|h|d)")
_AGO_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LIVE_S: Final = 3_600.0
_LIVE_PAUSE_S: Final = 0.3
_LIVE_ROWS: Final = 40
_SEARCH_PAUSE_S: Final = 0.2
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1
_CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass(frozen=True)
class Row:
    """A record in a list.

    Attributes:
        place: partition and offset.
        time: its timestamp.
        key: the key.
        value: the beginning of the value.
        headers: names and values.
        link: the address of the record.
    """

    place: tuple[int, int]
    time: str
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    link: str


@dataclass(frozen=True)
class View:
    """What a page of messages is asked for.

    Attributes:
        start: one of "newest", "beginning", "offset" and "time".
        count: how many records at most.
        offset: of "offset".
        time_ms: of "time".
        partitions: only these; None for all.
        text: of the filter.
        terms: of the filter.
        form: how values are decoded.
        condition: in SQL; empty if the filter is none.
    """

    start: str
    count: int
    offset: int
    time_ms: int
    partitions: Sequence[int] | None
    text: str
    terms: tuple[Term, ...]
    form: str
    condition: str = ""

    @property
    def is_search(self) -> bool:
        """Whether records are looked for."""
        return bool(self.terms or self.condition)


def view_of(query: Mapping[str, str], masks: frozenset[str]) -> View:
    """Return what a query asks for.

    Raises:
        UsageError: a part of it cannot be read.
    """
    start = query.get("from", "newest")
    if start not in _FROM:
        raise UsageError(f"from={start[:40]!r} must be one of {', '.join(_FROM)}")
    form = query.get("format", "auto")
    if form not in FORMATS:
        raise UsageError(f"format={form[:40]!r} must be one of {', '.join(FORMATS)}")
    text = query.get("q", "")
    condition = text[len(_WHERE) :].strip() if text[: len(_WHERE)].lower() == _WHERE else ""
    if condition and masks:
        raise UsageError("fields are masked in this console, and SQL could show them")
    return View(
        start,
        max(number_of(query, "count", COUNT, COUNT_MAX), 1),
        number_of(query, "offset", 0, _OFFSET_MAX),
        time_of(query.get("time", ""), time.time_ns() // 1_000_000) if start == "time" else 0,
        _partitions(query.get("partition", "")),
        text,
        () if condition else parse_filter(text, masks),
        form,
        condition,
    )


def time_of(text: str, now_ms: int) -> int:
    """Return a time in milliseconds: a date and time, `10m` ago, or milliseconds.

    Raises:
        UsageError: it is none of them.
    """
    text = text.strip()
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(now_ms - int(ago[1]) * _AGO_MS[ago[2]], 0)
    if text.isascii() and text.isdigit() and _MS_DIGITS <= len(text) < 16 and int(text) <= _TIME_MAX_MS:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return max(int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000), 0)
    except (ValueError, OverflowError):
        raise UsageError(
            f"time={text[:40]!r} must be a date and time such as 2026-11-21T10:00 (UTC if it has no zone), "
            "milliseconds since 1970, or how long ago: 30s, 10m, 2h, 1d"
        ) from None


def _partitions(text: str) -> list[int] | None:
    if not text.strip():
        return None
    try:
        return sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise UsageError(f"partition={text[:40]!r} must be numbers such as 0 or 0,3") from None


# -- pages


async def messages(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show messages of a topic."""
    topic = request.path_params["topic"]
    view = view_of(request.query_params, site.settings.masks)
    is_live = request.query_params.get("live") == "1"
    plain = {key: value for key, value in request.query_params.items() if key != "live"}
    context: dict[str, Any] = {"topic": topic, "view": view, "formats": FORMATS, "is_live": is_live, "tab": "messages"}
    context |= {"rows": [], "notes": [], "partitions_count": 0, "stream": "", "plan": None, "plain": plain}
    if is_live:
        await _known(cluster, topic)
        context["stream"] = url("c", cluster.name, "topics", topic, "live", **plain)
    elif view.is_search:
        context["plan"] = plan = await planned(cluster, topic, view)
        if not plan["is_large"] or request.query_params.get("sure") == "1":
            context["stream"] = url("c", cluster.name, "topics", topic, "search", **plain)
    else:
        decoder = Decoder(view.form, site.settings.masks, cluster.registry)
        async with site.readings:
            found = await browsed(cluster, topic, view)
            context["rows"] = [await row_of(cluster, decoder, each) for each in found.records]
        context["notes"] = found.notes
        context["offsets"] = sum(place.end - place.start for place in found.ranges.values())
    context["command"] = visible(command_of(cluster, topic, view))
    return site.page(request, "messages.html", cluster, **context)


def command_of(cluster: ClusterConnection, topic: str, view: View) -> str:
    """Return the command that prints what a page shows; empty if none does."""
    option = cluster.settings.option
    if view.condition:
        query = f"SELECT * FROM topic('{topic}') WHERE {view.condition}"
        return " ".join(["kafkaraw sql", option, shlex.quote(query)])
    if view.terms:
        return ""
    places = {
        "newest": f"-{view.count}",
        "beginning": "beginning",
        "offset": str(view.offset),
        "time": f"s@{view.time_ms}",
    }
    words = ["kafkaraw consume", option, shlex.quote(topic), *(f"-p {each}" for each in view.partitions or ())]
    ending = "-e" if view.start == "newest" else f"-e -c {view.count}"
    return " ".join([*words, "-o", places[view.start], ending])


async def _known(cluster: ClusterConnection, topic: str) -> None:
    await cluster.admin.describe_topics([topic])


async def browsed(cluster: ClusterConnection, topic: str, view: View) -> Found:
    """Return the records of a page without a search."""
    if view.start == "newest":
        return await read_newest(cluster, topic, view.count, view.partitions)
    return await read_from(
        cluster,
        topic,
        view.count,
        view.partitions,
        offset=view.offset if view.start == "offset" else None,
        time_ms=view.time_ms if view.start == "time" else None,
    )


async def planned(cluster: ClusterConnection, topic: str, view: View) -> dict[str, Any]:
    """Return how much a search would read."""
    from kafkaraw.console.topics import sizes_of

    async with cluster.consumer() as consumer:
        ranges = (await offsets_of(consumer, topic, view.partitions)).values()
    whole = sum(place.end - place.start for place in ranges)
    begin = view.offset if view.start == "offset" else 0
    offsets = sum(max(place.end - max(place.start, begin), 0) for place in ranges)
    size = (await sizes_of(cluster)).get(topic)
    share = None if size is None or not whole else int(size * offsets / whole)
    if view.condition:
        offsets = await conditions.planned(cluster, topic, view)
        share = None if size is None or not whole else int(size * offsets / whole)
    is_large = (view.start != "time" or bool(view.condition)) and (
        offsets > LARGE_OFFSETS or (share or 0) > LARGE_BYTES
    )
    return {"offsets": offsets, "bytes": share, "is_large": is_large}


async def row_of(cluster: ClusterConnection, decoder: Decoder, record: Record) -> Row:
    """Return a record as a row of a list; other pages have their turn between large records."""
    if len(record.value or b"") > LARGE_RECORD_BYTES:
        await asyncio.sleep(TURN_S)
    key, value = await asyncio.gather(
        decoder.shown(record.topic, "key", record.key), decoder.shown(record.topic, "value", record.value)
    )
    headers = tuple((visible(name), decoder.header(name, data)) for name, data in record.headers[:8])
    place = {"partition": str(record.partition), "offset": str(record.offset)}
    link = url("c", cluster.name, "topics", record.topic, "record", **place)
    return Row((record.partition, record.offset), time_text(record.timestamp_ms), key, value, headers, link)


async def search(request: Request, site: Site, cluster: ClusterConnection) -> EventStream:
    """Search a topic, and send what is found."""
    topic = request.path_params["topic"]
    view = view_of(request.query_params, site.settings.masks)
    if not view.is_search:
        raise UsageError("a search needs a filter")
    if request.query_params.get("sure") != "1" and (await planned(cluster, topic, view))["is_large"]:
        raise UsageError("this search would read very much: confirm it on the page")
    _need_arrow("searching")
    decoder = Decoder(view.form, site.settings.masks, cluster.registry)
    if view.condition:
        render = functools.partial(rows_html, site, cluster, decoder)
        return await conditions.condition_of(site, cluster, topic, view, render)
    done = site.searches.take()
    scope = Scope(
        topic,
        view.partitions,
        view.offset if view.start == "offset" else None,
        view.time_ms if view.start == "time" else None,
    )
    running = Search(cluster, scope, view.terms, decoder)

    def ended() -> None:
        running.stop()
        done()

    return EventStream(_search_events(site, cluster, running, decoder), ended)


def _need_arrow(what: str) -> None:
    try:
        import_module("pyarrow")
    except ImportError:
        raise UsageError(f"{what} needs pyarrow: pip install 'kafkaraw[console]'") from None


async def _search_events(
    site: Site, cluster: ClusterConnection, running: Search, decoder: Decoder
) -> AsyncIterator[bytes]:
    while True:
        progress = running.progress
        fresh = running.fresh()
        if fresh:
            yield event("rows", await rows_html(site, cluster, decoder, fresh))
        facts = {
            "read": progress.read,
            "total": progress.total,
            "matches": progress.matches,
            "seconds": round(progress.seconds, 2),
        }
        if progress.is_done:
            if progress.error is not None:
                yield event("failed", {**facts, "error": visible(str(progress.error))})
                return
            yield event("final", await rows_html(site, cluster, decoder, running.newest()))
            yield event("done", {**facts, "kept": KEPT_MAX})
            return
        yield event("progress", facts)
        await asyncio.sleep(_SEARCH_PAUSE_S)


async def rows_html(site: Site, cluster: ClusterConnection, decoder: Decoder, records: Sequence[Record]) -> str:
    """Return records as rows of a list."""
    rows = [await row_of(cluster, decoder, each) for each in records]
    return site.text("rows.html", rows=rows)


async def live(request: Request, site: Site, cluster: ClusterConnection) -> EventStream:
    """Send records as they arrive."""
    topic = request.path_params["topic"]
    view = view_of(request.query_params, site.settings.masks)
    if view.condition:
        raise UsageError("live records cannot be filtered with SQL: write text, or a path such as $.user.id = 7")
    await _known(cluster, topic)
    done = site.streams.take()
    return EventStream(_live_events(site, cluster, topic, view), done)


async def _live_events(site: Site, cluster: ClusterConnection, topic: str, view: View) -> AsyncIterator[bytes]:
    decoder = Decoder(view.form, site.settings.masks, cluster.registry)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _LIVE_S
    read = matches = 0
    try:
        async with cluster.consumer(auto_offset_reset="latest", fetch_max_bytes=8 << 20) as consumer:
            known = await consumer.partitions_for(topic)
            consumer.assign([each for each in known if view.partitions is None or each.partition in view.partitions])
            consumer.seek_to_end()
            for each in consumer.assignment():
                await consumer.position(each)
            yield event("progress", {"read": 0, "matches": 0, "live": True})
            while loop.time() < ends_at:
                found = await consumer.poll(1.0)
                matching = []
                for batch in found.values():
                    for record in batch:
                        read += 1
                        if await _matches(view.terms, decoder, record):
                            matching.append(record)
                matches += len(matching)
                shown = matching[-_LIVE_ROWS:]
                if shown:
                    yield event("rows", await rows_html(site, cluster, decoder, list(reversed(shown))))
                facts = {"read": read, "matches": matches, "left_out": len(matching) - len(shown), "live": True}
                yield event("progress", facts)
                if found:
                    await asyncio.sleep(_LIVE_PAUSE_S)
        yield event("ended", {"error": f"the live view ended after {_LIVE_S / 60:.0f} minutes: load the page again"})
    except KafkaError as error:
        yield event("failed", {"error": visible(str(error)), "read": read, "matches": matches})


async def _matches(terms: Sequence[Term], decoder: Decoder, record: Record) -> bool:
    if not terms:
        return True
    known: list[Any] = []
    why = "no value"
    if any(term.decodes for term in terms) and record.value:
        if record.value[:1] == b"\0":
            value, why = await decoder.with_schema(record.topic, "value", record.value)
            if not why:
                known.append(value)
        if not known:
            try:
                known.append(parsed(record.value))
            except UnreadableJsonError as error:
                why = str(error)

    def value_json() -> Any:  # noqa: ANN401
        if not known:
            raise UnreadableJsonError(why)
        return known[0]

    candidate = Candidate(record.key, record.value, list(record.headers), value_json)
    return all(term.matches(candidate) for term in terms)


# -- one record


async def record(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a record in full."""
    topic, partition, offset = _place(request)
    form = request.query_params.get("format", "auto")
    found = await read_one(cluster, TopicPartition(topic, partition), offset)
    if found is None:
        raise MissingError(f"{topic} [{partition}] has no record at offset {offset}: it was deleted, or never written")
    one, batch = found
    decoder = Decoder(form, site.settings.masks, cluster.registry)
    key = await decoder.shown(topic, "key", one.key, is_whole=True)
    value = await decoder.shown(topic, "value", one.value, is_whole=True)
    headers = [(visible(name), decoder.header(name, data)) for name, data in one.headers]
    shows_bytes = not site.settings.masks
    words = ["kafkaraw consume", cluster.settings.option, shlex.quote(topic), f"-p {partition} -o {offset} -c 1"]
    return site.page(
        request,
        "record.html",
        cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        time=time_text(one.timestamp_ms),
        time_kind=("set by the producer", "set by the broker")[one.timestamp_type == 1],
        key=key,
        value=value,
        headers=headers,
        batch=_batch_facts(batch, offset),
        key_dump=hex_dump(one.key or b"") if shows_bytes else "",
        value_dump=hex_dump(one.value or b"") if shows_bytes else "",
        command=visible(" ".join(filter(None, words))),
        formats=FORMATS,
        form=form,
        limit=WHOLE_CHARACTERS,
        tab="messages",
    )


def _batch_facts(batch: Batch, offset: int) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of what the header of the record's batch says."""
    header = next((each for each in batch.headers if each.base_offset <= offset <= each.last_offset), None)
    if header is None:
        return []
    codec = _CODECS.get(header.codec_id, str(header.codec_id))
    producer = f"{header.producer_id}, epoch {header.producer_epoch}" if header.producer_id >= 0 else "none"
    sequence = str(header.base_sequence) if header.base_sequence >= 0 else "none"
    return [
        ("Offsets", f"{header.base_offset:,} to {header.last_offset:,}", "base offset and last offset of the batch"),
        ("Records", f"{header.records_count:,}", "how many records were written together"),
        ("Size", f"{header.batch_length + 12:,} bytes", "as stored and sent, with the header of 61 bytes"),
        ("Compression", codec, "of all records of the batch together"),
        ("Format", f"magic {header.magic}", "2 since Kafka 0.11"),
        ("Producer id", producer, "of an idempotent producer: the broker drops its repeated batches"),
        ("Sequence", sequence, "number of the first record among those of its producer"),
        ("Transaction", "yes" if header.is_transactional else "no", "whether the batch is part of one"),
        ("Leader epoch", str(header.partition_leader_epoch), "of the leader that appended it"),
        ("Checksum", f"{header.crc & 0xFFFFFFFF:08x}", "CRC-32C of everything behind it"),
    ]


def _place(request: Request) -> tuple[str, int, int]:
    query = request.query_params
    partition = number_of(query, "partition", 0, _PARTITION_MAX)
    return request.path_params["topic"], partition, number_of(query, "offset", 0, _OFFSET_MAX)


# -- sending


async def compose(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a record to send; with a place, that record to edit."""
    if not site.settings.allow_writes:
        raise UsageError("this console changes nothing: it runs without --allow-writes")
    topic = request.path_params["topic"]
    given: dict[str, Any] = {"key": "", "value": "", "headers": "", "partition": "", "encoding": "text"}
    note = ""
    if "offset" in request.query_params:
        topic, partition, offset = _place(request)
        found = await read_one(cluster, TopicPartition(topic, partition), offset)
        if found is None:
            raise MissingError(f"{topic} [{partition}] has no record at offset {offset}")
        if site.settings.masks:
            note = "Fields are masked in this console: the record is not filled in."
        else:
            given, note = _editable(found[0])
    await _known(cluster, topic)
    return site.page(request, "send.html", cluster, topic=topic, given=given, note=note, tab="send")


def _editable(one: Record) -> tuple[dict[str, Any], str]:
    fields: dict[str, Any] = {"partition": str(one.partition), "encoding": "text", "headers": ""}
    note = ""
    try:
        fields["key"], fields["value"] = (one.key or b"").decode(), (one.value or b"").decode()
    except UnicodeDecodeError:
        fields["encoding"] = "base64"
        fields["key"] = base64.b64encode(one.key or b"").decode()
        fields["value"] = base64.b64encode(one.value or b"").decode()
        note = "The record has bytes that are no text: key and value are in Base64."
    fields["null_key"], fields["null_value"] = one.key is None, one.value is None
    lines = []
    for name, data in one.headers:
        try:
            lines.append(f"{name}={(data or b'').decode()}")
        except UnicodeDecodeError:
            note += f" Header {visible(name)} is left out: it is no text."
    fields["headers"] = "\n".join(lines)
    return fields, note


async def send(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Send a record."""
    from kafkaraw.client.producer import AsyncProducer  # most consoles send nothing

    fields = await site.form(request)
    topic = request.path_params["topic"]
    await _known(cluster, topic)  # a producer could create it
    partition = number_of(fields, "partition", -1, _PARTITION_MAX)
    key, value = _bytes_of(fields, "key"), _bytes_of(fields, "value")
    headers = _headers_of(fields.get("headers", ""))
    facts = {"topic": topic, "key_bytes": len(key or b""), "value_bytes": len(value or b"")}
    with site.audit.change(request.state.user, cluster.name, "send a record", **facts):
        settings = {**cluster.settings.client, "client_id": "kafkaraw-console", "delivery_timeout_ms": 15_000}
        settings |= {"request_timeout_ms": 5_000, "linger_ms": 0}
        async with AsyncProducer(**settings) as producer:
            ticket = await producer.send(
                topic, value, key, headers=headers, partition=partition if partition >= 0 else None
            )
            done = await ticket
    to = url("c", cluster.name, "topics", topic, "record", partition=str(done.partition), offset=str(done.offset))
    return site.changed(cluster, to)


def _bytes_of(fields: Mapping[str, str], name: str) -> bytes | None:
    if fields.get(f"null_{name}"):
        return None
    text = fields.get(name, "").replace("\r\n", "\n")
    if fields.get("encoding") != "base64":
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UsageError(f"the {name} is no Base64: {error}") from error


def _headers_of(text: str) -> list[tuple[str, bytes]]:
    found = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals:
                raise UsageError(f"header {line[:40]!r}: one header on each line, as NAME=VALUE")
            found.append((name.strip(), value.encode()))
    return found
