"""Writes of two instances at the same time, step by step: a log into which another instance writes first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaraw.errors import DeliveryTimeoutError, NetworkError, RecordTooLargeError, Stage
from kafkaraw.net import SystemClock
from kafkaraw.schemas.languages import guid_of
from kafkaraw.schemas.model import Schema, SchemaReference
from kafkaraw.schemas.server import parsing
from kafkaraw.schemas.server.api_errors import ApiError
from kafkaraw.schemas.server.languages import StandardLanguages
from kafkaraw.schemas.server.log import MemoryLog
from kafkaraw.schemas.server.records import Key, KeyType, RegistryRecord, SchemaValue
from kafkaraw.schemas.server.requests import SchemaRequest
from kafkaraw.schemas.server.service import WRITE_ATTEMPTS, Leadership, NotPrimaryError, RegistryService
from kafkaraw.schemas.server.state import Outcome, State


class SharedLog(MemoryLog):
    """A log into which another instance writes before each of our writes."""

    def __init__(self, others: Sequence[SchemaValue]) -> None:
        super().__init__(State(StandardLanguages().guid_of), SystemClock())
        self.others = list(others)
        self.written: list[RegistryRecord] = []
        self.error: Exception | None = None
        self.always_first = False

    async def append(self, records: Sequence[RegistryRecord]) -> list[Outcome]:
        if self.error is not None:
            raise self.error
        if self.always_first:
            number = self.state.next_id("s")
            name = json.dumps({"type": "fixed", "name": f"F{number}", "size": number})
            self.others = [SchemaValue(f"other{number}", 1, number, Schema(name))]
        if self.others:
            other = self.others.pop(0)
            assert (await super().append([RegistryRecord(other.key, other)]))[0].applied
        self.written += records
        return await super().append(records)


def register(service: RegistryService, subject: str, text: str) -> Any:
    return asyncio.run(service.register(subject, SchemaRequest(text)))


def made(log: SharedLog, leadership: Leadership | None = None) -> RegistryService:
    return RegistryService(log, StandardLanguages(), leadership=leadership)


def test_an_id_that_another_instance_took_first_is_given_to_it_alone() -> None:
    other = SchemaValue("other", 1, 1, Schema('"long"'))
    log = SharedLog([other])
    service = made(log)
    answer = register(service, "s", '"int"')
    assert (answer["id"], answer["version"]) == (2, 1)
    # The refused record is taken back, so that compaction keeps nothing of it and other registries forget it.
    key = SchemaValue("s", 1, 1, Schema('"int"')).key
    assert [(it.key, it.value and it.value.id) for it in log.written] == [(key, 1), (key, None), (key, 2)]
    found = [log.state.by_id(number, None) for number in (1, 2)]
    assert [it.value.schema.text for it in found if it] == ['"long"', '"int"']


def test_a_version_that_another_instance_took_first_stays_and_is_compared_with() -> None:
    log = SharedLog([SchemaValue("s", 1, 1, Schema('"string"'))])
    with pytest.raises(ApiError) as refused:  # planned again, "int" is no longer the first version
        register(made(log), "s", '"int"')
    assert refused.value.error_code == 40901
    log = SharedLog([SchemaValue("s", 1, 7, Schema('"int"'))])
    answer = register(made(log), "s", '"long"')  # a promotion, which is compatible
    assert (answer["id"], answer["version"]) == (8, 2)
    assert [it.value.schema.text for it in log.state.versions("s")] == ['"int"', '"long"']


def test_a_writer_that_always_loses_gives_up_with_an_error() -> None:
    log = SharedLog([])
    log.always_first = True
    with pytest.raises(ApiError) as refused:
        register(made(log), "s", '"long"')
    assert refused.value.error_code == 50001
    assert sum(it.value is not None for it in log.written) == WRITE_ATTEMPTS
    assert log.state.versions("s") == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DeliveryTimeoutError("not acknowledged"), 50002),
        (NetworkError("gone", stage=Stage.CONNECT), 50001),
        (RecordTooLargeError("too large"), 42209),
    ],
)
def test_failures_of_kafka_have_confluents_codes(error: Exception, code: int) -> None:
    log = SharedLog([])
    log.error = error
    with pytest.raises(ApiError) as refused:
        register(made(log), "s", '"int"')
    assert refused.value.error_code == code
    log.error = None


class Secondary(Leadership):
    """Another instance is the primary."""

    @property
    def is_primary(self) -> bool:
        return False

    @property
    def primary_url(self) -> str:
        return "http://primary:8081"


def test_an_instance_that_is_not_the_primary_writes_nothing_and_names_the_primary() -> None:
    log = SharedLog([])
    with pytest.raises(NotPrimaryError) as forwarded:
        register(made(log, Secondary()), "s", '"int"')
    assert forwarded.value.url == "http://primary:8081"
    assert log.written == []


def test_a_write_does_not_wait_forever_for_earlier_ones() -> None:
    class Stuck(SharedLog):
        async def catch_up(self) -> None:
            await asyncio.Event().wait()

    async def run() -> None:
        log = Stuck([])
        service = RegistryService(log, StandardLanguages(), turn_timeout_s=0.01)
        first = asyncio.create_task(service.register("s", SchemaRequest('"int"')))
        await asyncio.sleep(0)
        for _ in range(3):
            with pytest.raises(ApiError) as late:
                await service.register("t", SchemaRequest('"int"'))
            assert late.value.to_json() == {"error_code": 50002, "message": "Register operation timed out"}
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        service.close()

    asyncio.run(run())


def test_parsed_schemas_are_kept_by_the_size_of_their_texts_and_of_those_they_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parsing, "CACHED_CHARACTERS_MAX", 1_000)
    kept: parsing._Kept[str, int] = parsing._Kept()
    for number in range(20):
        kept.put(str(number), number, 100)
    assert [key for key in map(str, range(20)) if key in kept] == [str(number) for number in range(10, 20)]
    assert kept.get("10") == 10  # used last now
    kept.put("large", 0, 850)
    assert ("10" in kept, "11" in kept, "19" in kept) == (True, False, False)
    kept.put("too large", 0, 1_001)
    assert "too large" not in kept

    state = State(guid_of)
    referenced = Schema('{"type":"record","name":"R","fields":[]}')
    state.apply(RegistryRecord(Key(KeyType.SCHEMA, "r", 1), SchemaValue("r", 1, 1, referenced)), 0, 0)
    parser = parsing.Parser(StandardLanguages(), state)
    resolved = parser.resolve(Schema('"R"', references=(SchemaReference("R", "r", 1),)), "s")
    assert resolved.characters == len('"R"') + len(referenced.text)
