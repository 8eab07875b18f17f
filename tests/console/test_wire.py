"""The pages of the wire: a tap that starts and stops, lines with filters, exchanges with their bytes, captures."""

from __future__ import annotations

import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer
from kafkaraw.console.wire import EXCHANGES_MAX, Watch
from kafkaraw.errors import KafkaError
from kafkaraw.inspect import CaptureReader, Connection, Exchange, Frame, Tap
from kafkaraw.inspect.exchanges import ExchangeKind
from tests.console.running import HOSTILE_TEXTS, post, running, token_of
from tests.waiting import wait_until


def tapped(servers: str, **more: Any) -> dict[str, Any]:
    return {"tap": lambda: Tap(servers, kept_bytes=1 << 14), "starts_tap": True, **more}


def address_in(page: str) -> str:
    found = re.search(r"bootstrap\.servers=([^<]+)<", page)
    assert found is not None
    return found[1]


@pytest.fixture
def client(servers: str) -> Iterator[httpx.Client]:
    with running(servers, of=tapped(servers)) as console:
        yield console


def produce(client: httpx.Client, topic: str, value: bytes = b"x" * 100, client_id: str = "shop", **more: Any) -> None:
    through = address_in(client.get("/c/test/wire").text)
    with Producer(bootstrap_servers=through, client_id=client_id, **more) as producer:
        producer.send(topic, value, b"key", partition=0)
        producer.flush()


def lines(asked: httpx.Client, until: str, /, **query: str) -> tuple[str, dict[str, int]]:
    """Read the stream until it has a text; return its rows, and the last counts."""
    rows, last = "", {}
    with asked.stream("GET", "/c/test/wire/live", params=query, timeout=20) as answer:
        name = ""
        for text in answer.iter_lines():
            name = text.removeprefix("event: ") if text.startswith("event: ") else name
            if text.startswith("data: ") and name == "rows":
                rows += text.removeprefix("data: ")
            elif text.startswith("data: ") and name == "progress":
                last = json.loads(text.removeprefix("data: "))
                if until in rows:
                    return rows, last
    raise AssertionError(rows)


def number_of(rows: str, name: str) -> str:
    found = next(row for row in rows.split("<tr>") if name in row)
    at = re.search(r"number=(\d+)", found)
    assert at is not None
    return at[1]


def test_lines_come_as_clients_ask(client: httpx.Client, servers: str) -> None:
    produce(client, "wire-lines")
    rows, counts = lines(client, "Produce v")
    assert "<td>shop</td>" in rows and "wire-lines, 1 record in 1 batch" in rows
    assert re.search(r"\d ms</td>", rows)
    assert counts["read"] == counts["matches"] > 2 and counts["left_out"] == 0
    page = client.get("/c/test/wire").text
    assert "client=shop" in page and "<td>Produce</td>" in page


def test_filters_choose_lines(client: httpx.Client, servers: str) -> None:
    produce(client, "wire-one", client_id="one")
    produce(client, "wire-two", client_id="two")
    for query in ({"client": "two"}, {"topic": "wire-two"}):
        rows, counts = lines(client, "Produce v", **query)
        assert "wire-two" in rows and "wire-one" not in rows and counts["matches"] < counts["read"]
    rows, _ = lines(client, "Produce v", api="produce", client="one")
    assert rows.count("<tr>") == 1
    refused = client.get("/c/test/wire", params={"api": "Prodce"})
    assert refused.status_code == 400 and "Produce" in refused.text
    assert client.get("/c/test/wire", params={"slower": "soon"}).status_code == 400


def test_errors_are_words(client: httpx.Client, servers: str) -> None:
    through = address_in(client.get("/c/test/wire").text)
    with Admin(bootstrap_servers=through, client_id="asking") as admin:
        admin.create_topics([NewTopic("wire-there", 1)])
        with pytest.raises(KafkaError):
            admin.create_topics([NewTopic("wire-there", 1)])
    rows, counts = lines(client, "TOPIC_ALREADY_EXISTS", errors="1")
    assert counts["matches"] < counts["read"] and "asking" in rows


def test_an_exchange_is_decoded_with_its_bytes(client: httpx.Client, servers: str) -> None:
    script = HOSTILE_TEXTS[0]
    produce(client, "wire-bytes", script.encode(), client_id=script)
    rows, _ = lines(client, "Produce v")
    assert script not in rows and "&lt;script&gt;" in rows
    page = client.get("/c/test/wire/exchange", params={"number": number_of(rows, "Produce v")}).text
    assert script not in page and "&lt;script&gt;" in page
    for text in ("<h2>Request", "<h2>Response", "acks", "api_key", "topic_data", "00 00 ", "crc"):
        assert text in page, text
    answer = client.get("/c/test/wire/exchange", params={"number": "999999"})
    assert answer.status_code == 404 and "is not kept" in answer.text


def test_what_is_kept_is_a_capture(client: httpx.Client, servers: str) -> None:
    produce(client, "wire-saved")
    lines(client, "Produce v")
    answer = client.get("/c/test/wire/pcapng")
    assert answer.headers["content-disposition"] == 'attachment; filename="test.pcapng"'
    found = [each for each in CaptureReader(io.BytesIO(answer.content)).read() if isinstance(each, Exchange)]
    assert "wire-saved" in {topic for each in found if each.name.startswith("Produce") for topic in each.topics}
    assert not [each.problem for each in found if each.problem]


def test_masks_hide_bytes(servers: str) -> None:
    with running(servers, of=tapped(servers), masks=frozenset({"name"})) as client:
        produce(client, "wire-masked", b'{"name": "Ada"}')
        rows, _ = lines(client, "Produce v")
        page = client.get("/c/test/wire/exchange", params={"number": number_of(rows, "Produce v")}).text
        assert "Ada" not in page and "41 64 61" not in page and "masked" in page
        assert client.get("/c/test/wire/pcapng").status_code == 400
        assert "pcapng" not in client.get("/c/test/wire").text


def test_a_tap_is_started_and_stopped_with_allow_writes(servers: str, tmp_path: Path) -> None:
    of = {"tap": lambda: Tap(servers)}
    with running(servers, of=of, allow_writes=True, audit_file=tmp_path / "audit") as client:
        assert "Start a tap" in client.get("/c/test/wire").text
        assert client.get("/c/test/wire/live").status_code == 404
        token = token_of(client)
        assert client.post("/c/test/wire", data={"token": token, "action": "start"}).status_code == 303
        through = address_in(client.get("/c/test/wire").text)
        with Consumer(bootstrap_servers=through) as consumer:
            consumer.list_topics()
        assert wait_until(lambda: "<td>Metadata</td>" in client.get("/c/test/wire").text, 20)
        ended: list[str] = []
        watching = threading.Thread(target=lambda: ended.append(client.get("/c/test/wire/live").text))
        watching.start()
        assert wait_until(lambda: watching.is_alive(), 20)
        assert client.post("/c/test/wire", data={"token": token, "action": "stop"}).status_code == 303
        watching.join(20)
        assert ended and ended[0].rstrip().endswith('{"error": "the tap was stopped."}')
        host, port = through.split(":")
        with pytest.raises(OSError):
            socket.create_connection((host, int(port)), 1)
    actions = [json.loads(each)["action"] for each in (tmp_path / "audit").read_text().splitlines()]
    assert actions == ["start the tap"] * 2 + ["stop the tap"] * 2


def test_a_tap_is_not_started_without_allow_writes(servers: str) -> None:
    with running(servers, of={"tap": lambda: Tap(servers)}) as client:
        assert "Start the console with" in client.get("/c/test/wire").text
        assert client.post("/c/test/wire", data={"action": "start"}).status_code == 400


def test_an_address_that_is_taken_is_said(servers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with running(servers, of=tapped(servers, tap=lambda: Tap(servers, listen=listen))) as client:
            page = client.get("/c/test/wire")
    assert page.status_code == 200 and listen.rpartition(":")[2] in page.text and 'class="box bad"' in page.text


def test_faults_of_the_tap_are_switched_on_the_page_of_faults(servers: str) -> None:
    with running(servers, of=tapped(servers), allow_writes=True) as client:
        assert post(client, "/c/test/faults", rule="Produce times=1: answer NOT_ENOUGH_REPLICAS").status_code == 303
        assert "Faults are switched on" in client.get("/c/test/topics").text
        produce(client, "wire-faulty", client_id="unlucky", retry_backoff_ms=10)
        rows, _ = lines(client, "NOT_ENOUGH_REPLICAS", client="unlucky")
        assert "fault: answer NOT_ENOUGH_REPLICAS" in rows
        assert "Faults are switched on" not in client.get("/c/test/topics").text


def test_a_page_that_is_slow_gets_the_newest_lines_and_the_number_it_missed() -> None:
    watch = Watch(Tap("127.0.0.1:1"))
    connection = Connection(1, "127.0.0.1:2", "127.0.0.1:1")
    for _ in range(EXCHANGES_MAX + 50):
        watch.add(Exchange(connection, ExchangeKind.UNKNOWN, Frame(b"", 0, 1.0, 1.0)))
    found, missed = watch.since(20)
    assert (len(found), missed, found[0][0], found[-1][0]) == (EXCHANGES_MAX, 30, 51, EXCHANGES_MAX + 50)
    assert watch.since(EXCHANGES_MAX + 48)[0][0][0] == EXCHANGES_MAX + 49
    assert watch.since(EXCHANGES_MAX + 50) == ([], 0)
