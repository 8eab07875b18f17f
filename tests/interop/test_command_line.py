"""`kafkaraw produce`, `consume` and `groups` beside kcat and Kafka's own tools, on our broker and on Apache Kafka."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_export import export
from tests.cli.running import make_topic, read, run
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.java_tools import SharedTools, shared_tools

TOOLS = "org.apache.kafka.tools"
CONSUMER, PRODUCER = f"{TOOLS}.consumer.ConsoleConsumer", f"{TOOLS}.ConsoleProducer"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
TIMEOUT = 30.0

GIVEN = b"k1:v1\nk2:\nk3:\xc3\xa9\nk1:a:b\n"
SHOWN = ("timestamp", "partition", "offset", "headers", "key")
FORMATS = [
    [],
    ["-K", "\\t"],
    ["-Z", "-K", ":"],
    ["-J"],
    ["-f", "%t [%p] @%o %T: %k (%K) = %s (%S) %h\\n"],
    ["-f", "%R%s\\x01\\t%%\\n"],
    ["-o", "-2", "-f", "%o\\n"],
    ["-o", "s@2000", "-f", "%T\\n"],
    ["-o", "end"],
]


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of our broker, and of Apache Kafka."""
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap_servers
        return
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def tools(apache_kafka: ApacheKafka) -> SharedTools:
    """Kafka's own tools."""
    return shared_tools()


def kcat(servers: str, *arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        ["kcat", "-b", servers, *arguments], input=given, capture_output=True, timeout=TIMEOUT, check=True
    )
    return done.stdout


def kcat_started(servers: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Under way: each waits half a second for the end of a topic, and so they wait together."""
    return subprocess.Popen(["kcat", "-b", servers, *arguments], stdout=subprocess.PIPE)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_shows_what_we_sent_as_we_do_and_we_what_it_sent(cluster: str):
    for sender, topic in (("ours", "cli-ours"), ("kcat", "cli-kcat")):
        make_topic(cluster, topic)
        options = ["-K:", "-Z", "-H", "source=test", "-H", "empty=", "-p", "0"]
        if sender == "ours":
            run(cluster, "produce", topic, *options, "-z", "lz4", given=GIVEN)
        else:
            kcat(cluster, "-P", "-t", topic, *options, given=GIVEN)
        forms = FORMATS if sender == "ours" else FORMATS[3:5]
        shown = [kcat_started(cluster, "-C", "-t", topic, "-e", "-q", *form) for form in forms]
        for form, process in zip(forms, shown, strict=True):
            theirs, _ = process.communicate(timeout=TIMEOUT)
            ours = read(cluster, topic, *form)
            if form == ["-J"]:
                objects = [json.loads(line) for line in theirs.splitlines()]
                assert len([each.pop("broker") for each in objects]) == 4  # our consumer does not tell it
                assert [json.loads(line) for line in ours.splitlines()] == objects
            else:
                assert ours == theirs, (sender, form)
    assert read(cluster, "cli-ours") == read(cluster, "cli-kcat") == b"v1\n\n\xc3\xa9\na:b\n"


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_goes_on_where_our_group_has_stopped_and_the_other_way_round(cluster: str):
    make_topic(cluster, "cli-relay")
    run(cluster, "produce", "cli-relay", given=b"1\n2\n3\n4\n5\n6\n")
    group, begin = ["-G", "cli-relay"], ["-X", "auto.offset.reset=earliest"]
    assert read(cluster, *group, *begin, "-c", "2", "cli-relay") == b"1\n2\n"
    assert kcat(cluster, *group, *begin, "-c", "2", "-q", "cli-relay") == b"3\n4\n"
    assert read(cluster, *group, *begin, "-c", "2", "cli-relay") == b"5\n6\n"


def test_kafkas_console_tools_read_what_we_sent_and_we_what_they_sent(cluster: str, tools: SharedTools):
    make_topic(cluster, "cli-java")
    to = ("--bootstrap-server", cluster, "--topic", "cli-java")
    run(cluster, "produce", "cli-java", "-K:", "-Z", "-H", "h=1", given=b"a:1\nb:\n")
    split = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    headers = ("--reader-property", "parse.headers=true", "--reader-property", "headers.delimiter=|")
    marker = ("--reader-property", "null.marker=NULL")
    run(cluster, "produce", "cli-java", *split, *headers, *marker, given=b"x:y|c:3\nNULL|NULL:4\n")
    tools.run(PRODUCER, *to, *split, *headers, *marker, given="x:y|d:NULL\nNULL|NULL:6\n")
    show = [word for name in SHOWN for word in ("--formatter-property", f"print.{name}=true")]
    theirs = tools.run(CONSUMER, *to, *show, "--from-beginning", "--max-messages", "6")
    assert read(cluster, "cli-java", *show).decode() == theirs  # Java's producer is done now, too
    assert [line.split("\t", 1)[1] for line in theirs.splitlines()] == [
        "Partition:0\tOffset:0\th:1\ta\t1",
        "Partition:0\tOffset:1\th:1\tb\tnull",
        "Partition:0\tOffset:2\tx:y\tc\t3",
        "Partition:0\tOffset:3\tNO_HEADERS\tnull\t4",
        "Partition:0\tOffset:4\tx:y\td\tnull",
        "Partition:0\tOffset:5\tNO_HEADERS\tnull\t6",
    ]


def test_kafkas_groups_tool_says_the_same_of_a_group(cluster: str, tools: SharedTools, tmp_path: Path):
    make_topic(cluster, "cli-groups", partitions=2)
    for partition in ("0", "1"):
        run(cluster, "produce", "cli-groups", "-p", partition, given=b"1\n2\n3\n")
    read(cluster, "cli-groups", "-g", "cli-group", "--from-beginning", "-c", "4")
    to = ("--bootstrap-server", cluster, "--group", "cli-group")

    def described() -> list[list[str]]:
        theirs, ours = tools.run(GROUPS, *to, "--describe"), run(cluster, "groups describe", "cli-group").stdout
        rows = [[line.split() for line in text.splitlines() if line.strip()] for text in (theirs, ours)]
        assert rows[0][0] == rows[1][0] and sorted(rows[0]) == sorted(rows[1])
        return sorted(row[1:6] for row in rows[1][1:])

    assert sum(int(row[4]) for row in described()) == 2

    scope = ("--reset-offsets", "--all-topics", "--to-earliest", "--export", "--dry-run")
    theirs = tools.run(GROUPS, *to, *scope).splitlines()
    saved = run(cluster, "groups reset", "cli-group", "--all-topics", "--to-earliest", "--export").stdout
    exported = [line for line in theirs if line]
    assert sorted(exported) == sorted(saved.splitlines()) == ["cli-groups,0,0", "cli-groups,1,0"]

    (tmp_path / "ours.csv").write_text("cli-groups,0,1\ncli-groups,1,2\n")
    run(cluster, "groups reset", "cli-group", "--from-file", str(tmp_path / "ours.csv"), "--execute")
    assert described() == [["cli-groups", "0", "1", "3", "2"], ["cli-groups", "1", "2", "3", "1"]]
    (tmp_path / "theirs.csv").write_text(saved)
    tools.run(GROUPS, *to, "--reset-offsets", "--from-file", str(tmp_path / "theirs.csv"), "--execute")
    assert described() == [["cli-groups", "0", "0", "3", "3"], ["cli-groups", "1", "0", "3", "3"]]


def test_a_copy_has_the_same_records_and_the_exporter_shows_how_far_it_is(cluster: str):
    for topic in ("copied", "copy-of-it"):
        make_topic(cluster, topic)
    run(cluster, "produce", "copied", "-K:", "-Z", "-H", "source=test", "-p", "0", given=GIVEN)
    run(cluster, "copy", "copied", "copy-of-it")
    form = "%p %T %k=%s %h\\n"
    assert read(cluster, "copy-of-it", "-f", form) == read(cluster, "copied", "-f", form) != b""
    running, port = export(Cluster(cluster, None, ()), ["copy.copied.*"], "127.0.0.1", 0, 8)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        running.close()
    assert 'kafkaraw_group_lag{group="copy.copied.copy-of-it",partition="0",topic="copied"} 0.0' in text


def test_performance_is_measured_as_by_kafkas_tools(cluster: str):
    make_topic(cluster, "measured")
    sent = run(cluster, "perf produce", "measured", "--num-records", "500", "--record-size", "100", "--json")
    assert json.loads(sent.output)["records"] == 500
    seen = run(cluster, "perf consume", "measured", "--num-records", "500", "--group", "measuring", "--json")
    assert json.loads(seen.output)["records"] == 500
