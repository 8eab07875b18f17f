from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from kafkaraw.net.daemon_thread import run_in_daemon_thread


def test_results_and_errors_come_back_and_context_goes_along():
    colour = contextvars.ContextVar("colour", default="none")

    async def main() -> None:
        colour.set("red")
        assert await run_in_daemon_thread(lambda: (colour.get(), threading.current_thread().name), "t") == ("red", "t")
        with pytest.raises(ZeroDivisionError):
            await run_in_daemon_thread(lambda: 1 // 0, "t")

    asyncio.run(main())


def test_being_cancelled_does_not_wait_for_it():
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(30)
        ended.set()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run_in_daemon_thread(work, "t")

    asyncio.run(main())
    assert not ended.is_set()
    release.set()  # after the loop has closed: nobody hears of it
    assert ended.wait(10)


def test_it_does_not_hold_the_process_at_its_end():
    code = """if True:
        import asyncio, time
        from kafkaraw.net.daemon_thread import run_in_daemon_thread

        async def main():
            try:
                async with asyncio.timeout(0.01):
                    await run_in_daemon_thread(lambda: time.sleep(1000), "t")
            except TimeoutError:
                print("gave up")

        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "gave up\n"
