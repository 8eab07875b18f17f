"""`kafkaraw broker nodes`: nodes of a cluster in a process of its own are stopped, killed and started from outside."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw import Admin
from kafkaraw.cli import main

TIMEOUT = 30.0


@contextmanager
def running_cluster(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, its addresses and its control socket."""
    command = [sys.executable, "-u", "-m", "kafkaraw", "broker", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = dict(process.stdout.readline().strip().split("=", 1) for _ in range(2))
            yield process, said["bootstrap.servers"], said["control.socket"]
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control sockets are, for the commands and for what they start."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "kafkaraw"


def nodes(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["broker", "nodes", *arguments])


def states() -> dict[str, str]:
    result = nodes("list")
    assert result.exit_code == 0, result.output
    return {line.split("\t")[0]: line.split("\t")[1] for line in result.output.splitlines()}


def test_nodes_are_stopped_killed_and_started_from_outside(runtime_folder: Path):
    with running_cluster("--node-ids", "1,2,3") as (process, addresses, path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700
        listed = nodes("list").output.splitlines()
        assert [line.split("\t")[2] for line in listed] == addresses.split(",")
        assert [line.split("\t")[3:] for line in listed].count(["controller"]) == 1
        assert states() == {"1": "running", "2": "running", "3": "running"}
        assert nodes("stop", "2").exit_code == nodes("kill", "3").exit_code == 0
        assert states() == {"1": "running", "2": "stopped", "3": "killed"}
        host, _, port = addresses.split(",")[1].partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), TIMEOUT)
        with Admin(bootstrap_servers=addresses.split(",")[0]) as admin:
            assert sorted(node.node_id for node in admin.describe_cluster(timeout=TIMEOUT).brokers) == [1]
            assert nodes("start", "3").exit_code == 0
            assert sorted(node.node_id for node in admin.describe_cluster(timeout=TIMEOUT).brokers) == [1, 3]
        for arguments, why in [
            (("stop", "2"), "node 2 was stopped already; start it first"),
            (("kill", "2"), "node 2 was stopped already; start it first"),
            (("start", "1"), "node 1 is already running"),
            (("stop", "9"), "there is no node 9; there are [1, 2, 3]"),
        ]:
            result = nodes(*arguments)
            assert (result.exit_code, result.output) == (1, f"Error: {why}\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
        assert list(runtime_folder.iterdir()) == []


def test_without_a_cluster_the_error_says_how_to_start_one(runtime_folder: Path):
    result = nodes("list")
    assert result.exit_code == 1
    assert f"no running cluster of this user was found in {runtime_folder}: start one with" in result.output
    result = nodes("--control-socket", str(runtime_folder / "x.sock"), "list")
    assert result.exit_code == 1
    assert "no broker listens there" in result.output


def test_a_killed_cluster_is_not_found(runtime_folder: Path):
    with running_cluster("--nodes", "2") as (process, _, path):
        process.kill()
        process.wait(TIMEOUT)
        assert Path(path).exists()
        assert "no running cluster of this user" in nodes("list").output
        assert not Path(path).exists()


def test_the_control_socket_selects_one_of_several_clusters(tmp_path: Path):
    named = tmp_path / "private" / "one.sock"
    with running_cluster("--nodes", "2"), running_cluster("--nodes", "2") as (_, _, second):
        result = nodes("list")
        assert result.exit_code == 1
        assert "several clusters are running: give the --control-socket of one of them" in result.output
        assert second in result.output
        assert nodes("--control-socket", second, "stop", "0").exit_code == 0
    with running_cluster("--nodes", "2", "--control-socket", str(named)) as (_, _, path):
        assert path == str(named)
        assert "no running cluster" in nodes("list").output
        assert nodes("--control-socket", path, "list").exit_code == 0


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    arguments = ["broker", "--nodes", "2", "--port", "0", "--control-socket", str(folder / "x.sock")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert f"other users may enter {folder}; `chmod 700` it" in result.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--node-ids", "1,x"], "'1,x' is not a list of numbers such as 1,2,3"),
        (["--ports", "1,2", "--port-step", "5"], "--port-step exclude each other"),
        (["--nodes", "2", "--port", "65535", "--port-step", "5"], "the last of 2 nodes would have port 65540"),
        (["--node-ids", "1,1"], "node_ids: each is a number of its own"),
        (["--nodes", "3", "nodes", "list"], "--nodes: not allowed before `nodes`"),
        (["-X", "a=b", "--user", "a:b", "nodes", "list"], "-X, --user: not allowed before `nodes`"),
    ],
)
def test_contradicting_options_are_refused(arguments: list[str], why: str):
    result = CliRunner().invoke(main, ["broker", *arguments])
    assert result.exit_code != 0
    assert why in result.output
