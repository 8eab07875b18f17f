"""Lists of 10,000 topics and 5,000 groups stay quick: when they are opened, and while the reader types a filter."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

import httpx
import pytest

from bench.top import PARTITIONS, prepare
from kafkaraw.broker import EmbeddedBroker
from tests.console.running import running
from tests.waiting import wait_until

TOPICS, GROUPS = 10_000, 5_000
FIRST_S = 1.0
FILTER_S = 0.1
AS_TYPED, AGAIN = {"x-part": "typed"}, {"x-part": "again"}
"""What the page's script sends when it replaces the results: as the reader types, and for numbers that were missing."""


@pytest.fixture(scope="module")
def many() -> Iterator[str]:
    with EmbeddedBroker(process=True, properties={"num.partitions": PARTITIONS}) as broker:
        asyncio.run(prepare(broker.bootstrap_servers, TOPICS, GROUPS))
        yield broker.bootstrap_servers


def seconds(client: httpx.Client, path: str, count: str, headers: dict[str, str] | None = None) -> float:
    began = time.perf_counter()
    answer = client.get(path, headers=headers)
    took = time.perf_counter() - began
    assert answer.status_code == 200 and count in answer.text, path
    return took


def numbers(client: httpx.Client, page: str) -> str:
    """The list with a filter, when the script asks for it again."""
    return client.get(f"/c/test/{page}?q=77", headers=AGAIN).text


@pytest.mark.soak
@pytest.mark.parametrize(("page", "count"), [("topics", "10,000 topics"), ("groups", "5,000 groups")])
def test_a_long_list_is_quick(many: str, page: str, count: str) -> None:
    """The first view of a console that has just started, and each character of a filter."""
    firsts, filters = [], []
    for _ in range(3):
        with running(many) as client:
            firsts.append(seconds(client, f"/c/test/{page}", count))
            filters += [
                seconds(client, f"/c/test/{page}?q={typed}", "<tbody>", AS_TYPED)
                for typed in ("0", "07", "077", "0777", "777", "77", "7")
            ]
            assert wait_until(lambda client=client: "data-again" not in numbers(client, page), 20)
    print(f"{page}: first views {firsts}, filters {filters}")
    assert statistics.median(firsts) < FIRST_S, firsts
    assert statistics.median(filters) < FILTER_S, filters
    assert max(filters) < 2 * FILTER_S, filters


@pytest.mark.soak
def test_the_overview_of_a_large_cluster_comes_in_two_steps(many: str) -> None:
    with running(many) as client:
        assert seconds(client, "/c/test/", "1 broker answers") < 1.5
        assert wait_until(lambda: "10,001" in client.get("/c/test/").text, 30)  # with that of committed offsets
        page = client.get("/c/test/").text
        assert "30,050" in page and "5,000" in page and "data-again" not in page
