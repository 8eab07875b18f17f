"""Nothing depends on assertions: programs pass under `python -O`, and no assertion in the sources does anything."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.optimized.programs import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_EFFECT = {"isinstance", "keys", "dict"}
"""What an assertion may call: it looks, and changes nothing."""
EFFECTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_programs_pass_without_assertions(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed: pip install 'kafkaraw[dev]'")
    done = subprocess.run(
        [sys.executable, "-O", "-m", "tests.optimized.programs", loop],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONASYNCIODEBUG": ""},
    )
    wanted = [f"{program.__name__}, {how}" for how in ("plaintext", "TLS and SASL") for program in PROGRAMS]
    assert (done.stdout.splitlines(), done.returncode) == (wanted, 0), done.stderr


def test_under_the_option_assertions_are_gone() -> None:
    """Else the test above would show nothing."""
    program = "import sys; assert False; print(sys.flags.optimize)"
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "1"


def test_no_assertion_in_the_sources_does_anything() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in [path.read_text()]
        if re.search(r"^\s*assert\b", text, re.MULTILINE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert) and does_something(node)
    ]
    assert found == []


def does_something(assertion: ast.Assert) -> bool:
    """Whether an assertion calls what may have an effect, or binds a name."""
    for node in ast.walk(assertion):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in WITHOUT_EFFECT:
                return True
        elif isinstance(node, EFFECTS):
            return True
    return False


@pytest.mark.parametrize("text", ["assert put(1)", "assert (x := 1)", "assert queue.pop()"])
def test_an_assertion_that_does_something_is_found(text: str) -> None:
    assertion = ast.parse(text).body[0]
    assert isinstance(assertion, ast.Assert)
    assert does_something(assertion)
