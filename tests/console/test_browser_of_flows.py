"""Pages of pipelines, mirrors, the wire and faults in a real browser: axe, streams, keys, phones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw import Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.console_mirrors import found_mirrors
from kafkaraw.cli.console_pipelines import pipelines_in
from kafkaraw.console.settings import CLIENT_ID
from kafkaraw.inspect import Tap
from kafkaraw.mirror.checkpoints import Heartbeat
from tests.console.browsing import why_not
from tests.console.running import HOSTILE_TEXTS, running
from tests.console.test_browser import browser, page  # noqa: F401  # fixtures
from tests.console.test_pipelines import noted

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
PAGES = ("/pipelines", "/pipeline?name=sales", "/mirrors", "/wire", "/faults", "/wire/exchange?number=1")


class Served:
    """A console with all of these pages."""

    def __init__(self, address: str, tap: Tap) -> None:
        self.address, self.tap = address, tap

    def ask(self, client_id: str = "shop", value: bytes = b"x") -> None:
        with Producer(bootstrap_servers=self.tap.bootstrap_servers, client_id=client_id) as producer:
            producer.send("orders", value)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("sales") / "sales"
    with EmbeddedBroker() as broker:
        broker.faults.spare(CLIENT_ID)
        servers = broker.bootstrap_servers
        noted(folder, servers)
        tap = Tap(servers)
        beat = Heartbeat("east", "west", 1_700_000_000_000)
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("heartbeats", beat.value, beat.key)
        of = {
            "pipelines": pipelines_in([folder]),
            "found_mirrors": found_mirrors,
            "tap": lambda: tap,
            "starts_tap": True,
            "faults": broker.faults,
        }
        with running(servers, of=of, allow_writes=True) as client:
            found = Served(f"{client.base_url}/c/test", tap)
            found.ask()
            yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, served: Served, scheme: str) -> None:  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme)
    found = context.new_page()
    for path in PAGES:
        found.goto(served.address + path)
        if path == "/wire":
            found.locator("#records tr").first.wait_for()
            found.wait_for_timeout(2_100)  # the rows' color fades
        result = Axe().run(found, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
        violations = result.response["violations"]
        assert not violations, (path, [(each["id"], each["nodes"][0]["html"][:200]) for each in violations])
    context.close()


def test_a_phone_has_no_sideways_scrolling(browser: Any, served: Served) -> None:  # noqa: F811
    context = browser.new_context(viewport={"width": 375, "height": 700})
    found = context.new_page()
    for path in PAGES:
        found.goto(served.address + path)
        width = found.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, (path, width)
    context.close()


def test_lines_appear_and_open_their_exchange(page: Any, served: Served) -> None:  # noqa: F811
    page.goto(f"{served.address}/wire?api=Produce")
    page.get_by_text(re.compile("Live: ")).wait_for()
    served.ask("of the page", HOSTILE_TEXTS[1].encode())
    page.locator("#records").get_by_text("of the page").wait_for()
    page.locator("#totals").get_by_text("of the page").first.wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("Stopped.").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/wire/exchange"))
    page.get_by_role("cell", name="topic_data").first.wait_for()
    assert page.locator("main img").count() == 0


def test_a_fault_is_switched_on_and_off(page: Any, served: Served) -> None:  # noqa: F811
    page.goto(f"{served.address}/faults")
    page.keyboard.press("/")
    page.keyboard.type("Produce client=unlucky: answer NOT_ENOUGH_REPLICAS")
    page.keyboard.press("Enter")
    page.get_by_text("Faults are switched on:").wait_for()
    page.goto(f"{served.address}/topics")
    page.get_by_text("Faults are switched on:").get_by_role("link").click()
    page.get_by_role("button", name="Switch off").click()
    page.get_by_role("cell", name="None.").wait_for()
    assert page.get_by_text("Faults are switched on:").count() == 0


def test_a_node_of_the_graph_leads_to_its_topic(page: Any, served: Served) -> None:  # noqa: F811
    page.goto(f"{served.address}/pipelines")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/pipeline"))
    page.locator("svg.graph a").first.click()
    page.wait_for_url(re.compile("/topics/orders/messages"))


def test_keys_lead_to_the_pages(page: Any, served: Served) -> None:  # noqa: F811
    for key, path in (("l", "/pipelines"), ("m", "/mirrors"), ("w", "/wire"), ("f", "/faults")):
        page.goto(f"{served.address}/")
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(re.compile(f"{path}$"))
