"""A live broker and live clients hold their budgets against hostile peers, and the harness finds planted faults.

What is attacked, by what, and which rules hold: `tests/fuzz/live`. `make soak` attacks for half an hour.
"""

from __future__ import annotations

import random

import pytest

from tests.footprint import IS_LINUX
from tests.fuzz.live.broker_session import BrokerSession
from tests.fuzz.live.client_session import ClientSession
from tests.fuzz.live.findings import Findings

pytestmark = [
    pytest.mark.skipif(not IS_LINUX, reason="what a process holds is read from Linux's /proc"),
    pytest.mark.timeout(300),
]

SOAK_S = 900
PLANTED_IN_THE_BROKER = [
    ("leak-descriptors", "connections-come-and-go", "descriptors kept"),
    ("keep-memory", "pipelined-requests", "memory"),
    ("stall", "frame-sizes", "latency"),
    ("corrupt-records", "odd-names", "honest clients are served"),
    ("end-on-garbage", "frame-sizes", "alive"),
]
PLANTED_IN_CLIENTS = [
    ("raise-bare-errors", "spoiled-bytes", "admin", "errors are KafkaErrors"),
    ("hang", "silence", "consume", "no call hangs"),
]


def _seed() -> int:
    return random.SystemRandom().randrange(1, 1 << 31)


def _told(findings: Findings) -> str:
    return "\n".join(str(finding) for finding in findings.found)


@pytest.mark.parametrize(
    "seconds", [20, pytest.param(SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)])]
)
def test_a_broker_under_attack_keeps_its_budget_and_serves_honest_clients(seconds: float):
    findings = BrokerSession(seconds, _seed()).run()
    assert not findings.found, _told(findings)


@pytest.mark.parametrize(
    "seconds", [15, pytest.param(SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)])]
)
def test_calls_of_a_client_of_a_hostile_broker_end_in_time_and_with_kafka_errors(seconds: float):
    findings = ClientSession(seconds, _seed()).run()
    assert not findings.found, _told(findings)
