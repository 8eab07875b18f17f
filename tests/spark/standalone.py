"""A standalone Spark cluster: a master and workers as processes, started by `spark-class` of the installed Spark.

The workers have an environment of their own, without Python packages: the system's Python finds pyspark only in the
zips that come with Spark, and no kafkaraw. Start at `StandaloneCluster`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkaraw.spark.launch.environment import ExecutorEnvironment, executor_environment
from kafkaraw.spark.launch.executables import java_home, spark_home
from kafkaraw.spark.launch.packing import pack
from tests.java_options import JVM_VARIABLES, QUICK_JVM, cache_folder, made_once

ROOT = Path(__file__).parents[2]
START_S = 120.0
HOST = "127.0.0.1"
ARCHIVES_KEPT = 3
ARCHIVE_AGE_MIN_S = 3600.0
UNUSED_PACKAGES = ("adbc-driver-postgresql", "deltalake", "duckdb", "jsonschema-rs", "pyiceberg")
UNUSED_LIBRARIES = ("libarrow_flight", "libarrow_s3")
"""Half of what an archive of this environment has; no job of these tests loads it."""


def quick_jvm() -> str:
    """Options of daemons and executors: those of the tests' drivers, with the same file of classes."""
    return os.environ.get(JVM_VARIABLES[0], " ".join(QUICK_JVM))


def executor_settings() -> dict[str, str]:
    """Settings of small executors."""
    return {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_jvm(),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
    }


def executor_archive() -> Path:
    """An archive for executors, packed once for its content, without what no test needs.

    `kafkaraw spark pack` packs and compresses all of it, which takes a minute; another test checks that.
    """
    whole = executor_environment(left_out=UNUSED_PACKAGES)
    files = tuple(file for file in whole.files if not file.source.name.startswith(UNUSED_LIBRARIES))
    environment = dataclasses.replace(whole, files=files)
    path = cache_folder() / f"executors-{_digest(environment)}.tar.gz"
    with made_once(path) as scratch:
        if scratch is not None:
            pack(environment, scratch, compression=0)
    path.touch()
    by_age = sorted(path.parent.glob("executors-*.tar.gz"), key=lambda it: it.stat().st_mtime, reverse=True)
    for old in by_age[ARCHIVES_KEPT:]:
        if time.time() - old.stat().st_mtime > ARCHIVE_AGE_MIN_S:
            old.unlink(missing_ok=True)
    return path


def _digest(environment: ExecutorEnvironment) -> str:
    entries = [f"{text.target} {text.text}" for text in environment.texts]
    for file in environment.files:
        about = file.source.stat()
        entries.append(f"{file.target} {about.st_size} {about.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(entries)).encode()).hexdigest()[:16]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


def worker_environment(folder: Path, **more: str) -> dict[str, str]:
    """Variables of a machine on which Spark and Java are installed, and nothing else."""
    java = os.environ.get("JAVA_HOME") or str(java_home() or Path(shutil.which("java") or "").resolve().parents[1])
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "JAVA_HOME": java,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick_jvm(),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_WORKER_DIR": str(folder / "work"),
        **more,
    }


@dataclass
class StandaloneCluster:
    """The processes of a cluster.

    Attributes:
        folder: where they keep their files, each worker in a folder of its own.
        cores: of each worker.
    """

    folder: Path
    cores: int = 1
    _port: int = field(default_factory=free_port)
    _web_port: int = field(default_factory=free_port)
    _master: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def start(self, variables: Sequence[dict[str, str]]) -> None:
        """Start the master, and a worker with each of these variables."""
        place = ["--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)]
        self._master = self._process("master", "org.apache.spark.deploy.master.Master", place, {})
        self._wait("the master", lambda: self.alive() is not None)
        for more in variables:
            self.add_worker(more)
        self._wait("the workers", lambda: self.alive() == len(variables))

    def add_worker(self, variables: dict[str, str]) -> None:
        place = ["--host", HOST, "-c", str(self.cores), "-m", "600m", "--webui-port", str(free_port()), self.url]
        name = f"worker-{len(self.workers)}"
        self.workers.append(self._process(name, "org.apache.spark.deploy.worker.Worker", place, variables))

    def alive(self) -> int | None:
        """The number of workers that the master counts as alive; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=10) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return None

    def executors_of(self, worker: int) -> list[int]:
        """Process ids of the executors that a worker has started."""
        found = []
        for task in Path(f"/proc/{self.workers[worker].pid}/task").iterdir():
            found += [int(pid) for pid in (task / "children").read_text().split()]
        return found

    def kill_worker(self, worker: int) -> None:
        """Kill a worker and its executors with SIGKILL, as if the machine had lost its power."""
        for pid in [*self.executors_of(worker), self.workers[worker].pid]:
            os.kill(pid, signal.SIGKILL)
        self.workers[worker].wait()

    def stop(self) -> None:
        for process in [*self.workers, *([self._master] if self._master else [])]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def executor_logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.rglob("work/app-*/*/stderr")))

    def _process(self, name: str, java_class: str, place: list[str], more: dict[str, str]) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(parents=True)
        command = [str(spark_home() / "bin" / "spark-class"), java_class, *place]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=folder,
                env=worker_environment(folder, **more),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, what: str, is_there) -> None:
        deadline = time.monotonic() + START_S
        while not is_there():
            logs = "".join(path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{what} did not start within {START_S} s\n{logs}"
            time.sleep(0.1)


@contextmanager
def standalone_cluster(folder: Path, *variables: dict[str, str], cores: int = 1) -> Iterator[StandaloneCluster]:
    """A cluster with a worker for each of these environments."""
    cluster = StandaloneCluster(folder, cores)
    try:
        cluster.start(variables)
        yield cluster
    finally:
        cluster.stop()


def submit(
    master: str, job: str, *arguments: str, folder: Path, options: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `kafkaraw spark submit` in a folder."""
    return subprocess.run(
        submit_command(master, job, *arguments, options=options),
        cwd=folder,
        env=submit_environment(**variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def submit_command(master: str, job: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    conf = conf_options(executor_settings())
    return [sys.executable, "-m", "kafkaraw", "spark", "submit", "--master", master, *conf, *options, job, *arguments]


def conf_options(conf: Mapping[str, str]) -> list[str]:
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


def events_of(folder: Path) -> list[dict[str, Any]]:
    """The events in the log of the one application that has written it to this folder."""
    [log] = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("appstatus")]
    return [json.loads(line) for line in log.read_text().splitlines()]


def submit_environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": HOST, **variables}
