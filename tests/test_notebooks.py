"""What notebooks show of topics, groups, lag, batches, frames and data sets: escaped, bounded, and without secrets."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from kafkaraw import Admin, Consumer, GroupDescription, NewTopic, Producer, TopicPartition, dataset
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin.group_descriptions import GroupState, GroupType, MemberDescription
from kafkaraw.inspect import annotate
from kafkaraw.notebooks import plain, table, text
from kafkaraw.protocol.frames import RequestHeader, encode_request
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.readable import time_text

HOSTILE = '<script>alert("1")</script>\x1b[31m\u202e&'
ALLOWED = {"div", "p", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td"}


class Tags(HTMLParser):
    """Collects tags and text, and refuses what is not balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert not attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: object) -> str:
    """Return the text of a value's HTML."""
    html = value if isinstance(value, str) else value._repr_html_()  # type: ignore[attr-defined]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", html)
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert not tags.open
    return tags.text


def test_values_are_escaped_cut_and_without_control_characters():
    assert text(HOSTILE) == "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;\\x1b[31m\\u202e&amp;"
    assert plain(b"a\xff\n") == "a\\xff\\n"
    assert plain("x" * 1_000) == "x" * 200 + "…"
    assert (plain(None), plain(1_234_567), plain(True)) == ("", "1,234,567", "True")
    assert time_text(1_767_225_600_123) == "2026-01-01 00:00:00.123"
    assert (time_text(-1), time_text(2**62)) == ("", f"{2**62} ms")


def test_a_table_has_its_first_rows_and_says_how_many_there_are():
    assert shown(table(["n"], ([number] for number in range(10**9)), count=1_000)).endswith("19and 980 more")


def test_topics_batches_and_data_sets():
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("orders", 2)])
            for number in range(30):
                value = json.dumps({HOSTILE: number}).encode()
                producer.send("orders", value, HOSTILE.encode(), headers=[(HOSTILE, b"x")], partition=0)
            producer.flush()
            topic = shown(admin.describe_topics(["orders"])["orders"])
            assert topic.startswith("topic orders: 2 partitions, 0 under-replicated")
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            [batch] = consumer.poll(10).values()
            rows = shown(batch)
            assert "\\x1b[31m" in rows
            assert rows.endswith("and 10 more")
        found = dataset("orders", value="json", key="string", bootstrap_servers=servers)
        assert "<script>" in shown(found)
        assert servers not in found._repr_html_() + repr(found) + repr(found.source) + repr(found.scan())


def test_groups_and_lag():
    member = MemberDescription(HOSTILE, None, HOSTILE, "/10.0.0.1", (TopicPartition(HOSTILE, 1),))
    group = GroupDescription(
        HOSTILE, GroupType.CLASSIC, GroupState.STABLE, "consumer", "range", None, (member,)  # type: ignore[arg-type]
    )  # fmt: skip
    assert ": Stable, classic, 1 members" in shown(group)
    lag_module = pytest.importorskip("kafkaraw.spark.lag", exc_type=ImportError)
    lag = lag_module.QueryLag("id", HOSTILE, 3, 0, {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7})
    assert "5 to 7 offsets behind" in shown(lag)
    assert shown(lag).endswith("a17a05")


def test_frames_are_shown_without_passwords():
    header = RequestHeader(api_key=36, api_version=2, correlation_id=1, client_id="client")
    request = encode_request(header, SaslAuthenticateRequest(auth_bytes=b"\0user\0password"))
    page = annotate(bytes(request))._repr_html_()
    assert "SaslAuthenticate request v2" in shown(page)
    assert "(hidden)" in page
    assert "password" not in page
    assert "<td>· api_key</td>" in page
    assert "\\u" not in shown(page)
    assert shown(annotate(b"\xff" * 10))
