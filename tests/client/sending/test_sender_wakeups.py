"""The timer of the sender's wakeups."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending.sender import SenderWakeups


def test_a_time_that_has_passed_is_no_problem_on_uvloop() -> None:
    """There the handle of such a timer has no `when`."""
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed: pip install 'kafkaraw[dev]'")

    async def main() -> None:
        made = asyncio.Event()
        wakeups = SenderWakeups(made.set)
        wakeups.loop = asyncio.get_running_loop()
        wakeups.wakeup_at(wakeups.now_ms() - 10)
        assert wakeups.is_due_within(0)
        wakeups.wakeup_at(wakeups.now_ms() - 20)
        await asyncio.wait_for(made.wait(), 10)

    uvloop.run(main())
