"""Apache Kafka's own schemas and codecs, taken from its jars: the outside source that declarations are held against."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.interop.apache_kafka import ApacheKafkaError, fetch_jars, why_missing
from tests.java_options import QUICK_JVM

HERE = Path(__file__).parent
# The last release that spoke the versions which KIP-896 removed.
OLD_VERSION = "3.9.2"
NEW, OLD = "4.3.1", OLD_VERSION
SCHEMA_JARS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-metadata",
    "kafka-storage",
)


def why_no_oracle() -> str | None:
    """What this machine lacks to ask Apache's own classes, or None when it can."""
    return why_missing()


@cache
def old_clients_jar() -> Path:
    """The jar of kafka-clients 3.9, fetched once per user."""
    target = fetch_jars().parent / f"kafka-clients-{OLD_VERSION}.jar"
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _copy_artifact(f"org.apache.kafka:kafka-clients:{OLD_VERSION}", target)
    return target


def _copy_artifact(artifact: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        command = ["mvn", "-B", "-q", "-f", str(HERE.parents[1] / "interop" / "pom.xml"), "dependency:copy"]
        command += [f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise ApacheKafkaError(f"Maven could not fetch {artifact}:\n{(done.stdout + done.stderr)[-2000:]}")
        shutil.move(str(Path(scratch, target.name)), target)


AHEAD: Final = {"ApiVersionsRequest": 5, "ApiVersionsResponse": 5}
"""Versions that are declared before a release of Apache has them, from this one on: KIP-1242."""


@cache
def schemas(release: str) -> dict[str, dict[str, Any]]:
    """Apache's JSON schemas of one release, by message name."""
    if release == OLD:
        jars = [old_clients_jar()]
    else:
        jars = [next(fetch_jars().glob(f"{name}-[0-9]*.jar")) for name in SCHEMA_JARS]
    found: dict[str, dict[str, Any]] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for member in archive.namelist():
                if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", member):
                    schema = json.loads(_without_comments(archive.read(member).decode()))
                    found[schema["name"]] = schema
    return found


def _without_comments(text: str) -> str:
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda match: match[1] or "", text)


class Oracle:
    """Apache's codecs behind a pipe (see Oracle.java).

    Args:
        release: which release's classes to ask.
    """

    def __init__(self, release: str) -> None:
        jars = sorted(fetch_jars().glob("*.jar"))
        if release == OLD:
            jars = [old_clients_jar(), *(jar for jar in jars if jar.name.startswith(("jackson-", "slf4j-api")))]
        command = ["java", "-Xmx256M", *QUICK_JVM, "-cp", ":".join(map(str, jars)), str(HERE / "Oracle.java")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def read_bytes(self, name: str, version: int, encoded: bytes) -> tuple[bytes, Any]:
        """Have Apache read bytes: what it writes again, and what it understood, as its JSON."""
        rewritten, understood = self._ask(f"bytes {name} {version} {encoded.hex()}").split(" ", 1)
        return bytes.fromhex(rewritten), json.loads(understood)

    def read_json(self, name: str, version: int, value: Any) -> bytes:
        """Have Apache read a value from its JSON and write it as bytes."""
        return bytes.fromhex(self._ask(f"json {name} {version} {json.dumps(value)}"))

    def _ask(self, line: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        kind, _, rest = answer.partition(" ")
        if kind != "ok":
            raise AssertionError(f"Apache says of {line[:300]}: {answer[:500] or 'nothing'}")
        return rest
