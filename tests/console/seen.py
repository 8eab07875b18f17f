"""What pages of groups and transactions must show and do, on any broker; `filling` makes what they show."""

from __future__ import annotations

import httpx

from kafkaraw import Admin, OffsetSpec, TopicPartition
from tests.console.filling import TRANSACTION
from tests.console.running import post
from tests.waiting import wait_until

WAIT_S = 40


def deliveries_are_counted(client: httpx.Client, group: str) -> None:
    """The delivery counts of what `share_group` has done."""
    page = ""

    def is_shown() -> bool:
        nonlocal page
        page = client.get("/c/test/group/deliveries", params={"id": group}).text
        return "ranges of records" in page and ">archived<" in page

    assert wait_until(is_shown, WAIT_S), page
    rows = page.split("Delivery counts</h2>")[1]
    assert ">available<" in rows and ">acknowledged<" in rows
    assert "How often records were delivered" in client.get("/c/test/group", params={"id": group}).text


def a_share_group_is_reset(client: httpx.Client, servers: str, group: str, topic: str) -> None:
    """The start offset of a share group without members is set to what the plan shows."""
    page = client.get("/c/test/group/reset", params={"id": group, "to": "latest"}).text
    assert f"{topic} 0 4" in page, page
    given = {"id": group, "confirm": group, "plan": f"{topic} 0 4"}
    answer = post(client, "/c/test/group/reset", **given)
    assert answer.status_code == 303, answer.text
    with Admin(bootstrap_servers=servers) as admin:
        offsets = admin.list_share_group_offsets([group])[group]
    assert offsets[TopicPartition(topic, 0)].start_offset == 4


def tasks_are_shown(client: httpx.Client, group: str) -> None:
    """The tasks of what `streams_group` has joined."""
    page = client.get("/c/test/group", params={"id": group}).text
    assert "0_0, 0_1" in page and "streams-app" in page and "Tasks</h2>" in page
    assert "No member owns" not in page


def an_open_transaction_is_aborted(client: httpx.Client, topic: str) -> None:
    """What `open_transaction` has opened is shown, and aborted by its id."""
    page = client.get("/c/test/transactions", params={"q": TRANSACTION}).text
    assert "Ongoing" in page and f"{topic} [0], {topic} [1]" in page
    place = {"topic": topic, "partition": "0", "offset": "0"}
    facts = client.get("/c/test/transactions/abort", params=place).text
    assert f"The coordinator still has it, as {TRANSACTION}" in facts
    assert post(client, "/c/test/transactions/abort", **place, confirm=f"{topic}-0").status_code == 400
    facts = client.get("/c/test/transactions/abort", params={"id": TRANSACTION}).text
    assert "Its producer is fenced" in facts and f"{topic} [0]" in facts
    assert post(client, "/c/test/transactions/abort", id=TRANSACTION, confirm="other").status_code == 400
    assert post(client, "/c/test/transactions/abort", id=TRANSACTION, confirm=TRANSACTION).status_code == 303

    def is_over() -> bool:
        return "No open transaction" in client.get("/c/test/transactions", params={"q": TRANSACTION}).text

    assert wait_until(is_over, WAIT_S)
    both = client.get("/c/test/transactions", params={"q": TRANSACTION, "all": "1"}).text
    assert TRANSACTION in both


def a_hanging_transaction_is_found_and_aborted(client: httpx.Client, servers: str, topic: str, producer: int) -> None:
    """What `hang` has left is found, and aborted in its partition."""
    with Admin(bootstrap_servers=servers) as admin:
        key = TopicPartition(topic, 0)

        def stable() -> int:
            return admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level="read_committed")[key].offset

        assert stable() == 0
        found = client.get("/c/test/transactions", params={"hanging": "1", "minutes": "0"}).text
        assert f"{topic} [0]" in found and "unknown to all coordinators" in found and f"{producer}, epoch 0" in found
        place = {"topic": topic, "partition": "0", "offset": "0"}
        facts = client.get("/c/test/transactions/abort", params=place).text
        assert f"The transaction of producer {producer}, epoch 0, in {topic}-0 from offset 0 on" in facts
        assert post(client, "/c/test/transactions/abort", **place, confirm=topic).status_code == 400
        answer = post(client, "/c/test/transactions/abort", **place, confirm=f"{topic}-0")
        assert answer.status_code == 303, answer.text
        assert wait_until(lambda: stable() == 2, WAIT_S)
    assert client.get("/c/test/transactions/abort", params=place).status_code == 404
