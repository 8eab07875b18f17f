"""Fuzz codecs, a live broker and live clients: `python -m tests.fuzz.run --what protocol --seconds 600`.

`--what protocol` and `--what records` try the codecs in this process, `--what captures` the reader of captures.
`--what broker` sets hostile clients on a broker,
and `--what client` a hostile broker on clients, each in a process of its own and held to a budget of memory,
descriptors and time (`tests/fuzz/live`); a finding of these two prints the command that repeats it.

With atheris (pip install atheris; optional, as it has wheels for Linux on x86 only) mutation is guided by the coverage
of the codecs, those that are compiled on first use included. Without it, or with --engine mutator, seeded mutations of
good inputs go through the same checks. Either prints its seed. A finding is written to tests/fuzz/findings, where
test_findings.py keeps it from coming back; give the file a name that says what it was. The compiled readers of batches
tell no coverage: their plain twins do, and both must give the same.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz import capture_targets, record_targets, targets

FINDINGS = Path(__file__).with_name("findings")
INPUT_SIZE_MAX = 4096
SEEDS_PER_VERSION = 2
RECORD_SEEDS = 2000
CAPTURE_SEEDS = 500


@dataclass(frozen=True)
class Target:
    """What is fuzzed.

    Attributes:
        check: holds an input to the rules.
        seed_input: makes a good input.
        seeds: makes good inputs of every kind.
        mutated: changes an input.
        written: an input as the text of a finding.
        package: whose modules tell their coverage; those with one of `without` in their name do not.
    """

    check: Callable[[bytes], None]
    seed_input: Callable[[random.Random], bytes]
    seeds: Callable[[random.Random], Iterator[bytes]]
    mutated: Callable[[bytes, random.Random], bytes]
    written: Callable[[bytes], str]
    package: str
    without: tuple[str, ...] = ()


def _protocol_seeds(rng: random.Random) -> Iterator[bytes]:
    for chosen in range(len(targets.VERSIONED)):
        for _ in range(SEEDS_PER_VERSION):
            yield targets.seed_input(chosen, rng)


def _written_message(data: bytes) -> str:
    cls, version, body = targets.choice(data)
    return f"{cls.__name__} {version} {body.hex()}\n"


TARGETS = {
    "protocol": Target(
        targets.check,
        lambda rng: targets.seed_input(rng.randrange(len(targets.VERSIONED)), rng),
        _protocol_seeds,
        targets.mutated,
        _written_message,
        "kafkaraw.protocol",
        (".messages", ".embedded"),
    ),
    "records": Target(
        record_targets.check,
        record_targets.seed_input,
        lambda rng: (record_targets.seed_input(rng) for _ in range(RECORD_SEEDS)),
        record_targets.mutated,
        lambda data: f"records {data[0] % record_targets.CHOICES} {data[1:].hex()}\n",
        "kafkaraw.records",
        ("._builder", "._ticket", "._batch_table", "._reader", "._filling"),
    ),
    "captures": Target(
        capture_targets.check,
        capture_targets.seed_input,
        lambda rng: (capture_targets.seed_input(rng) for _ in range(CAPTURE_SEEDS)),
        capture_targets.mutated,
        lambda data: f"captures 0 {data.hex()}\n",
        "kafkaraw.inspect",
    ),
}


def keep(target: Target, data: bytes) -> Path:
    """Write an input that broke a rule to the findings."""
    path = FINDINGS / f"{hashlib.sha1(data).hexdigest()[:12]}.txt"
    path.write_text(target.written(data))
    return path


def run_mutator(target: Target, seconds: float, seed: int) -> int:
    """Mutate good inputs until the time is over; the number of findings."""
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    tried = 0
    found: set[str] = set()
    while time.monotonic() < deadline:
        good = target.seed_input(rng)
        for _ in range(20):
            tried += 1
            data = target.mutated(good, rng)
            try:
                target.check(data)
            except Exception as error:  # noqa: BLE001 -- whatever escapes is a finding
                kind = traceback.format_exception(error)[-2]
                if kind not in found:  # one input for each place is enough
                    found.add(kind)
                    traceback.print_exc()
                    print(f"kept as {keep(target, data)}", file=sys.stderr)
    print(f"{tried} inputs, {len(found)} findings, seed {seed}")
    return len(found)


def run_atheris(target: Target, seconds: float, seed: int) -> int:
    """Let atheris look for inputs until the time is over or one breaks a rule; its exit code."""
    import atheris  # type: ignore[import-not-found]

    for name, module in sorted(sys.modules.items()):
        if name.startswith(target.package) and not any(part in name for part in target.without):
            _instrument(module, atheris.instrument_func)
    _instrument_compiled_code(atheris.instrument_func)

    def checked(data: bytes) -> None:
        try:
            target.check(data)
        except Exception:
            print(f"kept as {keep(target, data)}", file=sys.stderr)
            raise

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(target.seeds(random.Random(seed))):
            if len(data) <= INPUT_SIZE_MAX:
                Path(corpus, str(number)).write_bytes(data)
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
    """Codecs of messages are compiled on first use: instrument each one then."""
    from kafkaraw.protocol.source_writer import SourceWriter

    build = SourceWriter.build

    def build_instrumented(self: Any, function: str) -> Any:
        return instrument(build(self, function))

    SourceWriter.build = build_instrumented  # type: ignore[method-assign]


def _run_live(arguments: argparse.Namespace, seed: int) -> int:
    from tests.fuzz.live.broker_session import BrokerSession
    from tests.fuzz.live.client_session import ClientSession
    from tests.fuzz.live.process import limit_memory

    limit_memory(os.getpid())
    session = BrokerSession if arguments.what == "broker" else ClientSession
    options = {"only": arguments.only, "fault": arguments.plant, "rounds_max": arguments.rounds}
    if arguments.kind:
        options["kinds"] = tuple(arguments.kind)
    print(f"{arguments.what}, seed {seed}, {arguments.seconds:.0f} seconds", flush=True)
    return 1 if session(arguments.seconds, seed, **options).run().found else 0


def main() -> int:
    """Run the engine that is asked for, or the best one that is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=(*TARGETS, "broker", "client"), default="protocol")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--engine", choices=("atheris", "mutator"), help="default: atheris where it is installed")
    live = parser.add_argument_group("broker and client")
    live.add_argument("--only", action="append", help="name of an attack; as often as needed (default: all)")
    live.add_argument("--kind", action="append", help="kind of broker, or of client, that is attacked (default: all)")
    live.add_argument("--rounds", type=int, help="end after that many attacks")
    live.add_argument("--plant", metavar="FAULT", help="a fault to plant into what is attacked (default: none)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1, 2**31)
    if arguments.what not in TARGETS:
        return _run_live(arguments, seed)
    engine = arguments.engine or ("atheris" if importlib.util.find_spec("atheris") else "mutator")
    print(f"{arguments.what}, {engine}, seed {seed}, {arguments.seconds:.0f} seconds", flush=True)
    run = run_atheris if engine == "atheris" else run_mutator
    return 1 if run(TARGETS[arguments.what], arguments.seconds, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
