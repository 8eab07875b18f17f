"""Spark's Python processes, forked from one that has imported what they need."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafkaraw.spark.launch import fork_client, fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server runs on Linux only")

SHOWS = """
import json, os, resource, sys
umask = os.umask(0)
os.umask(umask)
variables = {name: text for name, text in os.environ.items() if name not in ("_", "SHLVL")}
print(json.dumps({
    "arguments": sys.argv, "name": __name__, "variables": variables, "folder": os.getcwd(), "umask": umask,
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "input": sys.stdin.read(), "path": sys.path,
    "hash": hash("kafkaraw"), "threads": len(os.listdir("/proc/self/task")), "executable": sys.executable,
}))
print("IMPORTED" if "kafkaraw.spark.source" in sys.modules else "STARTED", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Path]:
    place = fork_server.start_fork_server()
    assert place is not None
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "loaded.py").write_text("import sys; sys.exit('kafkaraw.spark.source' not in sys.modules)")
    deadline_s = time.monotonic() + 60
    while run(command(place, "loaded"), env=environment(folder)).returncode:
        assert time.monotonic() < deadline_s
    yield place


@pytest.fixture
def modules(tmp_path) -> Path:
    """A folder of modules to run."""
    (tmp_path / "shows.py").write_text(SHOWS)
    (tmp_path / "ends.py").write_text("import sys; sys.exit(int(sys.argv[1]))")
    (tmp_path / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    (tmp_path / "waits.py").write_text("import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    return tmp_path


def environment(modules: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(modules), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "PYTHONPATH": path, **more}


def command(place: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", fork_client.__file__, str(place), sys.executable, "-m", *arguments]


def run(args: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload]


def test_a_forked_child_equals_a_started_process(server, modules):
    options = {"env": environment(modules, MINE="a\nb"), "cwd": modules, "input": "in", "umask": 0o027}
    forked = run(command(server, "shows", "a b", ""), **options)
    started = run([sys.executable, "-m", "shows", "a b", ""], **options)
    assert (forked.stderr, started.stderr) == ("IMPORTED\n", "STARTED\n")
    assert json.loads(forked.stdout) == json.loads(started.stdout)
    assert json.loads(forked.stdout)["arguments"] == [str(modules / "shows.py"), "a b", ""]


def test_a_temporary_folder_may_have_a_long_path(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("t" * 100)))
    Path(tempfile.gettempdir()).mkdir()
    place = fork_server._new_socket_path()
    place.parent.rmdir()
    assert len(os.fsencode(place)) <= 107


def test_only_its_user_reaches_the_server(server):
    folder = server.parent.stat()
    assert (folder.st_uid, folder.st_mode & 0o777) == (os.getuid(), 0o700)


def test_limits_are_those_of_the_client(server, modules):
    limited = ["sh", "-c", 'ulimit -Sn 99; exec "$@"', "sh", *command(server, "shows")]
    assert json.loads(run(limited, env=environment(modules), cwd=modules, input="").stdout)["limits"][0] == 99


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_client_ends_with_the_exit_code_of_the_child(server, modules, code):
    assert run(command(server, "ends", str(code)), env=environment(modules)).returncode == code


def test_the_client_ends_by_the_signal_that_ended_the_child(server, modules):
    assert run(command(server, "killed"), env=environment(modules)).returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_child_ends_with_the_client(server, modules, number):
    with subprocess.Popen(
        command(server, "waits"), env=environment(modules), stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        child = int(client.stdout.readline())
        client.send_signal(number)
        client.wait(10)
        assert ends(child)


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "PYTHONOPTIMIZE", "KAFKARAW_IMPL", "LC_ALL"])
def test_other_settings_of_the_interpreter_start_one(server, modules, variable):
    value = {"KAFKARAW_IMPL": "python", "LC_ALL": "C.UTF-8"}.get(variable, "1")
    done = run(command(server, "shows"), env=environment(modules, **{variable: value}), input="")
    assert done.stderr == "STARTED\n"
    assert json.loads(done.stdout)["variables"][variable] == value


def test_another_pyspark_on_the_path_is_the_one_that_is_imported(server, modules):
    (modules / "pyspark").mkdir()
    (modules / "pyspark" / "__init__.py").write_text("")
    (modules / "pyspark" / "mine.py").write_text("print('mine')")
    assert run(command(server, "pyspark.mine"), env=environment(modules)).stdout == "mine\n"


def test_without_a_server_python_is_started(modules):
    assert run(command(modules / "none", "shows"), env=environment(modules), input="").stderr == "STARTED\n"


def test_the_server_of_a_process_is_started_once_and_has_one_thread(server, modules):
    assert fork_server.start_fork_server() == server
    assert json.loads(run(command(server, "shows"), env=environment(modules), input="").stdout)["threads"] == 1


def test_the_server_ends_with_the_process_that_started_it(modules):
    code = (
        "import os; from kafkaraw.spark.launch import fork_server as f; f.start_fork_server();"
        "print(f._started[-1]._process.pid, flush=True); os._exit(0)"
    )
    assert ends(int(run([sys.executable, "-c", code]).stdout))


def ends(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(1000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
