"""What goes wrong: a cluster that is away, a topic deleted while it is shown, queries that would read very much."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.console.queries import Plan
from tests.console.running import running
from tests.waiting import wait_until

PAGES = (
    "/",
    "/topics",
    "/topics/t",
    "/topics/t/messages",
    "/topics/t/messages?q=where+true",
    "/topics/t/record?partition=0&offset=0",
    "/topics/t/download?as=csv",
    "/groups",
    "/group?id=g",
    "/group/deliveries?id=g",
    "/transactions",
    "/transactions?hanging=1",
    "/transactions/abort?id=x",
    "/permissions",
    "/permissions/user/delete?user=x",
    "/permissions/quota?user=x",
    "/sql?sql=SELECT+count(*)+FROM+t",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_cluster_that_is_away_at_the_start_is_told(path: str) -> None:
    with running("127.0.0.1:1") as client:
        began = time.monotonic()
        answer = client.get(f"/c/test{path}")
        assert answer.status_code == 503, answer.text
        assert "The cluster does not answer" in answer.text and "Try again" in answer.text
        assert time.monotonic() - began < 20
        assert client.get("/static/console.css").status_code == 200


def test_a_cluster_that_goes_away_is_told_and_comes_back() -> None:
    with EmbeddedBroker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1)])
        with running(broker.bootstrap_servers) as client:
            for path in ("/transactions", "/permissions", "/sql?sql=SELECT+count(*)+FROM+t"):
                assert client.get(f"/c/test{path}").status_code in (200, 404), path
            broker.stop()
            for path in ("/transactions", "/permissions", "/sql?sql=SELECT+count(*)+FROM+t"):
                assert wait_until(lambda path=path: client.get(f"/c/test{path}").status_code == 503, 20), path
            with EmbeddedBroker(port=port):
                assert wait_until(lambda: client.get("/c/test/transactions").status_code == 200, 20)


def test_a_live_view_of_a_topic_that_is_deleted_ends(servers: str, console: httpx.Client) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("leaving", partitions=1)])
        with console.stream("GET", "/c/test/topics/leaving/live", timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith("data:"))
            admin.delete_topics(["leaving"])
            failed = next(line for line in lines if line.startswith("event: failed"))
            assert failed and "leaving" in next(lines)
    for path in ("", "/messages", "/record?partition=0&offset=0", "/delete", "/download"):
        page = console.get(f"/c/test/topics/leaving{path}")
        assert page.status_code == 404, (path, page.text)


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 'x' AS value) TO TOPIC 'written'",
        "  -- c\n COPY (SELECT 'x' AS value) TO TOPIC 'written'",
        "/* c */ ;copy (SELECT 'x' AS value) TO TOPIC 'written'",
        "SELECT 1; COPY (SELECT 'x' AS value) TO TOPIC 'written'",
        "EXPLAIN ANALYZE COPY (SELECT 'x' AS value) TO TOPIC 'written'",
        "(COPY (SELECT 'x' AS value) TO TOPIC 'written')",
        "CREATE TABLE t AS SELECT 1",
    ],
)
def test_cve_2023_52251_and_2026_5562_sql_writes_to_no_topic(servers: str, writing: httpx.Client, query: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        if "written" not in {each.name for each in admin.list_topics()}:
            admin.create_topics([NewTopic("written", partitions=1)])
    answer = writing.get("/c/test/sql", params={"sql": query, "sure": "1"})
    assert answer.status_code == 400, answer.text
    assert "0 offsets" in writing.get("/c/test/topics/written/messages").text


def test_a_query_that_reads_many_bytes_asks_first(
    servers: str, console: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("large", partitions=1)])
        for _ in range(20):
            producer.send("large", b"x" * 50_000)
    monkeypatch.setattr("kafkaraw.console.queries.LARGE_BYTES", 100_000)
    for query in ("SELECT count(*) FROM large", "SELECT max(value) FROM large"):
        page = console.get("/c/test/sql", params={"sql": query}).text
        found = re.search(r"would read <strong>20 records</strong>, about <strong>([0-9.]+) (kB|MB)", page)
        assert found is not None, page
        assert "rows in" in console.get("/c/test/sql", params={"sql": query, "sure": "1"}).text


def test_two_terabytes_are_large() -> None:
    class Scan:
        topic, offsets, size_bytes = "t", 1_000_000, None

    scans: Any = [Scan()]
    plan = Plan.of(scans, {"t": 2_000_000.0})
    assert (plan.bytes, plan.is_large) == (2_000_000_000_000, True)
    assert Plan.of(scans, {}).bytes is None
