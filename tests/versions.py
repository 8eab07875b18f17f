"""Run the tests that need neither Spark nor Java on every Python here, and with the oldest and the newest dependencies.

    make test-versions                                   # everything that is here
    make test-versions ARGS="--only 3.13 -- tests/core"  # one environment, arguments for pytest
    python -m tests.versions --list

An environment is a Python and a choice of dependency versions. Every Python from 3.11 to 3.14 that is on the path or
under pyenv gets the pinned versions of `constraints.txt`; the Python that runs this gets two more environments: the
oldest versions that `pyproject.toml` allows, and the newest. Virtual environments stay in a cache folder and are made
again when `pyproject.toml` or `constraints.txt` has changed. The package is installed from this tree as `make setup`
does it; each Python compiles modules of its own, and compiles them again when their source has changed.

This must not run inside pytest. Start at `environments`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.distributions import MINORS, pythons

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kafkaraw" / "versions"
EXTRAS: Final = ("arrow", "metrics", "oauth", "pkcs12")
"""What users install that the tests outside of Spark's folders use."""
CHECKERS: Final = ("import-linter", "mypy", "ruff")
"""No test needs them, and they need newer packages than the oldest that users may have."""
SLOW_FOLDERS: Final = ("tests/spark", "tests/interop", "tests/demo")
"""Their tests start a JVM."""
OUTCOME: Final = re.compile(r"^=* ?(?P<counts>(?:\d+ \w+,? ?)+) in (?P<seconds>[\d.]+)s", re.MULTILINE)


@dataclass(frozen=True)
class Environment:
    """A Python and a choice of dependency versions.

    Attributes:
        name: unique, also the name of its folder.
        python: the interpreter that makes the virtual environment.
        constraints: a line for pip for each package whose version is fixed.
        is_newest: install the newest version that pip finds, of everything.
    """

    name: str
    python: str
    constraints: tuple[str, ...]
    is_newest: bool = False

    @property
    def folder(self) -> Path:
        """Where its virtual environment is."""
        return CACHE / self.name

    @property
    def interpreter(self) -> str:
        """The Python inside the virtual environment."""
        return str(self.folder / "bin" / "python")


@dataclass(frozen=True)
class Outcome:
    """How the tests ended in one environment."""

    name: str
    what: str
    seconds: float
    passed: bool


def environments() -> list[Environment]:
    """List the environments that this machine can have."""
    pinned = constraints()
    found = [Environment(minor, python, pinned) for minor, python in pythons().items()]
    oldest = oldest_allowed(pinned)
    return [
        *found,
        Environment("oldest", sys.executable, oldest),
        Environment("newest", sys.executable, (), is_newest=True),
    ]


def constraints() -> tuple[str, ...]:
    """Read the versions that this project is tested with."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def oldest_allowed(pinned: Sequence[str]) -> tuple[str, ...]:
    """Fix each dependency of the package at its lower bound, and what only tests need at the pinned version.

    A package that both the package and the tests name has the package's bound.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runtime = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    oldest = dict(filter(None, map(_lower_bound, runtime)))
    kept = [line for line in pinned if _name(line) not in oldest]
    return (*kept, *(f"{name}=={version}" for name, version in oldest.items()))


def _lower_bound(requirement: str) -> tuple[str, str] | None:
    bound = re.search(r">=\s*([\w.]+)", requirement)
    return (_name(requirement), bound[1]) if bound else None


def _name(requirement: str) -> str:
    return re.split(r"[\s=<>~!;\[]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def prepare(environment: Environment) -> str | None:
    """Make the virtual environment unless it is up to date; return what went wrong, if anything did."""
    stamp = environment.folder / "stamp"
    wanted = fingerprint(environment)
    if stamp.exists() and stamp.read_text() == wanted:
        return _run([environment.interpreter, "setup.py", "-q", "build_ext", "--inplace"])
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    problem = _run([environment.python, "-m", "venv", str(environment.folder)])
    if problem is None:
        problem = _run([environment.interpreter, "-m", "pip", "install", "--quiet", *_pip_arguments(environment)])
    if problem is None:
        stamp.write_text(wanted)
    return problem


def _pip_arguments(environment: Environment) -> list[str]:
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    target = ["--editable", f".[{','.join(EXTRAS)}]", *(line for line in dev if _name(line) not in CHECKERS)]
    if environment.is_newest:
        return ["--upgrade", "--upgrade-strategy", "eager", *target]
    limits = environment.folder / "constraints.txt"
    limits.write_text("\n".join(environment.constraints) + "\n")
    return ["--constraint", str(limits), *target]


def _run(command: Sequence[str]) -> str | None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=_variables())
    return None if done.returncode == 0 else f"{' '.join(command[:4])}: {done.stderr.strip()[-2000:]}"


def _variables() -> dict[str, str]:
    """The variables of this process without those that would lead to another environment's packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def fingerprint(environment: Environment) -> str:
    """What the virtual environment is made from, as a hash."""
    made_from = hashlib.sha256(repr((ROOT, environment)).encode())
    for name in ("pyproject.toml", "constraints.txt"):
        made_from.update((ROOT / name).read_bytes())
    return made_from.hexdigest()


def run_tests(environment: Environment, arguments: Sequence[str]) -> Outcome:
    """Run the tests in one environment, and print what they print."""
    began = time.monotonic()
    problem = prepare(environment)
    if problem is not None:
        print(problem, flush=True)
        return Outcome(environment.name, "not installed", time.monotonic() - began, passed=False)
    ignored = [argument for folder in SLOW_FOLDERS for argument in ("--ignore", folder)]
    chosen = [environment.interpreter, "-m", "pytest", "-q", "-m", "not soak", "-p", "no:cacheprovider", *ignored]
    path = str(Path(environment.interpreter).parent) + os.pathsep + os.environ.get("PATH", "")
    process = subprocess.Popen(
        [*chosen, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**_variables(), "PATH": path}
    )
    with process:
        shown = _show(process.stdout or ())
    found = OUTCOME.search(shown)
    what = found["counts"].strip() if found else f"exit code {process.returncode}"
    return Outcome(environment.name, what, time.monotonic() - began, passed=process.returncode == 0)


def _show(lines: Iterable[str]) -> str:
    """Print the lines of a run as they come; return the last of them."""
    kept: list[str] = []
    for line in lines:
        print(line, end="", flush=True)
        kept = [*kept[-20:], line]
    return "".join(kept)


def table(outcomes: Sequence[Outcome]) -> str:
    """Lay the outcomes out in columns."""
    width = max(len(outcome.name) for outcome in outcomes)
    lines = [
        f"{outcome.name:<{width}}  {'passed' if outcome.passed else 'FAILED'}  {outcome.seconds:6.0f} s  {outcome.what}"
        for outcome in outcomes
    ]
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    """Run the tests in the chosen environments; return the exit code."""
    parser = argparse.ArgumentParser(description="Run the tests on every Python here, and with other dependencies.")
    parser.add_argument("--only", action="append", metavar="NAME", help="one environment; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the environments that this machine can have")
    parser.add_argument("arguments", nargs="*", help="arguments for pytest, behind --")
    options = parser.parse_args(given)
    known = {environment.name: environment for environment in environments()}
    if options.list:
        print(*(f"{name:<8} {environment.python}" for name, environment in known.items()), sep="\n")
        return 0
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        parser.error(f"unknown environment {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[name] for name in options.only or known]
    outcomes = [run_tests(environment, options.arguments) for environment in chosen]
    print(f"\n{table(outcomes)}")
    missing = [minor for minor in MINORS if minor not in known]
    if missing and not options.only:
        print(f"not on this machine: Python {', '.join(missing)}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
