"""Records as files: JSON lines, CSV, Parquet, or the bytes of their values.

Start at `download`.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.conditions import records_at
from kafkaraw.console.messages import LARGE_RECORD_BYTES, TURN_S, View, browsed, view_of
from kafkaraw.console.packed import may_be_packed, unpacked
from kafkaraw.console.searching import KEPT_MAX
from kafkaraw.console.shown import Decoder, UnreadableJsonError, dumped, masked, parsed, time_text
from kafkaraw.console.site import Site
from kafkaraw.console.streams import SLOW_S
from kafkaraw.errors import UsageError
from kafkaraw.readable import text_or_base64
from kafkaraw.records import Record

FORMS: Final = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "raw": "application/zip",
}
_PIECE_BYTES: Final = 256 << 10
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


async def download(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Return the records of a page, or those at some places, as a file."""
    form = request.query_params.get("as", "jsonl")
    if form not in FORMS:
        raise UsageError(f"as={form[:20]!r} must be one of {', '.join(FORMS)}")
    if form == "raw" and site.settings.masks:
        raise UsageError("fields are masked in this console, and bytes could show them")
    view = view_of(request.query_params, site.settings.masks)
    done = site.downloads.take()
    try:
        async with site.readings:
            file = await _made(request, site, cluster, view)
    except BaseException:
        done()
        raise
    file.done = done
    return file


async def _made(request: Request, site: Site, cluster: ClusterConnection, view: View) -> _File:
    """Return the file."""
    topic, form = request.path_params["topic"], request.query_params.get("as", "jsonl")
    places = request.query_params.get("at", "")
    if places:
        records = await records_at(cluster, topic, _places_in(places))
    else:
        records = (await browsed(cluster, topic, view)).records
    decoder = Decoder(view.form, site.settings.masks, cluster.registry)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", topic)
    if form == "raw" and len(records) == 1:
        only = records[0]
        name = f"{name}-{only.partition}-{only.offset}.bin"
        return _file(name, bytes(only.value or b""), "application/octet-stream")
    if form == "raw":
        return _file(f"{name}.zip", _zip(records), FORMS[form])
    entries = []
    for each in records:
        entries.append(await _entry(decoder, each))
        if len(each.value or b"") > LARGE_RECORD_BYTES:
            await asyncio.sleep(TURN_S)
    if form == "csv":
        return _file(f"{name}.csv", _csv(entries), FORMS[form])
    if form == "parquet":
        data = await asyncio.to_thread(_parquet, records, entries if site.settings.masks else None)
        return _file(f"{name}.parquet", data, FORMS[form])
    lines = [json.dumps(each, ensure_ascii=False, default=str) + "\n" for each in entries]
    return _file(f"{name}.jsonl", "".join(lines).encode("utf-8", "backslashreplace"), FORMS[form])


class _File(Response):
    """A file, sent in pieces: a slow browser holds it only once.

    Attributes:
        done: called when it was sent, or the browser has gone.
    """

    done: Callable[[], None] = staticmethod(lambda: None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await self._send(send)
        except TimeoutError:
            pass  # the connection is closed, since a part is missing
        finally:
            self.done()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), _PIECE_BYTES):
            piece = {"body": self.body[start : start + _PIECE_BYTES], "more_body": True}
            await asyncio.wait_for(send({"type": "http.response.body", **piece}), SLOW_S)
        await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SLOW_S)


def _file(name: str, data: bytes, media_type: str) -> _File:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return _File(data, media_type=media_type, headers=headers)


def _places_in(text: str) -> list[tuple[int, int]]:
    found = re.findall(r"(\d{1,10}):(\d{1,19})", text)[:KEPT_MAX]
    return [(int(partition), int(offset)) for partition, offset in found]


async def _entry(decoder: Decoder, one: Record) -> dict[str, Any]:
    masks = decoder.masks
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp_ms,
        "key": await _exported(decoder, one.topic, "key", one.key),
        "value": await _exported(decoder, one.topic, "value", one.value),
        "headers": [
            [name, decoder.header(name, data).text if masks else text_or_base64(data)] for name, data in one.headers
        ],
    }


async def _exported(decoder: Decoder, topic: str, field: str, data: bytes | None) -> Any:  # noqa: ANN401
    if data is None:
        return None
    if data[:1] == b"\0":
        value, why = await decoder.with_schema(topic, field, data)
        if not why:
            return json.loads(dumped(masked(value, decoder.masks), is_pretty=False))
    if decoder.form == "msgpack" or may_be_packed(data):
        try:
            return masked(unpacked(data), decoder.masks)
        except ValueError:
            pass
    try:
        return masked(parsed(data), decoder.masks)
    except UnreadableJsonError:
        pass
    if decoder.masks:
        return (await decoder.shown(topic, field, data, is_whole=True)).text
    return text_or_base64(data)


def _csv(entries: Sequence[dict[str, Any]]) -> bytes:
    """Return rows for spreadsheets, which must not take what is in a record for a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for each in entries:
        writer.writerow([_cell(each[name]) if name != "timestamp" else time_text(each[name]) for name in _COLUMNS])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:  # noqa: ANN401
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _parquet(records: Sequence[Record], masked_entries: Sequence[dict[str, Any]] | None) -> bytes:
    """Return columns; keys and values are bytes, and text if fields are masked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = pa.binary() if masked_entries is None else pa.string()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", data)])
    types = (pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC"), data, data, pa.list_(header))
    rows: list[tuple[Any, ...]]
    if masked_entries is None:
        rows = [
            (each.topic, each.partition, each.offset, each.timestamp_ms, each.key, each.value, list(each.headers))
            for each in records
        ]
    else:
        rows = [(*(each[name] for name in _COLUMNS[:4]), *_texts(each)) for each in masked_entries]
    columns = []
    for at, (name, kind) in enumerate(zip(_COLUMNS, types, strict=True)):
        values = [row[at] for row in rows]
        if name == "timestamp":
            values = [None if value < 0 else value for value in values]
        if name == "headers":
            values = [[{"key": key, "value": value} for key, value in pairs] for pairs in values]
        columns.append(pa.array(values, kind))
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(zip(_COLUMNS, columns, strict=True))), sink)
    return sink.getvalue()


def _texts(entry: dict[str, Any]) -> tuple[Any, Any, list[tuple[str, Any]]]:
    def text(value: Any) -> str | None:  # noqa: ANN401
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False, default=str)

    return text(entry["key"]), text(entry["value"]), [(name, text(value)) for name, value in entry["headers"]]


def _zip(records: Sequence[Record]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        for each in records:
            if each.value is not None:
                file.writestr(f"{each.partition}-{each.offset}.bin", bytes(each.value))
    return sink.getvalue()
