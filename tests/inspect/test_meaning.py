"""What values mean, in words."""

from __future__ import annotations

import pytest

from kafkaraw.inspect.meaning import api_words, error_words, field_docs, summary_of, timestamp_words
from kafkaraw.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1_700_000_000_005, "2023-11-14 22:13:20.005Z"),
        (-1, ""),
        (0, ""),
        (2**62, ""),
        (None, ""),
    ],
)
def test_times_are_dates_when_they_can_be(value: object, words: str):
    assert timestamp_words(value) == words


def test_errors_and_apis_have_names():
    assert error_words(3).startswith("UNKNOWN_TOPIC_OR_PARTITION: ")
    assert error_words(31_000) == "a code that this version does not know"
    assert (api_words(18), api_words(999), api_words("x")) == ("ApiVersions", "", "")


def test_declarations_carry_the_words():
    assert field_docs(MetadataResponsePartition)["leader_id"] == "broker that leads it; -1 when there is none"
    assert summary_of(MetadataResponse) == "The cluster as this broker knows it."
