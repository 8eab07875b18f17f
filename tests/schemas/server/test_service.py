"""Writes of two instances at the same time, step by step: a log into which another instance writes first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaraw.errors import DeliveryTimeoutError, NetworkError, RecordTooLargeError, Stage
from kafkaraw.net import SystemClock
from kafkaraw.schemas.model import Schema
from kafkaraw.schemas.server.api_errors import ApiError
from kafkaraw.schemas.server.languages import StandardLanguages
from kafkaraw.schemas.server.log import MemoryLog
from kafkaraw.schemas.server.records import RegistryRecord, SchemaValue
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
