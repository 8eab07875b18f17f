"""Which implementation of the hot path runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.records._implementation import choose, reuses_values

MODULES = (
    "_builder",
    "_ticket",
    "_batch_table",
    "_reader",
    "_filling",
    "_rows",
    "_dumping",
    "_compaction",
    "_cython_shared",
)


def compiled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / (name + EXTENSION_SUFFIXES[0])).touch()
    return folder


def test_the_compiled_files_decide(tmp_path: Path) -> None:
    assert choose("", tmp_path) == "python"
    assert choose("", compiled(tmp_path, "_builder")) == "python"
    assert choose("", compiled(tmp_path, *MODULES)) == "native"


def test_sources_without_compiled_files_do_not_count(tmp_path: Path) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").touch()
    assert choose("", tmp_path) == "python"


def test_the_setting_overrules_the_files(tmp_path: Path) -> None:
    assert choose("python", compiled(tmp_path, *MODULES)) == "python"


def test_native_without_compiled_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"modules {', '.join(MODULES)} are not there"):
        choose("native", tmp_path)
    with pytest.raises(ConfigError, match=f"modules {', '.join(MODULES[1:])} are not there"):
        choose("native", compiled(tmp_path, "_builder"))


def test_an_unknown_setting_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KAFKARAW_IMPL=rust is unknown"):
        choose("rust", tmp_path)


def test_the_environment_is_asked_at_import() -> None:
    command = "from kafkaraw.records import IMPLEMENTATION; print(IMPLEMENTATION)"
    environment = {**os.environ, "KAFKARAW_IMPL": "python"}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "python\n"


def test_importing_the_layer_imports_no_pyarrow() -> None:
    command = "import sys, kafkaraw.records; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_values_are_written_to_again_on_the_versions_of_cpython_on_which_that_was_tested(version) -> None:
    assert reuses_values("", "cpython", version, "")
    assert reuses_values("1", "cpython", version, "")
    assert not reuses_values("0", "cpython", version, "")


def test_values_are_new_objects_on_other_interpreters() -> None:
    for python, version, flags in (("cpython", (3, 15), ""), ("pypy", (3, 11), ""), ("cpython", (3, 13), "t")):
        assert not reuses_values("1", python, version, flags)


def test_an_unknown_setting_of_the_reuse_of_values_is_an_error() -> None:
    with pytest.raises(ConfigError, match="KAFKARAW_REUSE_VALUES=yes is unknown; it can be 0 or 1"):
        reuses_values("yes", "cpython", (3, 11), "")


READ_VALUES = """
from kafkaraw.records import Batch, encode_batch
records = [(0, None, bytes([number]) * 1000, []) for number in range(50)]
values = []
for number, record in enumerate(Batch("t", 0, memoryview(encode_batch(records)), start_offset=0)):
    value = record.value
    assert value == bytes([number]) * 1000
    if number % 7 == 0:
        values.append(value)
assert values == [bytes([number]) * 1000 for number in range(0, 50, 7)]
"""


@pytest.mark.parametrize("setting", ["0", "1"])
def test_values_are_the_same_whether_they_are_written_to_again_or_not(setting: str) -> None:
    environment = {**os.environ, "KAFKARAW_REUSE_VALUES": setting}
    subprocess.run([sys.executable, "-c", READ_VALUES], env=environment, check=True, timeout=60)
