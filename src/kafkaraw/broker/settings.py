"""How one setting is declared: its type, default, limits and meaning, and how its value is read from text.

Used by `config` (the broker's properties) and `topic_config` (a topic's). This module knows no names of settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.config_codes import ConfigType

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
        any_case: the text may be written in capitals, or not.
        is_list: the text is a list with commas.
        besides: a number that is allowed although it is below `low`.
        acted_on: whether this broker does something about it yet; others are accepted, kept and shown.
    """

    name: str
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False
    is_list: bool = False
    besides: int | None = None
    acted_on: bool = True

    @property
    def kind(self) -> ConfigType:
        """The type of its value, as Kafka names types: that of the default, and of the limits."""
        if self.is_list:
            return ConfigType.LIST
        if type(self.default) is int:
            return ConfigType.INT if self.high is not None and self.high <= INT_MAX else ConfigType.LONG
        return _KINDS[type(self.default)]

    def parse(self, given: Value, *, name: str | None = None) -> Value:
        """The value as the setting's type.

        Args:
            given: the text, or a value of a fitting type.
            name: under which it was given, when that is another one.

        Raises:
            ConfigError: it does not read as that type, or is outside the limits.
        """
        text = str(given).strip()
        problem = problem_with(self.kind, text)
        if problem:
            raise invalid(name or self.name, given, problem)
        value = text.lower() == "true" if isinstance(self.default, bool) else type(self.default)(text)
        problem = self._outside(value)
        if problem:
            raise invalid(name or self.name, value, problem)
        return value

    def _outside(self, value: Value) -> str | None:
        """Which limit a value breaks, in Kafka's words."""
        if isinstance(value, (int, float)):
            return self._outside_range(value)
        members = split_list(value) if self.is_list else [value.lower() if self.any_case else value]
        if not self.choices or all(member in self.choices for member in members):
            return None
        listed = ", ".join(self.choices)
        return f"String must be one of{f' (case insensitive): {listed.upper()}' if self.any_case else f': {listed}'}"

    def _outside_range(self, value: float) -> str | None:
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        if not (too_low or too_high) or (self.besides is not None and value == self.besides):
            return None
        if self.besides is not None:
            return f"Value must be between {self.low} and {self.high} or equal to {self.besides}"
        return f"Value must be at least {self.low}" if too_low else f"Value must be no more than {self.high}"


_KINDS: Final = {bool: ConfigType.BOOLEAN, float: ConfigType.DOUBLE, str: ConfigType.STRING}
_BITS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def problem_with(kind: ConfigType, value: str) -> str | None:
    """What is wrong with a text as a value of some type, in Kafka's words; None when nothing is."""
    text = value.strip()
    if kind is ConfigType.BOOLEAN:
        return None if text.lower() in ("true", "false") else "Expected value to be either true or false"
    if kind in _BITS or kind is ConfigType.DOUBLE:
        return None if _is_number(kind, text) else f"Not a number of type {kind.name}"
    return None


def _is_number(kind: ConfigType, text: str) -> bool:
    try:
        if kind is ConfigType.DOUBLE:
            return not math.isnan(float(text))
        bits = _BITS[kind]
        return "_" not in text and -(1 << bits) <= int(text) < 1 << bits
    except ValueError:
        return False


def invalid(name: str, value: Value, problem: str) -> ConfigError:
    """The error for a value that is not allowed, as Kafka words it."""
    shown = to_text(value) if isinstance(value, bool) else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {problem}")


def split_list(text: str) -> list[str]:
    """The members of a list with commas."""
    return [member.strip() for member in text.split(",") if member.strip()]


def to_text(value: Value) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, float):
        return str(value).replace("e+", "E").replace("e-", "E-")
    return str(value).lower() if isinstance(value, bool) else str(value)


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The table of settings, by name."""
    return {setting.name: setting for setting in settings}


def unknown(name: str, known: Iterable[str], what: str) -> ConfigError:
    """The error for a name that is not in the table; it suggests the nearest one."""
    return ConfigError(f"unknown {what} {name!r}{nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error's message: the name that was probably meant, if there is one."""
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def number(values: Mapping[str, Value], name: str) -> int:
    """A parsed setting that is a whole number."""
    value = values[name]
    assert isinstance(value, int), name
    return value


def real(values: Mapping[str, Value], name: str) -> float:
    """A parsed setting that is a number with a fraction."""
    value = values[name]
    assert isinstance(value, float), name
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
