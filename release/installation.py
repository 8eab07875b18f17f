"""Install the wheels of dist/ into fresh environments, and use them as a new user would.

    make try-wheel                              # the oldest and the newest Python that has a wheel in dist/
    make try-wheel ARGS="--limit 20000"

For each Python: a virtual environment outside of the source tree, `pip install kafkaraw[demo]` from the wheel, the
first Python program of README.md, `kafkaraw doctor` against a broker that `kafkaraw broker` started, and
`kafkaraw demo flights`. Nothing of the source tree is on the path; the program checks that.

This must not import kafkaraw. Start at `try_wheel`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from release.distributions import OUTPUT, ROOT, RefusedError, pythons

STEP_TIMEOUT_S: Final = 900
START_TIMEOUT_S: Final = 30

_WHERE: Final = """
import kafkaraw, kafkaraw.records, sys
assert {root!r} not in kafkaraw.__file__, kafkaraw.__file__
assert kafkaraw.records.IMPLEMENTATION == "native", kafkaraw.records.IMPLEMENTATION
"""


def first_program() -> str:
    """Return the first Python program of README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise RefusedError("README.md has no Python program")
    return found[1]


def wheel_for(minor: str) -> Path | None:
    """Return the wheel in dist/ for a version of Python, if there is one."""
    return next(iter(sorted(OUTPUT.glob(f"*-cp{minor.replace('.', '')}-*.whl"))), None)


def try_wheel(python: str, wheel: Path, limit: int) -> None:
    """Install one wheel and use it.

    Raises:
        RefusedError: a step failed or took too long; the message has its name and its output.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaraw-try-") as name:
        folder = Path(name)
        environment = folder / "environment"
        _step("venv", folder, [python, "-m", "venv", str(environment)])
        program = environment / "bin"
        install = [str(program / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        limits = ["-c", str(ROOT / "constraints.txt")]
        _step("pip install kafkaraw[demo]", folder, [*install, *limits, f"{wheel}[demo]"])
        _step("where it is", folder, [str(program / "python"), "-c", _WHERE.format(root=str(ROOT))])
        _step("the program of README.md", folder, [str(program / "python"), "-c", first_program()])
        with _broker(program, folder) as address:
            _step("kafkaraw doctor", folder, [str(program / "kafkaraw"), "doctor", "-b", address])
        demo = [str(program / "kafkaraw"), "demo", "flights", "--limit", str(limit)]
        _step(f"kafkaraw demo flights --limit {limit}", folder, demo)


@contextlib.contextmanager
def _broker(program: Path, folder: Path) -> Iterator[str]:
    """A broker of the installed package; gives its address."""
    command = [str(program / "kafkaraw"), "broker", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=_variables())
    with process:
        try:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            yield _address(process)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + START_TIMEOUT_S
    seen = ""
    while time.monotonic() < deadline and process.poll() is None:
        seen += process.stdout.readline() or ""
        found = re.search(r"bootstrap\.servers=(\S+)\n", seen)
        if found:
            return found[1]
        time.sleep(0.05)
    raise RefusedError(f"kafkaraw broker did not print its address within {START_TIMEOUT_S} s: {seen!r}")


def _step(what: str, folder: Path, command: Sequence[str]) -> None:
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=STEP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RefusedError(f"{what} took more than {STEP_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise RefusedError(f"{what} ended with exit code {done.returncode}:\n{done.stdout[-4000:]}")
    print(f"  {what}: {time.monotonic() - began:.0f} s", flush=True)


def _variables() -> dict[str, str]:
    """The variables of this process without those that would lead to the source tree or another environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def main(given: Sequence[str] | None = None) -> int:
    """Try the oldest and the newest Python that has a wheel; return the exit code."""
    parser = argparse.ArgumentParser(description="Install the wheels of dist/ into fresh environments, and use them.")
    parser.add_argument("--limit", type=int, default=20_000, metavar="N", help="flights of the demo")
    options = parser.parse_args(given)
    found = [(minor, python, wheel) for minor, python in pythons().items() if (wheel := wheel_for(minor))]
    try:
        if not found:
            raise RefusedError("dist/ has no wheel for a Python that is here: run `make wheel`")
        for minor, python, wheel in dict.fromkeys((found[0], found[-1])):
            print(f"Python {minor}, {wheel.name}", flush=True)
            try_wheel(python, wheel, options.limit)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
