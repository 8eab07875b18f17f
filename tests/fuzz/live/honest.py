"""The honest client beside an attack: a process that asks all the time, and says what it saw when it is told to.

It must be a process of its own, or the attacker's work would count as the broker's latency. Each probe is one line of
`PROBES`; one line of JSON comes in per command and one goes out:

    {"do": "settle"}   make the coordinators' topics, by their first use
    {"do": "begin"}    forget the latencies so far
    {"do": "report"}   the latencies and failures since `begin`
    {"do": "verify"}   read everything that was ever acknowledged, and compare
    {"do": "pause"}    hang up and ask nothing, until the process id of the next broker comes as a command

Start at `HonestClient.run`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kafkaraw.errors import KafkaError
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import Batch, encode_batch
from tests.fuzz.live.process import run_delay_s
from tests.fuzz.live.wire import Peer

TOPIC = "honest"
GROUP = "honest-group"
QUIET_GROUP = "honest-quiet"
QUIET_OFFSET = 7
"""A group that commits once, at the beginning: no later commit hides a forged one."""
TRANSACTIONAL_IDS = tuple(f"honest-id-{number}" for number in range(6))
USER, PASSWORD = "root", "root-secret"
PAUSE_S = 0.02
FAILURES = (OSError, ValueError, AssertionError, KafkaError)
ANSWER_TIMEOUT_S = 10.0
RARE = 12
"""Every so many probes one of the rare ones is run: a new connection, a login, a TLS handshake, a commit."""


@dataclass
class Seen:
    """What a time showed: net latencies by probe in seconds, and failures."""

    latencies: list[tuple[float, float, str]] = field(default_factory=list)  # net, gross, probe
    failures: list[str] = field(default_factory=list)

    def report(self) -> dict[str, object]:
        ordered = sorted(self.latencies)
        count = len(ordered)
        worst = ordered[-1] if ordered else (0.0, 0.0, "")
        return {
            "probes": count,
            "p99_s": ordered[int(count * 0.99)][0] if ordered else 0.0,
            "max_s": worst[0],
            "max_gross_s": worst[1],
            "max_probe": worst[2],
            "by_probe": dict(Counter(name for _, _, name in ordered)),
            "failures": self.failures[:20],
        }


class HonestClient:
    """Asks, produces, reads and commits, one request at a time.

    Args:
        broker: the broker's process id.
        logins, plain, tls: addresses of its listeners.
        authority: PEM text of the authority of its certificate.
    """

    def __init__(
        self, broker: int, logins: tuple[str, int], plain: tuple[str, int], tls: tuple[str, int], authority: str
    ) -> None:
        self._broker = broker
        self._logins, self._plain, self._tls = logins, plain, tls
        self._context = ssl.create_default_context(cadata=authority)
        self._seen = Seen()
        self._peer: Peer | None = None
        self._producer_id = -1
        self._acknowledged = 0
        self._committed = {-1}  # several when the answer to a commit was lost
        self._quiet_committed = False
        self._turn = 0
        self._paused = False
        self._probes: list[tuple[str, Callable[[], None]]] = [
            ("ApiVersions", self._api_versions),
            ("Metadata", self._metadata),
            ("Produce and Fetch", self._produce_and_fetch),
        ]
        self._rare_probes: list[tuple[str, Callable[[], None]]] = [
            ("new connection", self._new_connection),
            ("commit", self._commit),
            ("login", self._new_login),
            ("TLS handshake", self._new_tls),
        ]

    def run(self, commands: queue.Queue[str | None]) -> None:
        """Ask until the commands end."""
        while True:
            with suppress(queue.Empty):
                command = commands.get(timeout=PAUSE_S)
                if command is None:
                    return
                self._obey(json.loads(command)["do"])
                continue
            if self._paused:
                continue
            self._turn += 1
            rare = self._turn % RARE == 0
            which = self._rare_probes if rare else self._probes
            name, probe = which[(self._turn // RARE if rare else self._turn) % len(which)]
            self._timed(name, probe)

    def _obey(self, command: str) -> None:
        answer: dict[str, object] = {}
        if command == "begin":
            self._seen = Seen()
        elif command == "report":
            answer = self._seen.report()
        elif command == "settle":
            self._commit()
            self._check_transactional_ids()
        elif command == "verify":
            answer = self._verify()
        elif command == "pause":
            self._paused = True
            self._hang_up()
        else:
            self._broker, self._paused = int(command), False
        print(json.dumps(answer), flush=True)

    def _timed(self, name: str, probe: Callable[[], None]) -> None:
        """Run a probe; its latency counts without the time for which the two processes had to wait for a core."""
        waited = self._run_delays()
        began = time.monotonic()
        try:
            probe()
        except FAILURES as error:
            took = time.monotonic() - began
            self._seen.failures.append(f"{name}, after {took:.2f} s: {type(error).__name__}: {error}")
            self._hang_up()
        gross = time.monotonic() - began
        net = max(0.0, gross - (self._run_delays() - waited))
        self._seen.latencies.append((net, gross, name))

    def _run_delays(self) -> float:
        return run_delay_s(self._broker) + run_delay_s(os.getpid())

    def _connected(self) -> Peer:
        if self._peer is None:
            self._peer = Peer(self._logins, timeout_s=ANSWER_TIMEOUT_S)
            self._peer.log_in(USER, PASSWORD)
        return self._peer

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _api_versions(self) -> None:
        _right(self._connected().ask(ApiVersionsRequest(), 0).error_code)

    def _metadata(self) -> None:
        answer = self._connected().ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 8)
        _right(answer.topics[0].error_code)
        assert len(answer.topics[0].partitions) == 1, f"{TOPIC} has {len(answer.topics[0].partitions)} partitions"

    def _produce_and_fetch(self) -> None:
        """Write the next record, and read it; a record whose acknowledgement was lost is written again, as it was."""
        peer = self._connected()
        if self._producer_id < 0:
            answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1)
            _right(answer.error_code)
            self._producer_id = answer.producer_id
        offset = self._acknowledged
        value = value_of(offset)
        wire = encode_batch(
            [(1, None, value, None)], producer_id=self._producer_id, producer_epoch=0, base_sequence=offset
        )
        partition = PartitionProduceData(index=0, records=wire)
        topic = TopicProduceData(name=TOPIC, partition_data=[partition])
        answer = peer.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 8)
        written = answer.responses[0].partition_responses[0]
        _right(written.error_code)
        assert written.base_offset == offset, f"record {offset} was acknowledged at offset {written.base_offset}"
        self._acknowledged += 1
        read = self._read(offset, 1 << 16)
        assert read == [(offset, value)], f"record {offset} reads as {read}"

    def _read(self, offset: int, size_bytes: int) -> list[tuple[int, bytes | None]]:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size_bytes)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=size_bytes,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = self._connected().ask(request, 11)
        _right(answer.error_code)
        found = answer.responses[0].partitions[0]
        _right(found.error_code)
        if not found.records:
            return []
        batch = Batch(TOPIC, 0, memoryview(found.records), start_offset=offset)
        return [(record.offset, record.value) for record in batch]

    def _new_connection(self) -> None:
        with Peer(self._plain, timeout_s=ANSWER_TIMEOUT_S) as peer:
            _right(peer.ask(ApiVersionsRequest(), 0).error_code)

    def _new_login(self) -> None:
        with Peer(self._logins, timeout_s=ANSWER_TIMEOUT_S) as peer:
            peer.log_in(USER, PASSWORD)

    def _new_tls(self) -> None:
        with Peer(self._tls, timeout_s=ANSWER_TIMEOUT_S, tls=self._context) as peer:
            _right(peer.ask(ApiVersionsRequest(), 0).error_code)

    def _commit(self) -> None:
        if not self._quiet_committed:
            self._commit_offset(QUIET_GROUP, QUIET_OFFSET)
            self._quiet_committed = True
        position = self._acknowledged
        self._committed.add(position)
        self._commit_offset(GROUP, position)
        self._committed = {position}
        self._check_committed()

    def _commit_offset(self, group: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        answer = self._connected().ask(OffsetCommitRequest(group_id=group, topics=[topic]), 7)
        _right(answer.topics[0].partitions[0].error_code)

    def _check_committed(self) -> None:
        found = self._committed_offset(GROUP)
        assert found in self._committed, f"{GROUP} committed {self._committed}, the broker has {found}"
        if self._quiet_committed:
            found = self._committed_offset(QUIET_GROUP)
            assert found == QUIET_OFFSET, f"{QUIET_GROUP} committed {QUIET_OFFSET}, the broker has {found}"

    def _committed_offset(self, group: str) -> int:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])])
        answer = self._connected().ask(request, 8)
        _right(answer.groups[0].error_code)
        found: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return found

    def _check_transactional_ids(self) -> None:
        for name in TRANSACTIONAL_IDS:
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10_000)
            code = self._connected().ask(request, 4).error_code
            assert not code, f"the transactional id {name} cannot be used: error code {code}"

    def _verify(self) -> dict[str, object]:
        """Read all that was acknowledged, from the beginning, and the committed offset."""
        try:
            self._hang_up()
            offset = 0
            while offset < self._acknowledged:
                read = self._read(offset, 1 << 22)
                # One more may be there, whose acknowledgement was lost.
                expected = [(at, value_of(at)) for at in range(offset, offset + len(read))]
                if not read or read != expected:
                    return {"wrong": f"from offset {offset} on, {self._acknowledged} acknowledged, read {read[:3]}"}
                offset += len(read)
            if offset > self._acknowledged + 1:
                return {"wrong": f"{offset} records are there, {self._acknowledged} were acknowledged"}
            self._check_committed()
            self._check_transactional_ids()
        except FAILURES as error:
            self._hang_up()
            return {"wrong": f"{type(error).__name__}: {error}"}
        return {"records": self._acknowledged}


def value_of(number: int) -> bytes:
    """The value of the record with that number: no two are alike, and a changed byte shows."""
    text = b"record %d " % number
    return text + hashlib.sha256(text).hexdigest().encode() * 4


def _right(error_code: int) -> None:
    assert not error_code, f"error code {error_code}"


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--broker", "--logins", "--plain", "--tls", "--authority"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    with open(given.authority, encoding="ascii") as file:
        authority = file.read()
    addresses = [_address(text) for text in (given.logins, given.plain, given.tls)]
    commands: queue.Queue[str | None] = queue.Queue()

    def read_commands() -> None:
        for line in sys.stdin:
            commands.put(line)
        commands.put(None)

    threading.Thread(target=read_commands, daemon=True).start()
    HonestClient(int(given.broker), *addresses, authority).run(commands)


if __name__ == "__main__":
    main()
