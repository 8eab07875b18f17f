"""`kafkaraw copy` keeps keys, values, headers, timestamps and partitions, and continues where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import copying, main
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record

ROWS = 500


@pytest.fixture
def servers(kafka_broker: EmbeddedBroker) -> Iterator[str]:
    """A topic with three partitions; one record has no key, one no value, one header has no value."""
    servers = kafka_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders", partitions=3)])
    fill(servers, range(ROWS))
    yield servers


def fill(servers: str, numbers: range) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            key, value = (None if number == 3 else b"%d" % number), (None if number == 7 else b"v%d" % number)
            headers = [("a", b"%d" % number), ("empty", None)] if number % 2 else []
            producer.send(
                "orders", value, key, headers=headers, partition=number % 3, timestamp_ms=1_700_000_000_000 + number
            )


def contents(servers: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """The records of each partition, without offsets."""
    found: dict[int, list[tuple[object, ...]]] = {}
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        parts = consumer.partitions_for(topic)
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            for batch in consumer.poll(0.1).values():
                for record in batch:
                    found.setdefault(record.partition, []).append(what(record))
    return found


def what(record: Record) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers), record.timestamp_ms


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["copy", *arguments])


def test_a_copy_within_a_cluster_has_the_same_records_in_the_same_partitions(servers: str) -> None:
    done = run("orders", "orders-copy", "-b", servers)
    assert done.exit_code == 0, done.output
    assert f"copied {ROWS} records" in done.output
    assert contents(servers, "orders-copy") == contents(servers, "orders")


def test_a_second_copy_continues_at_the_committed_offsets(servers: str) -> None:
    assert run("orders", "orders-copy", "-b", servers).exit_code == 0
    fill(servers, range(ROWS, ROWS + 50))
    done = run("orders", "orders-copy", "-b", servers)
    assert "copied 50 records" in done.output
    assert "continuing at the committed offsets of group copy.orders.orders-copy" in done.output
    assert contents(servers, "orders-copy") == contents(servers, "orders")


def test_a_copy_between_clusters_commits_only_what_the_target_has_acknowledged(
    servers: str, kafka_broker_factory: Callable[[], EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = kafka_broker_factory()
    monkeypatch.setattr(copying, "_IN_FLIGHT_MAX", 1)
    target.faults.on("Produce", topic="orders", times=None).answer(ErrorCode.INVALID_RECORD)
    failed = run("orders", "-b", servers, "--to-bootstrap-server", target.bootstrap_servers)
    assert failed.exit_code == 1
    assert "were not acknowledged" in failed.output
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.list_group_offsets(["copy.orders.orders"])["copy.orders.orders"] == {}
    target.faults.clear()
    done = run("orders", "-b", servers, "--to-bootstrap-server", target.bootstrap_servers)
    assert done.exit_code == 0, done.output
    assert contents(target.bootstrap_servers, "orders") == contents(servers, "orders")
    with Admin(bootstrap_servers=servers) as admin:
        committed = admin.list_group_offsets(["copy.orders.orders"])["copy.orders.orders"]
    assert sum(each.offset for each in committed.values()) == ROWS


@pytest.mark.parametrize("api", ["AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"])
def test_a_copy_within_a_cluster_that_fails_anywhere_is_exactly_once_after_another_run(
    servers: str, kafka_broker: EmbeddedBroker, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_TRANSACTION_ROWS", 100)
    kafka_broker.faults.on(api, nth=2).answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    first = run("orders", "orders-copy", "-b", servers)
    second = run("orders", "orders-copy", "-b", servers)
    assert second.exit_code == 0, first.output + second.output
    assert contents(servers, "orders-copy") == contents(servers, "orders")


def test_records_of_aborted_transactions_are_left_out(servers: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id="aborting") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    done = run("orders", "orders-copy", "-b", servers)
    assert f"copied {ROWS} records" in done.output
    assert contents(servers, "orders-copy") == contents(servers, "orders")


def test_a_dry_run_creates_and_copies_nothing(servers: str) -> None:
    done = run("orders", "orders-copy", "-b", servers, "--dry-run")
    assert f"{ROWS} offsets in 3 partitions" in done.output
    with Admin(bootstrap_servers=servers) as admin:
        assert "orders-copy" not in {topic.name for topic in admin.list_topics()}
        assert admin.list_group_offsets(["copy.orders.orders-copy"])["copy.orders.orders-copy"] == {}


def test_a_topic_is_not_copied_onto_itself(servers: str) -> None:
    for arguments in (["orders"], ["orders", "--to-bootstrap-server", servers]):
        done = run(*arguments, "-b", servers)
        assert done.exit_code == 2
        assert "orders cannot be copied onto itself: name a TARGET, or --to-bootstrap-server" in done.output


def test_a_target_with_fewer_partitions_is_refused(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("small", partitions=2)])
    done = run("orders", "small", "-b", servers)
    assert done.exit_code == 1
    assert "small has 2 partitions, the source 3: add partitions to small, or name another target" in done.output


def test_a_source_that_does_not_exist_is_an_error(servers: str) -> None:
    done = run("nothing", "copy", "-b", servers)
    assert done.exit_code == 1
    assert "nothing" in done.output


def test_records_that_are_written_during_the_copy_are_left_for_the_next(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Consumer.end_offsets

    def ends_then_more(self: Consumer, *arguments: object, **named: object) -> dict[TopicPartition, int]:
        found = real(self, *arguments, **named)
        fill(servers, range(ROWS, ROWS + 30))
        return found

    monkeypatch.setattr(Consumer, "end_offsets", ends_then_more)
    assert f"copied {ROWS} records" in run("orders", "orders-copy", "-b", servers).output
    monkeypatch.setattr(Consumer, "end_offsets", real)
    assert "copied 30 records" in run("orders", "orders-copy", "-b", servers).output
    assert contents(servers, "orders-copy") == contents(servers, "orders")
