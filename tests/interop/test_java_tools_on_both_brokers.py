"""Java's command-line tools end with the same exit code on the embedded broker as on Apache Kafka.

All tools that connect to a cluster run in the JVM that the tests share, each with the same arguments on both brokers, a
line at a time. A line has the exit code that both lead to, so that the two do not agree on a failure by accident. What
the tools print on the embedded broker is checked beside the feature that they use: `test_java_admin_tools.py`,
`test_acls.py` and others. `NOT_RUN` names the other tools.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.interop.apache_kafka import fetch_jars, fetch_tools
from tests.interop.both_brokers import Broker
from tests.interop.java_tools import SharedTools, shared_tools
from tests.rotation import rotating

Line: TypeAlias = "tuple[int, str] | tuple[int, str, str]"
"""The exit code, the arguments, and what the tool reads."""

AT = "--bootstrap-server SERVER"
COPY = "--broker-list SERVER --input-topic TOPIC --input-partition 0 --output-topic TOPIC-copy"
CREATE = f"{AT} --create --topic TOPIC --partitions 2"
RECORDS: list[tuple[str, Line]] = [
    ("TopicCommand", (0, CREATE)),
    ("ConsoleProducer", (0, f"{AT} --topic TOPIC", "one\ntwo\nthree\n")),
]
"""What several tools need first: a topic with records."""

GROUP: list[tuple[str, Line]] = [
    *RECORDS,
    ("consumer.ConsoleConsumer", (0, f"{AT} --topic TOPIC --group jg --from-beginning --max-messages 3")),
]

TOOLS: dict[str, list[Line]] = {
    "TopicCommand": [
        (0, f"{AT} --create --topic TOPIC --partitions 2 --config retention.ms=-1"),
        (1, f"{AT} --create --topic TOPIC"),
        (0, f"{AT} --create --topic TOPIC --if-not-exists"),
        (1, f"{AT} --create --topic far --replication-factor 3"),
        (1, f"{AT} --create --topic bad --config bogus=1"),
        (0, f"{AT} --alter --topic TOPIC --partitions 3"),
        (1, f"{AT} --alter --topic TOPIC --partitions 1"),
        (1, f"{AT} --alter --topic nope --partitions 2"),
        (0, f"{AT} --list --exclude-internal"),
        (0, f"{AT} --describe --topic TOPIC"),
        (0, f"{AT} --describe --under-replicated-partitions"),
        (0, f"{AT} --describe --at-min-isr-partitions"),
        (1, f"{AT} --describe --topic nope"),
        (0, f"{AT} --delete --topic TOPIC"),
        (1, f"{AT} --delete --topic TOPIC"),
    ],
    "ConsoleProducer": [(0, f"{AT} --topic TOPIC --compression-codec zstd", "four\n"), (1, AT)],
    "consumer.ConsoleConsumer": [
        (0, f"{AT} --topic TOPIC --from-beginning --max-messages 3"),
        (0, f"{AT} --topic TOPIC --partition 0 --offset earliest --timeout-ms 500"),
        (1, f"{AT} --from-beginning"),
    ],
    "kafka.admin.ConfigCommand": [
        (0, f"{AT} --entity-type topics --entity-name TOPIC --alter --add-config retention.ms=5"),
        (0, f"{AT} --entity-type topics --entity-name TOPIC --describe"),
        (0, f"{AT} --entity-type topics --entity-name TOPIC --describe --all"),
        (1, f"{AT} --entity-type topics --entity-name TOPIC --alter --add-config bogus=1"),
        (0, f"{AT} --entity-type topics --entity-name nope --describe"),
        (0, f"{AT} --entity-type topics --entity-name TOPIC --alter --delete-config retention.ms"),
        (0, f"{AT} --entity-type brokers --entity-name 1 --alter --add-config log.cleaner.threads=2"),
        (0, f"{AT} --entity-type brokers --entity-name 1 --describe"),
        (0, f"{AT} --entity-type brokers --entity-name 1 --alter --delete-config log.cleaner.threads"),
        (1, f"{AT} --entity-type brokers --entity-name 1 --alter --add-config node.id=7"),
        (0, f"{AT} --entity-type brokers --entity-default --describe"),
        (0, f"{AT} --entity-type broker-loggers --entity-name 1 --describe"),
        (0, f"{AT} --entity-type users --entity-name jim --alter --add-config SCRAM-SHA-256=[password=x]"),
        (0, f"{AT} --entity-type users --entity-name jim --alter --add-config producer_byte_rate=1024"),
        (0, f"{AT} --entity-type users --describe"),
        (0, f"{AT} --entity-type users --entity-name jim --alter --delete-config producer_byte_rate"),
        (0, f"{AT} --entity-type users --entity-name jim --alter --delete-config SCRAM-SHA-256"),
        (1, f"{AT} --entity-type users --entity-name jim --alter --delete-config SCRAM-SHA-256"),
        (0, f"{AT} --entity-type groups --entity-name jg --alter --add-config consumer.session.timeout.ms=7000"),
        (0, f"{AT} --entity-type groups --entity-name jg --describe"),
        (0, f"{AT} --entity-type groups --entity-name jg --alter --delete-config consumer.session.timeout.ms"),
        (0, f"{AT} --entity-type client-metrics --describe"),
        (0, f"{AT} --entity-type ips --describe"),
    ],
    "AclCommand": [
        (0, f"{AT} --add --allow-principal User:jim --producer --topic TOPIC"),
        (0, f"{AT} --add --allow-principal User:jim --consumer --topic TOPIC --group jg"),
        (0, f"{AT} --list"),
        (0, f"{AT} --list --topic TOPIC --resource-pattern-type match"),
        (1, f"{AT} --add --allow-principal User:jim --operation IdempotentWrite --topic TOPIC"),
        (1, f"{AT} --add --topic TOPIC"),
        (0, f"{AT} --remove --force --topic TOPIC"),
        (0, f"{AT} --remove --force --group jg"),
    ],
    "consumer.group.ConsumerGroupCommand": [
        (0, f"{AT} --list"),
        (0, f"{AT} --list --state --type"),
        (0, f"{AT} --describe --group jg"),
        (0, f"{AT} --describe --group jg --members --verbose"),
        (0, f"{AT} --describe --group jg --state"),
        (0, f"{AT} --describe --all-groups"),
        (0, f"{AT} --describe --group no-such-group"),
        (0, f"{AT} --group jg --reset-offsets --to-earliest --topic TOPIC --execute"),
        (0, f"{AT} --group jg --reset-offsets --shift-by 1 --all-topics --dry-run --export"),
        (0, f"{AT} --group jg --delete-offsets --topic TOPIC"),
        (0, f"{AT} --delete --group jg"),
        (0, f"{AT} --delete --group jg"),
    ],
    "GroupsCommand": [
        (0, f"{AT} --list"),
        (0, f"{AT} --list --consumer"),
        (0, f"{AT} --list --share"),
        (0, f"{AT} --list --group-type classic --protocol consumer"),
    ],
    "streams.StreamsGroupCommand": [(0, f"{AT} --list"), (0, f"{AT} --describe --all-groups")],
    "StreamsResetter": [
        (0, f"{AT} --application-id ja --input-topics TOPIC"),
        (1, f"{AT} --application-id ja --force --x"),
    ],
    "GetOffsetShell": [
        (0, f"{AT} --topic TOPIC"),
        (0, f"{AT} --topic TOPIC --time earliest"),
        (0, f"{AT} --topic TOPIC --time max-timestamp"),
        (0, f"{AT} --topic-partitions TOPIC:0"),
        (0, f"{AT} --topic TOPIC --time 0"),
        (1, f"{AT} --topic nope"),
    ],
    "LogDirsCommand": [
        (0, f"{AT} --describe"),
        (0, f"{AT} --describe --topic-list TOPIC --broker-list 1"),
        (1, f"{AT} --describe --broker-list 9"),
    ],
    "MetadataQuorumCommand": [
        (0, f"{AT} describe --status"),
        (0, f"{AT} describe --replication"),
        (1, f"{AT} remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAABw"),
        (1, f"{AT} describe"),
    ],
    "FeatureCommand": [
        (0, f"{AT} describe"),
        (0, f"{AT} upgrade --feature transaction.version=2 --dry-run"),
        (1, f"{AT} upgrade --feature transaction.version=99 --dry-run"),
        (1, f"{AT} downgrade --feature nope=0 --dry-run"),
        (1, f"{AT} disable --feature nope --dry-run"),
        (0, "version-mapping --release-version 4.3-IV0"),
        (0, "feature-dependencies --feature transaction.version=2"),
    ],
    "reassign.ReassignPartitionsCommand": [
        (0, f"{AT} --generate --topics-to-move-json-file TOPICS --broker-list 1"),
        (0, f"{AT} --execute --reassignment-json-file PLAN"),
        (0, f"{AT} --verify --reassignment-json-file PLAN"),
        (0, f"{AT} --list"),
        (0, f"{AT} --cancel --reassignment-json-file PLAN"),
        (1, f"{AT} --execute --reassignment-json-file NOWHERE"),
    ],
    "LeaderElectionCommand": [
        (0, f"{AT} --election-type preferred --topic TOPIC --partition 0"),
        (0, f"{AT} --election-type preferred --all-topic-partitions"),
        (0, f"{AT} --election-type unclean --topic TOPIC --partition 0"),
        (1, f"{AT} --election-type preferred --topic nope --partition 0"),
    ],
    "TransactionsCommand": [
        (0, f"{AT} list"),
        (0, f"{AT} describe --transactional-id jx"),
        (1, f"{AT} describe --transactional-id no-such-id"),
        (0, f"{AT} describe-producers --topic TOPIC --partition 0"),
        (0, f"{AT} find-hanging --topic TOPIC --partition 0"),
        (0, f"{AT} find-hanging --broker-id 1"),
        (1, f"{AT} abort --topic TOPIC --partition 0 --start-offset 999"),
        (0, f"{AT} forceTerminateTransaction --transactionalId jx"),
    ],
    "DelegationTokenCommand": [  # the listener has no authentication, so both refuse
        (1, f"{AT} --command-config CONFIG --create --max-life-time-period -1 --renewer-principal User:jim"),
        (1, f"{AT} --command-config CONFIG --describe --owner-principal User:jim"),
        (1, f"{AT} --command-config CONFIG --renew --renew-time-period -1 --hmac aGVsbG8="),
        (1, f"{AT} --command-config CONFIG --expire --expiry-time-period -1 --hmac aGVsbG8="),
    ],
    "ClientMetricsCommand": [
        (0, f"{AT} --alter --name jm --metrics org.apache.kafka --interval 5000"),
        (0, f"{AT} --list"),
        (0, f"{AT} --describe --name jm"),
        (0, f"{AT} --describe"),
        (1, f"{AT} --alter --name jm --interval 1"),
        (0, f"{AT} --delete --name jm"),
    ],
    "BrokerApiVersionsCommand": [(0, AT)],
    "ClusterTool": [
        (0, "cluster-id --bootstrap-server SERVER"),
        (0, "list-endpoints --bootstrap-server SERVER"),
        (0, "list-endpoints --bootstrap-server SERVER --include-fenced-brokers"),
        (1, "unregister --bootstrap-server SERVER --id 9"),
    ],
    "DeleteRecordsCommand": [
        (0, f"{AT} --offset-json-file OFFSETS"),
        (1, f"{AT} --offset-json-file NOWHERE"),
    ],
    "ProducerPerformance": [
        (0, f"{AT} --topic TOPIC --num-records 100 --record-size 10 --throughput -1"),
        (0, f"{AT} --topic TOPIC --num-records 100 --record-size 10 --throughput -1 --transactional-id jx"),
        (1, f"{AT} --topic TOPIC --num-records 100"),
    ],
    "ConsumerPerformance": [(0, f"{AT} --topic TOPIC --num-records 3 --timeout 20000"), (1, f"{AT} --topic TOPIC")],
    "ShareConsumerPerformance": [
        (0, f"{AT} --topic TOPIC --group js --num-records 3 --timeout 20000"),
        (0, f"{AT} --topic TOPIC --group js --num-records 3 --timeout 20000 --show-detailed-stats --threads 2"),
        (1, f"{AT} --topic TOPIC"),
    ],
    "EndToEndLatency": [
        (0, f"{AT} --topic TOPIC --num-records 3 --producer-acks all --record-size 10"),
        (1, f"{AT} --topic TOPIC --num-records 3 --producer-acks 0 --record-size 10"),
    ],
    "VerifiableProducer": [(0, f"{AT} --topic TOPIC --max-messages 5")],
    "VerifiableConsumer": [
        (0, f"{AT} --topic TOPIC --group-id jv --max-messages 3"),
        (0, f"{AT} --topic TOPIC --group-id jw --max-messages 3 --group-protocol consumer"),
    ],
    "ClientCompatibilityTest": [
        (
            0,
            f"{AT} --topic TOPIC --offsets-for-times-supported True --cluster-id-supported True"
            " --expect-record-too-large-exception False --num-cluster-nodes 1 --create-topics-supported True"
            " --describe-acls-supported True --describe-configs-supported True --idempotent-producer-supported True",
        )
    ],
    "TransactionalMessageCopier": [
        (0, f"{COPY} --consumer-group jc --transactional-id jc --max-messages 2"),
        (0, f"{COPY} --consumer-group jc --transactional-id jc --use-group-metadata"),
        (0, f"{COPY} --consumer-group jd --transactional-id jd --group-mode --use-group-metadata"),
    ],
    "LogCompactionTester": [(0, f"{AT} --messages 200 --percent-deletes 20")],
}
"""Lines of each tool, by the class below org.apache.kafka.tools."""

SLOW = ("LogCompactionTester",)
"""Tools that wait for 20 seconds on each broker."""

WITHOUT_TOPIC = {"TopicCommand", "AclCommand", "ClusterTool", "MetadataQuorumCommand", "FeatureCommand"}

BEFORE: dict[str, list[tuple[str, Line]]] = {
    "ClientCompatibilityTest": [("TopicCommand", (0, f"{AT} --create --topic TOPIC --partitions 1"))],
    "consumer.group.ConsumerGroupCommand": GROUP,
    "GroupsCommand": GROUP,
    "ShareConsumerPerformance": [
        *RECORDS,
        (
            "kafka.admin.ConfigCommand",
            (0, f"{AT} --alter --entity-type groups --entity-name js --add-config share.auto.offset.reset=earliest"),
        ),
    ],
    "TransactionsCommand": [
        ("TopicCommand", (0, CREATE)),
        (
            "ProducerPerformance",
            (0, f"{AT} --topic TOPIC --num-records 9 --record-size 9 --throughput -1 --transactional-id jx"),
        ),
    ],
}
"""What runs before the lines of a tool; RECORDS for the others, unless they are WITHOUT_TOPIC."""

NOT_RUN = {
    "ConnectPluginPath": "reads the folders of plugins of Connect",
    "DumpLogSegments": "reads files: test_broker_log_files.py, test_log_files.py",
    "JmxTool": "reads the metrics of a JVM",
    "OAuthCompatibilityTool": "asks an identity provider",
    "ReplicaVerificationTool": "is deprecated, and runs until it is stopped",
    "VerifiableShareConsumer": "test_share_tools.py compares what it prints",
    "consumer.ConsoleShareConsumer": "test_share_tools.py compares what it prints",
    "consumer.group.ShareGroupCommand": "test_share_tools.py compares what it prints",
}
"""Tools that no line runs."""


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    """The JVM of the tools."""
    return shared_tools()


class Session:
    """Runs tools on both brokers.

    Args:
        tools: the JVM.
        brokers: Apache Kafka, and the embedded broker.
        topic: its name; each tool has another one, since clients that tools leave behind may create it again.
        folder: for the files that arguments name.
    """

    def __init__(self, tools: SharedTools, brokers: tuple[Broker, Broker], topic: str, folder: Path) -> None:
        self._tools, self._brokers = tools, brokers
        partitions = [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}]
        contents = {
            "TOPICS": json.dumps({"version": 1, "topics": [{"topic": topic}]}),
            "PLAN": json.dumps({"version": 1, "partitions": partitions}),
            "OFFSETS": json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 0}]}),
            "CONFIG": "client.id=tools\n",
        }
        for name, content in contents.items():
            (folder / name).write_text(content)
        self._words = {name: str(folder / name) for name in (*contents, "NOWHERE")}
        self._topic = topic

    def differences(self, tool: str, line: Line) -> list[str]:
        """Run a tool; return what is wrong with the exit codes."""
        code, text, *given = line
        main_class = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        words = [self._words.get(word, word.replace("TOPIC", self._topic)) for word in shlex.split(text)]
        found = []
        for broker in self._brokers:
            arguments = [broker.servers if word == "SERVER" else word for word in words]
            status, printed, complained = self._tools.outcome(main_class, *arguments, given="".join(given))
            if status != code:
                said = f"{printed[-300:]}\n{complained[:600]}"
                found.append(f"{tool} {text} on {broker.name}: exit code {status}, not {code}: {said}")
        return found


@pytest.mark.parametrize(
    "tool",
    [
        *rotating((tool for tool in TOOLS if tool not in SLOW), 4),
        *(pytest.param(tool, marks=pytest.mark.soak) for tool in SLOW),
    ],
)
def test_tools_of_java_end_with_the_same_exit_codes(
    tools: SharedTools, both_brokers: tuple[Broker, Broker], tmp_path: Path, tool: str
) -> None:
    session = Session(tools, both_brokers, f"of-{tool}", tmp_path)
    for name, line in BEFORE.get(tool, [] if tool in WITHOUT_TOPIC else RECORDS):
        assert session.differences(name, line) == []
    assert [said for line in TOOLS[tool] for said in session.differences(tool, line)] == []


def test_every_tool_of_java_is_run_or_named() -> None:
    found = set()
    for jar in (*fetch_tools().glob("kafka-tools-*.jar"), *fetch_jars().glob("kafka_2.13-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".class").replace("/", ".")
                is_tool = name.startswith(("org.apache.kafka.tools.", "kafka.admin.", "kafka.tools.Storage"))
                if (
                    is_tool and not name.endswith("$") and b"\x00\x04main" in archive.read(entry)
                ):  # the name of a method
                    found.add(name.removeprefix("org.apache.kafka.tools."))
    assert found - {*TOOLS, *NOT_RUN} == {"kafka.tools.StorageTool"}  # formats a directory; apache_kafka.py runs it
