"""Apache Kafka, started for a test or by hand: one KRaft node from the jars that Maven fetches, without Docker.

In a test, ask for the fixture `apache_kafka`. By hand:

    .venv/bin/python -m tests.interop.apache_kafka          # prints bootstrap.servers=HOST:PORT, runs until Ctrl-C

This module imports nothing of kafkaraw: what it starts is the yardstick, so it is not measured with our own code.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.java_options import QUICK_JVM, archive_options, cache_folder, made_once, name_of_java, shared_options

POM = Path(__file__).with_name("pom.xml")
JAVA_VERSION_MIN = 17
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
ARCHIVE_SECONDS_MAX = 240.0
START_ATTEMPTS = 3

JAVA_OPTIONS = ("-Xms256M", "-Xmx512M", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

# One node that is broker and controller; topics that Kafka keeps for itself as small as they go; no waiting for members
# of a group that may still come.
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "broker.session.timeout.ms": "30000",  # a node on a busy machine may be silent for long
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "true",
    "log.retention.ms": "-1",  # tests write records with timestamps of years ago
}

# For tests that kill the node: it may come back only when its session is over.
SOON_BACK = {"broker.session.timeout.ms": "3000"}

META_PROPERTIES = "meta.properties"
_FORMATTED: dict[frozenset[tuple[str, int]], dict[str, bytes]] = {}
"""Files that StorageTool has written, by the features that they were asked for."""


class ApacheKafkaError(Exception):
    """Apache Kafka could not be fetched, formatted or started; the message holds the end of its log."""


def kafka_version() -> str:
    """The version that pom.xml asks for."""
    found = re.search(r"<kafka\.version>([^<]+)<", POM.read_text())
    assert found, "pom.xml names no kafka.version"
    return found[1]


@cache  # it starts a JVM
def why_missing() -> str | None:
    """What this machine lacks to run Apache Kafka, or None when it can."""
    if shutil.which("java") is None:
        return "Apache Kafka needs Java, and there is no `java` on the path"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        return f"Apache Kafka needs Java {JAVA_VERSION_MIN} or newer, and `java` is {said.splitlines()[:1]}"
    if not _cached_jars().is_dir() and shutil.which("mvn") is None:
        return "Apache Kafka's jars are fetched by Maven, and there is no `mvn` on the path"
    return None


def _cached_jars() -> Path:
    return cache_folder() / f"apache-kafka-{kafka_version()}"


def fetch_jars() -> Path:
    """Have Maven copy the jars once per user and version.

    Returns:
        The folder with the jars.

    Raises:
        ApacheKafkaError: Maven failed.
    """
    return _fetch(_cached_jars(), "dependency:copy-dependencies", "-DincludeScope=runtime")


def fetch_tools() -> Path:
    """The same for the command-line tools, which a broker does not need."""
    artifact = f"org.apache.kafka:kafka-tools:{kafka_version()}"
    target = _cached_jars().with_name(f"kafka-tools-{kafka_version()}")
    return _fetch(target, "dependency:copy", f"-Dartifact={artifact}")


def fetch_artifact(group: str, name: str, version: str) -> Path:
    """Have Maven copy one jar, without those that it needs, once per user; returns the jar."""
    target = _cached_jars().with_name(f"{name}-{version}")
    return _fetch(target, "dependency:copy", f"-Dartifact={group}:{name}:{version}") / f"{name}-{version}.jar"


def fetch_dependencies(pom: Path, name: str) -> Path:
    """Have Maven copy the jars of another pom, once per user and version; returns the folder `name`-VERSION."""
    target = _cached_jars().with_name(f"{name}-{kafka_version()}")
    version = f"-Dkafka.version={kafka_version()}"
    return _fetch(target, "dependency:copy-dependencies", "-DincludeScope=runtime", version, pom=pom)


def _fetch(target: Path, *goal: str, pom: Path = POM) -> Path:
    with made_once(target) as scratch:
        if scratch is not None:
            command = ["mvn", "-B", "-q", "-f", str(pom), *goal]
            done = subprocess.run(
                [*command, f"-DoutputDirectory={scratch}"], capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode != 0:
                raise ApacheKafkaError(f"Maven could not fetch Apache Kafka:\n{(done.stdout + done.stderr)[-2000:]}")
    return target


@cache
def compile_java(source: Path, jars: tuple[str, ...] | None = None) -> Path:
    """Compile a Java program that uses Kafka's classes or other jars, once per user and version of the program.

    Returns:
        The folder with its classes. It goes behind the jars in a class path: see `shared_classes`.

    Raises:
        ApacheKafkaError: javac refused it.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    target = cache_folder() / f"{source.stem}-{digest}-{kafka_version()}-{_java_here()}"
    with made_once(target) as scratch:
        if scratch is not None:
            class_path = f"{fetch_jars()}/*:{fetch_tools()}/*" if jars is None else ":".join(jars)
            command = ["javac", "-cp", class_path, "-d", str(scratch), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                raise ApacheKafkaError(f"{source.name} could not be compiled:\n{done.stderr[-2000:]}")
    return target


@cache
def shared_classes() -> tuple[str, ...]:
    """Options of a JVM that maps Kafka's classes from a file; the class path must begin with `{fetch_jars()}/*`.

    A node started with 3.2 s of processor time without them, and with 1.8 s with them. One node is started to write the
    file, once per user, for this Kafka and this Java.
    """
    archive = fetch_jars() / f"classes-{_java_here()}.jsa"
    with made_once(archive) as scratch:
        if scratch is not None:
            with ApacheKafka(class_archive=scratch):
                pass
    return shared_options(archive)


def _java_here() -> str:
    return name_of_java(shutil.which("java") or "java")


def _random_cluster_id() -> str:
    """A random id in Kafka's form that a command line does not take for an option, as one in 64 would be."""
    return "k" + urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")[1:]


class ApacheKafka:
    """A KRaft node in a process of its own, on free ports of 127.0.0.1: a cluster of one, unless others join it.

    Args:
        data_dir: where the logs go; a temporary folder, removed at the end, when None.
        properties: broker properties on top of SINGLE_NODE.
        ports: of the PLAINTEXT listener and the controller, when `properties` name them; free ones when None.
        features: levels to format the storage with, such as {"transaction.version": 0}; the newest when None.
        optimize: let Java start and compile as its users' does, as benchmarks need it.
        class_archive: a file for the classes that the node has loaded, written when it stops.
        joins: the started node whose cluster this node joins, as a broker that is no controller.
        node_id: of this node.
        plugin: the source of a Java class of the tests that `properties` name.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        properties: Mapping[str, str] | None = None,
        ports: tuple[int, int] | None = None,
        features: Mapping[str, int] | None = None,
        optimize: bool = False,
        class_archive: Path | None = None,
        joins: ApacheKafka | None = None,
        node_id: int = 1,
        plugin: Path | None = None,
    ) -> None:
        self._joins = joins
        self.node_id = node_id
        self._plugin = plugin
        self._optimize = optimize
        self._class_archive = class_archive
        self._features = dict(features or {})
        self._own_dir = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix="apache-kafka-")) if data_dir is None else data_dir
        self._properties = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._controller_port = ports or (0, 0)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the started broker."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._process is not None and (code := self._process.poll()) is not None:
            error.add_note(f"Apache Kafka ended by itself with {code}. The end of its log:\n{self._log_tail()}")
        self.close()

    def start(self) -> Self:
        """Format the storage when it is new, start the node, and wait until it answers ApiVersions.

        Raises:
            ApacheKafkaError: it did not come up.
        """
        jars = fetch_jars()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        for attempt in range(START_ATTEMPTS):
            if not self.port or attempt:
                # A restart keeps its ports. Somebody else may take a free port before Kafka does: then try others.
                self.port, self._controller_port = free_ports(2)
            self._write_properties()
            if not (self._logs / META_PROPERTIES).exists():
                self._format(jars)
            self._process = self._launch(jars)
            if self._wait_until_ready():
                return self
            self.kill()
            if attempt + 1 == START_ATTEMPTS or "Address already in use" not in self._log_tail():
                break
        raise ApacheKafkaError(f"Apache Kafka did not start. The end of its log:\n{self._log_tail()}")

    def stop(self) -> None:
        """Stop the node in its own good order; `start` may follow."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(ARCHIVE_SECONDS_MAX if self._class_archive else STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                if self._class_archive:
                    self._class_archive.unlink(missing_ok=True)  # a part of it

    def close(self) -> None:
        """End the node at once, and remove the data if its folder was a temporary one.

        Call `stop` before if the data must be that of a node that was stopped gracefully, which takes a second.
        """
        if self._class_archive is not None:
            self.stop()  # Java writes the file then
        self.kill()
        if self._own_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def kill(self) -> None:
        """End the process without giving it time to say goodbye; the data stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self, *, kill: bool) -> None:
        """End the node, with or without its goodbyes, and start it again on the same ports and data."""
        (self.kill if kill else self.stop)()
        self.start()

    @property
    def _logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def _cluster_id(self) -> str:
        found = re.search(r"(?m)^cluster\.id=(.*)$", (self._logs / META_PROPERTIES).read_text())
        assert found, f"no cluster.id in {self._logs}"
        return found[1]

    @property
    def _properties_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _write_properties(self) -> None:
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        controller = self if self._joins is None else self._joins
        properties = {
            **SINGLE_NODE,
            "node.id": str(self.node_id),
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listener,
            "controller.quorum.voters": f"{controller.node_id}@127.0.0.1:{controller._controller_port}",
            "log.dirs": str(self._logs),
            **self._properties,
        }
        if self._joins is not None:
            properties |= {"process.roles": "broker", "listeners": listener}
        self._properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def _java(self, jars: Path, main_class: str, *options: str) -> list[str]:
        class_path = f"{jars}/*" if self._plugin is None else f"{jars}/*:{compile_java(self._plugin)}"
        return ["java", *JAVA_OPTIONS, *options, "-cp", class_path, main_class]

    def _node_options(self) -> tuple[str, ...]:
        if self._optimize:
            return ()
        if self._class_archive is not None:
            return (*QUICK_JVM, *archive_options(self._class_archive))
        return (*QUICK_JVM, *shared_classes())

    def _format(self, jars: Path) -> None:
        """Write what StorageTool writes: a JVM runs it once per process and features, later nodes get copies."""
        features = frozenset(self._features.items())
        if features not in _FORMATTED:
            self._run_storage_tool(jars)
            _FORMATTED[features] = {each.name: each.read_bytes() for each in self._logs.iterdir()}
        self._logs.mkdir(exist_ok=True)
        for name, content in _FORMATTED[features].items():
            (self._logs / name).write_bytes(content)
        meta = _FORMATTED[features][META_PROPERTIES].decode()
        cluster_id = _random_cluster_id() if self._joins is None else self._joins._cluster_id
        others = filter(None, self._properties.get("log.dirs", "").split(","))
        for folder in {self._logs, *map(Path, others)}:
            folder.mkdir(exist_ok=True)
            own = {"cluster.id": cluster_id, "node.id": str(self.node_id), "directory.id": _random_cluster_id()}
            lines = dict(line.split("=", 1) for line in meta.splitlines() if "=" in line)
            text = "".join(f"{name}={value}\n" for name, value in (lines | own).items())
            (folder / META_PROPERTIES).write_text(text)

    def _run_storage_tool(self, jars: Path) -> None:
        command = [*self._java(jars, "kafka.tools.StorageTool", *QUICK_JVM), "format", "-t", _random_cluster_id()]
        for name, level in self._features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(
            [*command, "-c", str(self._properties_file)], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode != 0:
            raise ApacheKafkaError(f"formatting the storage failed:\n{(done.stdout + done.stderr)[-2000:]}")

    def _launch(self, jars: Path) -> subprocess.Popen[bytes]:
        with open(self.data_dir / "kafka.log", "ab") as log:
            return subprocess.Popen(
                [*self._java(jars, "kafka.Kafka", *self._node_options()), str(self._properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                start_new_session=True,  # Ctrl-C goes to us; Kafka is stopped by stop()
            )

    def _wait_until_ready(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            if _answers_api_versions(self.port):
                return True
            time.sleep(0.1)  # another process: there is nothing to wait on but the port
        return False

    def _log_tail(self) -> str:
        log = self.data_dir / "kafka.log"
        return log.read_text(errors="replace")[-3000:] if log.exists() else "(no log)"


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listening.getsockname()[1] for listening in sockets]


def _answers_api_versions(port: int) -> bool:
    """Ask for ApiVersions version 0, spelled out by hand, and check the correlation id and error code of the answer."""
    correlation_id = 7
    body = struct.pack(">hhih", 18, 0, correlation_id, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as link:
            link.sendall(struct.pack(">i", len(body)) + body)
            answer = link.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (correlation_id, 0)


def main() -> int:
    """Run a node until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="Run Apache Kafka from Maven's jars until Ctrl-C.")
    parser.add_argument("--data-dir", type=Path, help="keep the data here (default: a temporary folder)")
    parser.add_argument("-X", dest="properties", action="append", default=[], metavar="property=value")
    arguments = parser.parse_args()
    missing = why_missing()
    if missing is not None:
        print(missing, file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell ignores it for what it starts with `&`
        signal.signal(number, signal.default_int_handler)
    properties = dict(item.split("=", 1) for item in arguments.properties)
    try:
        with ApacheKafka(arguments.data_dir, properties) as kafka:
            print(f"bootstrap.servers={kafka.bootstrap_servers}", flush=True)
            try:
                while True:
                    signal.pause()
            finally:
                kafka.stop()
    except ApacheKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
