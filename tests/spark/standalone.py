"""A standalone Spark cluster: a master and workers as processes, started by `spark-class` of the installed Spark.

The workers have an environment of their own, without Python packages: the system's Python finds pyspark only in the
zips that come with Spark, and no kafkaraw. Start at `StandaloneCluster`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafkaraw.spark.launch.executables import java_home, spark_home
from tests.java_options import QUICK_JVM

ROOT = Path(__file__).parents[2]
START_S = 120.0
HOST = "127.0.0.1"
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(QUICK_JVM),
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}
"""Settings of small executors."""


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
        "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK_JVM),
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
    conf = [word for name, value in EXECUTORS.items() for word in ("--conf", f"{name}={value}")]
    return [sys.executable, "-m", "kafkaraw", "spark", "submit", "--master", master, *conf, *options, job, *arguments]


def submit_environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": HOST, **variables}
