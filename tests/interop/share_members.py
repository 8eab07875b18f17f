"""Members of share groups that are our client and others', each in a process of its own, behind one small face.

A member reads a topic and writes to its standard output, one JSON object a line, which records it was given, and what
the broker has confirmed: `taken` before it acknowledges, `accepted`, `released`, `rejected` or `failed` after the
response. Start at `ShareMember`. This module is the program of the Python clients, with client, servers, group and
topic. Java's is VerifiableShareConsumer of Apache's system tests, Go's is `share_clients/franz_go.go.txt`.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.interop.downloaded_clients import prepare_go
from tests.interop.group_members import asked_to_leave
from tests.interop.java_tools import java_command

FRANZ_GO: Final = "github.com/twmb/franz-go/pkg/kgo@v1.22.3"
_GO_PROGRAM: Final = Path(__file__).parent / "share_clients" / "franz_go.go.txt"
_VERIFIABLE: Final = "org.apache.kafka.tools.VerifiableShareConsumer"
END_SECONDS_MAX: Final = 40.0
POLL_SECONDS: Final = 0.2
RECORDS_MAX: Final = 20
"""How many records our clients take at once."""

JAVA_MODES: Final = {"java": "sync", "java-implicit": "auto", "java-async": "async"}
"""Acknowledgement modes of VerifiableShareConsumer."""
CONFIRMED: Final = ("accepted", "released", "rejected", "failed")

Told = dict[str, Any]


class Place(NamedTuple):
    """Partition and offset of a record."""

    partition: int
    offset: int


class Delivery(NamedTuple):
    """A record that a member was given.

    Attributes:
        at_ms: when the member wrote it down, after it had the record.
        place: the record.
        count: how often the broker has delivered it; None where the client does not tell.
    """

    at_ms: int
    place: Place
    count: int | None


class Confirmation(NamedTuple):
    """What a broker has answered to an acknowledgement.

    Attributes:
        at_ms: when the member wrote it down, after the response.
        what: one of CONFIRMED.
        place: the record.
        error: of a failed one.
    """

    at_ms: int
    what: str
    place: Place
    error: str


class ShareMember:
    """A member in a process of its own.

    Args:
        client: one of CLIENTS.
        servers: of the brokers.
        group: the share group.
        topic: to read.

    Attributes:
        client: its kind.
        was_killed: its last acknowledgements have no confirmation.
        deliveries: what it was given, in order.
        confirmations: what became of its acknowledgements, in order.
        log: what it wrote to its standard error, once it has ended.
    """

    def __init__(self, client: str, servers: str, group: str, topic: str) -> None:
        self.client = client
        self.was_killed = False
        self.deliveries: list[Delivery] = []
        self.confirmations: list[Confirmation] = []
        self.log = ""
        self._is_java = client in JAVA_MODES
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `_end`
        self._process = subprocess.Popen(
            _command(client, servers, group, topic),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def leave(self) -> None:
        """Close its consumer gracefully."""
        assert self._process.stdin
        if self._is_java:
            self._process.terminate()
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        finally:
            self.kill(was_killed=False)

    def kill(self, *, was_killed: bool = True) -> None:
        """Send SIGKILL, if it has not ended."""
        if self._log.closed:
            return
        self.was_killed = was_killed
        self._process.kill()
        self._process.wait(END_SECONDS_MAX)
        self._reader.join(END_SECONDS_MAX)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.seek(0)
        self.log = self._log.read()
        self._log.close()

    def accepted(self) -> list[Place]:
        """Return the records that it has accepted, as the broker confirmed."""
        return [each.place for each in self.confirmations if each.what == "accepted"]

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # killed while it wrote
            told = json.loads(line)
            if "name" in told:
                told = _of_verifiable(told)
            at_ms = told.get("at", 0)
            for partition, offset, *count in told.get("taken", ()):
                self.deliveries.append(Delivery(at_ms, Place(partition, offset), count[0] if count else None))
            for what in CONFIRMED:
                for place in told.get(what, ()):
                    self.confirmations.append(Confirmation(at_ms, what, Place(*place), told.get("error") or ""))


def _of_verifiable(event: Mapping[str, Any]) -> Told:
    """Return an event of VerifiableShareConsumer in our form."""
    of_event = event.get("partitions", ())
    places = [(each["partition"], offset) for each in of_event for offset in each["offsets"]]
    told: Told = {"at": event["timestamp"]}
    if event["name"] == "records_consumed":
        told["taken"] = places
    elif event["name"] == "offsets_acknowledged":
        told["accepted" if event["success"] else "failed"] = places
        told["error"] = event.get("error")
    return told


def _command(client: str, servers: str, group: str, topic: str) -> list[str]:
    if client in JAVA_MODES:
        where = ("--bootstrap-server", servers, "--topic", topic, "--group-id", group)
        return java_command(_VERIFIABLE, *where, "--acknowledgement-mode", JAVA_MODES[client], heap="128M")
    if client == "franz-go":
        return [str(prepare_go("franz-go", _GO_PROGRAM, FRANZ_GO)), servers, group, topic]
    return [sys.executable, "-m", __spec__.name, client, servers, group, topic]


# -- the programs


def tell(**event: object) -> None:
    """Write an event, with the time in milliseconds."""
    print(json.dumps({"at": time.time_ns() // 1_000_000, **event}), flush=True)


def wanted(value: bytes | None, delivery_count: int) -> str:
    """Return what a program does with a record: reject, release it the first time, or accept it, as its value says."""
    if value == b"reject":
        return "rejected"
    return "released" if value == b"release" and delivery_count == 1 else "accepted"


class Answers:
    """What was acknowledged how, until the broker confirms it."""

    def __init__(self) -> None:
        self._wanted: dict[Place, str] = {}

    def expect(self, place: Place, what: str) -> None:
        """Remember how a record was acknowledged."""
        self._wanted[place] = what

    def confirmed(self, places: Iterable[tuple[int, int]], error: object) -> None:
        """Tell what the broker has confirmed or refused."""
        by_what: dict[str, list[Place]] = {}
        for place in sorted(Place(*each) for each in places):
            what = self._wanted.pop(place, "accepted")
            by_what.setdefault("failed" if error is not None else what, []).append(place)
        for what, each in by_what.items():
            tell(**{what: each, "error": None if error is None else str(error)})


def ours(mode: str, servers: str, group: str, topic: str) -> None:
    from kafkaraw import AcknowledgeType, KafkaError, NetworkError, ShareConsumer, ShareRecord, TopicPartition

    types = {
        "accepted": AcknowledgeType.ACCEPT,
        "released": AcknowledgeType.RELEASE,
        "rejected": AcknowledgeType.REJECT,
    }
    answers, end = Answers(), asked_to_leave()

    def on_commit(offsets: Mapping[TopicPartition, list[int]], error: KafkaError | None) -> None:
        answers.confirmed(((at.partition, offset) for at, each in offsets.items() for offset in each), error)

    def acknowledge(record: ShareRecord) -> None:
        what = wanted(record.value, record.delivery_count)
        if mode == "explicit" or what != "accepted":
            answers.expect(Place(record.partition, record.offset), what)
            consumer.acknowledge(record, types[what])

    with ShareConsumer(
        bootstrap_servers=servers,
        group_id=group,
        share_acknowledgement_mode=mode,
        max_poll_records=RECORDS_MAX,
        share_acquire_mode="record_limit",
        retry_backoff_ms=50,
    ) as consumer:
        consumer.set_acknowledgement_commit_callback(on_commit)
        consumer.subscribe([topic])
        turn = 0
        while not end.is_set():
            try:
                batches = consumer.poll(POLL_SECONDS)
            except NetworkError:  # the first poll, while no broker runs
                logging.exception("poll")
                end.wait(POLL_SECONDS)
                continue
            records = [record for batch in batches.values() for record in batch]
            if not records:
                continue
            tell(taken=[(record.partition, record.offset, record.delivery_count) for record in records])
            for record in records:
                acknowledge(record)
            turn += 1
            if mode == "explicit" and turn % 2:
                consumer.commit()


def confluent(servers: str, group: str, topic: str) -> None:
    from confluent_kafka import KafkaException, ShareConsumer
    from confluent_kafka.cimpl import (
        SHARE_ACKNOWLEDGE_TYPE_ACCEPT,
        SHARE_ACKNOWLEDGE_TYPE_REJECT,
        SHARE_ACKNOWLEDGE_TYPE_RELEASE,
    )

    types = {
        "accepted": SHARE_ACKNOWLEDGE_TYPE_ACCEPT,
        "released": SHARE_ACKNOWLEDGE_TYPE_RELEASE,
        "rejected": SHARE_ACKNOWLEDGE_TYPE_REJECT,
    }
    answers, end = Answers(), asked_to_leave()
    consumer = ShareConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": RECORDS_MAX,
        }
    )

    def on_commit(offsets: Mapping[Any, set[int]], error: KafkaException | None) -> None:
        answers.confirmed(((at.partition, offset) for at, each in offsets.items() for offset in each), error)

    consumer.set_acknowledgement_commit_callback(on_commit)
    consumer.subscribe([topic])
    while not end.is_set():
        messages = [message for message in consumer.poll(POLL_SECONDS) if message.error() is None]
        if not messages:
            continue
        tell(taken=[(each.partition(), each.offset(), each.delivery_count()) for each in messages])
        for message in messages:
            what = wanted(message.value(), message.delivery_count())
            answers.expect(Place(message.partition(), message.offset()), what)
            consumer.acknowledge(message, types[what])
        try:
            consumer.commit_sync(30.0)
        except KafkaException as error:
            logging.warning("commit_sync: %s", error)
    consumer.close()


PROGRAMS: Final[dict[str, Callable[[str, str, str], None]]] = {
    "ours": lambda *given: ours("explicit", *given),
    "ours-implicit": lambda *given: ours("implicit", *given),
    "confluent": confluent,
}
CLIENTS: Final = (*PROGRAMS, *JAVA_MODES, "franz-go")

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
