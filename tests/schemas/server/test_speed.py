"""How long a subject with many versions takes: each new version is compared with all earlier ones."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from kafkaraw.net import SystemClock
from kafkaraw.schemas.server.languages import StandardLanguages
from kafkaraw.schemas.server.log import MemoryLog
from kafkaraw.schemas.server.requests import SchemaRequest
from kafkaraw.schemas.server.service import RegistryService
from kafkaraw.schemas.server.state import State

NINE_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "quantity", "type": ["null", "int"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "price", "type": "double"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "city", "type": "string"},
    {"name": "number", "type": "int"},
]


def schema(number: int) -> str:
    fields = [*NINE_FIELDS, {"name": f"extra{number}", "type": ["null", "string"], "default": None}]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


async def register_versions(count: int) -> float:
    """Register versions of one subject, and return the seconds of CPU that this took."""
    languages = StandardLanguages()
    service = RegistryService(MemoryLog(State(languages.guid_of), SystemClock()), languages)
    await service.update_config("orders", {"compatibility": "BACKWARD_TRANSITIVE"})
    began = time.process_time()
    for number in range(count):
        answer = await service.register("orders", SchemaRequest(schema(number)))
        assert answer["version"] == number + 1
    service.close()
    return time.process_time() - began


@pytest.mark.soak
def test_a_thousand_versions_are_registered_in_ten_seconds() -> None:
    assert asyncio.run(register_versions(1_000)) < 10
