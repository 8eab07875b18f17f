"""A tap under attack: its memory is bounded, other connections go on, and afterwards nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.protocol import decode_response
from tests.inspect.tap.peers import Answer, broker, client, metadata_of, metadata_request, on_loop
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
MEGA = 1 << 20
START_S = 30.0
ATTACK_S = 120.0
END_S = 30.0
ASKS = 100
OWN_DESCRIPTORS_MAX = 40

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
    pytest.mark.timeout(450),
]


class Process:
    """A `kafkaraw wire tap` process; a thread reads its standard error."""

    def __init__(self, process: subprocess.Popen[str], servers: str) -> None:
        self.process = process
        self.servers = servers
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said += self.process.stderr

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self) -> int:
        """End it as Ctrl-C does; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=END_S)
        return self.process.returncode


@contextmanager
def tapped(servers: str, capture: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "kafkaraw", "wire", "tap", "-b", servers, "--listen", "127.0.0.1:0"]
    command += ["--save", str(capture), "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"bootstrap.servers=(\S+);", process.stderr.readline())
            assert found is not None
            running = Process(process, found[1])
            yield running
        finally:
            process.kill()
    print("".join(running.said[-20:]))  # shown if the test fails


@contextmanager
def attacker(clients: int, other: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The hostile clients and their broker: the process, and the broker's address."""
    host, _, port = other.rpartition(":")
    command = [sys.executable, "-m", "tests.inspect.tap.attack", str(clients), host, port]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


async def ask(servers: str, times: int) -> list[float]:
    """Ask for metadata on one connection; return how long each answer took."""
    took = []
    async with client(servers) as peer:
        for number in range(times):
            began = time.monotonic()
            _, message = decode_response(await peer.ask(metadata_request(number)), 3, 9)
            took.append(time.monotonic() - began)
            assert message.brokers[0].host == "127.0.0.1"
            await asyncio.sleep(0.02)
    return took


@pytest.mark.parametrize(
    ("clients", "memory_max"),
    [(130, 600 * MEGA), pytest.param(2000, 900 * MEGA, marks=pytest.mark.soak)],
)
@on_loop
async def test_attack_costs_bounded_memory_and_other_connections_go_on(tmp_path, clients, memory_max):
    healthy: list[tuple[int, str, int]] = []

    def answer(frame: bytes) -> bytes | None:
        found: Answer = metadata_of(*healthy)
        return found(frame)

    async with broker(answer) as good:
        healthy.append((1, "127.0.0.1", int(good.rpartition(":")[2])))
        with attacker(clients, good) as (hostile, address), tapped(address, tmp_path / "attack.pcapng") as tap:
            async with client(tap.servers) as peer:
                _, message = decode_response(await peer.ask(metadata_request()), 3, 9)
            through_tap = f"{message.brokers[0].host}:{message.brokers[0].port}"
            assert through_tap != good
            assert hostile.stdin is not None
            assert hostile.stdout is not None
            print(tap.servers, file=hostile.stdin, flush=True)
            async with asyncio.timeout(3 * ATTACK_S):
                connected = asyncio.ensure_future(asyncio.to_thread(hostile.stdout.readline))
                while not connected.done():
                    await ask(through_tap, 10)
                assert connected.result().strip() == str(clients)
                await ask(through_tap, ASKS)
            peak = tap.peak_bytes()
            hostile.stdin.close()
            await asyncio.to_thread(hostile.wait, END_S)
            assert await asyncio.to_thread(wait_until, lambda: tap.descriptors() < OWN_DESCRIPTORS_MAX, END_S)
            await ask(through_tap, ASKS)
            assert await asyncio.to_thread(tap.end) == 0
            said = "".join(tap.said)
        print(f"peak {peak / MEGA:.0f} MB")
        assert peak < memory_max, f"{peak / MEGA:.0f} MB"
        assert "Traceback" not in said
    with (tmp_path / "attack.pcapng").open("rb") as file:
        reader = CaptureReader(file)
        assert sum(1 for _ in reader.read()) > ASKS
