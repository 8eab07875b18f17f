"""MessagePack in pages, conditions of SQL as filters, and records as files."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import Any

import httpx
import msgpack
import pyarrow.parquet as pq
import pytest

from kafkaraw import Admin, NewTopic, Producer
from tests.console.running import events, running

PACKED = {"user": {"id": 7}, "tags": ["a", b"\xff"], "at": msgpack.Timestamp(1_700_000_000), 5: "five"}
FORMULA = '=HYPERLINK("http://evil.example";"x")'


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    """Topics with JSON, MessagePack, bytes and formulas."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(name, partitions=1) for name in ("packed", "mixed")])
        admin.create_topics([NewTopic("sales", partitions=2)])
        producer.send("packed", msgpack.packb(PACKED), b"k")
        producer.send("packed", msgpack.packb({"password": "hunter2"}))
        for number in range(100):
            value = {"amount": number, "shop": ("north", "south")[number % 2]}
            producer.send("sales", json.dumps(value).encode(), b"k%d" % number, partition=number % 2)
        producer.send("mixed", FORMULA.encode(), b"-5", headers=[("h", b"@sum")])
        producer.send("mixed", b"\xff\x00\xfe", b"\xff")
        producer.send("mixed", None, None)
        producer.flush()
    return servers


@pytest.fixture(scope="module")
def get(filled: str, console: httpx.Client) -> Any:
    def page(path: str, status: int = 200, **query: str) -> str:
        answer = console.get(f"/c/test{path}", params=query)
        assert answer.status_code == status, answer.text
        return answer.text

    return page


def test_message_pack_is_decoded(get: Any) -> None:
    page = get("/topics/packed/messages")
    text = "{&#34;user&#34;: {&#34;id&#34;: 7}, &#34;tags&#34;: [&#34;a&#34;, &#34;ff&#34;]"
    assert text in page and "2023-11-14T22:13:20+00:00" in page and "&#34;5&#34;: &#34;five&#34;" in page
    record = get("/topics/packed/record", partition="0", offset="0", format="msgpack")
    assert "msgpack," in record
    assert "no MessagePack" in get("/topics/mixed/record", partition="0", offset="1", format="msgpack")
    line = json.loads(get("/topics/packed/download", at="0:0"))
    assert line["value"]["user"] == {"id": 7}


def test_masked_fields_of_message_pack_are_on_no_page(filled: str) -> None:
    with running(filled, masks=frozenset({"password"})) as client:
        for form in ("auto", "msgpack", "text", "hex", "json"):
            pages = [
                client.get("/c/test/topics/packed/messages", params={"format": form}).text,
                client.get("/c/test/topics/packed/record", params={"partition": 0, "offset": 1, "format": form}).text,
                *(
                    client.get("/c/test/topics/packed/download", params={"at": "0:1", "as": kind, "format": form}).text
                    for kind in ("jsonl", "csv", "parquet")
                ),
            ]
            for page in pages:
                assert "hunter2" not in page and b"hunter2".hex(" ") not in page
        answer = client.get("/c/test/topics/packed/download", params={"at": "0:1", "as": "raw"})
        assert answer.status_code == 400 and "masked" in answer.text
        answer = client.get("/c/test/topics/packed/messages", params={"q": "where true"})
        assert answer.status_code == 400 and "masked" in answer.text


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ({"q": "where amount > 97"}, [(1, 49), (0, 49)]),
        ({"q": "WHERE shop = 'north' AND amount BETWEEN 10 AND 13 -- even"}, [(0, 6), (0, 5)]),
        ({"q": "where amount < 4", "partition": "1"}, [(1, 1), (1, 0)]),
        ({"q": "where amount >= 0", "from": "offset", "offset": "49"}, [(1, 49), (0, 49)]),
        ({"q": "where amount >= 0", "from": "time", "time": "2100-01-01"}, []),
    ],
)
def test_a_condition_of_sql_is_a_filter(
    get: Any, console: httpx.Client, query: dict[str, str], offsets: list[tuple[int, int]]
) -> None:
    page = get("/topics/sales/messages", **query)
    assert "data-stream" in page and "kafkaraw sql -b" in page
    found = events(console, "/c/test/topics/sales/search", **query)
    assert found[-1][0] == "done", found
    assert found[-1][1]["matches"] == len(offsets)
    final = next(str(data) for kind, data in found if kind == "final")
    assert [f'data-at="{partition}:{offset}"' in final for partition, offset in offsets] == [True] * len(offsets)
    assert final.count("data-at=") == len(offsets)


@pytest.mark.parametrize(
    "condition",
    [
        "where nothing = 1",
        "where (",
        "where true) UNION SELECT 1, 2 FROM read_csv('/etc/passwd') WHERE (true",
        "where true); COPY (SELECT 'x' AS value) TO TOPIC 'sales'; SELECT 1 WHERE (true",
    ],
)
def test_a_condition_that_is_none_is_refused(get: Any, condition: str) -> None:
    assert "root:" not in get("/topics/sales/messages", 400, q=condition)
    assert "100 offsets" in get("/topics/sales/messages")


def test_a_condition_that_reads_very_much_asks_first(
    get: Any, console: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaraw.console.messages.LARGE_OFFSETS", 50)
    assert "This search would read <strong>100 records</strong>" in get("/topics/sales/messages", q="where amount > 1")
    monkeypatch.setattr("kafkaraw.console.messages.LARGE_OFFSETS", 500)
    monkeypatch.setattr("kafkaraw.console.messages.LARGE_BYTES", 10)
    page = get("/topics/sales/messages", q="where amount > 1")
    assert "This search would read" in page and "data-stream" not in page
    assert events(console, "/c/test/topics/sales/search", q="where amount > 1")[-1][0] == "failed"
    assert events(console, "/c/test/topics/sales/live", q="where amount > 1")[-1][0] == "failed"


def test_records_are_downloaded_in_every_form(console: httpx.Client, filled: str) -> None:
    def file(form: str, **query: str) -> httpx.Response:
        given = {"from": "beginning", **query, "as": form}
        answer = console.get("/c/test/topics/mixed/download", params=given)
        assert answer.status_code == 200, answer.text
        return answer

    rows = list(csv.reader(io.StringIO(file("csv").text)))
    assert rows[0] == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert rows[1][4:6] == ["-5", "'" + FORMULA] and rows[3][4:6] == ["", ""]
    table = pq.read_table(io.BytesIO(file("parquet").content))
    assert table.column("value").to_pylist() == [FORMULA.encode(), b"\xff\x00\xfe", None]
    assert table.column("headers").to_pylist()[0] == [{"key": "h", "value": b"@sum"}]
    with zipfile.ZipFile(io.BytesIO(file("raw").content)) as archive:
        assert archive.namelist() == ["0-0.bin", "0-1.bin"] and archive.read("0-1.bin") == b"\xff\x00\xfe"
    one = file("raw", at="0:1")
    assert one.content == b"\xff\x00\xfe" and one.headers["content-disposition"].endswith('"mixed-0-1.bin"')
    assert console.get("/c/test/topics/mixed/download", params={"as": "exe"}).status_code == 400


def test_places_that_are_gone_are_left_out_of_a_download(console: httpx.Client, filled: str) -> None:
    places = "1:7,0:3,9:1,0:999,0:2"
    answer = console.get("/c/test/topics/sales/download", params={"at": places})
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [(each["partition"], each["offset"]) for each in found] == [(1, 7), (0, 3), (0, 2)]


def test_a_view_is_copied_as_a_command(get: Any) -> None:
    page = get("/topics/sales/messages", partition="1", count="5")
    assert " sales -p 1 -o -5 -e</code>" in page
    page = get("/topics/sales/messages", **{"from": "offset", "offset": "3", "count": "2"})
    assert " sales -o 3 -e -c 2</code>" in page
