"""`kafkaraw top` without a terminal: tables and JSON. `test_top_live.py` has the screen."""

from __future__ import annotations

import json
import re
import threading

import pytest

from kafkaraw import AclBinding, AclOperation, Admin, NewTopic, Producer, ResourcePattern, ResourceType, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from tests.cli.running import make_group_behind, run

PASSWORD = "opensesame-4711"


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    """A broker with two topics and a group that is behind."""
    make_group_behind(servers)
    return servers


def test_tables_are_printed_once_without_a_terminal(filled: str) -> None:
    printed = run(filled, "top", "-d", "0.5").stdout
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z  0 records/s  0B/s  1 broker  3 topics  1 group\n", printed)
    assert re.search(r"^flights +1 +0 ", printed, re.MULTILINE)
    assert re.search(r"^orders +2 +0 +0B +20 ", printed, re.MULTILINE)
    assert re.search(r"^billing +classic +Empty +0 +1 +0 +15 ", printed, re.MULTILINE)
    assert "__consumer_offsets" not in printed


def test_one_view_is_printed_in_the_order_and_with_the_filter_that_were_asked_for(filled: str) -> None:
    options = ["-d", "0.5", "--view", "topics", "--once", "--internal"]
    printed = run(filled, "top", *options, "--sort", "topic", "--reverse").stdout
    assert re.findall(r"^(orders|flights|__consumer_offsets|billing)", printed, re.MULTILINE) == [
        "orders", "flights", "__consumer_offsets"
    ]  # fmt: skip
    printed = run(filled, "top", *options, "--filter", "ORD").stdout
    assert re.findall(r"^(orders|flights)", printed, re.MULTILINE) == ["orders"]
    printed = run(filled, "top", *options, "--rows", "1").stdout
    assert "... and 2 more topics; --rows 0 prints all" in printed


def test_json_has_everything(filled: str) -> None:
    found = json.loads(run(filled, "top", "--once", "-d", "0.5", "-o", "json").stdout)
    topics = {topic["name"]: topic for topic in found["topics"]}
    assert topics["orders"]["records"] == 20 and topics["orders"]["lag"] == 15
    assert [each["end_offset"] for each in topics["orders"]["partition_list"]] == [20, 0]
    (group,) = found["groups"]
    assert (group["group_id"], group["lag"], group["lag_per_s"]) == ("billing", 15, 0.0)
    assert group["time_lag"]["seconds"] > 0
    (row,) = group["partitions"]
    assert (row["topic"], row["committed"], row["end_offset"], row["member"]) == ("orders", 5, 20, None)
    (broker,) = found["brokers"]
    assert broker["is_controller"] and broker["is_online"] and broker["log_dirs"]
    assert found["problems"] == []


def test_several_snapshots_are_a_line_of_json_each(filled: str) -> None:
    lines = run(filled, "top", "-n", "2", "-d", "0.5", "-o", "json").stdout.splitlines()
    first, second = map(json.loads, lines)
    assert first["at"] < second["at"]


def test_rates_are_those_of_the_interval(filled: str) -> None:
    stop = threading.Event()

    def produce() -> None:
        with Producer(bootstrap_servers=filled) as producer:
            while not stop.wait(0.01):
                producer.send("flights", b"x" * 100)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        found = json.loads(run(filled, "top", "--once", "-d", "1", "-o", "json", "--topics", "fl*").stdout)
    finally:
        stop.set()
        thread.join()
    (topic,) = found["topics"]
    assert 10 < topic["records_per_s"] < 110
    assert topic["bytes_per_s"] > 100 * topic["records_per_s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sort", "lag"], "need --view"),
        (["--filter", "x"], "need --view"),
        (["--view", "topics", "--sort", "nope"], "the columns of topics are topic, partitions, records/s"),
        (["-d", "0.1"], "0.5<=x<=3600"),
        (["--view", "nope"], "'brokers', 'topics', 'groups', 'problems'"),
    ],
)
def test_wrong_options_say_what_is_right(filled: str, arguments: list[str], message: str) -> None:
    assert message in run(filled, "top", *arguments, code=2).stderr


def test_a_cluster_that_is_away_ends_a_print_with_one_line() -> None:
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
    printed = run(address, "top", "--once", "-X", "default.api.timeout.ms=1000", code=1)
    assert printed.stdout == "" and printed.stderr.startswith("Error: ") and printed.stderr.count("\n") == 1


def test_permissions_that_are_missing_are_named() -> None:
    secured = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}

    def login(user: str) -> dict[str, str]:
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": user,
            "sasl_password": PASSWORD,
        }

    with EmbeddedBroker(properties=secured, users={"root": PASSWORD, "ada": PASSWORD}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers, **login("root")) as admin:  # type: ignore[arg-type]
            admin.create_topics([NewTopic("seen"), NewTopic("hidden")])
            admin.alter_group_offsets("hidden", {TopicPartition("seen", 0): 0})
            may = AclBinding(ResourcePattern(ResourceType.TOPIC, "seen"), "User:ada", AclOperation.DESCRIBE)
            admin.create_acls([may])
        given = [word for name, value in login("ada").items() for word in ("-X", f"{name}={value}")]
        printed = run(broker.bootstrap_servers, "top", "--once", "-d", "0.5", *given).stdout
    assert re.search(r"^seen ", printed, re.MULTILINE) and "hidden" not in printed
    needed = "note: Not shown: log directories of broker 0: it needs the permission DESCRIBE on the cluster"
    assert needed in printed
    assert "No groups: there is none, or this principal lacks the permission DESCRIBE on groups." in printed


def test_control_characters_of_a_group_do_not_reach_the_output(servers: str) -> None:
    name = "\x1b]0;owned\x07\n[red]"
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets(name, {TopicPartition("orders", 0): 0})
        try:
            for output in ("table", "json"):
                printed = run(servers, "top", "--once", "-d", "0.5", "-o", output).stdout
                assert "\x1b" not in printed and "\x07" not in printed and "owned" in printed
        finally:
            admin.delete_groups([name])
