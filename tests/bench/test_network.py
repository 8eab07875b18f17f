"""The network benchmark runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.network.__main__ import READS, ROUND_TRIPS, SERVING, Measurement, Medians
from bench.network.messages import API_VERSIONS_VERSION, api_versions_answer, api_versions_request, framed
from bench.network.peers import echo_command, echo_server
from bench.network.settings import Settings
from bench.network.worker import receive

ROOT = Path(__file__).parents[2]
SMALL = [
    *("--turns=1", "--round-trips=20", "--frame-bytes=70000", "--frames=20", "--connections=5"),
    *("--topics=3", "--requests=5", "--pipelined=200", "--window=50"),
]


def test_every_kind_is_measured_and_every_setting_is_told(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.network", *SMALL, "--output", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    measured = {(it["work"], it["peer"]): it for it in found["measurements"]}
    assert set(measured) == {*ROUND_TRIPS, *READS, *SERVING}
    assert {measured[kind]["count"] for kind in ROUND_TRIPS} == {20}
    assert len({measured[kind]["bytes"] for kind in READS}) == 1
    assert found["settings"]["frame_bytes"] == 70000
    assert "frame_bytes=70000" in done.stdout.replace("\n", "")


@pytest.mark.parametrize("compiled", [True, False])
def test_the_echo_server_answers_with_the_bytes_made_and_the_id_of_the_request(tmp_path: Path, compiled: bool) -> None:
    command, name = echo_command(tmp_path)
    if compiled and not name.startswith("compiled"):
        pytest.skip("no C compiler")
    if not compiled:
        command = [sys.executable, "-m", "bench.network.echo_server"]
    request, buffer = framed(api_versions_request(), API_VERSIONS_VERSION), memoryview(bytearray(1 << 16))
    with echo_server(command, tmp_path, Settings(frame_bytes=100), brief=True) as address:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as sock:
            for number in (7, 8):
                sock.sendall(request[:8] + number.to_bytes(4, "big") + request[12:])
                size = receive(sock, buffer)
                answer = bytes(buffer[4:size])
                assert answer == number.to_bytes(4, "big") + api_versions_answer(brief=True)[4:]


def test_ratios_are_taken_within_a_turn() -> None:
    runs = [("bare", 1.0), ("async", 3.0), ("bare", 10.0), ("async", 20.0), ("bare", 2.0), ("async", 8.0)]
    medians = Medians([Measurement(work, "echo", 1, seconds, 0.0) for work, seconds in runs])
    assert medians.times_bare("async", "echo") == 3.0
