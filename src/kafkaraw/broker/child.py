"""A broker in a child process, so that it takes no time from the interpreter of its user.

The first line of the child's output is its address. The child ends with its parent: its standard input is a pipe that
closes then, even if the parent is killed.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.foreground import ADDRESS_LINE, ERROR_LINE
from kafkaraw.broker.settings import to_text
from kafkaraw.errors import KafkaError, KafkaTimeoutError
from kafkaraw.net.threads import wait_interruptibly

START_TIMEOUT_S = 300.0  # a recovery after SIGKILL reads about 1 GB/s; the end of the process is noticed at once
STOP_TIMEOUT_S = 10.0


class BrokerProcess:
    """A running child process.

    Args:
        config: the broker's properties.

    Raises:
        KafkaError: the child ended at once; its own message is in this one.
        KafkaTimeoutError: it did not start in time.
    """

    def __init__(self, config: BrokerConfig) -> None:
        properties = {name: to_text(value) for name, value in config.properties.items()}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kafkaraw.broker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C in a terminal goes to the whole group: the parent's clients still need the broker to end well.
            start_new_session=True,
        )
        try:
            self._send_line(json.dumps({"properties": properties, "users": dict(config.security.users)}))
            self.bootstrap_servers: str = self._first_line()
        except BaseException:
            self.stop()
            raise

    def _send_line(self, line: str) -> None:
        # Not as an argument: it contains passwords and keys, and every local user can read the arguments of a process.
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _first_line(self) -> str:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not wait_interruptibly(lambda seconds: bool(selector.select(seconds)), START_TIMEOUT_S):
                raise KafkaTimeoutError(f"the broker process did not start within {START_TIMEOUT_S:g} s")
        line = self._process.stdout.readline().strip()
        if not line.startswith(ADDRESS_LINE):
            why = line.removeprefix(ERROR_LINE) or "see its message on standard error"
            raise KafkaError(f"the broker process ended during startup: {why}")
        return line.removeprefix(ADDRESS_LINE)

    @property
    def process_id(self) -> int:
        """The child's process id."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the child."""
        self._process.kill()
        self.stop()

    def stop(self) -> None:
        """Stop the child gracefully; kill it if it does not end in time.

        Raises:
            KafkaTimeoutError: it is there even then, as when the system waits for a dead disk on its behalf.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            if not self._has_ended(STOP_TIMEOUT_S):
                self._process.kill()
                if not self._has_ended(STOP_TIMEOUT_S):
                    raise KafkaTimeoutError(
                        f"the broker process {self.process_id} was killed {STOP_TIMEOUT_S:g} s ago and has not ended; "
                        f"see what the system does for it (`ps -o stat,wchan {self.process_id}`)"
                    )
        finally:
            self._process.stdout.close()

    def _has_ended(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)  # looks often, so that Ctrl-C ends it
        except subprocess.TimeoutExpired:
            return False
        return True
