"""The console in a real browser: scripts run under the policy, streams arrive, keys work, and axe finds nothing.

Playwright's synchronous calls run a loop of their own, so the broker and the console are in other threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from tests.console.browsing import path_of_browser, why_not
from tests.console.running import HOSTILE_TEXTS

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
HOSTILE_BYTES = (
    "\u202egnp.exe\u2066\u200b\r\n\x1b[31m".encode(),
    b"x" * 900_000,
    b'{"a":' * 100_000,
    b"[" + b"[]," * 200_000 + b"[]]",
    b"\x91" * 50_000,
    b"\xdd\x00\x0f\xff\xff" + b"\x80" * 0xFFFF,
    b"\xff\xfe\x00<script>alert(1)</script>",
    b"\x00\x00\x00\x00\x07<script>alert(1)</script>",
    b'{"</script><script>alert(1)</script>": {"__proto__": 1}}',
)
ACCESSIBLE = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/messages?q=paid",
    "/topics/orders/record?partition=0&offset=3",
    "/topics/orders/send",
    "/topics/orders/delete",
    "/new-topic",
    "/groups",
    "/group?id=billing",
    "/group/reset?id=billing&to=earliest",
    "/permissions",
    "/schemas",
    "/sql?sql=SELECT%20status%2C%20count(*)%20FROM%20orders%20GROUP%20BY%20ALL",
    "/topics/none",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path_of_browser(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(servers: str, writing: httpx.Client) -> str:
    """The address of a console, whose cluster has orders, a group that lags, and hostile records."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("orders", partitions=1), NewTopic("hostile", partitions=1)])
        for number in range(60):
            value = {"user": {"id": number}, "status": ("new", "paid")[number % 2]}
            producer.send("orders", json.dumps(value).encode(), b"k%d" % number)
        for text in HOSTILE_TEXTS:
            producer.send("hostile", text.encode(), text.encode(), headers=[(text, text.encode())])
        for data in HOSTILE_BYTES:
            producer.send("hostile", data, data[:100], headers=[(data[:300].decode("latin-1"), data[:5_000])])
        producer.flush()
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 10})
        admin.alter_group_offsets(HOSTILE_TEXTS[1], {TopicPartition("hostile", 0): 1})
    return f"{writing.base_url}/c/test"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a new visitor; at the end nothing may have been blocked, failed, or asked of other hosts."""
    context = browser.new_context()
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
    found.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
    found.on("request", lambda asked: None if "127.0.0.1" in asked.url else problems.append(asked.url))
    yield found
    context.close()
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, address: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    for path in ACCESSIBLE:
        page.goto(address + path)
        if "?q=" in path:
            page.get_by_text(re.compile("found in .* in ")).wait_for()
            page.wait_for_timeout(2_100)  # the rows' color fades
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
        violations = found.response["violations"]
        assert not violations, (path, [(each["id"], each["nodes"][0]["html"][:200]) for each in violations])
    context.close()


def test_a_search_fills_the_page(page: Any, address: str) -> None:
    page.goto(f"{address}/topics/orders/messages")
    page.keyboard.press("/")
    page.keyboard.type("$.user.id = 7")
    page.keyboard.press("Enter")
    page.get_by_text("1 found in 60 of 60 records").wait_for()
    assert not page.get_by_role("button", name="Stop").is_visible()
    assert page.locator("#records tr").count() == 1
    assert "q=%24.user.id" in page.url
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/record"))
    assert '"id": 7' in page.locator("#value").inner_text()


def test_live_records_appear(page: Any, address: str, servers: str) -> None:
    page.goto(f"{address}/topics/orders/messages?live=1")
    page.get_by_text("Live: 0 shown").wait_for()
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", b'{"live": "<img src=x onerror=alert(1)>"}')
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def test_hostile_texts_run_nothing(page: Any, address: str) -> None:
    for path in (
        "/topics/hostile/messages",
        "/groups",
        "/topics/hostile/messages?q=alert",
        "/topics/hostile/record?partition=0&offset=1",
    ):
        page.goto(address + path)
        page.wait_for_timeout(300)
        assert page.locator("main img, main b:not(.headers b)").count() == 0
    page.get_by_text(HOSTILE_TEXTS[1]).first.wait_for()


def test_topics_are_filtered_as_typed(page: Any, address: str) -> None:
    page.goto(f"{address}/topics")
    page.keyboard.press("/")
    page.keyboard.type("host")
    page.get_by_text("1 topic", exact=True).wait_for()
    assert page.url.endswith("?q=host")


def test_a_group_is_reset(page: Any, address: str, servers: str) -> None:
    page.goto(f"{address}/group?id=billing")
    page.get_by_text("The group has no members: nothing reads.").wait_for()
    page.get_by_role("link", name="Reset offsets").click()
    page.locator("select[name=to]").select_option("latest")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_label("Type the name").fill("billing")
    page.get_by_role("button", name="Reset 1 offsets").click()
    page.get_by_text("The group has processed everything.").wait_for()


def test_a_record_is_sent(page: Any, address: str) -> None:
    page.goto(f"{address}/topics/orders/send")
    page.get_by_label("Value", exact=True).fill('{"sent": "by hand"}')
    page.get_by_role("button", name="Send the record").click()
    page.get_by_text('"sent": "by hand"').first.wait_for()


def test_a_phone_has_no_sideways_scrolling(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 700})
    page = context.new_page()
    for path in (*ACCESSIBLE, "/topics/hostile/messages", "/topics/hostile/record?partition=0&offset=6"):
        page.goto(address + path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, (path, width)
    context.close()


@pytest.mark.parametrize("form", ["auto", "msgpack", "hex"])
def test_hostile_records_are_shown_and_do_nothing(page: Any, address: str, form: str) -> None:
    page.goto(f"{address}/topics/hostile/messages?format={form}")
    count = len(HOSTILE_TEXTS) + len(HOSTILE_BYTES)
    assert page.locator("#records tr").count() == count
    assert "\u202e" not in page.content() and "\u2066" not in page.content()
    for offset in range(count):
        page.goto(f"{address}/topics/hostile/record?partition=0&offset={offset}&format={form}")
        page.get_by_role("heading", name="Value").wait_for()
        assert page.evaluate("Object.prototype[1]") is None
    page.goto(f"{address}/topics/hostile/messages?q=alert(1)")
    page.get_by_text(re.compile("found in .* in ")).wait_for()
    assert page.locator("#records tr").count() > 3
