"""Make the pictures of the guide about the console, with brokers, a console, and a browser that opens its pages.

    pip install -c constraints.txt '.[browser,spark]'     # and apt-get install chromium
    python -m docs.draw_console                     # or: python -m docs.draw_console FOLDER

Look at the pictures before they are committed. Start at `main`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from docs.console_scene import scene, set_faults
from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.console.serving import Console
from kafkaraw.console.settings import ClusterSettings, ConsoleSettings
from tests.console.browsing import path_of_browser, why_not

PICTURES: Final = {
    "console-messages": "/topics/orders/messages?q=%24.customer.city+%3D+Oslo",
    "console-group": "/group?id=billing",
    "console-pipeline": "/pipeline?name=shop",
    "console-mirrors": "/mirrors",
    "console-wire": "/wire",
}
ALL_PAGES: Final = {
    **PICTURES,
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "record": "/topics/orders/record?partition=1&offset=7",
    "reset": "/group/reset?id=billing&to=shift&shift=-100",
    "sql": "/sql?sql=SELECT+status%2C+count(*)+FROM+orders+GROUP+BY+ALL",
    "sql-lines": "/sql?sql=SELECT+%22offset%22%2C+amount+FROM+orders+ORDER+BY+1+LIMIT+40&chart=lines",
    "groups": "/groups",
    "transactions": "/transactions?all=1&hanging=1&minutes=0",
    "schemas": "/schemas",
    "error": "/topics/none",
    "messages": "/topics/orders/messages",
    "live": "/topics/orders/messages?live=1",
    "dead-letters": "/dead-letters",
    "permissions": "/permissions",
    "pipelines": "/pipelines",
    "exchange": "/wire/exchange?number=400",
    "translate": "/mirrors/translate?mirror=mirror.properties&group=invoices",
}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "": {"viewport": {"width": 1_100, "height": 620}, "color_scheme": "light"},
    "-dark": {"viewport": {"width": 1_100, "height": 620}, "color_scheme": "dark"},
    "-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
}
"""By endings of names: how pages are looked at; the pictures of the guide have the first one."""
_FOLDER: Final = Path(__file__).parent / "pictures"
_START_S: Final = 20.0


def main() -> None:
    """Make the pictures of the guide, or with a folder as argument those of all pages in all looks, there."""
    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    is_guide = len(sys.argv) == 1
    pages, folder = (PICTURES, _FOLDER) if is_guide else (ALL_PAGES, Path(sys.argv[1]))
    looks = {"": LOOKS[""]} if is_guide else LOOKS
    with EmbeddedBroker() as broker, scene(broker) as more:
        servers = broker.bootstrap_servers
        fill(servers)
        client = {"bootstrap_servers": servers}
        cluster = ClusterSettings("shop", client, client, option="-b localhost:9092", **more)
        with _running(ConsoleSettings([cluster])) as address:
            draw(f"{address}c/shop", pages, folder, looks)
        set_faults(broker.faults)
        with _running(ConsoleSettings([replace(cluster, starts_tap=False)], allow_writes=True)) as address:
            draw(f"{address}c/shop", {"console-faults": "/faults"}, folder, looks)


@contextlib.contextmanager
def _running(settings: ConsoleSettings) -> Iterator[str]:
    """Run a console, and yield its address."""
    console = Console(settings)
    is_started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(console.run(is_started.set)))
    thread.start()
    try:
        is_started.wait(_START_S)
        yield console.url
    finally:
        console.stop()
        thread.join()


def fill(servers: str) -> None:
    """Make orders, and a group that lags."""
    rng = random.Random(1)
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("orders", partitions=3), NewTopic("payments", partitions=1)])
        for number in range(3_000):
            city = rng.choice(("Oslo", "Lima", "Rome", "Kyoto", "Quito"))
            order = {
                "id": number,
                "customer": {"name": f"c{rng.randrange(200)}", "city": city},
                "status": rng.choice(("new", "paid", "sent")),
                "amount": rng.randrange(100, 9_000) / 100,
            }
            headers = [("source", rng.choice((b"web", b"shop", b"phone")))]
            producer.send("orders", json.dumps(order).encode(), b"c%d" % rng.randrange(200), headers=headers)
        producer.flush()
        committed = {
            TopicPartition("orders", 0): 900,
            TopicPartition("orders", 1): 770,
            TopicPartition("orders", 2): 40,
        }
        admin.alter_group_offsets("billing", committed)
        admin.alter_group_offsets("shipping", {TopicPartition("orders", 0): 990})


def draw(address: str, pages: dict[str, str], folder: Path, looks: dict[str, dict[str, Any]]) -> None:
    """Open pages, and write a picture of each in each look."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path_of_browser(), args=["--no-sandbox"])
        for ending, look in looks.items():
            page = browser.new_context(**look).new_page()
            for name, path in pages.items():
                page.goto(address + path)
                if "q=" in path:
                    page.get_by_text("found in").wait_for()
                if path.startswith("/group?"):
                    page.locator("figure").wait_for()  # the lag over time, of two samples
                page.wait_for_timeout(3_000 if not ending else 800)
                page.screenshot(path=folder / f"{name}{ending}.png")
                print(folder / f"{name}{ending}.png")
        browser.close()


if __name__ == "__main__":
    main()
