"""Record what real clients and Apache Kafka say to each other, as golden frames for tests/protocol.

    .venv/bin/python -m tests.interop.capture

Relays stand in front of the broker's listeners; Kafka advertises the relays' addresses, so nothing is rewritten. One
frame is kept per (client, API, version, direction). Frames that tell where they were recorded (folders, host name) are
left out.

This module imports nothing of kafkaraw: what it records is the yardstick, so it is not read with our own code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from tests.interop import traffic
from tests.interop.apache_kafka import ApacheKafka, fetch_jars, kafka_version

GOLDEN = Path(__file__).parents[1] / "protocol" / "golden"
TRAFFIC_JAVA = Path(__file__).with_name("Traffic.java")
FRAME_SIZE_MAX = 1_500  # of two frames of a kind the larger one is kept, up to this size
TRAFFIC_SECONDS_MAX = 300
CLIENT_ID = "golden"
BROKER_ITSELF = "apache-kafka-broker"
HIGHEST_API_KEY = 100
SASL = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'

Kind = tuple[str, int, int, str]  # client, API key, version, direction


@dataclass
class Recorder:
    """What was seen, and whose traffic it is now.

    Attributes:
        frames: the largest frame of each kind.
        connections: all frames of each connection, with their size prefixes: whether the client sent it, and its bytes.
    """

    client: str = ""
    frames: dict[Kind, bytes] = field(default_factory=dict)
    connections: list[list[tuple[bool, bytes]]] = field(default_factory=list)
    secrets: tuple[bytes, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, client: str, key: int, api_version: int, direction: str, frame: bytes) -> None:
        """Keep a frame when it is the largest of its kind that is not too large."""
        if any(secret in frame for secret in self.secrets) or key > HIGHEST_API_KEY:
            return
        with self.lock:
            known = self.frames.get((client, key, api_version, direction))
            if known is None or len(known) < len(frame) <= FRAME_SIZE_MAX or len(frame) < len(known) > FRAME_SIZE_MAX:
                self.frames[client, key, api_version, direction] = frame


class Relay:
    """Passes a port on to another and lets the recorder see every frame."""

    def __init__(self, recorder: Recorder, target_port: int) -> None:
        self._recorder = recorder
        self._target_port = target_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with the broker."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return  # it was closed
            try:
                far = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                near.close()  # the broker is not up yet, or not any more
                continue
            threading.Thread(target=self._relay, args=(near, far), daemon=True).start()

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        """Pass frames on in both directions until either side hangs up, and close both connections."""
        asked: dict[int, tuple[str, int, int]] = {}
        sent: list[tuple[bool, bytes]] = []
        self._recorder.connections.append(sent)
        with near, far:
            arguments = (far, near, self._response, asked, sent)
            answers = threading.Thread(target=self._pass_on, args=arguments, daemon=True)
            answers.start()
            self._pass_on(near, far, self._request, asked, sent)
            answers.join()

    def _pass_on(
        self,
        source: socket.socket,
        sink: socket.socket,
        see: Callable[[bytes, dict[int, tuple[str, int, int]]], None],
        asked: dict[int, tuple[str, int, int]],
        sent: list[tuple[bool, bytes]],
    ) -> None:
        with contextlib.suppress(OSError):
            while len(prefix := source.recv(4, socket.MSG_WAITALL)) == 4:
                frame = source.recv(struct.unpack(">i", prefix)[0], socket.MSG_WAITALL)
                see(frame, asked)
                sent.append((see == self._request, prefix + frame))
                sink.sendall(prefix + frame)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _request(self, frame: bytes, asked: dict[int, tuple[str, int, int]]) -> None:
        key, api_version, correlation_id, size = struct.unpack_from(">hhih", frame)
        client_id = frame[10 : 10 + max(size, 0)].decode(errors="replace")
        client = self._recorder.client if CLIENT_ID in client_id else BROKER_ITSELF
        asked[correlation_id] = (client, key, api_version)
        self._recorder.keep(client, key, api_version, "request", frame)

    def _response(self, frame: bytes, asked: dict[int, tuple[str, int, int]]) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        client, key, api_version = asked.pop(correlation_id)
        if key == 18 and frame[4:6] == b"\x00\x23":
            api_version = 0  # UNSUPPORTED_VERSION is answered in version 0 (KIP-511)
        self._recorder.keep(client, key, api_version, "response", frame)


@contextlib.contextmanager
def recorded_kafka(recorder: Recorder) -> Iterator[tuple[int, int]]:
    """A broker whose every listener is behind a relay: the ports for plain and for SASL connections."""
    kafka = ApacheKafka()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [listening.getsockname()[1] for listening in sockets]
    kafka.port = ports[0]
    kafka._controller_port = ports[1]
    plain, controller, sasl = relays = [Relay(recorder, port) for port in ports]
    kafka._properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]},SASL://127.0.0.1:{ports[2]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain.port},SASL://127.0.0.1:{sasl.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller.port}",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": SASL,
        "delegation.token.secret.key": "not-a-secret",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "group.share.min.heartbeat.interval.ms": "1000",
        "group.share.heartbeat.interval.ms": "1000",
        "transaction.partition.verification.enable": "true",
    }
    recorder.secrets = (str(kafka.data_dir).encode(), socket.gethostname().encode())
    try:
        with kafka:
            yield plain.port, sasl.port
    finally:
        for relay in relays:
            relay.close()


def run_java(plain_port: int, sasl_port: int) -> None:
    """Have Traffic.java use every part of the Java clients."""
    command = [
        "java",
        "-Xmx256M",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{fetch_jars()}/*",
        str(TRAFFIC_JAVA),
    ]
    command += [f"127.0.0.1:{plain_port}", f"127.0.0.1:{sasl_port}", CLIENT_ID]
    subprocess.run(command, check=True, timeout=TRAFFIC_SECONDS_MAX)


def main() -> None:
    """Run every client and write one file for each."""
    parser = argparse.ArgumentParser(description="Record golden frames of real clients talking to Apache Kafka.")
    parser.parse_args()
    recorder = Recorder(client=BROKER_ITSELF)
    import confluent_kafka

    runs: dict[str, tuple[str, Callable[[int, int], None]]] = {
        "confluent-kafka": (
            f"confluent-kafka {version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})",
            traffic.confluent,
        ),
        "kafka-python": (f"kafka-python {version('kafka-python')}", traffic.kafka_python),
        "aiokafka": (f"aiokafka {version('aiokafka')}", traffic.aio_kafka),
        "java": (f"Apache Kafka Java clients {kafka_version()}", run_java),
    }
    with recorded_kafka(recorder) as ports:
        for name, (_, run) in runs.items():
            recorder.client = name
            run(*ports)
    origins = {name: origin for name, (origin, _) in runs.items()}
    origins[BROKER_ITSELF] = f"Apache Kafka {kafka_version()}, broker talking to itself and to its controller"
    GOLDEN.mkdir(exist_ok=True)
    for name, origin in origins.items():
        kinds = sorted(kind for kind in recorder.frames if kind[0] == name)
        lines = [json.dumps({"client": origin, "broker": f"Apache Kafka {kafka_version()}"})]
        for kind in kinds:
            _, key, api_version, direction = kind
            frame = recorder.frames[kind].hex()
            lines.append(json.dumps({"key": key, "version": api_version, "direction": direction, "frame": frame}))
        GOLDEN.joinpath(f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{name}: {len(kinds)} frames, {len({kind[1] for kind in kinds})} APIs")


if __name__ == "__main__":
    main()
