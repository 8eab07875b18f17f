"""Run the tests of the Spark format on the newest release of each supported Spark version, and on the newest of all.

    make test-spark-versions
    make test-spark-versions ARGS="--only 4.0 -- tests/spark/test_batch.py"   # one version, arguments for pytest

Each version has a virtual environment in a cache folder, in which only pyspark and py4j are installed; everything else
comes from the environment that runs this. pip looks for newer releases each time; without a network the releases that
are there are used. Tests are skipped with the reason if a version lacks what they check.

Must not run inside pytest. Start at `main`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kafkaraw" / "spark"
VERSIONS: Final = {"4.0": "pyspark==4.0.*", "4.1": "pyspark==4.1.*", "4.2": "pyspark==4.2.*", "newest": "pyspark>=4.0"}
"""Name -> what pip installs, without prereleases."""
OLD_SOCKETS: Final = ("-W", "ignore:unclosed <socket.socket:ResourceWarning")
"""Before 4.2, `collect()` of PySpark leaves its socket to the garbage collector, and warnings are errors in tests."""
TESTS: Final = ("tests/spark",)
COUNTS: Final = ("tests", "failures", "errors", "skipped")


@dataclass(frozen=True)
class Outcome:
    """How the tests ended on one version.

    Attributes:
        name: of `VERSIONS`.
        release: the release that was tested, or what went wrong before.
        counts: of tests, by `COUNTS`; empty if pytest did not report.
        seconds: how long it took.
        exit_code: pytest's; None if it did not run.
    """

    name: str
    release: str
    counts: dict[str, int]
    seconds: float
    exit_code: int | None

    @property
    def passed(self) -> bool:
        """Whether tests ran and none failed."""
        return self.exit_code == 0 and self.counts.get("tests", 0) > self.counts.get("skipped", 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print a table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark_versions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", action="append", choices=VERSIONS, help="this version; may be given several times")
    parser.add_argument("pytest", nargs="*", help="tests, and arguments for pytest after --")
    given = parser.parse_args(arguments)
    outcomes: list[Outcome] = []
    for name in given.only or VERSIONS:
        outcomes.append(outcome := run_tests(name, given.pytest or TESTS, already=[each.release for each in outcomes]))
        print(f"Spark {outcome.release}: {'passed' if outcome.passed else 'FAILED'}", flush=True)
    print(table(outcomes))
    return 0 if all(each.passed for each in outcomes) else 1


def run_tests(name: str, chosen: Sequence[str], already: Sequence[str] = ()) -> Outcome:
    """Run tests on one version; the newest release is left out if it is among those that were tested already."""
    began = time.monotonic()
    folder = CACHE / name
    release, problem = prepare(folder, VERSIONS[name])
    if release is None:
        return Outcome(name, f"not installed: {problem}", {}, time.monotonic() - began, None)
    if problem is not None:
        print(f"{VERSIONS[name]}: pip failed, so {release} of an earlier run is tested: {problem}", flush=True)
    if release in already:
        return Outcome(name, f"{release} (as above)", {"tests": 1}, time.monotonic() - began, 0)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-m", "not soak", "-p", "no:cacheprovider"]
    command += OLD_SOCKETS if release.startswith(("4.0.", "4.1.")) else ()
    done = subprocess.run([*command, f"--junitxml={report}", *chosen], cwd=ROOT, check=False, env=_variables())
    return Outcome(name, release, _counts(report), time.monotonic() - began, done.returncode)


def prepare(folder: Path, requirement: str) -> tuple[str | None, str | None]:
    """Make or update a virtual environment.

    Returns:
        the release of Spark that it has, None if it has none, and what went wrong, if anything did.
    """
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        problem = _run([sys.executable, "-m", "venv", str(folder)])
        if problem is not None:
            return None, problem
    (site,) = folder.glob("lib/python*/site-packages")
    others = site / "zz_others.pth"
    others.unlink(missing_ok=True)  # pip would take what is there for installed
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    problem = _run([*pip, requirement])
    # Behind its own packages come those of the environment that runs this.
    others.write_text(sysconfig.get_path("purelib") + "\n")
    return _release(python, folder), problem


def _release(python: str, folder: Path) -> str | None:
    """The release of Spark that is installed in the folder itself."""
    program = "import pyspark; print(pyspark.__version__, pyspark.__file__)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, env=_variables())
    version, _, place = done.stdout.strip().partition(" ")
    return version if Path(place).is_relative_to(folder) else None


def _variables() -> dict[str, str]:
    """The environment of the processes: this tree's sources, and no Spark from elsewhere."""
    dropped = {"VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def _run(command: Sequence[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_variables())
    return None if done.returncode == 0 else done.stderr.strip()[-1000:]


def _counts(report: Path) -> dict[str, int]:
    if not report.exists():
        return {}
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    return {name: sum(int(suite.get(name, 0)) for suite in suites) for name in COUNTS}


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table."""
    lines = [f"{'version':<9} {'release':<22} {'tests':>6} {'failed':>7} {'skipped':>8} {'minutes':>8}  result"]
    for each in outcomes:
        counts = each.counts
        failed = counts.get("failures", 0) + counts.get("errors", 0)
        numbers = f"{counts.get('tests', 0):>6} {failed:>7} {counts.get('skipped', 0):>8} {each.seconds / 60:>8.1f}"
        lines.append(f"{each.name:<9} {each.release:<22} {numbers}  {'passed' if each.passed else 'FAILED'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
