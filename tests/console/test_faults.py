"""The page of faults: switched on and off, told on every page, logged, and never applied to the console itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.console.settings import CLIENT_ID
from kafkaraw.errors import KafkaError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.console.running import HOSTILE_TEXTS, post, running, token_of
from tests.console.test_command import started


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[EmbeddedBroker, httpx.Client]]:
    with EmbeddedBroker() as broker:
        of = {"faults": broker.faults}
        with running(broker.bootstrap_servers, of=of, allow_writes=True, audit_file=tmp_path / "audit") as client:
            yield broker, client


def off(client: httpx.Client, which: str) -> httpx.Response:
    return client.post("/c/test/faults", data={"token": token_of(client), "off": which})


def test_a_fault_happens_until_it_is_switched_off(faulty: tuple[EmbeddedBroker, httpx.Client], tmp_path: Path) -> None:
    broker, client = faulty
    assert "Faults are switched on" not in client.get("/c/test/").text
    assert post(client, "/c/test/faults", rule="CreateTopics: answer POLICY_VIOLATION").status_code == 303
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
            admin.create_topics([NewTopic("refused", 1)])
        for page in ("/c/test/", "/c/test/topics", "/c/test/nothing", "/c/test/topics/none"):
            assert ("Faults are switched on" in client.get(page).text) == (page != "/c/test/nothing")
        (fault,) = broker.faults.active
        assert "happened 1 of no limit" in client.get("/c/test/faults").text
        assert off(client, str(id(fault))).status_code == 303
        assert broker.faults.active == [] and not broker.faults.are_set
        admin.create_topics([NewTopic("accepted", 1)])
    entries = [json.loads(each) for each in (tmp_path / "audit").read_text().splitlines()]
    assert [(each["action"], each["result"]) for each in entries] == [
        ("switch a fault on", "begun"),
        ("switch a fault on", "done"),
        ("switch faults off", "begun"),
        ("switch faults off", "done"),
    ]
    assert entries[0]["rule"] == "CreateTopics: answer POLICY_VIOLATION"


def test_all_are_switched_off(faulty: tuple[EmbeddedBroker, httpx.Client]) -> None:
    broker, client = faulty
    for rule in ("Produce: close", "Fetch: delay 500ms"):
        post(client, "/c/test/faults", rule=rule)
    assert len(broker.faults.active) == 2
    off(client, "all")
    assert broker.faults.active == []


def test_the_console_itself_is_spared() -> None:
    with EmbeddedBroker() as broker:
        broker.faults.spare(CLIENT_ID)
        with running(broker.bootstrap_servers, of={"faults": broker.faults}, allow_writes=True) as client:
            post(client, "/c/test/faults", rule="any: answer POLICY_VIOLATION")
            page = client.get("/c/test/")
            assert page.status_code == 200 and "1 broker answers" in page.text
            with (
                Producer(
                    bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=1_000, request_timeout_ms=900
                ) as producer,
                pytest.raises(KafkaError),
            ):
                producer.send("lost", b"x").result(5)


@pytest.mark.parametrize("rule", ["", "Produce", "Prodce: close", "Produce: explode", f"{HOSTILE_TEXTS[0]}: close"])
def test_what_is_no_fault_is_refused(faulty: tuple[EmbeddedBroker, httpx.Client], rule: str) -> None:
    broker, client = faulty
    answer = post(client, "/c/test/faults", rule=rule)
    assert answer.status_code == 400 and HOSTILE_TEXTS[0] not in answer.text
    assert broker.faults.active == []


def test_hostile_conditions_are_text(faulty: tuple[EmbeddedBroker, httpx.Client]) -> None:
    broker, client = faulty
    broker.faults.on("Produce", topic=HOSTILE_TEXTS[0]).answer(ErrorCode.INVALID_REQUEST)
    for page in ("/c/test/faults", "/c/test/topics"):
        assert HOSTILE_TEXTS[0] not in client.get(page).text


def test_faults_are_switched_with_allow_writes_only() -> None:
    with EmbeddedBroker() as broker, running(broker.bootstrap_servers, of={"faults": broker.faults}) as client:
        assert "--allow-writes" in client.get("/c/test/faults").text
        assert client.post("/c/test/faults", data={"rule": "Produce: close"}).status_code == 400
        assert broker.faults.active == []


def test_clusters_without_a_plan_have_no_faults(console: httpx.Client) -> None:
    assert console.get("/c/test/faults").status_code == 404
    assert "/c/test/faults" not in console.get("/c/test/").text


def test_the_console_of_a_broker_has_its_faults_and_a_tap() -> None:
    process, url = started("broker", "--port", "0", "--console", "0", "--allow-writes", line="console=")
    try:
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            token = token_of(client, "/c/broker/new-topic")
            assert client.post("/c/broker/faults", data={"token": token, "rule": "any: close"}).status_code == 303
            page = client.get("/c/broker/")
            assert "Faults are switched on" in page.text and "1 broker answers" in page.text
            assert client.post("/c/broker/wire", data={"token": token, "action": "start"}).status_code == 303
            assert "bootstrap.servers=127.0.0.1:" in client.get("/c/broker/wire").text
    finally:
        process.kill()
        process.communicate()
