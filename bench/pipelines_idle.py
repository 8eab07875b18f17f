"""A pipeline of ten flows: what it costs while nothing happens, and what it holds after many micro-batches.

python -m bench.pipelines_idle [SECONDS] [MICRO_BATCHES]

`kafkaraw pipelines run` is a process of its own; its CPU is that of the driver, Spark's JVM and the Python workers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.faults import FaultReply, Incoming
from kafkaraw.protocol.error_codes import ErrorCode

FLOWS = 10
START_TIMEOUT_S = 300.0
SPECIFICATION = """\
name: idle
storage: storage
libraries: [{{glob: {{include: a.py}}}}]
configuration:
  kafkaraw.kafka.bootstrap.servers: {servers}
"""
DEFINITIONS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
options = {{"kafka.bootstrap.servers": "{servers}", "subscribe": "numbers", "startingOffsets": "earliest"}}


def define(number):
    @dp.table(name=f"table{{number}}")
    def rows():
        return spark.readStream.format("kafkaraw").options(**options).load().select("value")


for number in range({flows}):
    define(number)
"""


class Requests:
    """Counts the requests that a broker of this process answers."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.counts: Counter[str] = Counter()
        faults = broker.faults
        answer = faults.answer

        def counted(incoming: Incoming) -> FaultReply:
            self.counts[incoming.api.name] += 1
            return answer(incoming)

        # Requests pass the faults only if there are some.
        faults.on(api="Produce", topic="no-such-topic").answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        faults.answer = counted  # type: ignore[method-assign]


class Running:
    """The pipeline as a process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "kafkaraw", "pipelines", "run", str(folder), "--port", "0"]
        output = folder / "output"
        with output.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not output.read_text().endswith("\n"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the run has not started")
            time.sleep(0.1)
        self._url = json.loads(output.read_text().splitlines()[0])["http"]

    def batches(self) -> int:
        """The number of finished micro-batches of all flows; 0 while Spark starts."""
        try:
            with urllib.request.urlopen(f"{self._url}/status", timeout=10) as answer:
                return sum(flow["batches"] for flow in json.load(answer)["flows"])
        except OSError:
            return 0

    def wait_for(self, batches: int, timeout: float) -> None:
        """Wait for a number of micro-batches."""
        deadline = time.monotonic() + timeout
        while self.batches() < batches:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the run has made {self.batches()} of {batches} micro-batches")
            time.sleep(0.2)

    def processes(self) -> list[int]:
        """The driver, and all processes below it."""
        parents = {pid: int(_fields(pid)[1]) for pid in _all_processes()}
        found = {self._process.pid}
        while new := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= new
        return sorted(found)

    def cpu_s(self) -> float:
        """CPU seconds of all of them."""
        ticks = sum(int(each) for pid in self.processes() for each in _fields(pid)[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def held(self) -> dict[str, int]:
        """What they hold: memory, descriptors, threads, processes."""
        pids = self.processes()
        pages = sum(int(_fields(pid)[21]) for pid in pids)
        return _heap(pids) | {
            "MB resident": pages * os.sysconf("SC_PAGE_SIZE") >> 20,
            "MB of the driver": int(_fields(self._process.pid)[21]) * os.sysconf("SC_PAGE_SIZE") >> 20,
            "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
            "threads": sum(int(_fields(pid)[17]) for pid in pids),
            "processes": len(pids),
        }

    def stop(self) -> int:
        """End it as a service manager does; returns the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()


def _heap(pids: list[int]) -> dict[str, int]:
    """The JVM's heap after a garbage collection; nothing without the JDK's jcmd."""
    jvm = next((pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "java\n"), None)
    if jvm is None or shutil.which("jcmd") is None:
        return {}
    subprocess.run(["jcmd", str(jvm), "GC.run"], check=True, capture_output=True)
    shown = subprocess.run(["jcmd", str(jvm), "GC.heap_info"], check=True, capture_output=True, text=True).stdout
    used = re.search(r"used (\d+)K", shown)
    return {} if used is None else {"MB of the heap after GC": int(used[1]) >> 10}


def _all_processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit() and Path(f"/proc/{name}/stat").exists():
            yield int(name)


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; zeros if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def main() -> None:
    """Run it, and print the numbers."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    micro_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    with tempfile.TemporaryDirectory() as place, EmbeddedBroker() as broker:
        servers, folder = broker.bootstrap_servers, Path(place)
        (folder / "spark-pipeline.yml").write_text(SPECIFICATION.format(servers=servers))
        (folder / "a.py").write_text(DEFINITIONS.format(servers=servers, flows=FLOWS))
        requests = Requests(broker)
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            admin.create_topics(["numbers"])
            producer.send("numbers", b"0").result(30)
            running = Running(folder)
            try:
                running.wait_for(FLOWS, START_TIMEOUT_S)
                time.sleep(10)
                measure_idle(running, requests, seconds)
                measure_held(running, producer, micro_batches)
            finally:
                code = running.stop()
            print(f"exit code after SIGTERM: {code}")


def measure_idle(running: Running, requests: Requests, seconds: float) -> None:
    """Print what the pipeline does while there are no records."""
    cpu, counts, began = running.cpu_s(), requests.counts.copy(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    print(f"idle, {FLOWS} flows, {took:.0f} s: {100 * (running.cpu_s() - cpu) / took:.1f} % of a core", flush=True)
    sent = requests.counts - counts
    by_api = ", ".join(f"{name} {count / took:.1f}" for name, count in sent.most_common())
    print(f"requests/s: {sent.total() / took:.1f} ({by_api})", flush=True)


def measure_held(running: Running, producer: Producer, micro_batches: int) -> None:
    """Print what the processes hold after a part of the micro-batches, and after all of them."""
    first = running.batches()
    for part in (0.2, 0.4, 0.6, 0.8, 1.0):
        cpu, before = running.cpu_s(), running.batches()
        while (done := running.batches() - first) < part * micro_batches:
            producer.send("numbers", b"1").result(30)
            time.sleep(0.3)
        made = max(running.batches() - before, 1)
        held = ", ".join(f"{value} {name}" for name, value in running.held().items())
        print(f"{done} micro-batches: {held}; {1000 * (running.cpu_s() - cpu) / made:.0f} ms of CPU each", flush=True)


if __name__ == "__main__":
    main()
