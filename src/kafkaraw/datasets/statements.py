"""What DuckDB's parser does not know in a text of SQL: our functions, `COPY ... TO TOPIC`, and where statements end.

Places are those of DuckDB's own tokenizer, so that texts, comments and quoted names are never taken for one of ours.
Pure: nothing is run. Start at `calls_in`, `copy_in` and `statements_in`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import duckdb

from kafkaraw.errors import UsageError

FUNCTIONS: Final = ("topic", "topics", "compacted")
ARGUMENTS: Final = ("key", "value", "subject", "tail")

_CALL: Final = re.compile(rb"(topics?|compacted)\s*\(", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIRST: Final = re.compile(rb"\s*'((?:[^']|'')*)'\s*")
_NAMED: Final = re.compile(rb",\s*([a-z_]+)\s*(?::=|=>?)\s*(?:'((?:[^']|'')*)'|(\d+))\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Token:
    """A word of SQL.

    Attributes:
        start: its first byte in the text, which is UTF-8.
        end: behind its last byte.
        kind: "identifier", "keyword", "operator", "string_const", "numeric_const" or "comment".
        text: the bytes.
    """

    start: int
    end: int
    kind: str
    text: bytes

    def is_word(self, word: str) -> bool:
        """Return whether it is this word, quoted neither as a name nor as a text."""
        return self.kind in ("identifier", "keyword") and self.text.lower() == word.encode()


@dataclass(frozen=True)
class Call:
    """A call of one of our functions.

    Attributes:
        function: its name.
        topic: its first argument: a name; of `topics`, a pattern.
        arguments: those with names.
        start: its first byte in the text.
        end: behind its bracket.
    """

    function: str
    topic: str
    arguments: Mapping[str, str]
    start: int
    end: int


@dataclass(frozen=True)
class Copy:
    """A statement that writes rows to a topic.

    Attributes:
        query: returns the rows.
        topic: where they are written.
    """

    query: str
    topic: str


def tokens_of(data: bytes) -> list[Token]:
    """Return the words of a text."""
    found = [(start, str(kind).rpartition(".")[2]) for start, kind in duckdb.tokenize(data.decode())]
    bounds = pairwise([*(start for start, _ in found), len(data)])
    tokens = []
    for (start, end), (_, kind) in zip(bounds, found, strict=True):
        text = data[start:end].rstrip()
        tokens.append(Token(start, start + len(text), kind, text))
    return tokens


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the statement is no UTF-8 text: {error}") from None


def calls_in(text: str) -> Iterator[Call]:
    """Return the calls of our functions in the place of a table.

    Raises:
        UsageError: the arguments of a call are not texts, or unknown.
    """
    data = _encoded(text)
    for token in tokens_of(data):
        found = _CALL.match(data, token.start) if any(map(token.is_word, FUNCTIONS)) else None
        if found is not None:
            yield _call(data, token.start, found)


def _call(data: bytes, start: int, found: re.Match[bytes]) -> Call:
    function, at = found[1].decode().lower(), found.end()
    first = _FIRST.match(data, at)
    if first is None:
        what = "a pattern" if function == "topics" else "the name of a topic"
        raise UsageError(f"{function}(...): the first argument is {what} in single quotes")
    arguments, at = {}, first.end()
    while (named := _NAMED.match(data, at)) is not None:
        name = named[1].decode().lower()
        if name not in ARGUMENTS:
            raise UsageError(f"{function}(...): {name} is unknown; there are {', '.join(ARGUMENTS)}")
        if (name == "tail") is (named[3] is None):
            raise UsageError(f"{function}(...): write key='string', value='json', subject='name', or tail=100")
        arguments[name] = _unquoted(named[2]) if named[3] is None else named[3].decode()
        at = named.end()
    if data[at : at + 1] != b")":
        shown = data[at : at + 20].decode(errors="replace")
        raise UsageError(f"{function}(...): cannot read {shown!r}; write value='json' and the like")
    return Call(function, _unquoted(first[1]), arguments, start, at + 1)


def _unquoted(text: bytes) -> str:
    return text.decode().replace("''", "'")


def statements_in(text: str) -> tuple[list[str], str]:
    """Return the statements that a semicolon ends, and what is behind the last one; comments alone are no statement."""
    data = _encoded(text)
    whole: list[str] = []
    start, has_words = 0, False
    for token in tokens_of(data):
        if token.kind == "operator" and token.text == b";":
            if has_words:
                whole.append(data[start : token.start].decode().strip())
            start, has_words = token.end, False
        else:
            has_words |= token.kind != "comment"
    return whole, data[start:].decode().strip() if has_words else ""


def copy_in(text: str) -> Copy | None:
    """Return the parts of `COPY ... TO TOPIC 'name'`; None for any other statement.

    Raises:
        UsageError: nothing is copied, or the topic is not named by a text.
    """
    data = _encoded(text)
    tokens = [token for token in tokens_of(data) if token.kind != "comment" and token.text != b";"]
    if not tokens or not tokens[0].is_word("copy"):
        return None
    places = [at for at, (to, topic) in enumerate(pairwise(tokens)) if to.is_word("to") and topic.is_word("topic")]
    if not places:
        return None
    at = places[-1]
    name = tokens[at + 2 :]
    if len(name) != 1 or name[0].kind != "string_const" or not name[0].text.startswith(b"'"):
        raise UsageError("COPY ... TO TOPIC: name one topic in single quotes behind TOPIC, and nothing behind it")
    source = tokens[1:at]
    if not source:
        raise UsageError("COPY ... TO TOPIC: write COPY (SELECT ...) TO TOPIC 'name', or COPY table TO TOPIC 'name'")
    written = data[source[0].start : source[-1].end].decode()
    query = written[1:-1] if _is_in_brackets(source) else f"SELECT * FROM {written}"
    return Copy(query, _unquoted(name[0].text[1:-1]))


def names_offset(text: str) -> bool:
    """Return whether a statement has the word offset where no number of rows follows it: it is meant as a column."""
    tokens = tokens_of(_encoded(text))
    return any(
        token.is_word("offset") and (behind is None or behind.kind != "numeric_const")
        for token, behind in zip(tokens, [*tokens[1:], None], strict=True)
    )


def shows_tables(text: str) -> bool:
    """Return whether a statement is `SHOW TABLES`."""
    words = [token for token in tokens_of(_encoded(text)) if token.kind != "comment" and token.text != b";"]
    return len(words) == 2 and words[0].is_word("show") and words[1].is_word("tables")


def quoted(name: str) -> str:
    """Return a name as SQL needs it: in double quotes if it is no word, or a reserved one."""
    if _WORD.fullmatch(name) and name.lower() not in _reserved():
        return name
    return f'"{name.replace(chr(34), chr(34) * 2)}"'


@functools.cache
def _reserved() -> frozenset[str]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'")
        return frozenset(row[0] for row in found.fetchall())


def _is_in_brackets(tokens: list[Token]) -> bool:
    """Return whether the first bracket is closed by the last token."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.kind == "operator":
            depth += (token.text == b"(") - (token.text == b")")
        if not depth:
            return at == len(tokens) - 1 and at > 0
    return False
