"""Kafka's own Java client as one more adapter; see `clients` for what an adapter does.

Use it where Java itself is the yardstick. It runs in the JVM of the tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.clients import Received, Sample
from tests.interop.java_tools import shared_tools

SOURCE = Path(__file__).with_name("JavaClient.java")


def _field(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def _value(field: str) -> bytes | None:
    return None if field == "-" else bytes.fromhex(field)


class JavaClient:
    """kafka-clients, by way of JavaClient.java."""

    name = "Java"
    null_header_values = True

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        """As every adapter; Java's defaults are acks=all and idempotent."""
        assert acks == "all" and idempotent
        lines = []
        for sample in samples:
            headers = [field for name, value in sample.headers for field in (name.encode().hex(), _field(value))]
            lines.append("\t".join([_field(sample.key), _field(sample.value), str(sample.timestamp_ms), *headers]))
        self._run("\n".join(lines) + "\n", "produce", bootstrap_servers, topic, codec)

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        """As every adapter."""
        received = []
        for line in self._run("", "consume", bootstrap_servers, topic, str(partitions), str(count)).splitlines():
            partition, offset, key, value, timestamp_ms, *headers = line.split("\t")
            pairs = zip(headers[::2], headers[1::2], strict=True)
            sample = Sample(
                _value(key),
                _value(value),
                tuple((bytes.fromhex(name).decode(), _value(content)) for name, content in pairs),
                int(timestamp_ms),
            )
            received.append(Received(int(partition), int(offset), sample))
        return received

    def setting_names(self) -> dict[str, set[str]]:
        """Names of all settings, by kind of client."""
        found: dict[str, set[str]] = {}
        for line in self._run("", "names").splitlines():
            kind, _, name = line.partition("\t")
            found.setdefault(kind, set()).add(name)
        return found

    def _run(self, given: str, *arguments: str) -> str:
        return shared_tools().run(SOURCE, *arguments, given=given)
