"""Live clients against a hostile broker: rounds of mischief, each held to a budget.

A round: the clients' process runs one script of calls while the proxy in front of a real broker spoils answers. Every
call must end by its timeout and a bound, well or with a KafkaError. Start at `ClientSession.run`; the rules are in
`ClientSession.judge`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaraw import Admin, NewTopic, Producer, ScramPassword
from tests.fuzz.live.findings import Finding, Findings, LogReader
from tests.fuzz.live.hostile_broker import HOST, MISCHIEFS, WITH_LOGINS, HostileBroker
from tests.fuzz.live.process import Holdings, Watched
from tests.fuzz.live.victim import PARTITIONS, SCRIPTS, TOPIC
from tests.fuzz.live.wire import free_ports
from tests.waiting import wait_until

START_TIMEOUT_S = 60.0
ROUNDS_PER_PROCESS = 25
USER, PASSWORD = "ada", "ada-secret"
SLOW_SCRIPTS = {"group"}
"""It waits for rebalances, and uses what the others use."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOISY = ("calls end in time", "memory", "memory kept")
"""Rules whose breach may be the machine's doing: a finding only if the same round breaks them again."""


@dataclass(frozen=True)
class Budget:
    """What mischief may cost.

    Attributes:
        late_s: by how much a call may end later than its timeout.
        hang_s: after what time without an end of the script it counts as hanging.
        peak_mb, kept_mb: memory above that at rest, at most and afterwards.
        descriptors_kept: likewise.
    """

    late_s: float = 1.0
    hang_s: float = 60.0
    peak_mb: float = 160
    kept_mb: float = 64
    descriptors_kept: int = 10


class Place:
    """A real broker, a hostile proxy before each of its listeners, and a process with clients."""

    def __init__(self, scripts: Sequence[str], fault: str | None = None) -> None:
        self._scripts = scripts
        self._fault = fault
        self._asked = 0
        plain, logins, proxy, login_proxy = free_ports(4)
        self._proxies: list[HostileBroker] = []
        self.clients: Watched | None = None
        module = "org.apache.kafka.common.security"
        properties = {
            "listeners": f"PLAINTEXT://{HOST}:{plain},SASL_PLAINTEXT://{HOST}:{logins}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{proxy},SASL_PLAINTEXT://{HOST}:{login_proxy}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
                f"{module}.scram.ScramLoginModule required;"
            ),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
        }  # fmt: skip
        self.broker = Watched(
            ["-m", "kafkaraw", "broker", *(w for p in properties.items() for w in ("-X", "=".join(p)))]
        )
        try:
            self.broker.line(START_TIMEOUT_S)
            self._proxies = [HostileBroker(proxy, (HOST, plain)), HostileBroker(login_proxy, (HOST, logins))]
            self._servers = {False: f"{HOST}:{proxy}", True: f"{HOST}:{login_proxy}"}
            self._fill()
            self.start_clients()
        except BaseException:
            self.close()
            raise

    def _fill(self) -> None:
        servers: dict[str, Any] = {"bootstrap_servers": self._servers[False]}
        with Admin(**servers) as admin:
            admin.create_topics([NewTopic(TOPIC, partitions=len(PARTITIONS), replication_factor=1)])
            admin.alter_user_scram_credentials([ScramPassword(USER, "SCRAM-SHA-256", PASSWORD)])
        for codec in CODECS:
            with Producer(**servers, compression_type=codec) as producer:
                for at in range(200):
                    producer.send(TOPIC, b"value %d" % at, key=b"%d" % at, headers=[("h", b"x")])
        with Producer(**servers, transactional_id="fill") as producer:
            producer.init_transactions()
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                producer.send(TOPIC, b"in a transaction")
                end()

    def start_clients(self) -> None:
        """Start the process of the clients, anew if it runs."""
        if self.clients is not None:
            self.clients.stop(kill=True)
        module = ["tests.fuzz.live.victim"]
        if self._fault is not None:
            module = ["tests.fuzz.live.planted", self._fault, *module]
        self.clients = Watched(["-m", *module])
        self.clients.line(START_TIMEOUT_S)
        for script in set(self._scripts) - SLOW_SCRIPTS:  # so that what is loaded on first use is there
            self.ask(script, "nothing", 0, START_TIMEOUT_S)

    def ask(self, script: str, mischief: str, seed: int, timeout_s: float) -> dict[str, Any]:
        """Run a script while the proxies do their mischief.

        Raises:
            TimeoutError: the script has not ended in time, or the process has.
        """
        login = mischief in WITH_LOGINS
        for proxy in self._proxies:
            proxy.begin(mischief, seed)
        settings: dict[str, object] = {"bootstrap_servers": self._servers[login]}
        if login:
            settings |= {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": USER,
                "sasl_password": PASSWORD,
            }
        assert self.clients is not None
        self._asked += 1  # each round has a group of its own, which has committed nothing
        self.clients.say(json.dumps({"script": script, "settings": settings, "group": f"victims-{self._asked}"}))
        answer: dict[str, Any] = json.loads(self.clients.line(timeout_s))
        return answer

    def close(self) -> None:
        if self.clients is not None:
            self.clients.stop(kill=True)
        for proxy in self._proxies:
            proxy.close()
        self.broker.stop(kill=True)


@dataclass
class ClientSession:
    """Rounds until the time is over.

    Args:
        seconds: how long.
        seed: decides the order of mischiefs, and by itself what each does.
        only: names of mischiefs; None for all.
        kinds: names of scripts; None for all.
        fault: a fault to plant into the clients' process.
        rounds_max: how many rounds at most; None for as many as there is time for.
        budget: what a round may cost.
    """

    seconds: float
    seed: int
    only: list[str] | None = None
    kinds: tuple[str, ...] = tuple(SCRIPTS)
    fault: str | None = None
    rounds_max: int | None = None
    budget: Budget = field(default_factory=Budget)

    def run(self) -> Findings:
        """Run rounds; clients that broke a rule are replaced by new ones."""
        findings = Findings()
        place = Place(self.kinds, self.fault)
        deadline = time.monotonic() + self.seconds
        rounds, fresh = 0, True
        try:
            for script, mischief, seed in self._plan():
                if time.monotonic() > deadline or rounds == self.rounds_max:
                    break
                if not fresh:
                    place.start_clients()
                rounds += 1
                broken = list(self._round(place, script, mischief, seed))
                fresh = not broken and rounds % ROUNDS_PER_PROCESS != 0
                again: set[str] = set()
                if any(rule in NOISY for rule, _ in broken):
                    place.start_clients()
                    again = {rule for rule, _ in self._round(place, script, mischief, seed)}
                for rule, text in broken:
                    if rule in NOISY and rule not in again:
                        print(
                            f"not a finding, as it happened once: {rule} ({mischief}, {script}, {seed}): {text}",
                            flush=True,
                        )
                    else:
                        findings.add(
                            Finding(rule, text, f"{mischief}, {script}", self._command(script, mischief, seed))
                        )
        finally:
            place.close()
        print(f"{rounds} rounds, {len(findings.found)} findings, seed {self.seed}", flush=True)
        return findings

    def _plan(self) -> Iterator[tuple[str, str, int]]:
        rng = random.Random(self.seed)
        seed = self.seed
        while True:
            pairs = [(script, name) for script in self.kinds for name in self.only or MISCHIEFS]
            rng.shuffle(pairs)
            for script, name in pairs:
                yield script, name, seed
                seed += 1

    def _round(self, place: Place, script: str, mischief: str, seed: int) -> Iterator[tuple[str, str]]:
        clients = place.clients
        assert clients is not None
        log = LogReader(clients, clients.log_lines)
        before = clients.now()
        clients.forget_peak()
        began = time.monotonic()
        try:
            told = place.ask(script, mischief, seed, self.budget.hang_s)
        except TimeoutError as error:
            hung = clients.exit_code is None
            if hung:
                os.kill(clients.process_id, signal.SIGABRT)  # faulthandler writes where each thread stands
                wait_until(lambda: clients.exit_code is not None, 10)
            what = f"the script has not ended after {self.budget.hang_s:g} s" if hung else "the process ended"
            yield ("no call hangs" if hung else "alive"), f"{what}: {error}\n{clients.last_log(60)}"
            return
        took = time.monotonic() - began
        calls = told["calls"]
        yield from self.judge(calls, before, clients)
        yield from log.broken_rules()
        failed = sum(call["outcome"] != "ok" for call in calls)
        ended = f"{len(calls)} calls, {failed} with an error, {told['records']} records, {took:.1f} s"
        done = f"{mischief} ({script}, seed {seed}): {ended}"
        print(f"{done}; before {before}; peak {clients.peak}; after {clients.now()}", flush=True)

    def judge(self, calls: list[dict[str, Any]], before: Holdings, clients: Watched) -> Iterator[tuple[str, str]]:
        """The rules that calls and process have broken."""
        budget = self.budget
        for call in calls:
            if call["bare"]:
                yield "errors are KafkaErrors", f"{call['name']}: {call['bare']}"
            if call["took_s"] > call["limit_s"] + budget.late_s:
                values = f"{call['name']} took {call['took_s']:.2f} s, its timeout is {call['limit_s']:g} s"
                yield "calls end in time", f"{values}; it ended with {call['outcome']}"
        if clients.peak.memory_mb > before.memory_mb + budget.peak_mb:
            yield "memory", f"{clients.peak} at most, {before} before"
        if not wait_until(lambda: clients.now().descriptors <= before.descriptors + budget.descriptors_kept, 3):
            yield "descriptors kept", f"{clients.now()} after the clients were closed, {before} before"
        if not wait_until(lambda: clients.now().memory_mb <= before.memory_mb + budget.kept_mb, 1):
            yield "memory kept", f"{clients.now()} after the clients were closed, {before} before"

    def _command(self, script: str, mischief: str, seed: int) -> str:
        words = f"python -m tests.fuzz.run --what client --kind {script} --only {mischief} --rounds 1 --seed {seed}"
        return words + (f" --plant {self.fault}" if self.fault else "")
