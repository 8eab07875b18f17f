"""`kafkaraw console` and `kafkaraw broker --console`: as processes that a signal ends, and what options refuse."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from click.testing import CliRunner

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.cli import main

TIMEOUT_S = 30


def started(*arguments: str, line: str = "url=", **variables: str) -> tuple[subprocess.Popen[str], str]:
    """Start a command, and return it with the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkaraw", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.startswith(line):
            return process, printed.removeprefix(line).strip()
    raise AssertionError(process.stderr and process.stderr.read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_console_answers_until_a_signal_ends_it(servers: str, number: signal.Signals) -> None:
    process, url = started("console", "-b", servers, "--port", "0", KAFKARAW_CONSOLE_USERS="ada:pw")
    try:
        assert httpx.get(url, trust_env=False).status_code == 401
        answer = httpx.get(f"{url}c/cluster/", auth=("ada", "pw"), trust_env=False)
        assert answer.status_code == 200 and "pw" not in answer.text.replace("pwd", "")
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None and process.stderr.read() == "% Stopped.\n"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="reads the memory of a process in Linux's /proc")
def test_a_search_keeps_the_console_below_150_megabytes(servers: str) -> None:
    rows = 1_000_000
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("many", 2)])
    with Producer(bootstrap_servers=servers, compression_type="lz4", linger_ms=20) as producer:
        for start in range(0, rows, 50_000):
            numbers = range(start, start + 50_000)
            columns = {
                "value": pa.array([b'{"user": {"id": %d}, "text": "%060d"}' % (each, each) for each in numbers]),
                "partition": pa.array([each % 2 for each in numbers], pa.int32()),
            }
            producer.send_arrow("many", pa.record_batch(columns))
        producer.flush()
    process, url = started("console", "-b", servers, "--port", "0")
    try:
        asked = {"q": f"$.user.id = {rows - 1}", "from": "offset", "sure": "1"}
        address = f"{url}c/cluster/topics/many/search"
        found = httpx.get(address, params=asked, trust_env=False, timeout=60).text
        assert f'"read": {rows}' in found and '"matches": 1' in found
        status = Path(f"/proc/{process.pid}/status").read_text()
        most_kb = int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])
        assert most_kb < 150_000, most_kb
    finally:
        process.kill()
        process.communicate()


def test_a_broker_shows_itself() -> None:
    process, url = started("broker", "--port", "0", "--console", "0", "--user", "ada:pw", line="console=")
    try:
        assert "1 broker answers" in httpx.get(f"{url}c/broker/", trust_env=False, timeout=20).text
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_profiles_are_clusters_with_colors(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text("".join(f'[{name}]\nbootstrap.servers = "{servers}"\n' for name in ("staging", "production")))
    options = ("--cluster", "staging:green", "--cluster", "production:red")
    process, url = started("console", *options, "--port", "0", KAFKARAW_PROFILES=str(file))
    try:
        page = httpx.get(url, trust_env=False).text
        assert "staging" in page and "dot-red" in page
        assert "stripe-red" in httpx.get(f"{url}c/production/", trust_env=False).text
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["console"], "no cluster given"),
        (["console", "-b", "localhost:1", "--host", "0.0.0.0"], "give a --user"),
        (["console", "-b", "localhost:1", "--user", "ada"], "NAME:PASSWORD"),
        (["console", "-b", "localhost:1", "--proxy", "x"], "--proxy"),
        (["console", "-b", "localhost:1", "--user-header", "x"], "name the addresses"),
        (["broker", "--console", "0.0.0.0:1"], "only addresses of this machine"),
        (["broker", "--allow-writes"], "give --console"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKARAW_BOOTSTRAP_SERVER", raising=False)
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 2 and said in result.output
