r"""Translate Java's regexes for topic names into Python's.

`subscribePattern` is a Java regex, with syntax that Python's `re` does not have or spells differently:
`\p{Alpha}`, `\Q...\E`, classes within classes, `[a-z&&[^x]]`, flags in the middle. Topic names consist of 65
characters only, so every character class can be written as the list of those that it contains. That makes the
translation exact for topic names, and for nothing else.

A pattern that cannot be translated is refused. RE2 matches what it supports, in linear time; only patterns with
lookaround, back references, atomic groups or possessive quantifiers go to Python's `re`, which backtracks as Java does
(docs/decisions/0018). Start at `translate`.
Source: java.util.regex.Pattern.
"""

from __future__ import annotations

import contextlib
import re
import string
from dataclasses import dataclass, field
from typing import Final

from kafkaraw.core.linear_regex import CompiledRegex, InvalidRegexError, compile_linear

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters that topic names may contain."""

_DIGITS: Final = frozenset(string.digits)
_LOWER: Final = frozenset(string.ascii_lowercase)
_UPPER: Final = frozenset(string.ascii_uppercase)
_LETTERS: Final = _LOWER | _UPPER
_PUNCTUATION: Final = frozenset("._-")
_NONE: Final[frozenset[str]] = frozenset()

_ESCAPED_CLASSES: Final = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    "s": _NONE,
    "h": _NONE,
    "v": _NONE,
}
_PROPERTIES: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ALPHABET,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": ALPHABET,
    "Print": ALPHABET,
    "Blank": _NONE,
    "Cntrl": _NONE,
    "XDigit": frozenset(string.hexdigits),
    "Space": _NONE,
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaWhitespace": _NONE,
    "javaMirrored": _NONE,
    "L": _LETTERS,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION,
    "IsAlphabetic": _LETTERS,
    "IsLowercase": _LOWER,
    "IsUppercase": _UPPER,
    "IsDigit": _DIGITS,
    "IsPunctuation": _PUNCTUATION,
    "IsLatin": _LETTERS,
    "IsL": _LETTERS,
    "InBasic_Latin": ALPHABET,
}
# Escapes that are no character of a class. Topic names contain no line ends, so `^` and `$` match only at their ends.
_ANCHORS: Final = {"A": r"\A", "z": r"\Z", "Z": r"\Z", "b": r"\b", "B": r"\B", "G": r"\A"}
_CONTROLS: Final = frozenset("tnrfae")
_FLAGS: Final = {"i": "i", "u": "", "U": "", "m": "", "s": "", "d": ""}
_END: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")
_NO_MATCH: Final = r"[^\s\S]"


class UntranslatableError(ValueError):
    """The pattern is not a Java regex, or one that cannot be translated."""


def translate(pattern: str) -> CompiledRegex:
    """Return a pattern that matches the same topic names; use it with `fullmatch`.

    Raises:
        UntranslatableError: the message says what is wrong, and where.
    """
    text = _Translation(pattern).whole()
    with contextlib.suppress(InvalidRegexError):
        # The end of the text is the one escape in the translation that RE2 spells differently.
        return compile_linear(_END.sub(r"\1\\z", text), dot_matches_newline=True)
    try:
        return re.compile(text, re.ASCII | re.DOTALL)
    except re.error as error:
        raise UntranslatableError(f"is not a regular expression: {error.msg}") from None


def _chosen(characters: frozenset[str]) -> str:
    """Return a class of these characters."""
    if not characters:
        return _NO_MATCH
    return "[" + "".join(re.escape(each) for each in sorted(characters)) + "]"


@dataclass
class _Group:
    """An open group of the pattern, or the whole of it.

    Attributes:
        begin: the number of parts before its content.
        flags: how many groups were opened in it for flags, which apply up to its end.
        flags_in_the_middle: one of them has something before it.
        ignores_case: whether upper and lower case are equal from here on.
    """

    begin: int = 0
    flags: int = 0
    flags_in_the_middle: bool = False
    ignores_case: bool = False


@dataclass
class _Translation:
    """One pass over a pattern."""

    pattern: str
    at: int = 0
    parts: list[str] = field(default_factory=list)
    groups: list[_Group] = field(default_factory=lambda: [_Group()])

    def whole(self) -> str:
        """Return the translated pattern."""
        while self.at < len(self.pattern):
            self._next()
        if len(self.groups) > 1:
            raise self._wrong("a group is not closed")
        self.parts.append(")" * self.groups[0].flags)
        return "".join(self.parts)

    def _next(self) -> None:
        character = self.pattern[self.at]
        if character == "\\":
            self.parts.append(self._escape())
        elif character == "[":
            self.at += 1
            self.parts.append(_chosen(self._class()))
        elif character == "(":
            self._open()
        elif character == ")":
            if len(self.groups) == 1:
                raise self._wrong("a group is closed that was not opened")
            self.at += 1
            self.parts.append(")" * self.groups.pop().flags + ")")
        elif character == "{" and not re.match(r"\{\d+(?:,\d*)?\}", self._rest):
            raise self._wrong("{ begins a repetition such as {2} or {2,3}; a literal one is written \\{")
        elif character == "|" and self.groups[-1].flags_in_the_middle:
            # The flags of "a(?i)b|c" apply to c as well, but the choice is between "ab" and "c".
            raise self._wrong("flags in the middle of a choice; put them at its beginning, or write (?i:...)")
        else:
            self.at += 1
            self.parts.append({"^": r"\A", "$": r"\Z"}.get(character, character))

    def _open(self) -> None:
        rest = self.pattern[self.at :]
        named = re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", rest)
        flags = re.match(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])", rest)
        plain = re.match(r"\(\?(?:=|!|<=|<!|>)", rest)
        if named:
            self._opened(f"(?P<{named[1]}>", named.end())
        elif flags:
            self._flags(flags[1], flags[2] or "", whole_group=flags[3] == ")", length=flags.end())
        elif plain:
            self._opened(plain[0], plain.end())
        elif rest.startswith("(?"):
            raise self._wrong("a group of a kind that is not known")
        else:
            self._opened("(", 1)

    def _opened(self, text: str, length: int) -> None:
        self.at += length
        self.parts.append(text)
        self.groups.append(_Group(len(self.parts), ignores_case=self.groups[-1].ignores_case))

    def _flags(self, on: str, off: str, *, whole_group: bool, length: int) -> None:
        unknown = [each for each in on + off if each not in _FLAGS]
        if unknown:
            raise self._wrong(f"the flag {unknown[0]!r} cannot be used here")
        added = "".join(_FLAGS[each] for each in on)
        removed = "".join(_FLAGS[each] for each in off)
        text = f"(?{added}{'-' + removed if removed else ''}:"
        if not whole_group:
            self._opened(text, length)
            self._set_case(on, off)
            return
        self._set_case(on, off)
        self.at += length
        group = self.groups[-1]
        group.flags_in_the_middle |= len(self.parts) > group.begin + group.flags
        group.flags += 1
        self.parts.append(text)

    def _set_case(self, on: str, off: str) -> None:
        group = self.groups[-1]
        group.ignores_case = (group.ignores_case or "i" in on) and "i" not in off

    def _escape(self) -> str:
        """Return the translation of a backslash and the characters after it, outside of classes."""
        following = self._following()
        if following == "Q":
            return re.escape(self._quoted())
        if following == "k":
            name = re.match(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>", self.pattern[self.at :])
            if name is None:
                raise self._wrong(r"\k is followed by <name>")
            self.at += name.end()
            return f"(?P={name[1]})"
        if following in _ANCHORS:
            self.at += 2
            return _ANCHORS[following]
        if following == "R" or following in _CONTROLS:
            self.at += 2
            return _NO_MATCH
        if following in "123456789":
            self.at += 2
            return f"(?:\\{following})"
        return _chosen(self._escaped_characters())

    def _following(self) -> str:
        if self.at + 1 >= len(self.pattern):
            raise self._wrong("it ends with a backslash")
        return self.pattern[self.at + 1]

    def _quoted(self) -> str:
        begin = self.at + 2
        end = self.pattern.find(r"\E", begin)
        self.at = len(self.pattern) if end < 0 else end + 2
        return self.pattern[begin:] if end < 0 else self.pattern[begin:end]

    def _escaped_characters(self) -> frozenset[str]:
        """Return the characters of topic names that an escape matches."""
        following = self._following()
        if following in "pP":
            return self._property(negated=following == "P")
        if following.lower() in _ESCAPED_CLASSES:
            self.at += 2
            characters = _ESCAPED_CLASSES[following.lower()]
            return ALPHABET - characters if following.isupper() else characters
        if following in _CONTROLS:
            self.at += 2
            return _NONE
        coded = re.match(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]+)\}|0([0-7]{1,3}))", self._rest)
        if coded:
            self.at += coded.end()
            code = int(coded[4], 8) if coded[4] else int(coded[1] or coded[2] or coded[3], 16)
            return frozenset(chr(code)) if code < 128 else _NONE
        if following.isascii() and following.isalnum():
            raise self._wrong(f"\\{following} is not known")
        self.at += 2
        return frozenset(following)

    @property
    def _rest(self) -> str:
        return self.pattern[self.at :]

    def _property(self, *, negated: bool) -> frozenset[str]:
        found = re.match(r"\\[pP](?:\{(\w+)\}|([A-Z]))", self._rest)
        name = (found[1] or found[2]) if found else ""
        if found is None or name not in _PROPERTIES:
            raise self._wrong(f"the class {found[0] if found else self._rest[:2]} is not known")
        self.at += found.end()
        return ALPHABET - _PROPERTIES[name] if negated else _PROPERTIES[name]

    def _class(self) -> frozenset[str]:
        """Return the characters of a class after its opening bracket; read it up to and with the closing one."""
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        characters = _NONE
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise self._wrong("a class is not closed")
            if self._rest.startswith("]") and not first:
                self.at += 1
                break
            if self._rest.startswith("&&"):
                self.at += 2
                characters &= self._rest_of_intersection()
            else:
                characters |= self._member()
            first = False
        return ALPHABET - characters if negated else characters & ALPHABET

    def _rest_of_intersection(self) -> frozenset[str]:
        """Return the operand of `&&`, up to the next one or the end of the class."""
        characters = _NONE
        while self.at < len(self.pattern) and not self._rest.startswith(("]", "&&")):
            characters |= self._member()
        return characters

    def _member(self) -> frozenset[str]:
        """Return one member of a class: a class, a range, a character, or the characters of an escape."""
        if self._rest.startswith("["):
            self.at += 1
            return self._class()
        if self._rest.startswith(r"\Q"):
            return frozenset(self._quoted())
        low = self._one()
        dash = self._rest.startswith("-") and not self._rest.startswith(("-]", "-["))
        if len(low) != 1 or not dash:
            return self._in_both_cases(low) if len(low) == 1 else low
        self.at += 1
        high = self._one()
        if len(high) != 1 or max(high) < min(low):
            raise self._wrong("a range in a class makes no sense")
        return self._in_both_cases(frozenset(chr(code) for code in range(ord(min(low)), ord(min(high)) + 1)))

    def _in_both_cases(self, characters: frozenset[str]) -> frozenset[str]:
        if not self.groups[-1].ignores_case:
            return characters
        return characters | {each.swapcase() for each in characters if each.isascii()}

    def _one(self) -> frozenset[str]:
        if self._rest.startswith("\\"):
            return self._escaped_characters()
        if not self._rest:
            raise self._wrong("a class is not closed")
        self.at += 1
        return frozenset(self.pattern[self.at - 1])

    def _wrong(self, why: str) -> UntranslatableError:
        return UntranslatableError(f"cannot be used as a regular expression: {why} (at character {self.at + 1})")
