"""What an outsider tries: names of hosts, other sites, guessed passwords, SQL that leaves its place, many streams."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.console.access import GUESSES_MAX
from kafkaraw.console.app import _PAGES
from kafkaraw.console.streams import STREAMS_MAX
from tests.console.running import post, running, token_of
from tests.waiting import wait_until

CHANGES = sorted(
    {path.replace("{action:destruction}", "delete") for path, _, methods in _PAGES if "POST" in methods} - {"/schema"}
)
"""The addresses that take POST, but for the page that compares a schema with others and changes nothing."""


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    """A topic with a few records."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("attacked", partitions=1)])
        for number in range(20):
            producer.send("attacked", b'{"number": %d}' % number)
    return servers


# -- changes


@pytest.mark.parametrize("path", CHANGES)
def test_each_address_that_takes_forms_refuses_them_without_allow_writes(console: httpx.Client, path: str) -> None:
    address = "/c/test" + path.replace("{topic}", "attacked")
    answer = console.post(address, data={"confirm": "attacked"})
    assert answer.status_code == 400 and "runs without --allow-writes" in answer.text


def test_no_address_changes_anything_by_get() -> None:
    names = ("create", "destroy", "delete", "set_", "add_", "send", "reset", "abort", "register", "act", "remove_")
    for path, handler, methods in _PAGES:
        if handler.__name__.startswith(names) and handler.__name__ not in ("create_form", "reset_page"):
            assert methods == ("POST",), path


@pytest.mark.parametrize("path", CHANGES)
def test_a_token_of_an_earlier_console_is_refused(servers: str, writing: httpx.Client, path: str) -> None:
    with running(servers, allow_writes=True) as earlier:
        token, cookies = token_of(earlier), dict(earlier.cookies)
    with httpx.Client(base_url=writing.base_url, trust_env=False, cookies=cookies) as client:
        answer = client.post("/c/test" + path.replace("{topic}", "t"), data={"token": token})
    assert answer.status_code == 400 and "not one of this console" in answer.text


def test_of_two_who_change_the_same_thing_one_is_told(writing: httpx.Client) -> None:
    token, cookies = token_of(writing), dict(writing.cookies)

    def create(_: int) -> httpx.Response:
        with httpx.Client(base_url=writing.base_url, trust_env=False, cookies=cookies, timeout=30) as client:
            return client.post("/c/test/topics", data={"token": token, "name": "twice", "partitions": "1"})

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(create, range(4)))
    assert sorted(each.status_code for each in answers) == [303, 502, 502, 502]
    assert all("already exists" in each.text for each in answers if each.status_code == 502)


# -- other sites and other names


@pytest.mark.parametrize("dest", ["image", "empty", "iframe", "script"])
def test_pages_of_other_sites_cannot_start_queries(console: httpx.Client, dest: str) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site, "sec-fetch-dest": dest}
        assert console.get("/c/test/sql?sql=SELECT+1&sure=1", headers=headers).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate"}
    assert console.get("/c/test/topics", headers=link).status_code == 200
    own = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"}
    assert console.get("/c/test/topics", headers=own).status_code == 200


def test_a_name_that_leads_here_does_not_pass_for_the_proxy(servers: str) -> None:
    """DNS rebinding: scripts of a page whose name leads to 127.0.0.1 can send any header from this machine."""
    here = [ipaddress.ip_network("127.0.0.1")]
    with running(servers, user_header="X-User", proxies=here) as client:
        headers = {"host": "evil.example", "x-user": "admin"}
        assert client.get("/c/test/", headers=headers).status_code == 421
        assert client.get("/c/test/", headers={"x-user": "admin"}).status_code == 200
    with running(servers, user_header="X-User", proxies=here, public_url="https://console.example") as client:
        answer = client.get("/c/test/", headers={"host": "console.example", "x-user": "ada"})
        assert answer.status_code == 200 and "Secure" in answer.headers["set-cookie"]


def test_passwords_are_guessed_slowly(servers: str) -> None:
    with running(servers, users={"ada": "secret", "bob": "other"}) as console:

        def guess(number: int) -> int:
            with httpx.Client(base_url=console.base_url, trust_env=False, timeout=30) as client:
                return client.get("/c/test/", auth=("ada", f"guess-{number}")).status_code

        began = time.monotonic()
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(guess, range(40)))
        looked_at = answers.count(401)
        assert answers.count(429) + looked_at == 40
        assert looked_at <= GUESSES_MAX * (1 + (time.monotonic() - began) / 0.5)
        assert answers.count(429) > 0
        assert console.get("/c/test/", auth=("bob", "other")).status_code == 200
        assert wait_until(lambda: console.get("/c/test/", auth=("ada", "secret")).status_code == 200, 5)


# -- SQL


LEAVING = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/hosts')",
    "SELECT * FROM '/etc/passwd'",
    "FROM read_json('/etc/hostname')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/tmp/x.parquet')",
    "SELECT * FROM 'http://127.0.0.1/x.parquet'",
    "SELECT getenv('HOME')",
    "SELECT 1; INSTALL httpfs",
    "SELECT 1; LOAD httpfs",
    "SELECT 1; ATTACH '/tmp/attached.db'",
    "SELECT 1; SET enable_external_access = true",
    "SELECT 1; SET lock_configuration = false",
    "SELECT 1; RESET memory_limit",
    "SELECT 1; PRAGMA enable_profiling",
    "SELECT * FROM topic('attacked', value = 'json', log_dirs = '/etc')",
    "SELECT 1; CALL enable_logging(storage = 'file')",
    "SELECT 1; CREATE SECRET (TYPE s3)",
    "SELECT 1; EXPORT DATABASE '/tmp/exported'",
    "SELECT 1; COPY (SELECT 1) TO '{file}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "WITH x AS (SELECT 1) SELECT * FROM x; COPY (SELECT 1) TO '{file}' (FORMAT parquet)",
    "INSTALL httpfs",
    "PRAGMA database_list",
)


@pytest.mark.parametrize("query", LEAVING)
def test_sql_reaches_no_file_no_network_and_no_setting(filled: str, tmp_path: Path, query: str) -> None:
    file = tmp_path / "written"
    text = query.format(file=file)
    with running(filled, allow_writes=True) as client:
        answer = client.get("/c/test/sql", params={"sql": text, "sure": "1"})
        assert answer.status_code == 400, answer.text
        assert "root:" not in answer.text
        condition = f"where true); {text}; SELECT (true"
        stream = client.get("/c/test/topics/attacked/search", params={"q": condition, "sure": "1"})
        assert stream.status_code == 400 or "event: failed" in stream.text, stream.text
        if not text.startswith(("SELECT 1;", "EXPLAIN", "INSTALL", "PRAGMA", "WITH")):
            inner = {"q": f"where EXISTS ({text})", "sure": "1"}
            stream = client.get("/c/test/topics/attacked/search", params=inner)
            assert stream.status_code == 400 or "event: failed" in stream.text, stream.text
    assert not file.exists()


def test_a_query_that_computes_without_end_is_ended(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.console.queries.SECONDS_MAX", 1.0)
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    with running(filled) as client:
        began = time.monotonic()
        answer = client.get("/c/test/sql", params={"sql": endless})
        assert answer.status_code == 400 and "was ended after" in answer.text, answer.text
        stream = client.get("/c/test/topics/attacked/search", params={"q": f"where 1 < ({endless})", "sure": "1"})
        assert "was ended after" in stream.text, stream.text
        assert time.monotonic() - began < 25
        assert client.get("/c/test/sql", params={"sql": "SELECT 1"}).status_code == 200


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(?:x+)+y", r"(.)\1*", ".*.*.*x", "(a){2}{3}"])
def test_patterns_that_backtrack_without_end_are_refused(filled: str, console: httpx.Client, pattern: str) -> None:
    query = f"SELECT count(*) FROM topics ( '{pattern}')"
    answer = console.get("/c/test/sql", params={"sql": query})
    assert answer.status_code == 400 and "repetitions here" in answer.text
    answer = console.get("/c/test/topics/attacked/search", params={"q": f"where 1 < ({query})"})
    assert answer.status_code == 400 and "repetitions here" in answer.text


# -- numbers, names and times that are none


@pytest.mark.parametrize(
    "path",
    [
        "/topics/attacked/messages?from=time&time=999999999999999",
        "/topics/attacked/messages?from=time&time=999999999999999&q=where+true",
        "/topics/attacked/messages?partition=99999999999999999999",
        "/topics/attacked/messages?partition=%C2%B2",
        "/topics/attacked/messages?from=offset&offset=" + "9" * 30,
        "/topics/attacked/messages?count=-1",
        "/topics/attacked/messages?page=1e9&q=%24.%5B",
        "/topics/attacked/record?partition=0&offset=" + "9" * 19,
        "/topics/%2e%2e%2f%2e%2e/messages",
        "/topics/%00/messages",
        "/topics/" + "x" * 5_000 + "/messages",
        "/group?id=%00%0d%0aset-cookie:x",
        "/group/reset?id=none&to=offset&offset=x",
        "/topics?page=99999999999999999999",
        "/topics/attacked/download?as=../../etc/passwd",
        "/schema?subject=..%2F..%2Fconfig",
        "/sql?sql=SELECT+%27%ED%A0%80%27",
    ],
)
def test_what_cannot_be_is_answered_with_a_reason(filled: str, console: httpx.Client, path: str) -> None:
    answer = console.get(f"/c/test{path}")
    assert answer.status_code in (200, 400, 404), answer.text
    assert "its log has the details" not in answer.text


@pytest.mark.parametrize("plan", ["t 0 ²", "t ² 0", "t 0 " + "9" * 5_000, "t 0", "", "t -1 0", "t 0 1e3"])
def test_a_plan_that_is_none_is_refused(servers: str, writing: httpx.Client, plan: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        from kafkaraw import TopicPartition

        if "planned" not in {each.name for each in admin.list_topics()}:
            admin.create_topics([NewTopic("planned", partitions=1)])
        admin.alter_group_offsets("planned", {TopicPartition("planned", 0): 0})
    answer = post(writing, "/c/test/group/reset", id="planned", confirm="planned", plan=plan)
    assert answer.status_code == 400 and "plan" in answer.text


# -- many and slow readers


@pytest.fixture
def live(filled: str) -> Iterator[httpx.Client]:
    with running(filled) as client:
        yield client


def open_stream(port: int) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    request = "GET /c/test/topics/attacked/live HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    found.sendall(request.encode())
    return found


def first_event(stream: socket.socket) -> str:
    text = ""
    while (found := re.search(r"event: (\w+)", text)) is None:
        data = stream.recv(4_096)
        assert data, text
        text += data.decode()
    return found[1]


def test_many_live_pages_leave_the_console_to_others(live: httpx.Client) -> None:
    port = live.base_url.port
    assert port is not None
    with ExitStack() as stack:
        streams = [stack.enter_context(open_stream(port)) for _ in range(60)]
        with ThreadPoolExecutor(20) as pool:
            kinds = list(pool.map(first_event, streams))
        assert kinds.count("progress") == STREAMS_MAX and kinds.count("failed") == 60 - STREAMS_MAX
        began = time.monotonic()
        assert live.get("/c/test/topics").status_code == 200
        assert time.monotonic() - began < 5
    assert wait_until(lambda: _is_live(port), 10), "the streams of browsers that have gone are not counted"


def _is_live(port: int) -> bool:
    with open_stream(port) as stream:
        return first_event(stream) == "progress"


def test_files_for_browsers_that_do_not_read_are_limited(filled: str) -> None:
    with Admin(bootstrap_servers=filled) as admin, Producer(bootstrap_servers=filled) as producer:
        admin.create_topics([NewTopic("heavy", partitions=1)])
        for _ in range(12):
            producer.send("heavy", b"x" * 900_000)
    with running(filled) as client, ExitStack() as stack:
        port = client.base_url.port
        for _ in range(8):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            held.sendall(b"GET /c/test/topics/heavy/download?as=jsonl HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert held.recv(12) == b"HTTP/1.1 200"
        assert "8 downloads run already" in client.get("/c/test/topics/heavy/download").text
        assert client.get("/c/test/topics/heavy/messages").status_code == 200
        stack.close()
        assert wait_until(lambda: client.get("/c/test/topics/heavy/download").status_code == 200, 30)


def test_large_and_nested_values_leave_turns_to_other_pages(filled: str) -> None:
    with Admin(bootstrap_servers=filled) as admin, Producer(bootstrap_servers=filled) as producer:
        admin.create_topics([NewTopic("nested", partitions=1)])
        for _ in range(20):
            producer.send("nested", b"[" + b"[]," * 300_000 + b"[]]")
    with running(filled) as client:
        slowest = 0.0
        ended = threading.Event()

        def browse() -> None:
            with httpx.Client(base_url=client.base_url, trust_env=False, timeout=60) as other:
                assert other.get("/c/test/topics/nested/messages").status_code == 200
            ended.set()

        thread = threading.Thread(target=browse)
        thread.start()
        while not ended.is_set():
            began = time.monotonic()
            assert client.get("/static/icon.svg").status_code == 200
            slowest = max(slowest, time.monotonic() - began)
        thread.join()
    assert slowest < 1.5, slowest
