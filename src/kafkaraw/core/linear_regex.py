"""Regular expressions that other people wrote, matched in linear time by RE2.

Python's `re` backtracks: `(.|.)*,` takes twice as long for each further character of the text. A pattern from the
network, or names that others choose, must not reach it. RE2's time is proportional to the text and to the size of the
pattern, and its memory is bounded. Apache Kafka uses RE2 too, as `re2j`. This module must not read patterns of its own
accord, and keeps nothing but RE2's cache of compiled patterns. Start at `compile_linear`.
Source: KIP-848 and KIP-1152; com.google.re2j of Kafka 4.3.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

PATTERN_LENGTH_MAX: Final = 32_768
"""Characters of a pattern: a choice between a thousand topic names fits."""
MEMORY_MAX_BYTES: Final = 1 << 18
"""RE2's memory for one pattern. `re2` keeps the last 128 patterns, so all of them together take 32 MiB at most."""


class InvalidRegexError(ValueError):
    """The pattern is not in RE2's syntax, or is too large; the message says why."""


class CompiledRegex(Protocol):
    """A compiled pattern, of RE2 or of Python's `re`."""

    def fullmatch(self, text: str, /) -> object | None:
        """Return a match if the whole text matches, otherwise None."""
        ...

    def search(self, text: str, /) -> object | None:
        """Return a match if any part of the text matches, otherwise None."""
        ...


@dataclass(frozen=True, slots=True)
class LinearRegex:
    """A compiled pattern.

    Attributes:
        pattern: its text.
        size: instructions of RE2's program. A match takes at most time in proportion to this times the text's length.
    """

    pattern: str
    size: int
    _compiled: Any

    def fullmatch(self, text: str, /) -> object | None:
        """Return a match if the whole text matches, otherwise None."""
        found: object | None = self._compiled.fullmatch(text)
        return found

    def search(self, text: str, /) -> object | None:
        """Return a match if any part of the text matches, otherwise None."""
        found: object | None = self._compiled.search(text)
        return found


def compile_linear(pattern: str, *, dot_matches_newline: bool = False) -> LinearRegex:
    """Compile a pattern in RE2's syntax (https://github.com/google/re2/wiki/Syntax).

    Args:
        pattern: the regular expression.
        dot_matches_newline: whether `.` matches line ends.

    Raises:
        InvalidRegexError: the pattern is invalid or too large.
        ConfigError: the package google-re2 is not installed.
    """
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidRegexError(f"it has {len(pattern)} characters, the limit is {PATTERN_LENGTH_MAX}")
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX_BYTES
    options.never_capture = True  # the matches of a pattern's groups are not used
    options.dot_nl = dot_matches_newline
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegexError(_reason(error)) from None
    except UnicodeEncodeError:
        raise InvalidRegexError("it holds half of a surrogate pair, which is not a character") from None
    return LinearRegex(pattern, compiled.programsize, compiled)


def _re2() -> Any:  # noqa: ANN401 - the module has no types
    try:
        import re2
    except ImportError as error:
        raise ConfigError(
            f"regular expressions are matched by RE2, which cannot be imported ({error}): "
            "install it with `pip install google-re2`"
        ) from None
    return re2


def _reason(error: Exception) -> str:
    """RE2's reason as text: it comes as bytes."""
    reason = error.args[0] if error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
