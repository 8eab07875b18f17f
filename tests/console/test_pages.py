"""Each page against the embedded broker: what it shows, what it changes, and what it says when something is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from kafkaraw import (
    AclBinding,
    AclOperation,
    Admin,
    Consumer,
    NewTopic,
    Producer,
    ResourcePattern,
    ResourceType,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.console.groups import sentences
from kafkaraw.monitoring import GroupPartitionStatus
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema, SchemaType
from tests.console.running import HOSTILE_TEXTS, events, post, running
from tests.waiting import wait_until

RECORDS = 300


@pytest.fixture(scope="module")
def orders(servers: str) -> str:
    """A topic with records, a group that has read some of them, and a topic and a group with hostile texts."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("orders", partitions=2), NewTopic("hostile", partitions=1)])
        for number in range(RECORDS):
            value = json.dumps({"user": {"id": number}, "status": ("new", "paid")[number % 2]}).encode()
            producer.send("orders", value, b"k%d" % number, headers=[("source", b"web")], partition=number % 2)
        for text in HOSTILE_TEXTS:
            producer.send("hostile", text.encode(), text.encode(), headers=[(text, text.encode())])
            producer.send("hostile", json.dumps({text: [text]}).encode(), b"\xff\x00")
        producer.flush()
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 100, TopicPartition("orders", 1): 150})
        admin.alter_group_offsets(HOSTILE_TEXTS[0], {TopicPartition("hostile", 0): 1})
    return servers


@pytest.fixture(scope="module")
def get(orders: str, console: httpx.Client) -> Any:
    def page(path: str, status: int = 200, **query: str) -> str:
        answer = console.get(f"/c/test{path}", params=query)
        assert answer.status_code == status, answer.text
        return answer.text

    return page


# -- what pages show


def test_the_overview_says_that_all_is_well(get: Any) -> None:
    said = "1 broker answers, every partition has a leader, and every replica is in sync."
    assert wait_until(lambda: said in get("/"), 20), "numbers may come after the page"


def test_a_single_cluster_is_the_first_page(console: httpx.Client) -> None:
    assert console.get("/").headers["location"] == "/c/test/"


def test_topics_are_found_by_words(get: Any) -> None:
    page = get("/topics", q="OR rs")
    assert ">orders<" in page and ">hostile<" not in page and "1 topic<" in page


def test_a_topic_shows_partitions_and_configuration(get: Any) -> None:
    page = get("/topics/orders")
    assert "retention.ms" in page and "cleanup.policy" in page
    assert page.count("/topics/orders/messages?partition=") == 2


@pytest.mark.parametrize(
    ("query", "first", "count"),
    [
        ({}, "299", 50),
        ({"count": "3"}, "299", 3),
        ({"from": "beginning", "count": "5"}, "0", 5),
        ({"from": "offset", "offset": "149"}, "298", 2),
        ({"from": "offset", "offset": "149", "partition": "1"}, "299", 1),
        ({"from": "time", "time": "1h"}, "0", 50),
        ({"from": "time", "time": "2100-01-01"}, None, 0),
    ],
)
def test_messages_are_chosen(get: Any, query: dict[str, str], first: str | None, count: int) -> None:
    page = get("/topics/orders/messages", **query)
    assert page.count("<tr data-at=") == count
    if first is not None:
        assert page.split('class="value">')[1].split("</td>")[0].count(f"&#34;id&#34;: {first}}}") == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from": "offset", "offset": "x"}, "must be a whole number"),
        ({"from": "nowhere"}, "must be one of newest"),
        ({"from": "time", "time": "soon"}, "must be a date and time"),
        ({"count": "501"}, "from 0 to 500"),
        ({"partition": "7"}, "has no partition"),
        ({"format": "x"}, "must be one of auto"),
        ({"q": "$.a"}, "a path is written"),
    ],
)
def test_what_cannot_be_read_is_said(get: Any, query: dict[str, str], said: str) -> None:
    assert said in get("/topics/orders/messages", 400, **query)


def test_a_record_is_shown_in_full(get: Any) -> None:
    page = get("/topics/orders/record", partition="1", offset="3")
    for part in ("source", "web", "k7", "CRC-32C", "kafkaraw consume -b", "-p 1 -o 3 -c 1", "000000  7b 22 75"):
        assert part in page, part
    assert "was deleted, or never written" in get("/topics/orders/record", 404, partition="1", offset="999")


def test_formats_are_chosen(get: Any) -> None:
    assert "7b 22" in get("/topics/orders/record", partition="0", offset="0", format="hex")
    assert "no schema" in get("/topics/orders/record", partition="0", offset="0", format="schema")


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({"q": "$.user.id = 7"}, 1),
        ({"q": "$.status = paid"}, 150),
        ({"q": "k29"}, 11),
        ({"q": "key = k29"}, 1),
        ({"q": "header.source = web AND $.user.id < 10"}, 10),
        ({"q": "$.user.id >= 0", "partition": "1"}, 150),
        ({"q": "$.user.id >= 0", "from": "offset", "offset": "140"}, 20),
        ({"q": "$.user.id >= 0", "from": "time", "time": "2100-01-01"}, 0),
        ({"q": "nowhere"}, 0),
    ],
)
def test_a_search_reads_all_partitions_and_counts(
    get: Any, console: httpx.Client, query: dict[str, str], matches: int
) -> None:
    found = events(console, "/c/test/topics/orders/search", **query)
    name, done = found[-1]
    assert name == "done", found
    assert done["matches"] == matches and done["read"] == done["total"]
    final = next(data for kind, data in found if kind == "final")
    assert str(final).count("<tr data-at=") == min(matches, 200)


def test_a_search_that_reads_very_much_asks_first(
    get: Any, console: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaraw.console.messages.LARGE_OFFSETS", 100)
    page = get("/topics/orders/messages", q="paid")
    assert "This search would read <strong>300 records</strong>" in page and "data-stream" not in page
    assert events(console, "/c/test/topics/orders/search", q="paid")[-1][0] == "failed"
    assert "data-stream" in get("/topics/orders/messages", q="paid", sure="1")
    assert events(console, "/c/test/topics/orders/search", q="paid", sure="1")[-1][0] == "done"


def test_only_some_searches_run_at_once(get: Any, console: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.console.streams.StreamLimit.take", _refuse)
    name, data = events(console, "/c/test/topics/orders/search", q="paid")[-1]
    assert name == "failed" and "run already" in data["error"]


def _refuse(limit: Any) -> Any:
    limit._running = limit._most
    try:
        return _take(limit)
    finally:
        limit._running = 0


from kafkaraw.console.streams import StreamLimit  # noqa: E402

_take = StreamLimit.take


def test_live_records_arrive_and_are_filtered(orders: str, console: httpx.Client) -> None:
    with console.stream("GET", "/c/test/topics/orders/live", params={"q": "$.user.id = 9001"}) as answer:
        lines = answer.iter_lines()
        assert (
            next(line for line in lines if line.startswith("data:")) == 'data: {"read": 0, "matches": 0, "live": true}'
        )
        with Producer(bootstrap_servers=orders) as producer:
            for number in (9000, 9001):
                producer.send("hostile", json.dumps({"user": {"id": number}}).encode())
                producer.send("orders", json.dumps({"user": {"id": number}}).encode(), partition=0)
        rows = next(line for line in lines if "<tr data-at=" in line)
        assert "9001" in rows
        assert '"matches": 1' in next(line for line in lines if line.startswith('data: {"read": 2'))


def test_a_download_has_the_records_of_the_page(get: Any, console: httpx.Client) -> None:
    answer = console.get("/c/test/topics/orders/download", params={"at": "0:3,1:4"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(line["partition"], line["offset"], line["value"]["user"]["id"]) for line in lines] == [
        (0, 3, 6),
        (1, 4, 9),
    ]
    assert answer.headers["content-disposition"] == 'attachment; filename="orders.jsonl"'
    assert len(get("/topics/hostile/download", **{"from": "beginning", "count": "10"}).splitlines()) == 10


def test_a_group_shows_its_lag_and_why(get: Any) -> None:
    page = get("/group", id="billing")
    assert "The group has no members: nothing reads." in page
    assert "50 records are left in 1 of 2 partitions" in page or "51 records" in page or "52 records" in page
    assert "% of the lag is in orders [0]" in page
    assert "there is no group" in get("/group", 404, id="nobody")


def test_a_group_with_members_shows_them(orders: str, get: Any) -> None:
    with Consumer(
        bootstrap_servers=orders, group_id="readers", client_id="reader-1", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        assert wait_until(lambda: bool(consumer.poll(0.1)), 20)
        consumer.commit()
        page = get("/group", id="readers")
        assert "reader-1" in page and "Stable" in page
        assert wait_until(lambda: ">readers<" in get("/groups", q="READ"), 20)


def test_sentences_name_the_causes() -> None:
    class Group:
        members: Any = ()
        state = "Stable"
        group_type = "consumer"

    member: Any = object()
    rows = [
        GroupPartitionStatus("t", number, 5, 5 + lag, lag, None, None, 0, member)
        for number, lag in enumerate((90, 1, 0))
    ]
    said = " ".join(text for _, text in sentences(Group(), rows, (10.0, 4.0)))  # type: ignore[arg-type]
    assert "98 % of the lag is in t [0]" in said and "the lag grows" in said
    said = " ".join(text for _, text in sentences(Group(), rows, (1.0, 92.0)))  # type: ignore[arg-type]
    assert "caught up in 1 s" in said
    said = " ".join(text for _, text in sentences(Group(), rows, (1.0, 0.0)))  # type: ignore[arg-type]
    assert "commits nothing" in said


def test_sql_runs_in_memory(get: Any) -> None:
    page = get("/sql", sql="SELECT status, count(*) AS n FROM orders WHERE status IS NOT NULL GROUP BY ALL")
    assert ">new</td>" in page and ">150</td>" in page and "<rect" in page


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/kafkaraw-console-test'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "ATTACH '/tmp/kafkaraw-console-test.db'",
        "SELECT * FROM nothing",
        "SELECT",
    ],
)
def test_sql_reaches_no_files(get: Any, query: str) -> None:
    page = get("/sql", 400, sql=query)
    assert "root:" not in page


def test_a_query_that_reads_very_much_asks_first(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.console.queries.LARGE_OFFSETS", 100)
    assert "This query would read" in get("/sql", sql="SELECT count(*) FROM orders")
    assert "rows in" in get("/sql", sql="SELECT count(*) FROM orders", sure="1")


def test_permissions_name_what_is_missing(get: Any) -> None:
    assert "no authorizer" in get("/permissions").lower() or "ACL" in get("/permissions")


# -- hostile texts


def test_hostile_texts_are_escaped_on_every_page(get: Any, console: httpx.Client) -> None:
    pages = [
        get("/topics/hostile/messages"),
        get("/groups"),
        get("/group", id=HOSTILE_TEXTS[0]),
        get("/group/reset", id=HOSTILE_TEXTS[0], to="earliest"),
        get("/group/delete", id=HOSTILE_TEXTS[0]),
        get("/sql", sql="SELECT CAST(key AS VARCHAR), value FROM hostile"),
        str(events(console, "/c/test/topics/hostile/search", q="alert")),
        *(get("/topics/hostile/record", partition="0", offset=str(number)) for number in range(10)),
        *(get("/topics", q=text) for text in HOSTILE_TEXTS),
        *(get("/topics/orders/messages", q=text) for text in HOSTILE_TEXTS),
        *(get("/sql", 400, sql=text) for text in HOSTILE_TEXTS),
        *(get("/group", 404, id=text) for text in HOSTILE_TEXTS[1:]),
        *(console.get(f"/c/{text}/").text for text in HOSTILE_TEXTS),
        *(get(f"/topics/{text}", 404) for text in ("<b>x", "%3Cscript%3Ealert(1)")),
    ]
    for page in pages:
        for text in ("<script>alert", "<img src=x", "</textarea><b>", "{{ 7", "49"):
            assert text not in page.replace("{{ 7 * 7 }}", "") or text == "49", text
        assert '<script src="/static/console.js" defer></script>' in page or "<html" not in page


# -- changes


def test_a_topic_is_created_changed_emptied_and_deleted(writing: httpx.Client, servers: str) -> None:
    assert (
        post(writing, "/c/test/topics", name="made", partitions="1", configs="retention.ms=1000\n").status_code == 303
    )
    assert post(writing, "/c/test/topics/made/config", setting="retention.ms", value="2000").status_code == 303
    assert ">2000<" in writing.get("/c/test/topics/made").text
    assert post(writing, "/c/test/topics/made/config", setting="retention.ms", reset="1").status_code == 303
    assert post(writing, "/c/test/topics/made/partitions", count="3").status_code == 303
    sent = post(writing, "/c/test/topics/made/send", value="one", key="k", headers="a=b", partition="2")
    assert sent.headers["location"] == "/c/test/topics/made/record?partition=2&offset=0"
    assert "1 records" in writing.get("/c/test/topics/made/empty").text
    assert post(writing, "/c/test/topics/made/empty", confirm="nade").status_code == 400
    assert post(writing, "/c/test/topics/made/empty", confirm="made").status_code == 303
    with Admin(bootstrap_servers=servers) as admin:
        from kafkaraw import OffsetSpec

        place = TopicPartition("made", 2)
        assert admin.list_offsets({place: OffsetSpec.EARLIEST})[place].offset == 1
    assert post(writing, "/c/test/topics/made/delete", confirm="").status_code == 400
    assert post(writing, "/c/test/topics/made/delete", confirm="made").status_code == 303
    assert writing.get("/c/test/topics/made").status_code == 404
    assert post(writing, "/c/test/topics/made/send", value="x").status_code == 404


def test_a_record_is_edited_and_sent_again(orders: str, writing: httpx.Client) -> None:
    form = writing.get("/c/test/topics/hostile/send", params={"partition": "0", "offset": "1"}).text
    assert "in Base64" in form
    form = writing.get("/c/test/topics/orders/send", params={"partition": "0", "offset": "1"}).text
    assert "source=web" in form and "&#34;id&#34;: 2" in form
    assert "is no Base64" in post(writing, "/c/test/topics/orders/send", value="§", encoding="base64").text


def test_a_group_is_reset_to_what_was_shown(orders: str, writing: httpx.Client) -> None:
    with Admin(bootstrap_servers=orders) as admin:
        admin.alter_group_offsets("again", {TopicPartition("orders", 0): 100, TopicPartition("orders", 1): 150})
        for query, new in (
            ({"to": "earliest"}, (0, 0)),
            ({"to": "shift", "shift": "-10"}, (90, 140)),
            ({"to": "offset", "offset": "5", "topic": "orders"}, (5, 5)),
            ({"to": "time", "time": "2000-01-01"}, (0, 0)),
        ):
            page = writing.get("/c/test/group/reset", params={"id": "again", **query}).text
            assert f"orders 0 {new[0]}\norders 1 {new[1]}" in page, query
            kept = admin.list_group_offsets(["again"])["again"]
            assert [each.offset for each in kept.values()] == [100, 150]
        plan = "orders 0 90\norders 1 140"
        assert post(writing, "/c/test/group/reset", id="again", plan=plan, confirm="other").status_code == 400
        assert post(writing, "/c/test/group/reset", id="again", plan=plan, confirm="again").status_code == 303
        assert [each.offset for each in admin.list_group_offsets(["again"])["again"].values()] == [90, 140]
        assert post(writing, "/c/test/group/delete", id="again", confirm="again").status_code == 303
        assert "again" not in [each.group_id for each in admin.list_groups()]


def test_a_group_with_members_is_not_reset(orders: str, writing: httpx.Client) -> None:
    with Consumer(bootstrap_servers=orders, group_id="busy", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        assert wait_until(lambda: bool(consumer.poll(0.1)), 20)
        consumer.commit()
        assert "stop them first" in writing.get("/c/test/group/reset", params={"id": "busy", "to": "earliest"}).text
        answer = post(writing, "/c/test/group/reset", id="busy", plan="orders 0 0", confirm="busy")
        assert answer.status_code == 400 and "has members" in answer.text


# -- masks


def test_masked_fields_are_on_no_page(orders: str) -> None:
    secret = {"card": {"number": "4111-SECRET"}, "ok": "visible"}
    with Admin(bootstrap_servers=orders) as admin, Producer(bootstrap_servers=orders) as producer:
        admin.create_topics([NewTopic("cards", partitions=1)])
        producer.send("cards", json.dumps(secret).encode(), headers=[("number", b"4111-SECRET")])
    with running(orders, masks=frozenset({"number"}), allow_writes=True) as client:
        for path in (
            "/messages",
            "/messages?format=hex",
            "/messages?format=text",
            "/record?partition=0&offset=0",
            "/record?partition=0&offset=0&format=hex",
            "/download",
            "/send?partition=0&offset=0",
        ):
            page = client.get(f"/c/test/topics/cards{path}")
            assert page.status_code == 200
            assert "4111" not in page.text and "34 31 31 31" not in page.text, path
        assert events(client, "/c/test/topics/cards/search", q="4111")[-1][1]["matches"] == 0
        assert events(client, "/c/test/topics/cards/search", q="visible")[-1][1]["matches"] == 1
        assert client.get("/c/test/topics/cards/messages", params={"q": "$.card.number = 1"}).status_code == 400
        assert client.get("/c/test/sql", params={"sql": "SELECT * FROM cards"}).status_code == 400


# -- schemas


@pytest.fixture(scope="module")
def with_registry(orders: str) -> Iterator[tuple[httpx.Client, str]]:
    with (
        EmbeddedRegistry() as registry,
        Registry(registry.url) as client,
        running(orders, of={"registry": {"url": registry.url}}) as console,
    ):
        fields = [{"name": "id", "type": "long"}]
        for version in range(2):
            text = json.dumps({"type": "record", "name": "Order", "fields": fields})
            client.register("typed-value", Schema(text, SchemaType.AVRO))
            fields.append({"name": f"more{version}", "type": "string", "default": "x"})
        from kafkaraw.schemas import AvroSerializer

        serialize = AvroSerializer(client, use_latest_version=True, auto_register=False)
        with (
            Admin(bootstrap_servers=orders) as admin,
            Producer(bootstrap_servers=orders, value_serializer=serialize) as producer,
        ):
            admin.create_topics([NewTopic("typed", partitions=1)])
            for number in range(20):
                producer.send("typed", {"id": number, "more0": f"m{number}"})
        yield console, registry.url


def test_values_are_decoded_by_their_schema(with_registry: tuple[httpx.Client, str]) -> None:
    console, _ = with_registry
    assert "&#34;more0&#34;: &#34;m19&#34;" in console.get("/c/test/topics/typed/messages").text
    assert events(console, "/c/test/topics/typed/search", q="$.id >= 15")[-1][1]["matches"] == 5
    assert '"more0": "m3"' in console.get("/c/test/topics/typed/download", params={"at": "0:3"}).text


def test_a_subject_shows_versions_and_tries_a_new_one(with_registry: tuple[httpx.Client, str]) -> None:
    console, _ = with_registry
    assert ">typed-value<" in console.get("/c/test/schemas").text
    page = console.get("/c/test/schema", params={"subject": "typed-value"}).text
    assert "version 2" in page and "+  " in page
    bad = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "new", "type": "long"}]})
    token = page.split('name="token" value="')[1][:64]
    path = f"/c/test/schema?{urlencode({'subject': 'typed-value'})}"
    assert "It would be refused" in console.post(path, data={"token": token, "schema": bad, "type": "AVRO"}).text
    assert console.get("/c/test/schema", params={"subject": "none"}).status_code in (404, 502)


# -- what goes wrong


def test_a_cluster_that_is_away_is_told_with_reasons(servers: str) -> None:
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
        port = int(address.rpartition(":")[2])
        with running(address) as client:
            assert client.get("/c/test/").status_code == 200
            broker.stop()
            began = time.monotonic()
            answer = client.get("/c/test/topics/t/messages")
            assert answer.status_code == 503 and "The cluster does not answer" in answer.text
            assert time.monotonic() - began < 15
            with EmbeddedBroker(port=port):
                assert wait_until(lambda: client.get("/c/test/topics").status_code == 200, 20)


def test_the_console_starts_without_its_cluster() -> None:
    with running("127.0.0.1:1") as client:
        assert client.get("/static/console.css").status_code == 200
        assert client.get("/c/test/").status_code == 503


def test_a_missing_permission_is_named() -> None:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    with EmbeddedBroker(users={"root": "pw", "eve": "pw"}, properties=properties) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password": "pw"}
        root = {"bootstrap_servers": broker.bootstrap_servers, **login, "sasl_username": "root"}
        with Admin(**root) as admin:
            admin.create_topics([NewTopic("t", partitions=1)])
            allowed = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), "User:eve", AclOperation.DESCRIBE)
            admin.create_acls([allowed])
        eve = {**root, "sasl_username": "eve"}
        with running(broker.bootstrap_servers, of={"client": eve, "consumer": eve}, allow_writes=True) as client:
            answer = client.get("/c/test/topics/t/messages")
            assert answer.status_code in (200, 403)
            assert post(client, "/c/test/topics", name="u").status_code == 403
            page = client.get("/c/test/permissions").text
            assert "User:eve needs DESCRIBE on cluster" in page
            assert "pw" not in page.split("<main")[1].split("</main")[0].replace("pwd", "")
            said = "Not shown: log directories of broker"
            assert wait_until(lambda: said in client.get("/c/test/").text, 20)
            assert "needs the permission DESCRIBE" in client.get("/c/test/").text


def test_a_topic_deleted_while_it_is_searched_ends_the_search(servers: str, console: httpx.Client) -> None:
    assert events(console, "/c/test/topics/gone/search", q="x")[-1][0] == "failed"
    assert events(console, "/c/test/topics/gone/live")[-1][0] == "failed"


def test_pages_that_do_not_exist_are_404(console: httpx.Client) -> None:
    for path in ("/nothing", "/c/other/", "/c/test/nothing", "/static/../app.py", "/static/nothing"):
        assert console.get(path).status_code == 404, path
    assert console.post("/c/test/groups").status_code == 405
