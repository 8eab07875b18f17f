"""The servers of the network benchmark: the compiled one, the same in Python where there is no compiler, our broker."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.network.cores import ALL, ANY, APART, FIRST, OTHERS, run_on
from bench.network.messages import API_VERSIONS, FETCH, api_versions_answer, fetch_answer
from bench.network.settings import Settings
from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker

SOURCE: Final = Path(__file__).with_name("echo_server.c")
COMPILE_SECONDS_MAX: Final = 60


def echo_command(folder: Path) -> tuple[list[str], str]:
    """How to start the server that answers everything at once, and what to call it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return [sys.executable, "-m", "bench.network.echo_server"], "in Python, as there is no C compiler"
    binary = folder / "echo_server"
    options = [compiler, "-O2", "-pthread", "-o", str(binary), str(SOURCE)]
    subprocess.run(options, check=True, timeout=COMPILE_SECONDS_MAX)
    return [str(binary)], "compiled, -O2"


@contextlib.contextmanager
def echo_server(command: Sequence[str], folder: Path, settings: Settings, *, brief: bool) -> Iterator[str]:
    """Run it; gives its address."""
    answers = {
        API_VERSIONS: api_versions_answer(brief=brief),
        FETCH: fetch_answer(settings.frame_bytes),
    }
    arguments = []
    for key, frame in answers.items():
        path = folder / f"answer-{key}-{'brief' if brief else 'full'}"
        path.write_bytes(frame)
        arguments.append(f"{key}={path}")
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextlib.contextmanager
def peers(settings: Settings) -> Iterator[tuple[dict[str, str], str]]:
    """Run all servers; gives their addresses by name, and what the echo server is."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command, name = echo_command(folder)
        if settings.cores != ANY:
            run_on(OTHERS if settings.cores == APART else FIRST)
        addresses = {
            "echo": stack.enter_context(echo_server(command, folder, settings, brief=True)),
            "echo-all": stack.enter_context(echo_server(command, folder, settings, brief=False)),
        }
        broker = stack.enter_context(EmbeddedBroker(process=True))
        addresses["broker"] = broker.bootstrap_servers
        run_on(ALL)  # the workers choose for themselves
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"topic-{number:04d}", 1) for number in range(settings.topics)])
        yield addresses, name
