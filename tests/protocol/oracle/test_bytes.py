"""Bytes and values against Apache Kafka's own classes, for every message in every version, in both directions."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator

import pytest

import kafkaraw.protocol.embedded
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import VERSION_MAX, Direction, declared_classes, header_of, spec_of
from tests.protocol.message_values import random_message
from tests.protocol.oracle.apache import AHEAD, NEW, OLD, Oracle, why_no_oracle
from tests.protocol.oracle.apache_json import holds_records, to_apache
from tests.simulation import seeds

# The first test on a machine waits until Maven has fetched the jars.
pytestmark = [
    pytest.mark.skipif(why_no_oracle() is not None, reason=why_no_oracle() or ""),
    pytest.mark.timeout(600),
]

IN_A_COMMIT, IN_A_SOAK = 4, 100
_FIRST = seeds.FIRST // 1000 % (IN_A_SOAK // IN_A_COMMIT) * IN_A_COMMIT
VALUES = pytest.mark.parametrize(
    "values",
    [range(_FIRST, _FIRST + IN_A_COMMIT), pytest.param(range(IN_A_SOAK), marks=pytest.mark.soak)],
    ids=lambda values: f"{len(values)} values",
)
"""The seeds of the values of each message in each version; each commit has other ones."""


def data_classes() -> list[type[object]]:
    """Every structure that travels inside bytes fields or records."""
    for module in pkgutil.iter_modules(kafkaraw.protocol.embedded.__path__):
        importlib.import_module(f"{kafkaraw.protocol.embedded.__name__}.{module.name}")
    return [
        cls
        for cls in declared_classes()
        if header_of(cls).direction is Direction.DATA and cls.__module__.startswith("kafkaraw.")
    ]


def versions_by_release() -> dict[str, list[tuple[type[object], int]]]:
    """Which release's classes know which version."""
    found: dict[str, list[tuple[type[object], int]]] = {NEW: [], OLD: []}
    for api in API_TABLE:
        for cls in (api.request, api.response):
            removed = header_of(cls).removed
            for version in range(api.versions.min, api.versions.max + 1):
                if version < AHEAD.get(cls.__name__, VERSION_MAX):
                    found[OLD if removed.includes(version) else NEW].append((cls, version))
    for cls in data_classes():
        versions = header_of(cls).versions
        found[NEW] += [(cls, version) for version in range(versions.min, versions.max + 1)]
    return found


@pytest.fixture(scope="module", params=[NEW, OLD])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def oracle(release: str) -> Iterator[Oracle]:
    with Oracle(release) as oracle:
        yield oracle


@VALUES
def test_apache_reads_our_bytes_as_our_values_and_writes_them_the_same(
    release: str, oracle: Oracle, values: range
) -> None:
    compared = 0
    for cls, version in versions_by_release()[release]:
        opaque = holds_records(spec_of(cls))
        for seed in values:
            message = random_message(cls, version, random.Random(seed))
            encoded = encode_message(message, version)
            rewritten, understood = oracle.read_bytes(cls.__name__, version, encoded)
            where = f"{cls.__name__} v{version} seed {seed}"
            assert rewritten == encoded, where
            assert opaque or understood == to_apache(message, version), where
            compared += 1
    assert compared >= len(values) * 100


@VALUES
def test_we_read_apaches_bytes_as_apaches_values(release: str, oracle: Oracle, values: range) -> None:
    compared = 0
    for cls, version in versions_by_release()[release]:
        if holds_records(spec_of(cls)):
            continue  # Apache's JSON has no records; the other direction compares their bytes
        for seed in values:
            message = random_message(cls, version, random.Random(10_000 + seed))
            message.unknown_tagged_fields = None  # type: ignore[attr-defined]  # Apache's JSON has none
            _forget_unknown_tags(message)
            written = oracle.read_json(cls.__name__, version, to_apache(message, version))
            where = f"{cls.__name__} v{version} seed {seed}"
            decoded = decode_message(cls, version, written)
            assert decoded == message, where
            assert encode_message(decoded, version) == written, where
            compared += 1
    assert compared >= len(values) * 90


def _forget_unknown_tags(message: object) -> None:
    message.unknown_tagged_fields = None  # type: ignore[attr-defined]
    for field in spec_of(type(message)).fields:
        value = getattr(message, field.name)
        for element in value if isinstance(value, list) else [value]:
            if hasattr(element, "unknown_tagged_fields"):
                _forget_unknown_tags(element)
