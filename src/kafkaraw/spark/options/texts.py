"""How the text of an option becomes a value; what makes no sense is refused, naming option and text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.java_regex import translate
from kafkaraw.spark.options.offsets import parse_json, partition_number

_DURATION: Final = re.compile(r"(\d+)([a-z]+)?")
_NAMED_BATCH: Final = re.compile(r"([A-Za-z0-9._-]{1,200})/(\d{1,18})")
_SPARKS_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def boolean(name: str, text: str) -> bool:
    """Either "true" or "false", in any case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError(f'{name}={text!r}: must be "true" or "false"')
    return value


def positive(name: str, text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value < 2**63:
        raise ConfigError(f"{name}={text!r}: must be a whole number from 1")
    return value


def count(name: str, text: str) -> int:
    """A whole number from 0."""
    return 0 if text.strip() == "0" else positive(name, text)


def duration_ms(name: str, text: str) -> int:
    """A duration as Spark writes it, in ms."""
    found = _DURATION.fullmatch(text.strip().lower())
    scale = _SPARKS_UNITS.get(found[2] or "ms") if found else None
    if found is None or scale is None:
        raise ConfigError(f'{name}={text!r}: must be a duration such as "30s", "15m" or "1h"')
    return int(found[1]) * scale


def pattern(name: str, text: str) -> str:
    """A regular expression of Java's, kept as text, without blanks around it."""
    trimmed = text.strip()
    if not trimmed:
        raise ConfigError(f'{name} is empty; give a regular expression, such as "orders-.*"; ".*" reads every topic')
    try:
        translate(trimmed)
    except ValueError as error:
        raise ConfigError(f"{name}={text!r}: {error}") from None
    return trimmed


def topics(name: str, text: str) -> tuple[str, ...]:
    """Names of topics with commas in between, each once."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise ConfigError(f'{name}={text!r} names no topic; give "topic" or "topic1,topic2"')
    return found


def locations(name: str, text: str) -> tuple[str, ...]:
    """Directories with commas in between, each once."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise ConfigError(f'{name}={text!r} names no directory; give "/var/lib/kafka/data" or "s3://bucket/kafka-*"')
    return found


def assignment(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Partitions by topic, in JSON."""
    value = parse_json(text, what=name)
    if not isinstance(value, dict) or not all(isinstance(partitions, list) for partitions in value.values()):
        raise ConfigError(f'{name}={text!r}: must be JSON such as {{"topic":[0,1]}}')
    chosen = {
        TopicPartition(topic, partition_number(partition, what=name))
        for topic, partitions in value.items()
        for partition in partitions
    }
    if not chosen:
        raise ConfigError(f'{name}={text!r} names no partition; give JSON such as {{"topic":[0,1]}}')
    return tuple(sorted(chosen))


def topic(name: str, text: str) -> str:
    """The topic to write to."""
    if not text.strip():
        raise ConfigError(f"{name} is empty; name the topic to write to, or leave it out and have a column `topic`")
    return text.strip()


def name_of(name: str, text: str) -> str:
    """A name that must not be empty."""
    if not text.strip():
        raise ConfigError(f"{name} is empty; give a name, or leave it out")
    return text.strip()


def columns(name: str, text: str) -> tuple[str, ...]:
    """Names of columns with commas in between; a comma in parentheses belongs to a transform."""
    found = tuple(part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip())
    if not found or len(set(found)) < len(found):
        raise ConfigError(f'{name}={text!r}: must name columns, each once, as in "day,country"')
    return found


def one_of(kind: type[StrEnum]) -> Callable[[str, str], StrEnum]:
    """Return how a member of this enum is read, in any case."""

    def read(name: str, text: str) -> StrEnum:
        try:
            return kind(text.strip().lower())
        except ValueError:
            raise ConfigError(f"{name}={text!r}: must be {', '.join(kind)}") from None

    return read


def headers(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Parse headers: a JSON object of texts."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ConfigError(f'{name}={text!r}: must be a JSON object of texts, such as {{"origin": "{{topic}}"}}')
    return tuple(found.items())


def named_batch(name: str, text: str) -> tuple[str, int]:
    """The name of a writer and the number of a micro-batch, as in "name/57"."""
    found = _NAMED_BATCH.fullmatch(text)
    if found is None:
        raise ConfigError(f'{name}={text!r}: must be a name and the number of a micro-batch, as in "name/57"')
    return found[1], int(found[2])
