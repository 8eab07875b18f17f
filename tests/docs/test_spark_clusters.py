"""The commands of the page about Spark clusters, from packing to the standalone job, do what the page says.

The daemons run in an environment without packages. Every other command runs in one shell session each, in order.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkaraw import NewTopic
from kafkaraw.spark.launch.executables import spark_home
from tests.spark.conftest import broker, kafka, what_tasks_keep_is_closed  # noqa: F401  # fixtures
from tests.spark.standalone import EXECUTORS, free_port, submit_environment, worker_environment

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-on-a-spark-cluster.md"
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n+)?```(\w+)\n(.*?)```", re.DOTALL)


def steps() -> list[tuple[str, str]]:
    """The blocks of "Pack the environment" and "Standalone", as (language, text)."""
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## Pack the environment") : text.index("## Settings and secrets")]
    return [(found[2], found[3]) for found in BLOCK.finditer(section) if found[1] is None]


def test_page_packs_starts_master_and_worker_and_submits_a_job():
    words = [line.split()[1:3] for kind, text in steps() if kind == "console" for line in text.splitlines()]
    assert words[0] == ["kafkaraw", "spark"]
    assert words[-1] == ["kafkaraw", "spark"]
    assert sum("spark-class" in " ".join(each) for each in words) == 2
    [job] = [text for kind, text in steps() if kind == "python"]
    compile(job, "job.py", "exec")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_commands_of_the_standalone_part_copy_a_topic(tmp_path, kafka):  # noqa: F811
    kafka.admin.create_topics([NewTopic("flights", 1), NewTopic("flights-copy", 1)])
    kafka.produce("flights", range(50))
    port = free_port()
    conf = [word for name, value in EXECUTORS.items() for word in ("--conf", f"{name}={value}")]
    places = {
        "localhost:9092": kafka.servers,
        "localhost:7077": f"127.0.0.1:{port}",
        "--host localhost --port 7077": f"--host 127.0.0.1 --port {port} --webui-port {free_port()}",
        "/shared/checkpoint": str(tmp_path / "checkpoint"),
        "kafkaraw ": f"{shlex.quote(sys.executable)} -m kafkaraw ",
        "--archive": shlex.join([*conf, "--archive"]),
    }
    with ExitStack() as stack:
        for kind, text in steps():
            if kind == "python":
                (tmp_path / "job.py").write_text(text)
                continue
            for line in text.splitlines():
                command = line.removeprefix("$ ")
                for shown, used in places.items():
                    command = command.replace(shown, used)
                if "spark-class" in command:
                    stack.callback(started(tmp_path, command, len(list(tmp_path.iterdir()))))
                elif "kafkaraw" in command:
                    run(tmp_path, command)
    assert kafka.numbers("flights-copy") == list(range(50))


def run(folder: Path, command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=submit_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])


def started(folder: Path, command: str, number: int):
    """Start a daemon of the page; return what stops it."""
    place = folder / f"daemon-{number}"
    place.mkdir()
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=place,
            env=worker_environment(place, SPARK_HOME=str(spark_home())),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def stop() -> None:
        os.killpg(process.pid, 9)
        process.wait()

    return stop
