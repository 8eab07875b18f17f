"""The page of dead letters, with the store that commands use: shown, replayed once, discarded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest

from kafkaraw import Consumer, Producer
from kafkaraw.console.settings import Pipeline
from kafkaraw.pipelines.dead_letters.store import EVERY, Filter
from tests.console.running import HOSTILE_TEXTS, post, running
from tests.pipelines.letters import Topics, letter
from tests.waiting import wait_until


@pytest.fixture
def topics(servers: str) -> Iterator[Topics]:
    with Producer(bootstrap_servers=servers) as producer:
        yield Topics(SimpleNamespace(servers=servers, producer=producer))


@pytest.fixture
def client(servers: str, topics: Topics) -> Iterator[httpx.Client]:
    pipeline = Pipeline(topics.store, lambda places: EVERY if places is None else Filter(places=places))
    with running(servers, of={"pipelines": {topics.name: pipeline}}, allow_writes=True) as console:
        yield console


def values_in(servers: str, topic: str) -> list[bytes | None]:
    """The values of a topic that transactions have committed."""
    found: list[bytes | None] = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)

        def is_read() -> bool:
            found.extend(record.value for batch in consumer.poll(0.1).values() for record in batch)
            return all(consumer.position(each) >= ends[each] for each in partitions)

        assert wait_until(is_read, 20)
    return found


def test_a_letter_is_shown_with_its_reason_and_replayed_once(
    client: httpx.Client, topics: Topics, servers: str
) -> None:
    topics.add(*(letter(number, error=f"no JSON {HOSTILE_TEXTS[0]}") for number in range(3)))
    page = client.get("/c/test/dead-letters").text
    assert page.count("no JSON &lt;script&gt;") == 3 and HOSTILE_TEXTS[0] not in page
    assert "orders-in [0] 2" in page
    place = re.search(r"at=(0%3A\d+)", page)
    assert place is not None
    at = place[1].replace("%3A", ":")
    query = {"pipeline": topics.name, "action": "replay", "at": at}
    plan = client.get("/c/test/dead-letters/confirm", params=query).text
    assert "1 dead letters would be written again" in plan and topics.replays in plan
    assert values_in(servers, topics.replays) == []
    assert post(client, "/c/test/dead-letters/confirm", **query, confirm="x").status_code == 400
    assert post(client, "/c/test/dead-letters/confirm", **query, confirm=topics.name).status_code == 303
    assert post(client, "/c/test/dead-letters/confirm", **query, confirm=topics.name).status_code == 303
    assert values_in(servers, topics.replays) == [b"0"]
    assert client.get("/c/test/dead-letters").text.count("Replay…") == 2


def test_all_open_letters_are_discarded(client: httpx.Client, topics: Topics, servers: str) -> None:
    topics.add(letter(0), letter(1))
    query = {"pipeline": topics.name, "action": "discard"}
    assert (
        "2 dead letters would be marked as discarded" in client.get("/c/test/dead-letters/confirm", params=query).text
    )
    assert post(client, "/c/test/dead-letters/confirm", **query, confirm=topics.name).status_code == 303
    page = client.get("/c/test/dead-letters", params={"all": "1"}).text
    assert page.count(">discarded<") >= 2
    assert values_in(servers, topics.replays) == []


@pytest.mark.parametrize(
    "query",
    [{"action": "drop"}, {"action": "replay", "pipeline": "other"}, {"action": "replay", "at": "x"}],
)
def test_what_cannot_be_done_is_refused(client: httpx.Client, topics: Topics, query: dict[str, str]) -> None:
    answer = client.get("/c/test/dead-letters/confirm", params={"pipeline": topics.name, **query})
    assert answer.status_code in (400, 404)
