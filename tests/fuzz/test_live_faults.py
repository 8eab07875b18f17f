"""The harness of live brokers and clients finds faults that are planted into them, and its parts do what they say."""

from __future__ import annotations

import random

import pytest

from kafkaraw.protocol.apis import API_TABLE
from tests.footprint import IS_LINUX
from tests.fuzz.live.broker_attacks import ATTACKS
from tests.fuzz.live.broker_session import BrokerSession
from tests.fuzz.live.client_session import Budget, ClientSession, Place
from tests.fuzz.live.hostile_broker import MISCHIEFS
from tests.fuzz.live.hostile_values import Hostile, encoded
from tests.fuzz.live.wire import request_bytes

SEED = 1
SILENT_AT_ONCE = 6
"""A seed with which `silence` spares no answer."""
MESSAGE_SIZE_MAX = 4 << 20
needs_proc = pytest.mark.skipif(not IS_LINUX, reason="what a process holds is read from Linux's /proc")


@needs_proc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "attack", "rule"),
    [
        pytest.param("leak-descriptors", "connections-come-and-go", "descriptors kept", marks=pytest.mark.soak),
        pytest.param("keep-memory", "odd-names", "memory kept", marks=pytest.mark.soak),
        pytest.param("stall", "frame-sizes", "latency", marks=pytest.mark.soak),
        ("corrupt-records", "frame-sizes", "honest clients are served"),
        ("end-on-garbage", "frame-sizes", "alive"),
    ],
)
def test_a_fault_planted_into_the_broker_is_found(fault: str, attack: str, rule: str):
    session = BrokerSession(60, SEED, only=[attack], kinds=("memory",), fault=fault, rounds_max=1)
    found = session.run().found
    assert rule in {finding.rule for finding in found}
    assert f"--only {attack} --rounds 1 --seed {SEED} --plant {fault}" in found[0].command


@needs_proc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "mischief", "script", "rule"),
    [
        ("raise-bare-errors", "silence", "admin", "errors are KafkaErrors"),
        pytest.param("hang", "silence", "admin", "no call hangs", marks=pytest.mark.soak),
    ],
)
def test_a_fault_planted_into_a_client_is_found(fault: str, mischief: str, script: str, rule: str):
    session = ClientSession(60, SILENT_AT_ONCE, [mischief], (script,), fault, rounds_max=1, budget=Budget(hang_s=6))
    found = session.run().found
    assert rule in {finding.rule for finding in found}
    assert f"--only {mischief} --rounds 1" in found[0].command


@needs_proc
def test_without_mischief_clients_read_records_and_their_calls_succeed():
    scripts = ("consume", "produce")
    place = Place(scripts)
    try:
        told = {script: place.ask(script, "nothing", SEED, 30) for script in scripts}
    finally:
        place.close()
    assert told["consume"]["records"] > 1_000
    assert {call["outcome"] for call in told["consume"]["calls"]} == {"ok"}
    # A transaction that was committed cannot be aborted.
    assert [call["name"] for call in told["produce"]["calls"] if call["outcome"] != "ok"] == ["abort_transaction"]


def test_the_same_seed_makes_the_same_hostile_messages():
    def made(seed: int) -> list[bytes | None]:
        hostile = Hostile(random.Random(seed))
        return [
            encoded(
                hostile.message(api.request, api.versions.max),
                lambda one, api=api: request_bytes(one, api.versions.max),
            )
            for api in API_TABLE[:40]
        ]

    assert made(5) == made(5)
    assert made(5) != made(6)


def test_hostile_messages_of_every_api_and_version_are_bounded():
    hostile = Hostile(random.Random(SEED))
    sizes = []
    for api in API_TABLE:
        for version in range(api.versions.min, api.versions.max + 1):
            message = hostile.message(api.request, version)
            sizes.append(len(encoded(message, lambda one, version=version: request_bytes(one, version)) or b""))
    assert max(sizes) < MESSAGE_SIZE_MAX
    assert sum(size > 1_000 for size in sizes) > len(sizes) / 20


def test_every_attack_and_mischief_says_what_it_does():
    assert all(attack.step.__doc__ for attack in ATTACKS.values())
    assert all(mischief.__doc__ for mischief in MISCHIEFS.values())
