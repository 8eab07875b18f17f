"""Building the compiled modules, or not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def build(folder: Path, **environment: str) -> list[str]:
    """Build into a folder; gives the names of the libraries that came of it."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(folder / "lib")]
    done = subprocess.run(
        [*command, "--build-temp", str(folder / "temp")],
        cwd=folder / "project",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return sorted(path.name.split(".")[0] for path in (folder / "lib").rglob("_*.*"))


@pytest.fixture
def folder(tmp_path: Path, implementation: str) -> Path:
    """A folder with the sources."""
    if implementation != "python":
        pytest.skip("once is enough")
    pytest.importorskip("Cython", reason="building needs Cython")
    project = tmp_path / "project"
    for package in ("records", "schemas"):
        shutil.copytree(PROJECT / "src" / "kafkaraw" / package, project / "src" / "kafkaraw" / package)
    for library in project.rglob("*.so"):
        library.unlink()
    for name in (
        "__init__.py",
        "_version.py",
    ):  # the first makes it a package, which Cython looks at to find `.pxd` files
        shutil.copy(PROJECT / "src" / "kafkaraw" / name, project / "src" / "kafkaraw")
    if (PROJECT / "build" / "cython").exists():  # spares the translation to C
        shutil.copytree(PROJECT / "build" / "cython", project / "build" / "cython")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, project)
    return tmp_path


def test_without_a_working_compiler_the_build_succeeds_and_compiles_nothing(folder: Path) -> None:
    assert build(folder, CC="false") == []


@pytest.mark.parametrize(("setting", "optional"), [("required", False), ("", True)])
def test_a_release_build_lets_no_module_be_missing(setting: str, optional: bool) -> None:
    """Setuptools fails if an extension that is not optional cannot be built; `cythonize` would take seconds here."""
    program = (
        "import Cython.Build, setuptools; Cython.Build.cythonize = lambda found, **_: found; "
        "setuptools.setup = lambda ext_modules, **_: print({each.optional for each in ext_modules}, len(ext_modules)); "
        "exec(open('setup.py').read())"
    )
    variables = {**os.environ, "KAFKARAW_COMPILED": setting}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, env=variables, capture_output=True, text=True, check=True
    )
    named = re.findall(r'"kafkaraw\.[\w.]+\.(_\w+)"', (PROJECT / "setup.py").read_text())
    assert done.stdout == f"{{{optional}}} {len(named)}\n"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_with_a_compiler_all_modules_are_compiled(folder: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    named = re.findall(r'"kafkaraw\.[\w.]+\.(_\w+)"', (PROJECT / "setup.py").read_text())
    assert build(folder) == sorted(named)
