"""What an archive for executors contains, and what its start script says on a machine that it does not fit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import kafkaraw
from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.environment import DESCRIPTION, PYTHON, ExecutorEnvironment, executor_environment

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHER = "3.99"


@pytest.fixture(scope="module")
def environment() -> ExecutorEnvironment:
    """Without the interpreter, whose files take a second to find."""
    return executor_environment(["click"], "/opt/python/bin/python3", "env.tar.gz")


def targets(environment: ExecutorEnvironment) -> set[str]:
    return {file.target for file in environment.files}


def text_of(environment: ExecutorEnvironment, target: str) -> str:
    return next(text.text for text in environment.texts if text.target == target)


def test_packages_are_those_that_executors_import(environment):
    modules = f"lib/python{VERSION}/site-packages"
    assert {"kafkaraw", "pyarrow", "pyspark", "py4j", "crc32c", "fastavro", "click"} <= environment.packages.keys()
    assert not {"pytest", "mypy", "pip", "setuptools"} & environment.packages.keys()
    finders = {f"{modules}/{path.name}" for path in Path(kafkaraw.__file__).parents[1].glob("pyspark_kafkaraw*.py")}
    assert len(finders) == 6
    assert finders | {f"{modules}/pyspark/worker.py"} <= targets(environment)
    assert not [target for target in targets(environment) if "/jars/" in target or target.endswith((".pth", ".pyx"))]
    assert json.loads(text_of(environment, DESCRIPTION))["python"] == VERSION


def test_modules_of_an_editable_install_are_those_that_are_imported_here(environment):
    sources = {file.target: file.source for file in environment.files}
    own = Path(kafkaraw.__file__).parent
    assert sources[f"lib/python{VERSION}/site-packages/kafkaraw/__init__.py"] == own / "__init__.py"
    compiled = {path.name for path in own.rglob("*.so")}
    packed = {Path(target).name for target in sources if "/kafkaraw/" in target and target.endswith(".so")}
    assert packed == compiled


def test_package_that_is_not_installed_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"the package clickk is not installed here.*did you mean click\?"):
        executor_environment(["clickk"], "/opt/python3")


def test_package_that_the_job_does_not_need_is_left_out_with_what_only_it_requires(environment):
    smaller = executor_environment([], "/opt/python3", left_out=["Fastavro", "httpx"])
    gone = environment.packages.keys() - smaller.packages.keys()
    assert {"fastavro", "httpx", "httpcore"} <= gone
    assert gone <= {"fastavro", "httpx", "httpcore", "h11", "anyio", "idna"}, "others may need the last three"
    assert not [target for target in targets(smaller) if "/fastavro/" in target]


def test_package_that_every_executor_needs_cannot_be_left_out():
    with pytest.raises(ConfigError, match="--without pyarrow: executors need it in every job"):
        executor_environment(left_out=["pyarrow"])


def test_worker_python_must_be_absolute():
    with pytest.raises(ConfigError, match="--worker-python python3: give the absolute path"):
        executor_environment([], "python3")


def started(folder: Path, script: str, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a start script as it lies in an unpacked archive; programs of the folder `path` come first."""
    program = folder / PYTHON
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(script)
    program.chmod(0o755)
    variables = {"PATH": f"{path}:/usr/bin:/bin"}
    return subprocess.run([program, *arguments], env=variables, capture_output=True, text=True, timeout=30, check=False)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_start_script_runs_the_python_of_the_worker_with_the_packed_modules(tmp_path):
    script = text_of(executor_environment([], sys.executable), PYTHON)
    modules = tmp_path / f"unpacked/lib/python{VERSION}/site-packages"
    modules.mkdir(parents=True)
    (modules / "packed_module.py").write_text("NAME = 'packed'")
    done = started(tmp_path / "unpacked", script, tmp_path, "-c", "import packed_module; print(packed_module.NAME)")
    assert (done.stdout, done.stderr) == ("packed\n", "")


def test_start_script_names_host_archive_and_setting_for_another_architecture(tmp_path, environment):
    program(
        tmp_path / "bin/uname",
        '[ "$1" = -n ] && echo worker-7; [ "$1" = -s ] && echo Linux; [ "$1" = -m ] && echo riscv64',
    )
    done = started(tmp_path / "unpacked", text_of(environment, PYTHON), tmp_path / "bin")
    assert done.returncode == 1
    machine = f"{platform.system()} {platform.machine()}"
    for text in (
        "env.tar.gz",
        str(tmp_path / "unpacked"),
        "executor host worker-7",
        machine,
        "riscv64",
        "spark.archives",
    ):
        assert text in done.stderr


def test_start_script_says_that_the_worker_has_no_python_or_another_version(tmp_path):
    missing = text_of(executor_environment([], str(tmp_path / "none/python3")), PYTHON)
    done = started(tmp_path / "unpacked", missing, tmp_path)
    assert done.returncode == 1
    assert f"there is no {tmp_path}/none/python3" in done.stderr
    other = program(tmp_path / "other/python3", f"echo {OTHER}")
    done = started(tmp_path / "unpacked", text_of(executor_environment([], str(other)), PYTHON), tmp_path)
    assert done.returncode == 1
    assert f"is Python {OTHER}, the archive is for Python {VERSION}" in done.stderr


@pytest.mark.skipif(platform.system() != "Linux", reason="the interpreter is packed on Linux only")
def test_interpreter_is_packed_with_its_standard_library_and_without_tests():
    environment = executor_environment()
    found = targets(environment)
    library = f"lib/python{VERSION}"
    assert {f"bin/python{VERSION}", f"{library}/os.py", f"{library}/json/__init__.py"} <= found
    assert not [target for target in found if target.startswith((f"{library}/test/", f"{library}/tkinter/"))]
    assert not [name for name in environment.system_libraries if name.startswith(("libc.", "libpython"))]
    script = text_of(environment, PYTHON)
    assert f'python="$here/bin/python{VERSION}"' in script
    assert os.path.basename(sys.executable) in ("python", "python3", f"python{VERSION}")
