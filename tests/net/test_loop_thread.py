"""The loop thread. Fork, exit and Ctrl-C are watched from outside: each of these tests is a small program that must end
by itself, without a word on stderr.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Coroutine, Iterator

import pytest

from kafkaraw.errors import ClosedError, KafkaTimeoutError, UsageError
from kafkaraw.net import AsyncioNetwork, LoopThread, client_loop_thread
from kafkaraw.net.loop_thread import _Call
from tests.interrupting import interrupted_elsewhere
from tests.net.handlers import Answerers, Recorder


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    loop_thread = LoopThread("test")
    yield loop_thread
    loop_thread.stop()


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def output_of(program: str) -> str:
    preamble = (
        "import asyncio, os, signal, sys, threading, time\n"
        "from kafkaraw.net import *\n"
        "from kafkaraw.net import threads\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", preamble + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_it_starts_on_first_use_only(loop_thread: LoopThread) -> None:
    before = threading.active_count()
    assert loop_thread.run(answer(1)) == 1
    assert loop_thread.run(answer(2)) == 2
    assert threading.active_count() == before + 1


def test_the_coroutines_own_error_comes_out(loop_thread: LoopThread) -> None:
    async def fail() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        loop_thread.run(fail(), timeout=10)


def test_a_timeout_holds_and_cancels(loop_thread: LoopThread) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    with pytest.raises(KafkaTimeoutError, match=r"within 0\.01 s"):
        loop_thread.run(wait(), timeout=0.01)
    assert cancelled.wait(10)


def test_a_coroutine_that_will_not_leave_cannot_hold_its_caller(loop_thread: LoopThread) -> None:
    leave = threading.Event()
    left = threading.Event()

    async def stubborn() -> None:
        while not leave.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        left.set()

    with pytest.raises(KafkaTimeoutError):
        loop_thread.run(stubborn(), timeout=0.01)
    leave.set()
    assert left.wait(10)


def test_it_refuses_to_wait_for_itself(loop_thread: LoopThread) -> None:
    async def call_back() -> int:
        return loop_thread.run(answer(1))

    async def begin() -> None:
        loop_thread.run_until_called(lambda over: over(None))

    with pytest.raises(UsageError, match="loop thread itself"):
        loop_thread.run(call_back(), timeout=10)
    with pytest.raises(UsageError, match="loop thread itself"):
        loop_thread.run(begin(), timeout=10)


def test_it_can_be_used_by_many_threads(loop_thread: LoopThread) -> None:
    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(loop_thread.run(answer(n), 10))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20))


def test_run_until_called_waits_for_the_callback(loop_thread: LoopThread) -> None:
    told: list[bool] = []

    def begin(over: Callable[[BaseException | None], None]) -> None:
        def later() -> None:
            told.append(threading.current_thread().name == "test")
            over(None)
            over(ValueError("only the first counts"))

        asyncio.get_running_loop().call_later(0.01, later)

    loop_thread.run_until_called(begin)
    assert told == [True]


def test_run_until_called_raises_the_error_of_the_callback_or_of_the_function(loop_thread: LoopThread) -> None:
    def breaks(over: Callable[[BaseException | None], None]) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(KafkaTimeoutError, match="told"):
        loop_thread.run_until_called(lambda over: over(KafkaTimeoutError("told")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        loop_thread.run_until_called(breaks)


def test_stop_wakes_threads_in_run_until_called() -> None:
    loop_thread = LoopThread("test")
    begun, errors = threading.Event(), []

    def wait() -> None:
        try:
            loop_thread.run_until_called(lambda _: begun.set())
        except ClosedError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(10)
    loop_thread.stop()
    waiting.join(10)
    assert len(errors) == 1
    with pytest.raises(ClosedError):
        loop_thread.run_until_called(lambda over: over(None))


def test_after_stop_it_refuses() -> None:
    loop_thread = LoopThread("test")
    loop_thread.run(answer(1))
    loop_thread.stop()
    with pytest.raises(ClosedError, match="'test' was stopped"):
        loop_thread.run(answer(1))
    with pytest.raises(ClosedError):
        loop_thread.call_soon(print)
    loop_thread.stop()


def test_stop_wakes_threads_in_run() -> None:
    loop_thread = LoopThread("test")
    started = threading.Event()
    outcome: list[BaseException] = []

    async def wait() -> None:
        started.set()
        await asyncio.sleep(3600)

    def use() -> None:
        try:
            loop_thread.run(wait())
        except ClosedError as error:
            outcome.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    started.wait()
    loop_thread.stop()
    thread.join(10)
    assert len(outcome) == 1


def test_stopping_drops_open_connections() -> None:
    loop_thread = LoopThread("test")

    async def connect() -> tuple[Recorder, Recorder]:
        network, answerers = AsyncioNetwork(), Answerers()
        listener = await network.listen("127.0.0.1", 0, answerers, frame_size_max=100)
        client = Recorder()
        await network.dial("127.0.0.1", listener.port, client, timeout=10, frame_size_max=100)
        server = await answerers.next()
        await listener.close()
        return client, server

    ends = loop_thread.run(connect(), 10)
    loop_thread.stop()
    assert [type(end.lost.result()) for end in ends] == [ClosedError, ClosedError]
    assert "the loop of the connection to 127.0.0.1:" in str(ends[0].lost.result())


def test_a_loop_that_ends_by_a_fault_ends_its_calls_and_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    """A daemon that closes all descriptors closes the loop's, too."""
    loop_thread = LoopThread("test")
    loop = loop_thread.loop
    outcomes: list[BaseException] = []

    def wait(blocking: Callable[[], object]) -> None:
        with pytest.raises(ClosedError) as caught:
            blocking()
        outcomes.append(caught.value)

    threads = [
        threading.Thread(target=wait, args=[lambda: loop_thread.run(asyncio.sleep(60))]),
        threading.Thread(target=wait, args=[lambda: loop_thread.run_until_called(lambda over: None)]),
    ]
    for thread in threads:
        thread.start()
    while len(loop_thread._running.calls) < 2:
        time.sleep(0.001)
    loop_thread.run(asyncio.sleep(0))
    (selector, *_) = loop_thread._running.descriptors()
    os.close(selector)
    loop.call_soon_threadsafe(lambda: None)
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == 2
    assert "ended because of a fault (OSError(9" in str(outcomes[0])
    assert loop_thread.run(answer(1)) == 1
    assert loop_thread.loop is not loop
    loop_thread.stop()
    assert "ended because of a fault" in caplog.text


def test_all_clients_of_a_process_share_one() -> None:
    assert client_loop_thread() is client_loop_thread()


def test_ctrl_c_interrupts_at_once() -> None:
    printed = output_of("""
        cancelled = threading.Event()

        async def wait():
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled.set()

        try:
            client_loop_thread().run(wait())
        except KeyboardInterrupt:
            print("interrupted", cancelled.wait(10))
    """)
    assert printed == "interrupted True\n"


@pytest.mark.parametrize("wait", ["run(never())", "run_until_called(lambda over: note())"])
def test_ctrl_c_that_another_thread_gets_ends_the_wait(wait: str) -> None:
    """The system may give a signal to any thread; what blocks the main thread hears nothing of it then."""
    printed = output_of(f"""
        def note():
            hit = threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,))  # it goes to the thread that raises it
            hit.start()

        threads.SLICE_S = 0.1

        async def never():
            note()
            await asyncio.sleep(3600)

        client_loop_thread().run(asyncio.sleep(0))
        try:
            client_loop_thread().{wait}
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert printed == "interrupted\n"


def test_ctrl_c_ends_the_wait_for_the_thread_to_leave() -> None:
    busy, go_on = LoopThread("busy"), threading.Event()
    busy.call_soon(go_on.wait)
    with interrupted_elsewhere():
        busy.stop(600)
    go_on.set()


class Steps:
    """A coroutine that tells how far it has come, and on which thread it ends."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.ended_by = ""

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.ended_by = threading.current_thread().name
            self.ended.set()


def is_closed(coroutine: Coroutine[object, None, object]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def interrupt_in(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, after: Callable[[], object]) -> None:
    """Ctrl-C comes as if in the middle of a call: once it has done what it does, and `after`."""
    inner = getattr(owner, name)

    def call(*args: object) -> None:
        inner(*args)
        after()
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, call)


class InterruptedAtFirst:
    """A function in which Ctrl-C comes before it has done anything, once."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._over = False

    def __call__(self, *args: object) -> object:
        if self._over:
            return self._function(*args)
        self._over = True
        raise KeyboardInterrupt


def test_ctrl_c_before_it_is_handed_over_closes_the_coroutine(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()
    coroutine = steps.run()
    interrupt_in(monkeypatch, loop_thread, "_started", after=lambda: None)
    with pytest.raises(KeyboardInterrupt):
        loop_thread.run(coroutine)
    assert is_closed(coroutine)
    assert not steps.begun.is_set()


def test_ctrl_c_on_its_way_to_the_loop_closes_the_coroutine_there(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, steps = loop_thread.loop, Steps()
    coroutine = steps.run()
    with monkeypatch.context() as patches:
        patches.setattr(loop, "call_soon_threadsafe", InterruptedAtFirst(loop.call_soon_threadsafe))
        with pytest.raises(KeyboardInterrupt):
            loop_thread.run(coroutine)
    loop_thread.run(answer(1))  # what was to be done for it there has been done
    assert is_closed(coroutine)
    assert not steps.begun.is_set()


def test_ctrl_c_before_it_has_begun_lets_it_never_begin(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, steps = threading.Event(), Steps()
    coroutine = steps.run()
    loop_thread.call_soon(go_on.wait)  # the loop is busy
    interrupt_in(monkeypatch, loop_thread.loop, "call_soon_threadsafe", after=monkeypatch.undo)
    with pytest.raises(KeyboardInterrupt):
        loop_thread.run(coroutine)
    go_on.set()
    loop_thread.run(answer(1))
    assert is_closed(coroutine)
    assert not steps.begun.is_set()


def test_ctrl_c_after_it_has_begun_cancels_it_on_the_loop(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()

    def when_it_runs() -> None:
        monkeypatch.undo()
        assert steps.begun.wait(10)

    interrupt_in(monkeypatch, loop_thread.loop, "call_soon_threadsafe", after=when_it_runs)
    with pytest.raises(KeyboardInterrupt):
        loop_thread.run(steps.run())
    assert steps.ended.wait(10)
    assert steps.ended_by == "test"


def test_a_call_that_is_refused_closes_its_coroutine(loop_thread: LoopThread) -> None:
    coroutines = [answer(1), answer(2)]

    async def call_back() -> None:
        loop_thread.run(coroutines[0])

    with pytest.raises(UsageError):
        loop_thread.run(call_back())
    loop_thread.stop()
    with pytest.raises(ClosedError):
        loop_thread.run(coroutines[1])
    assert all(is_closed(coroutine) for coroutine in coroutines)


def test_cancelling_what_the_loop_ended_without_beginning_closes_it(loop_thread: LoopThread) -> None:
    """Ctrl-C on its way to a loop that then ends: nobody is left there to close it."""
    coroutine = answer(1)
    call = _Call(coroutine)
    place = loop_thread._started()
    loop_thread.stop()
    call.give_away(place)
    call.cancel()
    assert is_closed(coroutine)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_the_process_ends_nothing_in_a_callback(
    loop_thread: LoopThread, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def leave() -> None:
        raise error

    loop_thread.call_soon(leave)
    assert loop_thread.run(answer(1)) == 1
    assert f"{error!r} was raised on the thread 'test', where it ends nothing" in caplog.text


def test_sys_exit_on_the_loop_is_raised_in_the_waiting_thread(loop_thread: LoopThread) -> None:
    async def leave() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        loop_thread.run(leave())
    with pytest.raises(SystemExit):
        loop_thread.run_until_called(lambda _: sys.exit(3))
    assert loop_thread.run(answer(1)) == 1


def test_sys_exit_at_the_last_moment_does_not_keep_the_thread() -> None:
    """A loop that an exception leaves forgets that it was to stop."""
    place = LoopThread("test")._started()

    def end_and_exit() -> None:
        place.loop.call_soon(place._end)
        place.loop.call_soon(sys.exit)

    place.loop.call_soon_threadsafe(end_and_exit)
    assert place._has_ended(10)


def test_ctrl_c_while_the_thread_starts_leaves_no_thread(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            started.append(self)
            raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop_thread.run(answer(1))
    started[0].join(10)
    assert not started[0].is_alive()
    assert loop_thread.run(answer(2)) == 2


def test_a_signal_handler_may_make_calls_of_its_own() -> None:
    printed = output_of("""
        loop_thread = client_loop_thread()
        signal.signal(signal.SIGTERM, lambda *_: print(loop_thread.run(asyncio.sleep(0, "handled"))))
        with loop_thread._lock:  # as in the middle of a call
            signal.raise_signal(signal.SIGTERM)
    """)
    assert printed == "handled\n"


def test_the_loop_thread_ends_with_the_process() -> None:
    printed = output_of("""
        async def never():
            try:
                await asyncio.sleep(3600)
            finally:
                print("left")

        async def start():
            start.task = asyncio.create_task(never())
            await asyncio.sleep(0)

        client_loop_thread().run(start())
        LoopThread("private").run(asyncio.sleep(0))
        print("end")
    """)
    assert printed == "end\nleft\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
def test_a_forked_child_gets_a_new_thread_and_the_parent_keeps_its_own() -> None:
    printed = output_of("""
        import warnings
        warnings.filterwarnings("ignore", ".*use of fork.*")

        async def number():
            await asyncio.sleep(0.001)
            return 7

        loop_thread = client_loop_thread()
        loop_thread.run(number())
        child = os.fork()
        if child == 0:
            ok = loop_thread.run(number(), timeout=10) == 7
            sys.exit(0 if ok else 1)  # an ordinary exit: the atexit handlers must not hang either
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, loop_thread.run(number(), timeout=10))
    """)
    assert printed == "0 7\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
def test_a_child_forked_while_the_loop_is_busy_does_not_disturb_the_parent() -> None:
    printed = output_of("""
        import warnings
        warnings.filterwarnings("ignore", ".*use of fork.*")

        class Echo:
            def link_made(self, link): self.link = link
            def frame_received(self, frame): self.link.send([frame])
            def link_lost(self, error): pass
            def writing_paused(self, paused): pass

        class Count(Echo):
            count = 0
            def frame_received(self, frame):
                Count.count += 1
                self.link.send([frame])

        async def start():
            network = AsyncioNetwork()
            start.listener = await network.listen("127.0.0.1", 0, Echo, frame_size_max=100)
            link = await network.dial("127.0.0.1", start.listener.port, Count(), timeout=5, frame_size_max=100)
            link.send([b"ping"])

        async def wait_for(count):
            while Count.count < count:
                await asyncio.sleep(0.001)
            return "alive"

        loop_thread = client_loop_thread()
        loop_thread.run(start())
        for _ in range(10):
            child = os.fork()
            if child == 0:
                loop_thread.run(asyncio.sleep(0.001), timeout=10)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print(loop_thread.run(wait_for(Count.count + 50), timeout=20))
        async def close(): await start.listener.close()
        loop_thread.run(close())
    """)
    assert printed == "alive\n" * 10
