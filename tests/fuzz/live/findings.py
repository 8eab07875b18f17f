"""What a session found, and how it is told: one line for the rule, and the command that repeats it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fuzz.live.hostile_values import FORGED
from tests.fuzz.live.process import Watched

_SIGNS_OF_A_BUG = ("Traceback (most recent call last)", "Fatal Python error", "was never retrieved", "never awaited")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True)
class Finding:
    """A rule that was broken.

    Attributes:
        rule: its name.
        text: with which values.
        attack: during which attack.
        command: what repeats it.
    """

    rule: str
    text: str
    attack: str
    command: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.attack}): {self.text}\n    again: {self.command}"


@dataclass
class Findings:
    """The findings of a session; each kind is told once, at once."""

    found: list[Finding] = field(default_factory=list)
    _known: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        # Two errors from inside are one when they end alike, whichever attack led to them.
        inside = finding.rule == "no error from inside"
        sign = _NUMBERS.sub("#", finding.text.splitlines()[-1]) if inside else finding.attack
        if (finding.rule, sign) not in self._known:
            self._known.add((finding.rule, sign))
            self.found.append(finding)
            print(f"FINDING {finding}", file=sys.stderr, flush=True)


@dataclass
class LogReader:
    """Reads what a process has logged since the last look."""

    process: Watched
    seen: int = 0

    def broken_rules(self) -> Iterable[tuple[str, str]]:
        """Which rules the new lines break, with the lines."""
        new = self.process.log_lines - self.seen
        self.seen = self.process.log_lines
        lines = list(self.process.log)[-new:] if new else []
        for line in lines:
            if line.startswith(FORGED) or "\x1b" in line:
                yield "no client writes lines of the log", repr(line[:200])
                break
        for at, line in enumerate(lines):
            if any(sign in line for sign in _SIGNS_OF_A_BUG):
                yield "no error from inside", "\n".join(_block(lines, at))


def _block(lines: list[str], at: int) -> list[str]:
    """The lines of a traceback: up to the error, which is the first one behind it that is not indented."""
    block = lines[max(0, at - 1) : at + 1]
    for line in lines[at + 1 : at + 60]:
        block.append(line)
        if not line.startswith((" ", "\t")):
            break
    return block[:1] + block[-4:]
