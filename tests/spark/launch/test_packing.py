"""The archive for executors: written, described, checked; and refused if executors could not use it."""

from __future__ import annotations

import dataclasses
import io
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException

from kafkaraw.cli import main
from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.environment import PYTHON, PackedFile, executor_environment
from kafkaraw.spark.launch.executor_python import check_archive, linked, note_executor_python
from kafkaraw.spark.launch.packing import PackingError, described, pack
from tests.spark.standalone import UNUSED_PACKAGES

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def small(tmp_path: Path, worker_python: str):
    """An environment with one file: packing all of them takes a minute."""
    module = tmp_path / "module.py"
    module.write_text("X = 1")
    whole = executor_environment([], worker_python)
    return dataclasses.replace(whole, files=(PackedFile(module, f"lib/python{VERSION}/site-packages/module.py"),))


def archive_of(path: Path, python: str = VERSION, name: str = "kafkaraw-environment.json") -> Path:
    """An archive that has only a description."""
    content = f'{{"python": "{python}", "machine": "Linux x86_64", "packages": {{}}}}'.encode()
    with tarfile.open(path, "w:gz") as tar:
        about = tarfile.TarInfo(name)
        about.size = len(content)
        tar.addfile(about, io.BytesIO(content))
    return path


def test_archive_that_cannot_import_what_executors_need_is_not_left_behind(tmp_path):
    environment = small(tmp_path, sys.executable)
    target = tmp_path / "out" / "environment.tar.gz"
    target.parent.mkdir()
    target.write_bytes(b"an older archive")
    bare = tmp_path / "bare/python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -S "$@"\n')
    bare.chmod(0o755)
    environment = small(tmp_path, str(bare))
    with pytest.raises(PackingError, match="No module named 'pyarrow'"):
        pack(environment, target)
    assert [path.name for path in target.parent.iterdir()] == ["environment.tar.gz"]
    assert target.read_bytes() == b"an older archive"


def test_archive_that_takes_modules_from_elsewhere_is_refused(tmp_path):
    """The Python of this environment finds its own packages."""
    with pytest.raises(PackingError, match=r"imports modules from outside of the archive: .*kafkaraw/__init__\.py"):
        pack(small(tmp_path, sys.executable), tmp_path / "environment.tgz")


def test_ending_that_spark_does_not_unpack_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"environment\.tar\.xz.* must end in \.tar\.gz, \.tgz"):
        pack(small(tmp_path, sys.executable), tmp_path / "environment.tar.xz")


def test_archive_at_a_file_uri_is_checked(tmp_path):
    check_archive(archive_of(tmp_path / "a b.tar.gz").as_uri(), driver_here=True)
    with pytest.raises(ConfigError, match=r"the archive /none\.tar\.gz cannot be read .*kafkaraw spark pack"):
        check_archive("file:///none.tar.gz", driver_here=True)


def test_description_of_an_archive_is_read(tmp_path):
    assert described(archive_of(tmp_path / "a.tar.gz")).python == VERSION


def test_archive_of_another_python_is_refused_by_the_driver(tmp_path):
    other = archive_of(tmp_path / "a.tar.gz", "3.99")
    with pytest.raises(ConfigError, match=rf"{other} has Python 3\.99, the driver here is Python {VERSION}"):
        check_archive(str(other), driver_here=True)
    check_archive(str(other), driver_here=False)


@pytest.mark.parametrize("kind", ["missing", "not a tar", "another tar"])
def test_missing_or_foreign_archive_is_refused_with_the_file_and_the_command(tmp_path, kind):
    path = tmp_path / "environment.tar.gz"
    if kind == "not a tar":
        path.write_bytes(b"not a tar")
    elif kind == "another tar":
        archive_of(path, name="readme.txt")
    with pytest.raises(ConfigError, match=r"environment\.tar\.gz .*kafkaraw spark pack"):
        check_archive(str(path), driver_here=True)


def test_link_leads_to_the_python_of_the_driver_and_is_removed(tmp_path, monkeypatch):
    archive_of(tmp_path / "a.tar.gz")
    monkeypatch.chdir(tmp_path)
    with linked("a.tar.gz") as shared:
        name = shared.archives.partition("#")[2]
        assert shared.archives == f"{tmp_path}/a.tar.gz#{name}"
        assert shared.python == f"./{name}/{PYTHON}"
        assert Path(shared.python).is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_command_packs_this_environment_and_checks_it(tmp_path):
    archive = tmp_path / "environment.tar.gz"
    without = [word for name in UNUSED_PACKAGES for word in ("--without", name)]
    result = CliRunner().invoke(main, ["spark", "pack", "-o", str(archive), "--with", "PyYAML", *without])
    assert result.exit_code == 0, result.output
    assert "MB, checked" in result.output
    about = described(archive)
    assert (about.python, about.packages["pyyaml"] != "") == (VERSION, True)
    assert not about.packages.keys() & set(UNUSED_PACKAGES)
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
    assert f"lib/python{VERSION}/site-packages/yaml/__init__.py" in names
    assert f"bin/python{VERSION}" in names


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("(h executor 1): ModuleNotFoundError: No module named 'pyarrow'", "lacks packages (executor 1 on h)"),
        ("ModuleNotFoundError: No module named 'kafkaraw.spark'", "lacks packages."),
        ('java.io.IOException: Cannot run program "./environment/bin/python": error=2', "has no such Python"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "another Python than the driver"),
        ("reading the port number from pyspark.daemon's stdout and terminated with code: 1", "kafkaraw: the archive"),
        ("ModuleNotFoundError: No module named 'numpy'", None),
    ],
)
def test_error_of_executors_that_cannot_run_python_gets_one_note_with_the_settings(text, cause):
    error = RuntimeError(text)
    note_executor_python(error)
    note_executor_python(error)
    notes = getattr(error, "__notes__", [])
    assert [cause in note and "spark.archives is " in note for note in notes] == [True] * (cause is not None)


def test_any_query_of_a_session_raises_errors_with_the_note(spark):
    frame = spark.range(1).selectExpr("raise_error(\"(h executor 7): No module named 'kafkaraw'\")")
    with pytest.raises(PySparkException, match="No module named") as caught:
        frame.write.format("noop").mode("overwrite").save()
    [note] = caught.value.__notes__
    assert "lacks packages (executor 7 on h). PYSPARK_PYTHON is " in note
    assert "spark.archives is not set" in note
