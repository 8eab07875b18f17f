"""How one setting is declared: its type, default, limits and meaning, and how its value is read from text.

Used by `config` (the broker's properties) and `topic_config` (a topic's). This module knows no names of settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkaraw.errors import ConfigError

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1

Value = str | int | float | bool
"""What a setting may be given as, and what its parsed value is. A list is text with commas, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Kafka's name for it.
        default: its parsed default; the default's type is the setting's type.
        doc: what it does, in one line.
        low: the smallest value allowed, for numbers.
        high: the largest value allowed, for numbers.
        choices: the values allowed, for text; for a list, those of its members.
        is_list: the text is a list with commas.
        acted_on: whether this broker does something about it yet; others are accepted, kept and shown.
    """

    name: str
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_list: bool = False
    acted_on: bool = True

    def parse(self, given: Value) -> Value:
        """The value as the setting's type.

        Raises:
            ConfigError: it does not read as that type, or is outside the limits.
        """
        value = self._typed(given)
        if self.low is not None and isinstance(value, (int, float)) and value < self.low:
            raise self._refuse(given, f"at least {self.low:g}")
        if self.high is not None and isinstance(value, (int, float)) and value > self.high:
            raise self._refuse(given, f"at most {self.high:g}")
        if self.choices:
            members = split_list(str(value)) if self.is_list else [str(value)]
            if any(member not in self.choices for member in members):
                raise self._refuse(given, f"one of {', '.join(self.choices)}")
        return value

    def _typed(self, given: Value) -> Value:
        text = str(given).strip()
        if isinstance(self.default, bool):
            if text.lower() not in ("true", "false"):
                raise self._refuse(given, "true or false")
            return text.lower() == "true"
        kind = type(self.default)
        try:
            return kind(text)
        except ValueError:
            raise self._refuse(given, "a whole number" if kind is int else "a number") from None

    def _refuse(self, given: Value, wanted: str) -> ConfigError:
        return ConfigError(f"Invalid value {given} for configuration {self.name}: it must be {wanted}")


def split_list(text: str) -> list[str]:
    """The members of a list with commas."""
    return [member.strip() for member in text.split(",") if member.strip()]


def to_text(value: Value) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The table of settings, by name."""
    return {setting.name: setting for setting in settings}


def unknown(name: str, known: Iterable[str], what: str) -> ConfigError:
    """The error for a name that is not in the table; it suggests the nearest one."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return ConfigError(f"unknown {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def number(values: Mapping[str, Value], name: str) -> int:
    """A parsed setting that is a whole number."""
    value = values[name]
    assert isinstance(value, int), name
    return value


def text(values: Mapping[str, Value], name: str) -> str:
    """A parsed setting that is text."""
    value = values[name]
    assert isinstance(value, str), name
    return value


def flag(values: Mapping[str, Value], name: str) -> bool:
    """A parsed setting that is true or false."""
    value = values[name]
    assert isinstance(value, bool), name
    return value
