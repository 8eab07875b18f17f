"""Pages that change things, in a real browser: forms work under the policy, and axe finds nothing in either scheme."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.console_server import share_states
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema, SchemaType
from tests.console import filling
from tests.console.browsing import path_of_browser, why_not
from tests.console.running import HOSTILE_TEXTS, running

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    **filling.UNVERIFIED,
}
BARS = "SELECT status, count(*) AS n, max(number) AS most FROM orders GROUP BY ALL"
LINES = "SELECT number, number * number AS square FROM orders ORDER BY number"
ACCESSIBLE = (
    "/permissions",
    "/permissions/acl",
    "/permissions/acl/delete?principal=User:ada&permission=ALLOW&operation=READ&resource=TOPIC&name=t&pattern=LITERAL",
    "/permissions/user",
    "/permissions/quota?user=ada",
    "/permissions/quota/delete?user=ada",
    "/schemas",
    "/schema?subject=orders-value",
    "/schema?subject=orders-value&version=2",
    "/schema/delete?subject=orders-value",
    "/new-schema",
    "/group?id=couriers",
    "/group/deliveries?id=couriers",
    "/transactions?all=1",
    "/transactions?hanging=1&minutes=0",
    "/transactions/abort?topic=stuck&partition=0&offset=0",
    f"/sql?sql={BARS}",
    f"/sql?sql={LINES}",
    "/topics/orders/messages?q=where+number+%3C+5",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path_of_browser(), args=["--no-sandbox"])
        yield started
        started.close()


def fill(servers: str, registry: str) -> None:
    from kafkaraw import AclBinding, AclOperation, QuotaEntity, ResourcePattern, ResourceType

    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("orders", partitions=1)])
        for number in range(60):
            producer.send("orders", json.dumps({"number": number, "status": ("new", "paid")[number % 2]}).encode())
        pattern = ResourcePattern(ResourceType.TOPIC, "t")
        admin.create_acls(
            [AclBinding(pattern, f"User:{name}", AclOperation.READ) for name in ("ada", HOSTILE_TEXTS[1])]
        )
        admin.alter_client_quotas({QuotaEntity("ada"): {"producer_byte_rate": 1e6}})
    filling.share_group(servers, "parcels", "couriers")
    filling.hang(servers, "stuck")
    with Registry(registry) as client:
        fields = [{"name": "id", "type": "long"}]
        for number in range(2):
            text = json.dumps({"type": "record", "name": "Order", "fields": fields})
            client.register("orders-value", Schema(text, SchemaType.AVRO))
            fields.append({"name": f"more{number}", "type": "string", "default": "x"})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a console that allows changes, and whose cluster has something of everything."""
    with EmbeddedBroker(properties=SECURED) as broker, EmbeddedRegistry() as registry:
        servers = broker.bootstrap_servers
        fill(servers, registry.url)
        of = {"share_states": share_states, "registry": {"url": registry.url}}
        with running(servers, of=of, allow_writes=True) as client:
            yield f"{client.base_url}/c/test"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a new visitor; at the end nothing may have been blocked or have failed."""
    context = browser.new_context(accept_downloads=True)
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
    found.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
    yield found
    context.close()
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, address: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    for path in ACCESSIBLE:
        answer = page.goto(address + path)
        assert answer.status == 200, (path, page.content())
        if "messages" in path:
            page.get_by_text("5 found in").wait_for()
            page.wait_for_timeout(2_100)  # the rows' color fades
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
        violations = found.response["violations"]
        assert not violations, (path, [(each["id"], each["nodes"][0]["html"][:200]) for each in violations])
    context.close()


def test_a_phone_has_no_sideways_scrolling(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 700})
    page = context.new_page()
    for path in ACCESSIBLE:
        page.goto(address + path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, (path, width)
    context.close()


def test_an_acl_is_created_and_deleted(page: Any, address: str) -> None:
    page.goto(f"{address}/permissions")
    page.get_by_role("link", name="Create ACL").click()
    page.get_by_label("Principal").fill("User:grace")
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_label("READ", exact=True).check()
    page.get_by_role("button", name="Create ACL").click()
    page.get_by_text("1 ACLs").wait_for()
    page.get_by_role("row", name="User:grace").get_by_role("link", name="Delete").click()
    page.get_by_label("Type the name").fill("User:grace")
    page.get_by_role("button", name="Delete the ACL").click()
    page.get_by_text("2 ACLs").wait_for()


def test_a_user_is_created(page: Any, address: str) -> None:
    page.goto(f"{address}/permissions/user")
    page.get_by_label("Name").fill("grace")
    page.get_by_label("Password", exact=True).fill("secret-of-grace")
    page.get_by_label("Password again").fill("secret-of-grace")
    page.get_by_role("button", name="Create user").click()
    page.get_by_text("SCRAM-SHA-512 (4,096 iterations)").wait_for()
    assert "secret-of-grace" not in page.content()


def test_a_version_is_tried_and_registered(page: Any, address: str) -> None:
    page.goto(f"{address}/schema?subject=orders-value")
    text = page.locator("textarea[name=schema]:visible").input_value().replace('"more0"', '"other"')
    page.locator("textarea[name=schema]:visible").fill(text)
    page.get_by_role("button", name="Check compatibility").click()
    page.get_by_text("It is compatible.").wait_for()
    page.get_by_role("button", name="Register it").click()
    page.get_by_role("link", name="version 3", exact=True).wait_for()
    page.get_by_label("Compare with").select_option("1")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("and not in version 1").wait_for()


def test_a_hanging_transaction_is_aborted(page: Any, address: str) -> None:
    page.goto(f"{address}/transactions")
    page.get_by_label("Idle for").fill("0")
    page.get_by_role("button", name="Look for them").click()
    page.get_by_role("link", name="Abort").first.click()
    page.get_by_label("Type the name").fill("stuck-0")
    page.get_by_role("button", name="Abort stuck-0").click()
    page.get_by_text("0 in").wait_for()


def test_what_a_search_has_found_is_downloaded(page: Any, address: str) -> None:
    page.goto(f"{address}/topics/orders/messages")
    page.keyboard.press("/")
    page.keyboard.type("where number >= 57")
    page.keyboard.press("Enter")
    page.get_by_text("3 found in 60 of 60 records").wait_for()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV").click()
    lines = waiting.value.path().read_text().splitlines()
    assert waiting.value.suggested_filename == "orders.csv" and len(lines) == 4 and "57" in lines[3]


def test_a_chart_is_drawn(page: Any, address: str) -> None:
    page.goto(f"{address}/sql?sql={BARS}")
    assert page.locator("svg.drawn rect.series-1").count() == 3  # with the legend
    assert page.get_by_role("img", name="Bars: n, most by status").count() == 1
    page.get_by_label("Chart").select_option("none")
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**chart=none**")
    assert page.locator("svg.drawn").count() == 0
    page.goto(f"{address}/sql?sql={LINES}")
    assert page.locator("svg.drawn polyline").count() == 1


def test_a_page_that_is_not_current_says_so(page: Any, address: str) -> None:
    page.goto(f"{address}/topics/orders")
    page.route("**/topics/orders", lambda route: route.fulfill(status=404, content_type="text/html", body=GONE))
    page.get_by_text("This page is not current: the topic was deleted").wait_for()
    page.unroute("**/topics/orders")
    page.get_by_text("This page is not current").wait_for(state="hidden")


GONE = '<!doctype html><main><p role="alert">the topic was deleted</p></main>'
