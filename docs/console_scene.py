"""What the pictures of the console show besides topics: a pipeline and a mirror that run, clients behind a tap, faults.

Start at `scene`.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafkaraw import Admin, Consumer, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker, Faults
from kafkaraw.cli.console_mirrors import ConfiguredMirror, found_mirrors
from kafkaraw.cli.console_pipelines import pipelines_in
from kafkaraw.console.settings import CLIENT_ID
from kafkaraw.errors import KafkaError
from kafkaraw.inspect import Tap, add_rule

_READY_S: Final = 300.0
_CUSTOMERS: Final = ("ada", "bob", "eve", None)


@contextlib.contextmanager
def scene(broker: EmbeddedBroker) -> Iterator[dict[str, Any]]:
    """Run everything; yield what the cluster's settings need for it."""
    servers = broker.bootstrap_servers
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        east = stack.enter_context(EmbeddedBroker())
        tap = Tap(servers)
        ended = threading.Event()
        stack.callback(ended.set)
        _kafkaraw("pipelines", "init", "shop", "-b", servers, cwd=folder).wait(_READY_S)
        for work in (
            lambda: _fill(servers, "shop.orders", ended),
            lambda: _fill(east.bootstrap_servers, "orders", ended),
        ):
            threading.Thread(target=work, daemon=True).start()
        stack.callback(_stop, _kafkaraw("pipelines", "run", cwd=folder / "shop"))
        mirror = folder / "mirror.properties"
        mirror.write_text(
            f"clusters = east, west\neast.bootstrap.servers = {east.bootstrap_servers}\n"
            f"west.bootstrap.servers = {servers}\n"
            "east->west.enabled = true\nemit.heartbeats.interval.seconds = 1\n"
            "refresh.topics.interval.seconds = 2\n"
        )
        stack.callback(_stop, _kafkaraw("mirror", "run", str(mirror), cwd=folder))
        _wait_for_rows(folder / "shop" / "storage" / "status.json")
        threading.Thread(target=lambda: _clients(tap, ended), daemon=True).start()
        yield {
            "pipelines": pipelines_in([folder]),
            "mirrors": {"mirror.properties": ConfiguredMirror(mirror)},
            "found_mirrors": found_mirrors,
            "tap": lambda: tap,
            "starts_tap": True,
            "faults": broker.faults,
        }


def set_faults(plan: Faults) -> None:
    """Switch faults on, which spare the console."""
    plan.spare(CLIENT_ID)
    for rule in ("Produce client=checkout every=40: answer NOT_ENOUGH_REPLICAS", "Fetch client=billing: delay 200ms"):
        add_rule(plan, rule)


def _kafkaraw(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kafkaraw", *arguments]
    with (cwd / "said.log").open("ab") as said:
        return subprocess.Popen(command, cwd=cwd, stdout=said, stderr=said)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(_READY_S)


def _wait_for_rows(status: Path) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        if status.exists() and sum(each["batches"] for each in json.loads(status.read_text())["flows"]) > 6:
            return
        time.sleep(0.5)
    said = (status.parents[1] / "said.log").read_text()[-2_000:]
    raise TimeoutError(f"{status}: the pipeline has read nothing for {_READY_S:g} s; it says:\n{said}")


def _fill(servers: str, topic: str, ended: threading.Event) -> None:
    rng = random.Random(2)
    with Producer(bootstrap_servers=servers) as producer:
        number = 0
        while not ended.wait(0.05):
            for _ in range(10):
                number += 1
                order = {"id": number, "customer": rng.choice(_CUSTOMERS), "amount": rng.randrange(-50, 900) / 10}
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                producer.send(topic, json.dumps({**order, "at": at}).encode() if number % 97 else b"?")


def _clients(tap: Tap, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        with contextlib.suppress(KafkaError):
            through = tap.bootstrap_servers
            break
    with (
        contextlib.suppress(KafkaError),  # at the end, the tap goes first
        Admin(bootstrap_servers=through, client_id="deployment") as admin,
        Producer(bootstrap_servers=through, client_id="checkout") as producer,
        Consumer(bootstrap_servers=through, client_id="billing", group_id="invoices") as consumer,
    ):
        consumer.subscribe(["orders"])
        while not ended.wait(0.15):
            with contextlib.suppress(KafkaError):
                admin.create_topics([NewTopic("orders", partitions=3)])
            producer.send("orders", json.dumps({"id": 1, "status": "new"}).encode())
            consumer.poll(0.1)
            consumer.commit()
