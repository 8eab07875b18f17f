"""A broker's own process that does not do as it is told; what it does otherwise is in `test_embedded.py`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kafkaraw.broker import child
from kafkaraw.broker.child import BrokerProcess
from kafkaraw.broker.configs.arguments import broker_config
from kafkaraw.errors import KafkaTimeoutError
from tests.interrupting import interrupted_elsewhere


class Silent:
    """A process that never says a word.

    Attributes:
        pid: made up.
        kills: how often it was killed.
    """

    def __init__(self, *, survives: bool) -> None:
        self.pid = 4711
        self.kills = 0
        self.stdin = Path(os.devnull).open("w")  # noqa: SIM115 - closed by who stops it
        told, self._telling = os.pipe()
        self.stdout = os.fdopen(told)
        self._survives = survives

    def wait(self, seconds: float) -> int:
        if self._survives:
            raise subprocess.TimeoutExpired("silent", seconds)
        return 0

    def kill(self) -> None:
        self.kills += 1

    def gone(self) -> bool:
        os.close(self._telling)
        return self.stdin.closed and self.stdout.closed


def start(process: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patches:
        patches.setattr(subprocess, "Popen", lambda *_, **__: process)
        BrokerProcess(broker_config(None))


def test_ctrl_c_ends_the_wait_for_its_first_words(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Silent(survives=False)
    with interrupted_elsewhere():
        start(process, monkeypatch)
    assert process.gone()


def test_one_that_survives_being_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Silent(survives=True)
    monkeypatch.setattr(child, "START_TIMEOUT_S", 0.0)
    with pytest.raises(KafkaTimeoutError, match="process 4711 was killed 10 s ago and has not ended"):
        start(process, monkeypatch)
    assert process.kills == 1
    assert process.gone()
