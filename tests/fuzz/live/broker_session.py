"""A live broker against hostile clients: rounds of attacks, each held to a budget.

A round: the broker at rest is measured, an attack runs while the honest client goes on asking, everything hostile hangs
up, what it made is deleted, and the broker is measured again. Start at `run`; the rules are in `Round.judge`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafkaraw.errors import KafkaError
from tests.fuzz.live.broker_attacks import ATTACKS, Arena
from tests.fuzz.live.findings import Finding, Findings, LogReader
from tests.fuzz.live.process import Holdings
from tests.fuzz.live.target import IDLE_MS, KINDS, Target
from tests.waiting import wait_until

ROUNDS_PER_BROKER = 12
"""Then it is restarted (on its data, where it has some), so that what one round costs is not drowned in the others."""
NOISY = ("latency", "memory", "memory kept")
"""Rules whose breach may be the machine's doing: a finding only if the same round breaks them again."""


@dataclass(frozen=True)
class Budget:
    """What an attack may cost.

    Attributes:
        p99_s, max_s: latency of the honest client's requests, without the time in which another process had the core.
        peak_mb: memory while it runs, above that at rest.
        kept_mb: the same when it is over.
        tls_connection_mb: and for each connection to the listener with TLS: asyncio has buffers of 256 KiB for one, and
            before Python 3.11.9 and 3.12.3 they stay until the garbage collector comes by (gh-109534).
        descriptors_per_connection: while it runs, and `descriptors` besides.
        descriptors_kept: when it is over.
        threads: above those at rest.
        attack_s: how long it may run; its connections stay open for `attack_least_s` at least.
        rest_s: within what time everything must be back.
    """

    p99_s: float = 0.5
    max_s: float = 1.5
    peak_mb: float = 128
    kept_mb: float = 32
    tls_connection_mb: float = 0.35
    descriptors_per_connection: int = 6
    descriptors: int = 150
    descriptors_kept: int = 16
    threads: int = 40
    attack_s: float = 4.0
    attack_least_s: float = 0.8
    rest_s: float = 3.0


@dataclass
class Round:
    """One attack on one broker.

    Args:
        target: the broker.
        attack: the name of the attack.
        seed: of all that the attack decides.
        budget: what it may cost.
    """

    target: Target
    attack: str
    seed: int
    budget: Budget

    def run(self) -> Iterator[tuple[str, str]]:
        """Attack, rest and judge: the rules that were broken, with the values."""
        broker = self.target.broker
        log = LogReader(broker, broker.log_lines)
        before = broker.now()
        broker.forget_peak()
        self.target.tell_honest("begin")
        arena = Arena(self.target, random.Random(f"{self.attack} {self.seed}"))
        began = time.monotonic()
        try:
            yield from self._attack(arena)
            held = ATTACKS[self.attack].held
            if held and not self._let_go(before, IDLE_MS / 1000 + 2 * self.budget.rest_s):
                yield (
                    "stalled clients are dropped",
                    f"{broker.now()}, with {len(arena.kept)} connections; before: {before}",
                )
            time.sleep(max(0.0, self.budget.attack_least_s - (time.monotonic() - began)))
        finally:
            arena.close()
        try:
            report = self.target.tell_honest("report")
        except TimeoutError as error:
            yield "alive", f"the honest client has no answer: {error}"
            return
        peak = broker.peak
        yield from self.judge(before, peak, arena, report)
        yield from self._rest(before, arena)
        latency = f"p99 {report['p99_s'] * 1000:.0f} ms, max {report['max_s'] * 1000:.0f} ms of {report['probes']}"
        done = f"{self.attack} ({self.target.kind}, seed {self.seed}): {arena.step + 1} steps, {arena.made} connections"
        print(f"{done}; {latency}; before {before}; peak {peak}; after {broker.now()}", flush=True)
        yield from log.broken_rules()

    def _attack(self, arena: Arena) -> list[tuple[str, str]]:
        """Run the steps; what an answer broke."""
        attack = ATTACKS[self.attack]
        deadline = time.monotonic() + self.budget.attack_s
        broken: list[tuple[str, str]] = []
        for arena.step in range(attack.steps):
            # Connections are refused, lost and time out: that is what is tried.
            with suppress(OSError, ValueError, PermissionError):
                try:
                    attack.step(arena)
                except AssertionError as error:
                    broken.append(("answers are right", str(error)))
            if time.monotonic() > deadline or self.target.broker.exit_code is not None:
                break
        return broken

    def judge(
        self, before: Holdings, peak: Holdings, arena: Arena, report: dict[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """The rules for the time of the attack."""
        budget = self.budget
        if self.target.broker.exit_code is not None:
            yield "alive", f"the broker ended with {self.target.broker.exit_code}:\n{self.target.broker.last_log()}"
            return
        if report["failures"]:
            yield "honest clients are served", "; ".join(report["failures"][:3])
        if report["max_s"] > budget.max_s or (report["probes"] > 100 and report["p99_s"] > budget.p99_s):
            values = f"p99 {report['p99_s']:.2f} s, max {report['max_s']:.2f} s of {report['max_probe']}"
            yield "latency", f"{values}, {report['probes']} probes (max {report['max_gross_s']:.2f} s by the clock)"
        if peak.memory_mb > before.memory_mb + budget.peak_mb + budget.tls_connection_mb * arena.made_in_tls:
            yield "memory", f"{peak} at most, {before} before"
        allowed = before.descriptors + budget.descriptors + arena.made * budget.descriptors_per_connection
        if peak.descriptors > allowed:
            yield "descriptors", f"{peak} at most, {before} before, {arena.made} connections"
        if peak.threads > before.threads + budget.threads:
            yield "threads", f"{peak} at most, {before} before"

    def _rest(self, before: Holdings, arena: Arena) -> Iterator[tuple[str, str]]:
        """The rules for the time afterwards."""
        broker, budget = self.target.broker, self.budget
        if broker.exit_code is not None:
            return
        try:
            self.target.clean_up()
        except KafkaError as error:
            yield "administration goes on", f"{type(error).__name__}: {error}"
            return
        if not self._let_go(before, budget.rest_s):
            yield "descriptors kept", f"{broker.now()} after {budget.rest_s:g} s of rest, {before} before"
        kept_mb = budget.kept_mb + ATTACKS[self.attack].kept_mb
        limit = before.memory_mb + kept_mb + budget.tls_connection_mb * arena.made_in_tls
        if not wait_until(lambda: broker.now().memory_mb <= limit, budget.rest_s):
            yield "memory kept", f"{broker.now()} after {budget.rest_s:g} s of rest, {before} before"
        if self.target.kind != "open":
            checked = self.target.tell_honest("verify")
            if "wrong" in checked:
                yield "records and offsets are kept", checked["wrong"]

    def _let_go(self, before: Holdings, timeout_s: float) -> bool:
        allowed = before.descriptors + self.budget.descriptors_kept
        return wait_until(lambda: self.target.broker.now().descriptors <= allowed, timeout_s)


@dataclass
class BrokerSession:
    """Rounds until the time is over.

    Args:
        seconds: how long.
        seed: decides the order of attacks, and by itself what each does.
        only: names of attacks; None for all.
        kinds: kinds of broker, in turn.
        fault: a fault to plant into the broker.
        rounds_max: how many rounds at most; None for as many as there is time for.
        budget: what a round may cost.
    """

    seconds: float
    seed: int
    only: list[str] | None = None
    kinds: tuple[str, ...] = KINDS
    fault: str | None = None
    rounds_max: int | None = None
    budget: Budget = Budget()

    def run(self) -> Findings:
        """Attack; a broker that broke a rule is replaced by a new one."""
        findings = Findings()
        deadline = time.monotonic() + self.seconds
        target: Target | None = None
        rounds = on_this = 0
        try:
            for kind, attack, seed in self._plan():
                if time.monotonic() > deadline or rounds == self.rounds_max:
                    break
                if target is not None and (target.kind != kind or on_this >= ROUNDS_PER_BROKER):
                    self._end(target, findings)
                    target = None
                if target is None:
                    target, on_this = Target(kind, self.fault), 0
                rounds, on_this = rounds + 1, on_this + 1
                broken = list(Round(target, attack, seed, self.budget).run())
                if broken:
                    target.close()
                    target = None
                    for rule, text in self._confirmed(broken, kind, attack, seed):
                        findings.add(Finding(rule, text, f"{attack}, {kind}", self._command(kind, attack, seed)))
            if target is not None:
                self._end(target, findings)
                target = None
        finally:
            if target is not None:
                target.close()
        print(f"{rounds} rounds, {len(findings.found)} findings, seed {self.seed}", flush=True)
        return findings

    def _plan(self) -> Iterator[tuple[str, str, int]]:
        """Kind of broker, attack and seed of every round. With one attack, the first has the session's own seed."""
        rng = random.Random(self.seed)
        seed = self.seed
        while True:
            for kind in self.kinds:
                names = [
                    name
                    for name, attack in ATTACKS.items()
                    if kind in attack.kinds and (not self.only or name in self.only)
                ]
                rng.shuffle(names)
                for name in names:
                    yield kind, name, seed
                    seed += 1

    def _confirmed(self, broken: list[tuple[str, str]], kind: str, attack: str, seed: int) -> Iterator[tuple[str, str]]:
        """What is broken for sure: what the machine may have done must happen again, on a new broker."""
        doubtful = [rule for rule, _ in broken if rule in NOISY]
        again: set[str] = set()
        if doubtful:
            target = Target(kind, self.fault)
            try:
                again = {rule for rule, _ in Round(target, attack, seed, self.budget).run()}
            finally:
                target.close()
        for rule, text in broken:
            if rule in NOISY and rule not in again:
                print(f"not a finding, as it happened once: {rule} ({attack}, {kind}, seed {seed}): {text}", flush=True)
            else:
                yield rule, text

    def _end(self, target: Target, findings: Findings) -> None:
        """Restart a broker that keeps data, and look whether everything is there; then end it."""
        try:
            if target.kind == "disk":
                log = LogReader(target.broker)
                target.restart()
                log = LogReader(target.broker)
                checked = target.tell_honest("verify")
                broken = list(log.broken_rules())
                if "wrong" in checked:
                    broken.append(("records and offsets survive a restart", checked["wrong"]))
                for rule, text in broken:
                    findings.add(Finding(rule, text, "restart, disk", self._command("disk", None, self.seed)))
        except (TimeoutError, KafkaError) as error:
            findings.add(Finding("starts again", str(error), "restart, disk", self._command("disk", None, self.seed)))
        finally:
            target.close()

    def _command(self, kind: str, attack: str | None, seed: int) -> str:
        words = ["python -m tests.fuzz.run --what broker", f"--kind {kind}"]
        if attack is not None:
            words += [f"--only {attack}", "--rounds 1"]
        else:
            words += [f"--only {name}" for name in self.only or ()] + [f"--seconds {self.seconds:g}"]
        words += [f"--seed {seed}"] + ([f"--plant {self.fault}"] if self.fault else [])
        return " ".join(words)
