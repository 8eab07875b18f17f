"""The live view of the wire: a tap in front of the cluster, its exchanges as lines, each of them decoded, and totals.

The tap runs on a thread of its own. It keeps the newest exchanges; pages take lines from there, and count what they
have missed. Start at `Watch`.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import hex_dump, visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.streams import EventStream, event
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.readable import latency_text

if TYPE_CHECKING:
    from kafkaraw.inspect import Exchange, Filter, Summary

EXCHANGES_MAX: Final = 1_000
"""How many are kept; with `KEPT_BYTES` of each frame, 33 MB at most."""
KEPT_BYTES: Final = 1 << 14
"""How much of each frame a tap should keep."""
ROWS_MAX: Final = 100
"""Lines of one turn; more are counted only."""
_TURN_S: Final = 0.4
_FIELDS_MAX: Final = 400
_HEX_BYTES: Final = 12
_NAMES_MAX: Final = 5
_NAME_CHARACTERS: Final = 80
_ENDED: Final = "the tap was stopped"


class Watch:
    """A tap that runs, and the exchanges that it has seen lately.

    Args:
        tap: to start.

    Attributes:
        tap: as given.
        seen: how many exchanges have ended.
        is_running: whether it has not been stopped.
    """

    def __init__(self, tap: Any) -> None:  # noqa: ANN401 - a Tap, which is imported only where there is one
        from kafkaraw.inspect import Summary

        self.tap: Any = tap
        self.seen: int = 0
        self.is_running: bool = True
        self._summary: Summary = Summary()
        self._kept: deque[tuple[int, Exchange]] = deque(maxlen=EXCHANGES_MAX)
        self._lock = threading.Lock()
        tap.observe(self.add)

    def add(self, exchange: Exchange) -> None:
        """Keep an exchange; the tap calls this."""
        with self._lock:
            self.seen += 1
            self._kept.append((self.seen, exchange))
            self._summary.add(exchange)
        exchange.release()

    def since(self, number: int) -> tuple[list[tuple[int, Exchange]], int]:
        """Return the exchanges behind a number that are kept, and how many are not kept any more."""
        with self._lock:
            found = list(islice(reversed(self._kept), max(self.seen - number, 0)))[::-1]
            return found, max(self.seen - number, 0) - len(found)

    def find(self, number: int) -> Exchange:
        """Return an exchange.

        Raises:
            MissingError: it is not kept any more.
        """
        with self._lock:
            found = next((each for at, each in self._kept if at == number), None)
        if found is None:
            raise MissingError(f"exchange {number} is not kept: the newest {EXCHANGES_MAX:,} are")
        return found

    def totals(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return a row for each client and API, and what stands out."""
        with self._lock:
            return self._summary.rows(), self._summary.remarks()

    def capture(self) -> bytes:
        """Return the exchanges that are kept as a pcapng file, without secrets.

        Raises:
            UsageError: a package is missing.
        """
        from kafkaraw.inspect import Saving

        with self._lock:
            kept = [each for _, each in self._kept]
        file = io.BytesIO()
        saving = Saving(file)
        moments: list[tuple[float, bool, Exchange]] = []
        for each in kept:
            if each.request is not None:
                moments.append((each.request.ended_s, False, each))
            if each.response is not None:
                moments.append((each.response.ended_s, True, each))
        for _, is_answer, each in sorted(moments, key=lambda one: one[:2]):
            (saving.answered if is_answer else saving.asked)(each)
        saving.close()
        return file.getvalue()


def _watch(site: Site, cluster: ClusterConnection) -> Watch | None:
    found: Watch | None = site.history.get(("wire", cluster.name))
    return found


def _running(site: Site, cluster: ClusterConnection) -> Watch:
    found = _watch(site, cluster)
    if found is None:
        raise MissingError("no tap runs in front of this cluster: start one on the page Wire")
    return found


async def start(site: Site, cluster: ClusterConnection) -> None:
    """Start the tap of a cluster; without effect if it runs.

    Raises:
        NetworkError: its address is taken.
        UsageError: there can be none.
    """
    make = cluster.settings.tap
    if make is None:
        raise UsageError("there is no tap for this cluster")
    if _watch(site, cluster) is not None:
        return
    tap = make()
    watch = Watch(tap)
    site.history["wire", cluster.name] = watch
    try:
        await asyncio.to_thread(tap.__enter__)
    except BaseException:
        del site.history["wire", cluster.name]
        raise
    site.faults.setdefault(cluster.name, tap.faults)


async def stop(site: Site, cluster: ClusterConnection) -> None:
    """Stop the tap of a cluster, if one runs."""
    watch: Watch | None = site.history.pop(("wire", cluster.name), None)
    if watch is not None:
        watch.is_running = False
        if site.faults.get(cluster.name) is watch.tap.faults:
            del site.faults[cluster.name]
        await asyncio.to_thread(watch.tap.__exit__, None, None, None)


async def wire(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the tap: its address, what passes it, and totals."""
    watch = _watch(site, cluster)
    context: dict[str, Any] = {"servers": "", "totals": [], "remarks": [], "stream": "", "notes": [], "dropped": 0}
    query = request.query_params
    if watch is not None:
        _filter(query)
        totals, remarks = await asyncio.to_thread(watch.totals)
        context = {
            "servers": watch.tap.bootstrap_servers,
            "totals": [{name.lower(): value for name, value in each.items()} for each in totals],
            "remarks": [("note", each) for each in remarks],
            "notes": [("note", each) for each in watch.tap.notes],
            "stream": url("c", cluster.name, "wire", "live", **{name: query.get(name, "") for name in _FILTERS}),
            "dropped": watch.tap.dropped,
        }
    return site.page(
        request, "wire.html", cluster, tab="wire", can_tap=cluster.settings.tap is not None, kept=EXCHANGES_MAX,
        error=site.history.get(("wire failed", cluster.name), ""), is_masked=bool(site.settings.masks), **context,
    )  # fmt: skip


async def switch(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Start or stop the tap."""
    fields = await site.form(request)
    action = fields.get("action", "")
    if action not in ("start", "stop"):
        raise UsageError(f"action={action[:20]!r} must be start or stop")
    with site.audit.change(request.state.user, cluster.name, f"{action} the tap"):
        await (start if action == "start" else stop)(site, cluster)
    return site.changed(cluster, url("c", cluster.name, "wire"))


_FILTERS: Final = ("api", "client", "topic", "group", "errors", "slower")


def _filter(query: Mapping[str, str]) -> Filter:
    """Return what a query chooses.

    Raises:
        UsageError: there is no such API, or a number is none.
    """
    from kafkaraw.inspect import Filter, api_named

    def names(name: str) -> frozenset[str]:
        return frozenset(filter(None, [query.get(name, "").strip()]))

    return Filter(
        api_keys=frozenset(api_named(each).key for each in names("api")),
        client_ids=names("client"),
        topics=names("topic"),
        groups=names("group"),
        only_errors=query.get("errors") == "1",
        slower_than_ms=float(found) if (found := number_of(query, "slower", 0, 86_400_000)) else None,
    )


async def live(request: Request, site: Site, cluster: ClusterConnection) -> EventStream:
    """Send lines as exchanges end."""
    watch, chosen = _running(site, cluster), _filter(request.query_params)
    return EventStream(_events(site, cluster, watch, chosen), site.streams.take())


async def _events(site: Site, cluster: ClusterConnection, watch: Watch, chosen: Filter) -> AsyncIterator[bytes]:
    number = max(watch.seen - ROWS_MAX, 0)
    read = matches = left_out = 0
    said_at = 0.0
    while watch.is_running:
        found, missed = watch.since(number)
        read += len(found) + missed
        left_out += missed
        if found:
            number = found[-1][0]
            fitting = await asyncio.to_thread(_fitting, found, chosen)
            matches += len(fitting)
            left_out += max(len(fitting) - ROWS_MAX, 0)
            rows = await asyncio.to_thread(_lines, fitting[-ROWS_MAX:])
            if rows:
                yield event("rows", site.text("wire_rows.html", rows=rows, cluster=cluster))
        if found or time.monotonic() - said_at > 1.0:
            said_at = time.monotonic()
            yield event("progress", {"read": read, "matches": matches, "left_out": left_out})
        await asyncio.sleep(_TURN_S)
    yield event("ended", {"error": f"{_ENDED}."})


def _fitting(found: Sequence[tuple[int, Exchange]], chosen: Filter) -> list[tuple[int, Exchange]]:
    return [(number, each) for number, each in found if chosen.fits(each)]


def _lines(found: Sequence[tuple[int, Exchange]]) -> list[dict[str, Any]]:
    """Return the lines of exchanges, the newest one first."""
    rows = [line(*each) for each in reversed(found)]
    for _, each in found:
        each.release()
    return rows


def line(number: int, exchange: Exchange) -> dict[str, Any]:
    """Return what a line shows of an exchange."""
    connection, latency_s = exchange.connection, exchange.latency_s
    return {
        "number": number,
        "time": datetime.fromtimestamp(exchange.began_s, UTC).strftime("%H:%M:%S.%f")[:-3],
        "client": _name(connection.client if exchange.client_id is None else exchange.client_id),
        "broker": "bootstrap" if connection.node_id is None else str(connection.node_id),
        "name": exchange.name,
        "request_bytes": exchange.request_bytes,
        "response_bytes": exchange.response_bytes,
        "latency": "" if latency_s is None else latency_text(latency_s),
        "about": ", ".join(_names(exchange)),
        "errors": list(_errors(exchange)),
    }


def _name(name: str) -> str:
    shown = visible(name)
    return shown if len(shown) <= _NAME_CHARACTERS else f"{shown[: _NAME_CHARACTERS - 1]}…"


def _names(exchange: Exchange) -> Iterator[str]:
    names = (*exchange.topics, *exchange.subjects.groups, *exchange.subjects.transactional_ids)
    yield from map(_name, names[:_NAMES_MAX])
    if len(names) > _NAMES_MAX:
        yield f"{len(names) - _NAMES_MAX} more"
    if exchange.batches:
        records, batches = sum(exchange.batches), len(exchange.batches)
        yield f"{records:,} record{'s' * (records != 1)} in {batches:,} batch{'es' * (batches != 1)}"


def _errors(exchange: Exchange) -> Iterator[str]:
    from kafkaraw.inspect import error_texts

    yield from (visible(each) for each in error_texts(exchange.errors))
    if exchange.throttle_time_ms > 0:
        yield f"throttled for {exchange.throttle_time_ms} ms"
    if exchange.fault:
        yield visible(f"fault: {exchange.fault}")
    if exchange.ended:
        yield visible(f"no answer: {exchange.ended}")
    if exchange.problem and "bytes were kept" not in exchange.problem:
        yield visible(exchange.problem)


async def exchange(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show an exchange in full, with its bytes explained."""
    number = number_of(request.query_params, "number", 0, 1 << 62)
    watch = _running(site, cluster)
    found = watch.find(number)
    is_masked = bool(site.settings.masks)
    parts = [] if is_masked else await asyncio.to_thread(lambda: list(_parts(found)))
    return site.page(
        request, "exchange.html", cluster, tab="wire", row=line(number, found), parts=parts, is_masked=is_masked,
        connection=found.connection, correlation_id=found.correlation_id, last=watch.seen, fields_max=_FIELDS_MAX,
    )  # fmt: skip


def _parts(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """Return the request and the answer as rows of fields, without secrets."""
    from kafkaraw.inspect import annotate, masked_frames, rows_of

    frames = (
        ("request", exchange.request, exchange.version),
        ("response", exchange.response, exchange.response_version),
    )
    for (kind, frame, version), data in zip(frames, masked_frames(exchange), strict=True):
        if frame is None or data is None:
            continue
        rows: list[Any] = []
        if exchange.api is not None and exchange.is_known:
            annotation = annotate(data, api=exchange.api_key, version=version, direction=kind)  # type: ignore[arg-type]
            rows = [_field(each) for each in islice(rows_of(annotation), _FIELDS_MAX + 1)]
        yield {
            "kind": kind, "size": frame.size_bytes, "is_cut": frame.is_cut, "kept": len(data),
            "note": visible(frame.note), "rows": rows, "dump": hex_dump(data),
        }  # fmt: skip


def _field(row: Any) -> dict[str, Any]:  # noqa: ANN401 - of `rows_of`
    return {
        "bytes": row.bytes_range,
        "hex": row.data[:_HEX_BYTES].hex(" ") + (" …" if len(row.data) > _HEX_BYTES else ""),
        "name": "\u2003" * row.depth + visible(row.name),
        "path": visible(row.path),
        "kind": row.kind,
        "value": visible(row.value),
        "meaning": visible(row.meaning),
        "problem": visible(row.problem),
    }


async def capture(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Return what is kept as a file for Wireshark and `kafkaraw wire read`."""
    if site.settings.masks:
        raise UsageError("fields are masked in this console, and a capture could show them")
    data = await asyncio.to_thread(_running(site, cluster).capture)
    headers = {"content-disposition": f'attachment; filename="{cluster.name}.pcapng"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


async def start_all(site: Site) -> None:
    """Start the taps that start with the console; a page says why one could not."""
    for cluster in site.clusters.values():
        if cluster.settings.starts_tap:
            try:
                await start(site, cluster)
            except KafkaError as error:
                site.history["wire failed", cluster.name] = visible(str(error))


async def stop_all(site: Site) -> None:
    """Stop all taps."""
    for cluster in site.clusters.values():
        await stop(site, cluster)
