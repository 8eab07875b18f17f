"""Bytes against the independent codecs of the package kio: the comparison for machines without Java.

kio is generated from Apache's schemas by others. Our bytes, read by kio and written again, must come back the same. kio
makes Python values of some numbers (error codes, durations, times), so those are drawn from what it can express; and it
drops tagged fields that it does not know, so there are none.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import re
import typing
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafkaraw.protocol import encode_message
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import Direction, header_of, spec_of
from kafkaraw.protocol.describe import embedded_messages, embedded_modules
from kafkaraw.protocol.types import ZERO_UUID
from tests.protocol.message_values import random_message
from tests.protocol.oracle.apache import why_no_oracle

kio_serial = pytest.importorskip("kio.serial", reason="kio is not installed (pip install kio)")

# Apache's own classes say more; with them at hand a few values keep this comparison itself in order.
VALUES_PER_VERSION = 50 if why_no_oracle() else 3
TIME_MS_MAX = 4_000_000_000_000
DURATION_MS_MAX = 1_000_000_000

MESSAGES = [cls for api in API_TABLE for cls in (api.request, api.response)]
EMBEDDED = [cls for module in embedded_modules() for cls in embedded_messages(module)]


def entity_of(cls: type[object], version: int) -> type | None:
    """kio's class for one version of a message, or None when it has none."""
    name = cls.__name__
    direction = header_of(cls).direction
    stem = name if direction is Direction.DATA else re.sub("(Request|Response)$", "", name)
    folder = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", stem).lower()
    try:
        found = importlib.import_module(f"kio.schema.{folder}.v{version}.{direction}")
    except ModuleNotFoundError:
        return None
    entity = getattr(found, name)
    assert isinstance(entity, type)
    return entity


def express(message: Any, version: int, entity: Any, rng: random.Random) -> None:
    """Replace what kio has no Python value for, and drop unknown tags; fields pair up by their order."""
    message.unknown_tagged_fields = None
    ours = [field for field in spec_of(type(message)).fields if field.versions.includes(version)]
    hints = typing.get_type_hints(entity)
    for our, their in zip(ours, dataclasses.fields(entity), strict=True):
        value = getattr(message, our.name)
        draw = DRAWS.get(their.metadata.get("kafka_type", ""))
        if draw is not None and value is not None:
            setattr(message, our.name, [draw(rng) for _ in value] if isinstance(value, list) else draw(rng))
        for element in value if isinstance(value, list) else [value]:
            if hasattr(element, "unknown_tagged_fields"):
                express(element, version, _nested(hints[their.name]), rng)


def _nested(hint: Any) -> type:
    """The structure in `X | None`, `tuple[X, ...]` and the like."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return hint
    return next(found for arm in typing.get_args(hint) if arm is not Ellipsis and (found := _nested(arm)))


DRAWS: dict[str, Callable[[random.Random], int]] = {
    "error_code": lambda rng: rng.choice((-1, 0, 3, 35, 87)),
    "timedelta_i32": lambda rng: rng.randrange(DURATION_MS_MAX),
    "timedelta_i64": lambda rng: rng.randrange(DURATION_MS_MAX),
    "datetime_i64": lambda rng: rng.randrange(TIME_MS_MAX),
}


def as_ours(value: Any) -> Any:
    """kio's Python values as the plain ones that our messages have."""
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, tuple):
        return [as_ours(element) for element in value]
    if dataclasses.is_dataclass(value):
        return [as_ours(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


def as_list(value: Any, version: int) -> Any:
    """Our values in the same form: structures as the list of their fields."""
    if isinstance(value, list):
        return [as_list(element, version) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if not hasattr(value, "unknown_tagged_fields"):
        return None if value == ZERO_UUID else value  # kio reads the zero id as None
    fields = [field for field in spec_of(type(value)).fields if field.versions.includes(version)]
    return [as_list(getattr(value, field.name), version) for field in fields]


def kio_lacks(cls: type[object], version: int) -> bool:
    """What kio does not declare: versions that are gone (KIP-896, early access), later ones, coordinators' records."""
    is_record = header_of(cls).direction is Direction.DATA and header_of(cls).api_key >= 0
    is_later = (header_of(cls).api_key, version) == (18, 5)  # ApiVersions of KIP-1242
    return is_record or is_later or header_of(cls).removed.includes(version)


def read_and_written(entity: Any, encoded: bytes) -> tuple[Any, bytes]:
    """What kio understands of the bytes, and what it writes of that."""
    value, size = kio_serial.entity_reader(entity)(encoded, 0)
    assert size == len(encoded)
    written = io.BytesIO()
    kio_serial.entity_writer(entity)(written, value)
    return value, written.getvalue()


@pytest.mark.parametrize("cls", [*MESSAGES, *EMBEDDED], ids=lambda cls: cls.__name__)
def test_kio_reads_our_bytes_as_our_values_and_writes_them_the_same(cls: type[object]):
    versions = header_of(cls).versions
    for version in range(versions.min, versions.max + 1):
        entity = entity_of(cls, version)
        assert (entity is None) == kio_lacks(cls, version), version
        for seed in range(VALUES_PER_VERSION if entity is not None else 0):
            rng = random.Random(seed)
            message = random_message(cls, version, rng)
            express(message, version, entity, rng)
            encoded = encode_message(message, version)
            understood, written = read_and_written(entity, encoded)
            assert written == encoded, (version, seed)
            assert as_ours(understood) == as_list(message, version), (version, seed)


def test_what_kio_compares_is_most_of_the_protocol():
    compared = [cls for cls in MESSAGES if not kio_lacks(cls, header_of(cls).versions.max)]
    assert len(compared) == 2 * (
        len(API_TABLE) - 5
    )  # four APIs are gone since Kafka 4.0, ApiVersions has a later version
