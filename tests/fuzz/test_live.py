"""A live broker and live clients hold their budgets against hostile peers.

What is attacked, by what, and which rules hold: `tests/fuzz/live`. The seed is that of the commit, as for simulations;
`make soak` attacks for half an hour.
"""

from __future__ import annotations

import pytest

from tests.footprint import IS_LINUX
from tests.fuzz.live.broker_session import BrokerSession
from tests.fuzz.live.client_session import ClientSession
from tests.fuzz.live.findings import Findings
from tests.simulation import seeds

pytestmark = [
    pytest.mark.skipif(not IS_LINUX, reason="what a process holds is read from Linux's /proc"),
    pytest.mark.timeout(300),
]

BROKER_SOAK_S, CLIENT_SOAK_S = 1_200, 600


def _told(findings: Findings) -> str:
    return "\n".join(str(finding) for finding in findings.found)


@pytest.mark.parametrize(
    "seconds", [3, pytest.param(BROKER_SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(BROKER_SOAK_S + 300)])]
)
def test_a_broker_under_attack_keeps_its_budget_and_serves_honest_clients(seconds: float):
    findings = BrokerSession(seconds, seeds.FIRST).run()
    assert not findings.found, _told(findings)


@pytest.mark.parametrize(
    "seconds", [2, pytest.param(CLIENT_SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(CLIENT_SOAK_S + 300)])]
)
def test_calls_of_a_client_of_a_hostile_broker_end_in_time_and_with_kafka_errors(seconds: float):
    findings = ClientSession(seconds, seeds.FIRST).run()
    assert not findings.found, _told(findings)
