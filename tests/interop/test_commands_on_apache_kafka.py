"""Every command of `kafkaraw` that talks to brokers: the same exit code and the same output on both brokers.

A scenario is a list of command lines, each with the exit code that both brokers lead to. It runs on Apache Kafka and on
the embedded broker, a line at a time, in this process; `both_brokers.py` says what of the output may differ. Commands
that depend on clients (groups, transactions) have tests of their own below.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import click
import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, Producer, ShareConsumer
from kafkaraw.cli import main
from tests.interop.both_brokers import Broker
from tests.rotation import rotating

Line: TypeAlias = "tuple[int, str] | tuple[int, str, bytes]"
"""The exit code, the command line, and what it reads."""

TIMEOUT_S = 30.0
APPLIED_S_MAX = 5.0

TOPICS: list[Line] = [
    (0, "topics create made -p 2 -r 1 -c retention.ms=-1 -o json --dry-run"),
    (0, "topics create made -p 2 -r 1 -c retention.ms=-1 -o json"),
    (0, "topics create plain -o json"),
    (0, "topics create made --if-not-exists -o json"),
    (1, "topics create made"),
    (1, "topics create bad/name"),
    (1, "topics create far -r 3"),
    (1, "topics create wrong -c bogus=1"),
    (1, "topics create wrong -c retention.ms=x"),
    (0, "topics list --exclude-internal -o json"),
    (0, "topics describe made plain -o json"),
    (0, "topics describe made --under-replicated-partitions -o json"),
    (0, "topics describe made --unavailable-partitions -o json"),
    (1, "topics describe nope"),
    (0, "topics alter made -p 4 -o json --dry-run"),
    (0, "topics alter made -p 4 -o json"),
    (1, "topics alter made -p 4"),
    (1, "topics alter made -p 1"),
    (1, "topics alter nope -p 4"),
    (0, "produce made -p 0", b"one\ntwo\nthree\n"),
    (0, "produce made -p 1", b"one\n"),
    (0, "topics offsets made -o json"),
    *((0, f"topics offsets made:1 -o json --time {where}") for where in ("latest", "max-timestamp", "earliest-local")),
    *((0, f"topics offsets made:1 -o json --time {where}") for where in ("latest-tiered", "0", "99999999999999")),
    (0, "topics offsets made:0 -o json --isolation-level read_committed"),
    (1, "topics offsets made:9"),
    (0, "topics truncate made:0 --before-offset 1 -o json --dry-run"),
    (2, "topics truncate made:0 --before-offset 1"),
    (0, "topics truncate made:0 --before-offset 1 -o json --yes"),
    (0, "topics truncate made:0 --before 1970-01-01T00:00:00Z -o json --yes"),
    (1, "topics truncate made:0 --before-offset 9 --yes"),
    (0, "topics truncate made --all -o json --yes"),
    (0, "topics offsets made -o json"),
    (2, "topics delete made"),
    (0, "topics delete made plain -o json --dry-run"),
    (0, "topics delete made plain -o json --yes"),
    (1, "topics delete made --yes"),
    (0, "topics delete made --yes --if-exists -o json"),
]

CONFIGS: list[Line] = [
    (0, "topics create tuned -p 1 -o json"),
    (0, "configs set --topic tuned retention.ms=5 -o json --dry-run"),
    (0, "configs set --topic tuned retention.ms=5 cleanup.policy+=compact -o json"),
    (0, "configs get --topic tuned -o json"),
    (0, "configs get --topic tuned --all -o json"),
    (0, "configs get --topic tuned retention.ms --synonyms -o json"),
    (1, "configs get --topic tuned bogus"),
    (1, "configs get --topic nope"),
    (1, "configs set --topic tuned bogus=1"),
    (1, "configs set --topic tuned retention.ms=x"),
    (1, "configs set --topic nope retention.ms=5"),
    (0, "configs set --topic tuned cleanup.policy-=compact -o json"),
    (0, "configs unset --topic tuned cleanup.policy retention.ms -o json --dry-run"),
    (0, "configs unset --topic tuned cleanup.policy retention.ms -o json"),
    (0, "configs unset --topic tuned bogus -o json"),
    (0, "configs set --broker 1 log.cleaner.threads=2 -o json"),
    (0, "configs get --broker 1 log.cleaner.threads --synonyms -o json"),
    (0, "configs unset --broker 1 log.cleaner.threads -o json"),
    (1, "configs set --broker 1 node.id=7"),
    (1, "configs set --broker 1 log.retention.ms=x"),
    (1, "configs get --broker 9"),
    (1, "configs set --broker 9 log.cleaner.threads=2"),
    (0, "configs set --broker-defaults log.retention.ms=-1 -o json"),
    (0, "configs get --broker-defaults -o json"),
    (0, "configs unset --broker-defaults log.retention.ms -o json"),
    (1, "configs set --broker-logger 1 no.such.logger=DEBUG"),
    (0, "configs set --group tuned consumer.session.timeout.ms=7000 -o json"),
    (0, "configs get --group tuned -o json"),
    (0, "configs get --group tuned --all -o json"),
    (0, "configs unset --group tuned consumer.session.timeout.ms -o json"),
    (1, "configs set --group tuned consumer.session.timeout.ms=1"),
    (1, "configs set --group tuned bogus=1"),
    (0, "configs set --client-metrics tuned interval.ms=5000 metrics=org.apache.kafka -o json"),
    (0, "configs get --client-metrics tuned -o json"),
    (0, "configs get --client-metrics tuned --all -o json"),
    (1, "configs set --client-metrics tuned interval.ms=5"),
    (1, "configs set --client-metrics tuned bogus=1"),
    (0, "configs unset --client-metrics tuned interval.ms metrics -o json"),
    (0, "topics delete tuned --yes -o json"),
]

ACLS: list[Line] = [
    (0, "acls add --allow-principal User:ada --operation read --topic flights -o json --dry-run"),
    (0, "acls add --allow-principal User:ada --operation read --topic flights -o json"),
    (0, "acls add --allow-principal User:ada --producer --topic fl --resource-pattern-type prefixed -o json"),
    (0, "acls add --allow-principal User:ada --consumer --topic flights --group g -o json"),
    (0, "acls add --deny-principal User:bob --deny-host 10.0.0.1 --operation all --topic * -o json"),
    (0, "acls add --allow-principal User:eve --operation describe --cluster -o json"),
    (0, "acls add --allow-principal User:eve --operation describe --transactional-id t -o json"),
    (0, "acls add --allow-principal User:eve --operation describe --delegation-token t -o json"),
    (0, "acls add --allow-principal User:eve --operation create-tokens --user-principal User:eve -o json"),
    (0, "acls list -o json"),
    (0, "acls list --topic flights --resource-pattern-type match -o json"),
    (0, "acls list --allow-principal User:ada -o json"),
    (0, "acls list --topic nope -o json"),
    (2, "acls remove --topic flights"),
    (0, "acls remove --topic flights -o json --dry-run"),
    (0, "acls remove --topic flights -o json --yes"),
    (0, "acls remove --topic flights -o json --yes"),
    (0, "acls remove --all -o json --yes"),
    (0, "acls list -o json"),
]

USERS: list[Line] = [
    (0, "users set ada --password-stdin --mechanism scram-sha-256 -o json --dry-run", b"secret\n"),
    (0, "users set ada --password-stdin --mechanism scram-sha-256 -o json", b"secret\n"),
    (0, "users set ada --password-stdin --mechanism scram-sha-512 --iterations 8192 -o json", b"secret\n"),
    (2, "users set ada --password-stdin --iterations 5", b"secret\n"),
    (1, "users set bob --password-stdin", b"\n"),
    (0, "users list -o json"),
    (0, "users list ada -o json"),
    (1, "users list no-such-user"),
    (2, "users remove ada"),
    (0, "users remove ada --mechanism scram-sha-256 -o json --dry-run"),
    (0, "users remove ada --mechanism scram-sha-256 -o json --yes"),
    (0, "users remove ada -o json --yes"),
    (1, "users remove ada --yes"),
    (0, "users list -o json"),
]

QUOTAS: list[Line] = [
    (0, "quotas set --user ada --client-defaults producer_byte_rate=1000 -o json --dry-run"),
    (0, "quotas set --user ada --client-defaults producer_byte_rate=1000 -o json"),
    (0, "quotas set --user ada request_percentage=12.5 consumer_byte_rate=5 -o json"),
    (0, "quotas set --user-defaults controller_mutation_rate=5 -o json"),
    (0, "quotas set --ip 10.0.0.1 connection_creation_rate=5 -o json"),
    (1, "quotas set --ip nowhere.invalid connection_creation_rate=5"),
    (1, "quotas set --ip 10.0.0.1 producer_byte_rate=5"),
    (1, "quotas set --user ada bytes=1"),
    (1, "quotas set --user ada producer_byte_rate=-1"),
    (0, "quotas list -o json"),
    (0, "quotas list --user ada -o json"),
    (0, "quotas list --user ada --strict -o json"),
    (0, "quotas list --ip 10.0.0.1 -o json"),
    (0, "quotas list --client-id x -o json"),
    (2, "quotas remove --user ada --client-defaults producer_byte_rate"),
    (0, "quotas remove --user ada --client-defaults producer_byte_rate -o json --dry-run"),
    (0, "quotas remove --user ada --client-defaults producer_byte_rate -o json --yes"),
    (0, "quotas remove --user ada request_percentage consumer_byte_rate -o json --yes"),
    (0, "quotas remove --user-defaults controller_mutation_rate -o json --yes"),
    (0, "quotas remove --ip 10.0.0.1 connection_creation_rate -o json --yes"),
    (0, "quotas list -o json"),
]

CLUSTER: list[Line] = [
    (0, "cluster info -o json"),
    (0, "cluster brokers -o json"),
    (0, "cluster quorum -o json"),
    (1, "cluster api-versions --broker 9"),
    (0, "topics create stored -p 1 -o json"),
    (0, "produce stored", b"x\n"),
    (0, "cluster logdirs --broker 1 --dirs -o json"),
    (0, "log-dirs describe --topic nope -o json"),
    (1, "log-dirs describe --broker 9"),
    (0, "log-dirs move stored:0 --broker 1 --to DIR1"),
    (1, "log-dirs move stored:0 --broker 1 --to /nope"),
    (1, "log-dirs move stored:7 --broker 1 --to DIR1"),
    (1, "log-dirs move nope:0 --broker 1 --to DIR1"),
    (1, "log-dirs move stored:0 --broker 9 --to DIR1"),
    (0, "metadata -t stored"),
    (0, "-L -t stored -J"),
    (1, "-L -t nope"),
    (0, "doctor -o json"),
    (0, "topics delete stored -o json --yes"),
]

PARTITIONS: list[Line] = [
    (0, "topics create led -p 2 -o json"),
    (0, "partitions elect led -o json"),
    (0, "partitions elect led:0 -o json --dry-run"),
    (0, "partitions elect led -o json --election-type unclean --yes"),
    (0, "partitions elect --all-topic-partitions -o json"),
    (1, "partitions elect nope"),
    (1, "partitions elect led:9"),
    (0, "partitions reassign led --to-brokers 1 -o json --dry-run"),
    (0, "partitions reassign led --to-brokers 1 -o json --yes"),
    (1, "partitions reassign led --to-brokers 9 --yes"),
    (1, "partitions reassign led --replication-factor 2 --yes"),
    (0, "partitions reassign led --cancel -o json --yes"),
    (1, "partitions reassign nope --cancel --yes"),
    (0, "partitions reassignments -o json"),
    (0, "partitions reassignments led -o json"),
    (1, "partitions reassignments nope"),
    (0, "topics delete led -o json --yes"),
]

RECORDS: list[Line] = [
    (0, "topics create sent copied -p 2 -o json"),
    (0, "produce sent -p 0 -K : -Z -H source=test -z lz4", b"k1:v1\nk2:\nk1:a:b\n"),
    (0, "produce sent -p 1 -k same", b"v2\n"),
    (1, "produce sent -p 7", b"v\n"),
    (1, "produce bad/name", b"v\n"),
    (0, "consume sent -e -q -p 0 -J"),
    (0, "consume sent -e -q -p 0 -f %p/%o/%k/%s/%h\\n"),
    (0, "consume sent -e -q -p 1 -o -1"),
    (1, "consume sent -e -q -p 7"),
    (0, "copy sent copied --dry-run"),
    (0, "copy sent copied -q"),
    (0, "consume copied -e -q -p 0 -f %p/%o/%k/%s/%h\\n"),
    (1, "copy nope copied -q"),
    (0, "mirror verify sent copied -o json"),
    (0, "mirror verify sent copied -p 0 --ignore timestamp -o json"),
    (1, "mirror verify sent nope"),
    (0, "perf produce sent --num-records 50 --record-size 10 --json"),
    (0, "perf consume sent --num-records 50 --group measuring --json"),
    (0, "groups delete measuring copy.sent.copied --execute -o json"),
    (0, "topics delete sent copied -o json --yes"),  # after the groups: Apache Kafka removes their offsets later
]

SQL: list[Line] = [
    (0, "topics create orders -p 2 -o json"),
    (0, "produce orders -p 0", b'{"id": 1, "city": "Rome"}\n{"id": 2, "city": "Oslo"}\n'),
    (0, "produce orders -p 1", b'{"id": 3, "city": "Rome"}\nno JSON\n'),
    (0, "sql -o json --value json 'SELECT city, count(*) AS n FROM orders GROUP BY ALL ORDER BY ALL'"),
    (0, "sql -o csv --value json 'SELECT id FROM orders WHERE partition = 0 AND \"offset\" >= 1'"),
    (0, "sql --explain --value json 'SELECT id FROM orders WHERE partition = 0 AND \"offset\" >= 1'"),
    (0, "sql --to-topic orders -q --value json 'SELECT 4 AS id'"),
    (1, "sql 'SELECT * FROM nope'"),
    (0, "topics delete orders -o json --yes"),
]

SCENARIOS = {
    "sql": SQL,
    "topics": TOPICS,
    "configs": CONFIGS,
    "acls": ACLS,
    "users": USERS,
    "quotas": QUOTAS,
    "cluster": CLUSTER,
    "partitions": PARTITIONS,
    "records": RECORDS,
}

GROUPS: list[Line] = [
    (0, "groups list -o json"),
    (0, "groups list --state empty --type classic -o json"),
    (0, "groups describe readers -o json"),
    (0, "groups describe readers --verbose -o json"),
    (0, "groups describe readers --members -o json"),
    (0, "groups describe readers --state -o json"),
    (0, "groups describe --all-groups -o json"),
    (1, "groups describe no-such-group -o json"),
    (0, "groups reset readers --topic read --to-earliest -o json"),
    (0, "groups reset readers --topic read:0 --to-offset 1 --execute -o json"),
    (0, "groups reset readers --all-topics --shift-by 1 --execute -o json"),
    (0, "groups reset readers --all-topics --to-current --export"),
    (1, "groups reset readers --topic nope --to-latest"),
    (0, "groups reset new --topic read --to-latest --execute -o json"),
    (0, "groups describe readers new -o json"),
    (0, "groups delete-offsets readers --topic read:0 -o json"),
    (0, "groups delete-offsets readers --topic read:0 --execute -o json"),
    (1, "groups delete-offsets no-such-group --topic read:0 --execute"),
    (0, "groups describe readers -o json"),
    (1, "groups remove-members readers --instance ada --execute"),
    (0, "groups delete readers new -o json"),
    (0, "groups delete readers new --execute -o json"),
    (1, "groups delete readers --execute"),
]

SHARE_GROUP: list[Line] = [
    (0, "configs set --group queue share.auto.offset.reset=earliest -o json"),
    (0, "consume read --share-group queue -c 2 -f %o/%d/%s\\n"),
    (0, "consume read --share-group queue -c 1 --ack release -f %o/%d/%s\\n"),
    (0, "consume read --share-group queue -c 1 --ack reject -J"),
    (0, "consume read --share-group queue --timeout-ms 1000 -q -f %o/%d/%s\\n"),
    (2, "consume read --share-group queue -e"),
    (0, "groups list --type share -o json"),
    (0, "groups describe queue -o json"),
    (0, "groups describe queue --verbose -o json"),
    (0, "groups describe queue --members -o json"),
    (0, "groups describe queue --state -o json"),
    (0, "groups describe --all-groups -o json"),
    (0, "groups reset queue --topic read --to-earliest -o json"),
    (0, "groups reset queue --topic read:0 --to-offset 2 --execute -o json"),
    (0, "groups describe queue -o json"),
    (0, "consume read --share-group queue -c 1 -f %o/%d/%s\\n"),
    (0, "groups reset queue --all-topics --shift-by -1 --execute -o json"),
    (0, "groups reset queue --all-topics --to-current --export"),
    (1, "groups remove-members queue --all-members --execute"),
    (1, "groups delete-offsets queue --topic read:0 --execute"),
    (0, "groups delete-offsets queue --topic read -o json"),
    (0, "groups delete-offsets queue --topic read --execute -o json"),
    (0, "groups describe queue -o json"),
    (0, "groups delete queue -o json"),
    (0, "groups delete queue --execute -o json"),
    (1, "groups delete queue --execute"),
]

SHARE_MEMBER: list[Line] = [
    (0, "groups list --state stable -o json"),
    (0, "groups describe joined -o json"),
    (0, "groups describe joined --members --verbose -o json"),
    (0, "groups describe joined --state --verbose -o json"),
    (1, "groups reset joined --topic read --to-earliest --execute"),
    (1, "groups delete joined --execute"),
    (1, "groups delete-offsets joined --topic read --execute"),
]

WITH_MEMBER: list[Line] = [
    (0, "groups list --state stable -o json"),
    (0, "groups describe joined -o json"),
    (0, "groups describe joined --members --verbose -o json"),
    (0, "groups describe joined --state --verbose -o json"),
    (1, "groups reset joined --topic read --to-earliest --execute"),
    (1, "groups delete joined --execute"),
    (1, "groups delete-offsets joined --topic read --execute"),
]

STATIC_MEMBER: list[Line] = [
    (1, "groups remove-members joined --instance bob --execute"),
    (0, "groups remove-members joined --instance ada -o json"),
    (0, "groups remove-members joined --all-members --execute -o json"),
]

OPEN_TRANSACTION: list[Line] = [
    (0, "transactions list -o json"),
    (0, "transactions list --state Ongoing -o json"),
    (0, "transactions list --state CompleteCommit --transactional-id-pattern lo.* -o json"),
    (0, "transactions list --duration-filter 3600000 -o json"),
    (0, "transactions list --producer-id 999999 -o json"),
    (1, "transactions list --transactional-id-pattern ["),
    (0, "transactions describe load -o json"),
    (1, "transactions describe no-such-id"),
    (0, "transactions describe-producers paid -o json"),
    (1, "transactions describe-producers paid:7"),
    (0, "transactions find-hanging paid --max-transaction-timeout 0 -o json"),
    (0, "transactions find-hanging --broker-id 1 -o json"),
    (1, "transactions abort --topic paid --partition 0 --start-offset 99 --yes"),
    (0, "transactions abort --topic paid --partition 0 --start-offset 0 -o json --dry-run"),
    (0, "transactions abort --topic paid --partition 0 --start-offset 0 -o json --yes"),
    (0, "transactions describe-producers paid -o json"),
    (2, "transactions abort load"),
    (0, "transactions abort load -o json --dry-run"),
    (0, "transactions abort load -o json --yes"),
    (1, "transactions abort no-such-id --yes"),
]

ELSEWHERE = {
    "groups export": "tests/interop/test_command_line.py",
    "registry": "tests/interop/test_registry_on_apache_kafka.py",
    "demo flights": "tests/interop/test_demo.py",
    "backup create": "tests/interop/test_copies.py",
    "mirror snapshot": "tests/interop/test_copies.py",
    "restore": "tests/interop/test_copies.py",
    "wire tap": "tests/interop/test_tap.py",
    "top": "tests/interop/test_top.py",
    "console": "tests/interop/test_console.py",
}
"""Commands that run until they are stopped, start Spark or write files, and where they are tested on Apache Kafka."""

OFFERED = {"cluster api-versions": "api", "cluster features": "feature"}
"""Commands whose rows the embedded broker has a part of, and the column that names the row."""

WITHOUT_CLUSTER = {"pipelines init"}
"""Commands whose `--bootstrap-server` makes no connection."""

Result: TypeAlias = "tuple[int, Any, Any]"
"""The exit code, standard output and standard error, normalised."""

READING = {"list", "describe", "get", "offsets", "info", "brokers", "quorum", "logdirs", "features", "api-versions"}
"""Commands that change nothing. Apache Kafka may answer them from metadata before the last change, for some ms."""


def run(broker: Broker, text: str, given: bytes = b"") -> Result:
    """Run a command line on a broker."""
    words = broker.arguments(shlex.split(text))
    result = CliRunner().invoke(main, [*words, "-b", broker.servers], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, broker.normalised(result.stdout), broker.normalised(result.stderr)


def compare(brokers: tuple[Broker, Broker], lines: Sequence[Line]) -> None:
    """Run lines on both brokers, and compare how they end and what they print."""
    apache, embedded = brokers
    for code, text, *given in lines:
        theirs, ours = run(apache, text, *given), run(embedded, text, *given)
        deadline = time.monotonic() + APPLIED_S_MAX
        while ours != theirs and shlex.split(text)[1] in READING and time.monotonic() < deadline:
            theirs = run(apache, text)
        assert ours == theirs, text
        assert ours[0] == code, (text, ours)


@pytest.mark.parametrize("scenario", rotating(SCENARIOS, 4))
def test_commands_end_and_print_the_same_on_both_brokers(both_brokers: tuple[Broker, Broker], scenario: str) -> None:
    compare(both_brokers, SCENARIOS[scenario])


@pytest.fixture
def no_groups(both_brokers: tuple[Broker, Broker]) -> None:
    """No groups of other tests on either broker, since lines list all of them."""
    for broker in both_brokers:
        with Admin(bootstrap_servers=broker.servers) as admin:
            admin.delete_groups([group.group_id for group in admin.list_groups()])


@pytest.mark.usefixtures("no_groups")
def test_groups_commands_end_and_print_the_same(both_brokers: tuple[Broker, Broker]) -> None:
    records = [(0, "topics create read -p 2 -o json"), *((0, f"produce read -p {at}", b"1\n2\n3\n") for at in (0, 1))]
    compare(both_brokers, [*records, (0, "consume read -q -e -g readers -X auto.offset.reset=earliest -f %s")])
    compare(both_brokers, GROUPS)
    compare(both_brokers, [(0, "topics delete read -o json --yes")])


@pytest.mark.usefixtures("no_groups")
def test_share_group_commands_end_and_print_the_same(both_brokers: tuple[Broker, Broker]) -> None:
    compare(both_brokers, [(0, "topics create read -p 1 -o json"), (0, "produce read", b"1\n2\n3\n4\n")])
    compare(both_brokers, SHARE_GROUP)
    with ExitStack() as members:
        for broker in both_brokers:
            consumer = members.enter_context(
                ShareConsumer(bootstrap_servers=broker.servers, group_id="joined", client_id="member")
            )
            consumer.subscribe(["read"])
            deadline = time.monotonic() + TIMEOUT_S
            while not consumer.metrics()["share_group"]["assigned_partitions"]:
                assert time.monotonic() < deadline, f"no partitions within {TIMEOUT_S:g} s"
                consumer.poll(0.05)
            consumer.poll(0.5)
        compare(both_brokers, SHARE_MEMBER)
    compare(both_brokers, [(0, "groups delete joined -o json --execute")])
    compare(both_brokers, [(0, "topics delete read -o json --yes")])


@pytest.mark.usefixtures("no_groups")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_commands_end_and_print_the_same_of_a_group_with_a_member(
    both_brokers: tuple[Broker, Broker], protocol: str
) -> None:
    compare(both_brokers, [(0, "topics create read -p 2 -o json")])
    for instance, lines in ((None, WITH_MEMBER), ("ada", STATIC_MEMBER)):
        with ExitStack() as members:
            for broker in both_brokers:
                members.enter_context(member(broker, protocol, instance))
            compare(both_brokers, lines)
    compare(both_brokers, [(0, "groups delete joined -o json --execute"), (0, "topics delete read -o json --yes")])


@contextmanager
def member(broker: Broker, protocol: str, instance: str | None) -> Iterator[None]:
    """A member of the group "joined" that has partitions and has committed offsets."""
    with Consumer(
        bootstrap_servers=broker.servers,
        group_id="joined",
        client_id="member",
        group_protocol=protocol,
        group_instance_id=instance,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe(["read"])
        deadline = time.monotonic() + TIMEOUT_S
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < deadline, f"no partitions within {TIMEOUT_S:g} s"
            consumer.poll(0.05)
        consumer.commit(dict.fromkeys(consumer.assignment(), 0))
        yield


def test_transactions_commands_end_and_print_the_same(both_brokers: tuple[Broker, Broker]) -> None:
    compare(both_brokers, [(0, "topics create paid -p 1 -o json")])
    with ExitStack() as producers:
        for broker in both_brokers:
            producer = Producer(bootstrap_servers=broker.servers, transactional_id="load")
            producers.callback(producer.close, 0)
            producer.init_transactions(timeout=TIMEOUT_S)
            producer.begin_transaction()
            producer.send("paid", b"x").result(TIMEOUT_S)
        compare(both_brokers, OPEN_TRANSACTION)
    compare(both_brokers, [(0, "topics delete paid -o json --yes")])


def test_the_embedded_broker_supports_versions_and_features_as_apache_kafka_does(
    both_brokers: tuple[Broker, Broker],
) -> None:
    for command, key in OFFERED.items():
        theirs, ours = ({row[key]: row for row in run(each, f"{command} -o json")[1]} for each in both_brokers)
        assert ours and {name: theirs.get(name) for name in ours} == ours


def test_every_command_with_a_cluster_runs_on_both_brokers() -> None:
    scenarios = [*SCENARIOS.values(), GROUPS, SHARE_GROUP, SHARE_MEMBER, WITH_MEMBER, STATIC_MEMBER, OPEN_TRANSACTION]
    covered = {text for lines in scenarios for _, text, *_ in lines}
    missing = [
        name
        for name in commands_with_cluster(main)
        if name not in {*ELSEWHERE, *OFFERED, *WITHOUT_CLUSTER}
        and not any(f"{text} ".startswith(f"{name} ") for text in covered)
    ]
    assert missing == []


def commands_with_cluster(command: click.Command, name: str = "") -> list[str]:
    """Return the names of a command and its commands that have bootstrap servers."""
    found = [name] if any("--bootstrap-server" in each.opts for each in command.params) else []
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            found += commands_with_cluster(below, f"{name} {each}".strip())
    return found
