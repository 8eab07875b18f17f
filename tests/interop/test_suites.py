"""The tests of another client pass through a tap as they pass without one, and a capture of them is read to its end.

franz-go's package has its tests with it. They use a running broker, so they show what a tap changes for a client that
checks everything: groups of each kind, transactions, regular expressions, share groups, and records by the thousands.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.inspect import Exchange, Tap
from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.tap.saving import Saving
from tests.interop.downloaded_clients import prepare
from tests.interop.share_members import FRANZ_GO

RECORDS = 4000
SUITE_SECONDS_MAX = 240
NEEDS_A_BROKER = (
    "TestClient_Produce|TestConsumeRegex|TestConsumeTopicRetrieval|TestDirectPartitionPurge|TestGroupETL|TestGroupSimple"
    "|TestIssue1034|TestIssue325|TestIssue337|TestIssue434|TestIssue523|TestIssue648|TestIssue769|TestIssue810"
    "|TestIssue865|TestPauseIssue489|TestPauseIssueOct2023|TestPing|TestShareGroup|TestTxnEtl"
)
RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def suite() -> Path:
    """franz-go's tests as a program."""
    package, _, version = FRANZ_GO.partition("@")
    commands = (
        ["go", "mod", "init", "suite"],
        ["go", "get", "-t", f"{package}@{version}"],
        ["go", "test", "-c", "-o", "suite", package],
    )
    return prepare("go", "franz-go-suite", Path(__file__), *commands) / "suite"


@pytest.fixture
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


def results(suite: Path, servers: str) -> tuple[dict[str, str], str]:
    """Which tests passed, and what they printed."""
    done = subprocess.run(
        [suite, "-test.v", "-test.run", f"^({NEEDS_A_BROKER})$", f"-test.timeout={SUITE_SECONDS_MAX}s"],
        env=os.environ | {"KGO_SEEDS": servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS_MAX + 30,
        check=False,
    )
    return {name: result for result, name in RESULT.findall(done.stdout)}, done.stdout[-5000:]


def test_franz_gos_suite_passes_through_the_tap_as_it_passes_without(suite: Path, servers: str):
    direct, printed = results(suite, servers)
    assert set(direct.values()) <= {"PASS", "SKIP"}, printed
    assert "PASS" in direct.values()
    file = io.BytesIO()
    saving = Saving(file)
    with Tap(servers) as tap:
        tap.save_to(saving)
        tapped, printed = results(suite, tap.bootstrap_servers)
        notes = tap.notes
    saving.close()
    assert tapped == direct, printed
    assert notes == []
    assert (saving.left_out_bytes, saving.error) == (0, "")
    file.seek(0)
    reader = CaptureReader(file)
    exchanges = list(reader.read())
    assert [one for one in exchanges if not isinstance(one, Exchange) or one.problem] == []
    report = reader.report
    assert (report.missing_bytes, report.unread_bytes, report.guessed, report.unknown) == (0, 0, 0, 0)
