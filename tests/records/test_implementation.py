"""Which implementation of the hot path runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.records._implementation import choose

MODULES = ("_builder", "_ticket", "_open_batches", "_reader", "_filling", "_rows")


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
