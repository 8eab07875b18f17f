"""`tests/test_imports.py` checks that nothing is registered on import; here: what the hooks do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PRELUDE = """
import logging, os, sys
from kafkaraw.net import process_hooks
from kafkaraw.net.process_hooks import at_exit, in_forked_child, install

def say(*words):
    print(*words, flush=True)
"""


def output_of(code: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split("\n")[:-1] + ran.stderr.split("\n")[:-1]


def test_exit_hooks_run_in_reverse_order_also_those_named_after_the_installation() -> None:
    code = """
        at_exit(lambda: say("first"))
        install()
        at_exit(lambda: say("second"))
        install()
    """
    assert output_of(code) == ["second", "first"]


def test_nothing_runs_without_an_installation() -> None:
    code = """
        at_exit(lambda: say("exit"))
        in_forked_child(lambda: say("fork"))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    """
    assert output_of(code) == []


def test_fork_hooks_run_in_the_child_in_the_order_of_their_naming() -> None:
    code = """
        in_forked_child(lambda: say("one", os.getpid() == parent))
        in_forked_child(lambda: say("two", os.getpid() == parent))
        parent = os.getpid()
        install()
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert output_of(code) == ["one False", "two False"]


def test_a_hook_that_fails_is_logged_and_the_others_run() -> None:
    code = """
        logging.basicConfig(format="%(message)s")

        def fails():
            raise SystemExit(5)

        at_exit(lambda: say("the other"))
        at_exit(fails)
        install()
    """
    lines = output_of(code)
    assert lines[0] == "the other"
    assert "__main__.fails failed at the end of the process" in lines
    assert lines[-1] == "SystemExit: 5"


def test_two_threads_install_once() -> None:
    code = """
        import atexit, threading
        registered = []
        atexit.register = registered.append
        barrier = threading.Barrier(8)

        def begin():
            barrier.wait()
            install()

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(len(registered))
    """
    assert output_of(code) == ["1"]


def test_workers_of_multiprocessing_run_the_exit_hooks_that_are_for_them() -> None:
    code = """
        import multiprocessing
        at_exit(lambda: say("not in workers", os.getpid() == parent))
        at_exit(lambda: say("in workers", os.getpid() == parent), of_workers=True)
        parent = os.getpid()

        def work(first_use):
            if first_use:
                install()

        context = multiprocessing.get_context("fork")
        worker = context.Process(target=work, args=(True,))  # the parent has used nothing, the worker does
        worker.start()
        worker.join()
        install()
        worker = context.Process(target=work, args=(False,))  # the parent's hooks are inherited
        worker.start()
        worker.join()
    """
    # Since Python 3.13 a worker runs the functions of `atexit` that it registered itself.
    first = ["in workers False", "not in workers False"] if sys.version_info >= (3, 13) else []
    every = [*first, "in workers False", "in workers False", "in workers True", "not in workers True"]
    assert output_of(code) == every
