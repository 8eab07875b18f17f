"""Fuzz the codecs: `python -m tests.fuzz.protocol_fuzz --seconds 600`.

With atheris (pip install atheris; optional, as it has wheels for Linux on x86 only) mutation is guided by the coverage
of the codecs, those that are compiled on first use included. Without it, or with --engine mutator, seeded mutations of
good messages go through the same checks. Either prints its seed. A finding is written to tests/fuzz/findings, where
test_findings.py keeps it from coming back; give the file a name that says what it was.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz import targets

FINDINGS = Path(__file__).with_name("findings")
INPUT_SIZE_MAX = 4096
SEEDS_PER_VERSION = 2


def keep(data: bytes) -> Path:
    """Write an input that broke a rule to the findings."""
    cls, version, body = targets.choice(data)
    path = FINDINGS / f"{hashlib.sha1(data).hexdigest()[:12]}.txt"
    path.write_text(f"{cls.__name__} {version} {body.hex()}\n")
    return path


def checked(data: bytes) -> None:
    """Check one input; keep it when it breaks a rule."""
    try:
        targets.check(data)
    except Exception:
        print(f"kept as {keep(data)}", file=sys.stderr)
        raise


def run_mutator(seconds: float, seed: int) -> int:
    """Mutate good messages until the time is over; the number of findings."""
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    tried = 0
    found: set[str] = set()
    while time.monotonic() < deadline:
        good = targets.seed_input(rng.randrange(len(targets.VERSIONED)), rng)
        for _ in range(20):
            tried += 1
            data = targets.mutated(good, rng)
            try:
                targets.check(data)
            except Exception as error:  # noqa: BLE001 -- whatever escapes is a finding
                kind = traceback.format_exception(error)[-2]
                if kind not in found:  # one input for each place is enough
                    found.add(kind)
                    traceback.print_exc()
                    print(f"kept as {keep(data)}", file=sys.stderr)
    print(f"{tried} inputs, {len(found)} findings, seed {seed}")
    return len(found)


def run_atheris(seconds: float, seed: int) -> int:
    """Let atheris look for inputs until the time is over or one breaks a rule; its exit code."""
    import atheris  # type: ignore[import-not-found]

    for name, module in sorted(sys.modules.items()):
        if name.startswith("kafkaraw.protocol") and ".messages" not in name and ".embedded" not in name:
            _instrument(module, atheris.instrument_func)
    _instrument_compiled_code(atheris.instrument_func)
    with tempfile.TemporaryDirectory() as corpus:
        rng = random.Random(seed)
        for chosen in range(len(targets.VERSIONED)):
            for i in range(SEEDS_PER_VERSION):
                data = targets.seed_input(chosen, rng)
                if len(data) <= INPUT_SIZE_MAX:
                    Path(corpus, f"{chosen}-{i}").write_bytes(data)
        options = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-max_len={INPUT_SIZE_MAX}", "-timeout=10"]
        atheris.Setup([sys.argv[0], *options, "-rss_limit_mb=2048", "-print_final_stats=1", corpus], checked)
        atheris.Fuzz()  # ends the process
    return 0


def _instrument(module: Any, instrument: Callable[[Any], Any]) -> None:
    for member in vars(module).values():
        functions = vars(member).values() if isinstance(member, type) else [member]
        for function in functions:
            if getattr(function, "__module__", None) == module.__name__ and hasattr(function, "__code__"):
                instrument(function)


def _instrument_compiled_code(instrument: Callable[[Any], Any]) -> None:
    """Codecs are compiled on first use: instrument each one then."""
    from kafkaraw.protocol import compile as compiler

    build = compiler._Writer.build

    def build_instrumented(self: Any, function: str) -> Any:
        return instrument(build(self, function))

    compiler._Writer.build = build_instrumented  # type: ignore[method-assign]


def main() -> int:
    """Run the engine that is asked for, or the best one that is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--engine", choices=("atheris", "mutator"), help="default: atheris where it is installed")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1, 2**31)
    engine = arguments.engine or ("atheris" if importlib.util.find_spec("atheris") else "mutator")
    print(f"{engine}, seed {seed}, {arguments.seconds:.0f} seconds", flush=True)
    run = run_atheris if engine == "atheris" else run_mutator
    return 1 if run(arguments.seconds, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
