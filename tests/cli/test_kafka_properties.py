"""Properties of Kafka's console tools; that the results are theirs is tested in tests/interop."""

from __future__ import annotations

import pytest

from kafkaraw.cli.formats import TextRenderer
from kafkaraw.cli.inputs import Lines, Message
from kafkaraw.cli.kafka_properties import format_of, lines_of
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch, encode_batch

ROWS = [(1000, b"k", b"v", [("a", b"1"), ("b", None)]), (1001, None, None, None)]


def written(*properties: str) -> bytes:
    form = format_of(properties)
    batch = Batch("t", 2, memoryview(encode_batch(ROWS, base_offset=7)), start_offset=0)
    return TextRenderer(form.parts, null=form.null).render(batch)[0]


@pytest.mark.parametrize(
    ("properties", "meant"),
    [
        ((), b"v\nnull\n"),
        (("print.key=true",), b"k\tv\nnull\tnull\n"),
        (("print.key=true", "key.separator= : "), b"k : v\nnull : null\n"),
        (("print.key=true", "print.value=false", "line.separator=|"), b"k|null|"),
        (("print.timestamp=true", "print.value=false"), b"CreateTime:1000\nCreateTime:1001\n"),
        (("print.value=false",), b""),
        (("null.literal=",), b"v\n\n"),
        (
            ("print.offset=true", "print.partition=True", "print.headers=true", "headers.separator=;"),
            b"Partition:2\tOffset:7\ta:1;b:null\tv\nPartition:2\tOffset:8\tNO_HEADERS\tnull\n",
        ),
    ],
)
def test_the_formatter_writes_what_kafkas_does(properties: tuple[str, ...], meant: bytes):
    assert written(*properties) == meant


def test_deserializers_are_known_by_their_java_names():
    name = "org.apache.kafka.common.serialization"
    given = [f"key.deserializer={name}.LongDeserializer", f"value.deserializer={name}.ByteArrayDeserializer"]
    assert format_of(given).serdes == ("key=long", "value=bytes")


@pytest.mark.parametrize(
    ("properties", "line", "meant"),
    [
        ((), b"a\tb", Message(b"a\tb")),
        (("parse.key=true",), b"a\tb\tc", Message(b"b\tc", b"a")),
        (("parse.key=true", "key.separator= "), b"a b", Message(b"b", b"a")),
        (("parse.key=true", "ignore.error=true"), b"ab", Message(b"ab")),
        (("parse.headers=true", "parse.key=true"), b"h:1,i:\tk\tv", Message(b"v", b"k", [("h", b"1"), ("i", b"")])),
        (("parse.headers=true", "null.marker=N"), b"N\tv", Message(b"v", None, [])),
        (("parse.headers=true", "null.marker=N"), b"h:N\tN", Message(None, None, [("h", None)])),
        (("parse.headers=true", "ignore.error=true"), b"h\tv", Message(b"v", None, [("h", None)])),
        (("parse.key=true", "null.marker="), b"\tv", Message(b"v", None)),
        (("value.serializer=org.apache.kafka.common.serialization.ShortSerializer",), b"1", Message(b"\0\1")),
    ],
)
def test_the_reader_reads_what_kafkas_does(properties: tuple[str, ...], line: bytes, meant: Message):
    assert lines_of(properties).message(line) == meant


@pytest.mark.parametrize(
    ("properties", "line", "said"),
    [
        (("parse.key=true",), b"ab", "no '\\t' after the key"),
        (("parse.headers=true",), b"ab", "no '\\t' after the headers"),
        (("parse.headers=true",), b"ab\tv", "the header 'ab' has no ':'"),
    ],
)
def test_missing_delimiters_of_a_line_are_reported(properties: tuple[str, ...], line: bytes, said: str):
    with pytest.raises(ValueError) as told:
        lines_of(properties).message(line)
    assert str(told.value) == said


def test_unknown_properties_and_equal_separators_are_reported():
    with pytest.raises(UsageError, match=r"print\.keys=true: must be one of.*did you mean 'print\.key'"):
        format_of(["print.keys=true"])
    with pytest.raises(UsageError, match=r"did you mean 'parse\.key'"):
        lines_of(["parse.kye=true"])
    with pytest.raises(UsageError, match=r"headers\.delimiter and headers\.separator must differ"):
        lines_of(["headers.delimiter=,"])
    with pytest.raises(UsageError, match="known are bytes"):
        format_of(["value.deserializer=AvroDeserializer"])
    assert lines_of(["ignore.error=true"]) == Lines()
