"""The option `resolveBatches`."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.options.resolutions import Resolution, parse_resolutions

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "exactlyOnce": "true"}


def test_batches_and_the_newest_decision_are_named() -> None:
    text = "57@1234=write, 6-9@none=skip"
    expected = (Resolution(57, 57, 1234, write=True), Resolution(6, 9, None, write=False))
    assert parse_resolutions("resolveBatches", text) == expected
    assert ", ".join(map(str, expected)) == text
    parsed = parse_options(GIVEN | {"resolveBatches": text}).exactly_once
    assert parsed is not None
    assert parsed.resolutions == expected


@pytest.mark.parametrize("text", ["", "57", "57=write", "57@=skip", "a@1=write", "9-6@1=skip", "57@-1=skip", "57@1=do"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"resolveBatches="):
        parse_options(GIVEN | {"resolveBatches": text})


def test_resolve_batches_needs_exactly_once() -> None:
    with pytest.raises(ConfigError, match="resolveBatches is only for exactlyOnce=true"):
        parse_options({"kafka.bootstrap.servers": "localhost:9092", "resolveBatches": "57@1=write"})
