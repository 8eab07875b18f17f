"""The principal of a client certificate: `ssl.principal.mapping.rules` (KIP-371).

Rules are tried in order; the first whose pattern matches the whole name gives the user's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass

NAME: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_REPLACED: Final = re.compile(
    r"\\(?P<literal>.)|\$(?P<digits>\d+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<char>.)", re.S
)
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        # Every match is replaced, as Java's replaceAll does it: a pattern that matches "" does so at the end once more.
        return _CASES[self.case](self.pattern.sub(self._fill, name))

    def _fill(self, found: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)


class PrincipalMapping:
    """The rules.

    Args:
        text: as in the property: `RULE:pattern/replacement/[LU]` and `DEFAULT`, with commas between them.

    Raises:
        ConfigError: it is not of that form.
    """

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule | None] = []  # None: the name as it is
        at = 0
        while text[at:].strip():
            found = _RULE.match(text, at)
            if found is None:
                raise ConfigError(
                    f"{NAME}: {text[at:].strip()!r} is not of the form RULE:pattern/replacement/[LU], or DEFAULT"
                )
            self._rules.append(None if found["default"] else _rule(found))
            at = found.end()

    def user(self, name: str) -> str | None:
        """The user's name for a certificate's subject; None when no rule matches."""
        for rule in self._rules:
            user = name if rule is None else rule.apply(name)
            if user is not None:
                return user
        return None


def _rule(found: re.Match[str]) -> _Rule:
    try:
        pattern = re.compile(found["pattern"])
    except re.error as error:
        raise ConfigError(f"{NAME}: {found['pattern']!r} is not a valid regular expression: {error}") from None
    return _Rule(pattern, tuple(_parts(found["replacement"], pattern)), found["case"])


def _parts(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Texts and numbers of groups, by the rules of Java's `replaceAll`; an unknown group is kept as text."""
    parts: list[str | int] = []
    for found in _REPLACED.finditer(replacement):
        if found["literal"] is not None or found["char"] is not None:
            parts.append(found["literal"] or found["char"])
        elif found["name"] is not None:
            if found["name"] not in pattern.groupindex:
                raise ConfigError(f"{NAME}: {pattern.pattern!r} has no group {found['name']!r}")
            parts.append(pattern.groupindex[found["name"]])
        else:
            parts += _numbered(found["digits"], pattern.groups)
    return parts


def _numbered(digits: str, groups: int) -> list[str | int]:
    """As many digits as still name a group that is there; the others are text."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= groups:
            return [int(digits[:size]), digits[size:]]
    return ["$" + digits]
