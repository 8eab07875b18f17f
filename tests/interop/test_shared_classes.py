"""Programs that use Kafka's classes map them from the file that `shared_classes` names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.apache_kafka import shared_classes
from tests.interop.java_tools import RUN_SECONDS_MAX, java_command, why_no_java_client

SOURCE = Path(__file__).with_name("KeyPartitions.java")


@pytest.mark.parametrize(
    ("program", "arguments"), [(SOURCE, ()), ("org.apache.kafka.tools.TopicCommand", ("--version",))], ids=str
)
def test_classes_come_from_the_file(program: Path | str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    if not shared_classes():
        pytest.skip("this Java writes no archive of classes")
    java, *others = java_command(program, *arguments)
    at = others.index("-cp")
    loaded = tmp_path / "loaded.txt"
    command = [java, *others[:at], f"-Xlog:class+load:file={loaded}", *others[at:]]
    subprocess.run(command, input=b"61\t3\n", check=True, timeout=RUN_SECONDS_MAX, stdout=subprocess.DEVNULL)
    lines = [line for line in loaded.read_text().splitlines() if " org.apache.kafka." in line]
    assert any("shared objects file (top)" in line for line in lines), lines[:5]
