"""Activity tracking: page views of a web site, driven by a real browser, into sessions and top pages.

python -m examples.activity
"""

from __future__ import annotations

import random
import tempfile
import time
import urllib.request
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.activity.site import DOCS, Site, find_browser, visit
from examples.harness import Place, Size, check, command
from examples.picture import bars
from kafkaraw import NewTopic, Producer
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VISITORS = {"small": 2, "whole": 6}
VIEWS = {"small": 3, "whole": 10}  # of each visitor
GAP = timedelta(seconds=2)  # as in the pipeline
PROBE = "probe of the example"


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Visit, run, compare; return the picture."""
    browser = find_browser()
    if browser is None:
        raise UsageError("no browser: on Debian and Ubuntu, run `apt-get install chromium`")
    place.create_topics(NewTopic("page-views", 1))
    with Producer(bootstrap_servers=place.servers, linger_ms=0) as producer:
        site = Site(lambda view: producer.send("page-views", view))
        try:
            _visit_all(browser, site, size)
            time.sleep(GAP.total_seconds() + 2)
            _probe(site)
        finally:
            site.close()
        producer.flush(60)
    place.run_pipeline(spark)
    views = [each for each in site.views if each["agent"] != PROBE]
    check("page_views", views, (row.asDict() for row in place.table(spark, "page_views").collect()))
    sessions = _sessions(views)
    check("sessions", sessions, (row.asDict() for row in place.table(spark, "sessions").collect()))
    top = _top_pages(views)
    check("top_pages", top, (row.asDict() for row in place.table(spark, "top_pages").collect()))
    place.say(f"{len(views)} views of {VISITORS[size]} visitors in {len(sessions)} sessions, as expected")
    best = sorted(top, key=lambda each: (-each["views"], each["page"]))[:15]
    return bars(
        "Top pages",
        f"{len(views)} page views by {VISITORS[size]} visitors with a browser, in {len(sessions)} sessions",
        [
            (each["page"], each["views"], f"{_count(each['views'], 'view')}, {_count(each['visitors'], 'visitor')}")
            for each in best
        ],
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _visit_all(browser: str, site: Site, size: Size) -> None:
    """Let each visitor open pages, with pauses that end sessions now and then."""
    chance = random.Random(1)
    pages = ["/architecture.md", *sorted(f"/{each.relative_to(DOCS)}" for each in DOCS.glob("*.md"))[:12], "/none.md"]
    with tempfile.TemporaryDirectory(prefix="kafkaraw-browser-", ignore_cleanup_errors=True) as folder:
        for number in range(VISITORS[size]):
            for _ in range(VIEWS[size]):
                visit(browser, Path(folder, str(number)), site.address + chance.choice(pages))
                time.sleep(chance.choice([0, 0, 3]))


def _probe(site: Site) -> None:
    """Look at the site as a monitor does: the time of this view ends all sessions, and the pipeline drops it."""
    request = urllib.request.Request(f"{site.address}/architecture.md", headers={"User-Agent": PROBE})
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()


def _sessions(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions as plain Python computes them."""
    by_visitor = defaultdict[str, list[dict[str, Any]]](list)
    for view in sorted(views, key=lambda each: str(each["at"])):
        by_visitor[view["visitor"]].append(view)
    found = []
    for visitor, each in by_visitor.items():
        parts = list[list[dict[str, Any]]]()
        for view in each:
            if not parts or _time(view) >= _time(parts[-1][-1]) + GAP:
                parts.append([])
            parts[-1].append(view)
        found += [_session(visitor, part) for part in parts]
    return found


def _session(visitor: str, views: list[dict[str, Any]]) -> dict[str, Any]:
    start, end = _time(views[0]), _time(views[-1]) + GAP
    pages = {"first_page": views[0]["page"], "last_page": views[-1]["page"]}
    return {"visitor": visitor, "start": start, "end": end, "views": len(views), **pages}


def _time(view: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(view["at"])


def _top_pages(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    visitors = defaultdict[str, list[str]](list)
    for view in views:
        if view["status"] == 200:
            visitors[view["page"]].append(view["visitor"])
    return [{"page": page, "views": len(each), "visitors": len(set(each))} for page, each in visitors.items()]


if __name__ == "__main__":
    command("activity", run)()
