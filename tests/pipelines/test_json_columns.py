"""JSON values as columns: every record has all its values, or is bad with a reason."""

from __future__ import annotations

import datetime
import decimal
import json
import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.json_columns import ROW, JsonColumns
from kafkaraw.schemas.arrow.json_objects import is_compiled
from kafkaraw.spark.reading.json_values import JsonValues

SCHEMA = (
    "id LONG NOT NULL, s STRING, tiny BYTE, i INT, f FLOAT, d DOUBLE, dec DECIMAL(10,2), ok BOOLEAN, bin BINARY, "
    "day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, o STRUCT<x: INT NOT NULL, at: TIMESTAMP, note: STRING>, "
    "l ARRAY<DECIMAL(4,1)>, m MAP<STRING, BYTE>, words ARRAY<STRING>"
)
UTC = datetime.UTC

GOOD = {
    b'{"id":1}': {"id": 1},
    b' {"id":1,"unknown":{"a":[1]}}\r\n': {"id": 1},
    b'{"id":1,"s":null,"o":null,"l":null}': {"id": 1},
    b'{"id":-9223372036854775808,"tiny":-128,"i":2147483647}': {"id": -(2**63), "tiny": -128, "i": 2147483647},
    b'{"id":1,"id":2}': {"id": 2},  # the last one counts
    b'{"id":1,"ID":2}': {"id": 1},
    b'{"id":1,"d":1}': {"id": 1, "d": 1.0},
    b'{"id":1,"d":-1.5e3,"f":0.5}': {"id": 1, "d": -1500.0, "f": 0.5},
    b'{"id":1,"dec":12345678.9}': {"id": 1, "dec": decimal.Decimal("12345678.90")},
    b'{"id":1,"dec":1.2300}': {"id": 1, "dec": decimal.Decimal("1.23")},
    b'{"id":1,"dec":1e3}': {"id": 1, "dec": decimal.Decimal(1000)},
    b'{"id":1,"bin":"AQI="}': {"id": 1, "bin": b"\1\2"},
    b'{"id":1,"day":"2026-02-28"}': {"id": 1, "day": datetime.date(2026, 2, 28)},
    b'{"id":1,"at":"2026-01-02T03:04:05.123456Z"}': {
        "id": 1,
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 123456, UTC),
    },
    b'{"id":1,"at":"2026-01-02T03:04:05.123456000+02:00"}': {
        "id": 1,
        "at": datetime.datetime(2026, 1, 2, 1, 4, 5, 123456, UTC),
    },
    b'{"id":1,"at":"2026-01-02 03:04:05"}': {"id": 1, "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 0, UTC)},
    b'{"id":1,"local":"2026-01-02T03:04:05"}': {"id": 1, "local": datetime.datetime(2026, 1, 2, 3, 4, 5)},
    b'{"id":1,"s":"1.10"}': {"id": 1, "s": "1.10"},
    b'{"id":1,"s":"0.1234567890123456789"}': {"id": 1, "s": "0.1234567890123456789"},
    b'{"id":1,"s":12345678901234567890}': {"id": 1, "s": "12345678901234567890"},
    b'{"id":1,"s":true}': {"id": 1, "s": "true"},
    b'{"id":1,"s":{"a": [1, 2]}}': {"id": 1, "s": '{"a":[1,2]}'},
    b'{"id":1,"s":"{\\"a\\": 1.10}"}': {"id": 1, "s": '{"a": 1.10}'},
    b'{"id":1,"s":"[1.5,\\n\\u00e9]"}': {"id": 1, "s": "[1.5,\n\u00e9]"},
    b'{"id":1,"s":"why?\\ud83d\\ude00"}': {"id": 1, "s": "why?\U0001f600"},
    '{"id":1,"s":"1.5 \u20ac"}'.encode(): {"id": 1, "s": "1.5 \u20ac"},
    b'{"id":1,"o":{"x":1,"more":2}}': {"id": 1, "o": {"x": 1, "at": None, "note": None}},
    b'{"id":1,"l":[1.5,null]}': {"id": 1, "l": [decimal.Decimal("1.5"), None]},
    b'{"id":1,"m":{"a":127,"b":null}}': {"id": 1, "m": {"a": 127, "b": None}},
    b'{"id":1,"words":["a","1.5"]}': {"id": 1, "words": ["a", "1.5"]},
}

NO_OBJECT = "the value is not one JSON object"
BAD = {
    None: "value is null",
    b"": "the value is empty",
    b" \n": "the value is empty",
    b"null": NO_OBJECT,
    b"1": NO_OBJECT,
    b'"x"': NO_OBJECT,
    b"plain text": NO_OBJECT,
    b'[{"id":1}]': NO_OBJECT,
    b'{"id":1': NO_OBJECT,
    b'{"id":1} x': NO_OBJECT,
    b'{"id":1}{"id":2}': NO_OBJECT,
    b'{"id":1},{"id":2}': NO_OBJECT,
    b'{"id":1}]}': NO_OBJECT,
    b'{"id":1},{"m":true}]} x': NO_OBJECT,
    b"{'id':1}": NO_OBJECT,
    b"{id:1}": NO_OBJECT,
    b'{"id":1,}': NO_OBJECT,
    b'{"id":1/*c*/}': NO_OBJECT,
    b'{"id":01}': NO_OBJECT,
    b'{"id":1,"s":"a\tb"}': NO_OBJECT,
    b'\xef\xbb\xbf{"id":1}': NO_OBJECT,
    b'\x00\x00\x00\x00\x01{"id":1}': NO_OBJECT,
    b'{"id":1,"s":"\xff"}': "not valid UTF-8",
    b'{"id":1,"s":"\xed\xa0\x80"}': "not valid UTF-8",
    b'{"id":1,"s":"\\ud800"}': "column 's' has half of a surrogate pair",
    b"{}": "column 'id' is NOT NULL",
    b'{"id":null}': "column 'id' is NOT NULL",
    b'{"id":"1"}': "column 'id' is BIGINT, not 1",
    b'{"id":1.0}': "column 'id' is BIGINT, not 1.0",
    b'{"id":9223372036854775808}': "column 'id' is BIGINT, not 9223372036854775808",
    b'{"id":""}': "column 'id' is BIGINT",
    b'{"id":1,"tiny":200}': "column 'tiny' is not exactly TINYINT: 200",
    b'{"id":1,"i":3000000000}': "column 'i' is INT, not 3000000000",
    b'{"id":1,"f":1e39}': "column 'f' is not exactly FLOAT",
    b'{"id":1,"d":1e400}': "column 'd' is not exactly DOUBLE",
    b'{"id":1,"d":NaN}': NO_OBJECT,
    b'{"id":1,"d":"NaN"}': "column 'd' is DOUBLE, not NaN",
    b'{"id":1,"d":"1.5"}': "column 'd' is DOUBLE, not 1.5",
    b'{"id":1,"dec":1.239}': "column 'dec' is not exactly DECIMAL(10,2): 1.239",
    b'{"id":1,"dec":123456789}': "column 'dec' is",
    b'{"id":1,"ok":"true"}': "column 'ok' is BOOLEAN, not true",
    b'{"id":1,"ok":1}': "column 'ok' is BOOLEAN, not 1",
    b'{"id":1,"bin":"!!"}': "column 'bin' is BINARY, not !!",
    b'{"id":1,"day":"2026-02-30"}': "column 'day' is not exactly DATE: 2026-02-30",
    b'{"id":1,"day":"2026-02-28T10:00:00"}': "column 'day' is not exactly DATE",
    b'{"id":1,"day":20500}': "column 'day' is not exactly DATE: 20500",
    b'{"id":1,"at":"12:30"}': "column 'at' is not exactly TIMESTAMP: 12:30",
    b'{"id":1,"at":"T12:30:45.123"}': "column 'at' is not exactly TIMESTAMP",
    b'{"id":1,"at":"2026"}': "column 'at' is not exactly TIMESTAMP",
    b'{"id":1,"at":1767225600000}': "column 'at' is not exactly TIMESTAMP: 1767225600000",
    b'{"id":1,"at":"2026-01-02T03:04:05.1234567Z"}': "column 'at' is not exactly TIMESTAMP",
    b'{"id":1,"at":""}': "column 'at' is not exactly TIMESTAMP",
    b'{"id":1,"local":"2026-01-02T03:04:05Z"}': "column 'local' is not exactly TIMESTAMP_NTZ",
    b'{"id":1,"s":1.10}': "column 's' is STRING, and a number with a fraction would be rounded: 1.1",
    b'{"id":1,"s":0.1234567890123456789}': "column 's' is STRING, and a number",
    b'{"id":1,"s":[0.1234567890123456789]}': "column 's' is STRING, and a number",
    b'{"id":1,"o":{}}': "column 'o'.x is NOT NULL",
    b'{"id":1,"o":{"x":"q"}}': "column 'o' is STRUCT",
    b'{"id":1,"o":{"x":1,"at":"12:30"}}': "column 'o'.at is not exactly TIMESTAMP",
    b'{"id":1,"o":{"x":1,"note":1.10}}': "column 'o'.note is STRING, and a number",
    b'{"id":1,"o":[1]}': "column 'o' is STRUCT",
    b'{"id":1,"l":[1.5,1.55]}': "column 'l' has a value that is not exactly of its type",
    b'{"id":1,"l":[1,"q"]}': "column 'l' is ARRAY",
    b'{"id":1,"m":{"a":128}}': "column 'm' has a value that is not exactly of its type",
    b'{"id":1,"words":["a",1.5]}': "column 'words' has a value that is not exactly of its type",
}


def test_each_record_has_all_values_or_is_bad_with_a_reason(spark):
    columns = JsonColumns(StructType.fromDDL(SCHEMA), "the test")
    value, parsed = F.col("value"), F.col("parsed")
    cases = [*GOOD, *BAD]
    rows = [(number, None if case is None else bytearray(case)) for number, case in enumerate(cases)]
    frame = spark.createDataFrame(rows, "number INT, value BINARY")
    frame = frame.select("*", columns.parsed(value).alias("parsed")).select(
        "*", columns.is_bad(parsed, value).alias("bad")
    )
    reason = F.when(F.col("bad"), columns.reason(value)).alias("reason")
    row = F.when(~F.col("bad"), F.struct(*columns.columns(parsed))).alias("row")
    found = frame.select("number", "bad", reason, row, columns.row(value).getField(ROW).alias("alone")).collect()
    wrong = {}
    for row in found:
        assert row.alone == row.row
        case = cases[row.number]
        if case in GOOD:
            values = {} if row.bad else row.row.asDict(recursive=True)
            values = {name: value for name, value in values.items() if value is not None}
            if isinstance(values.get("at"), datetime.datetime):
                values["at"] = values["at"].astimezone(UTC)
            if row.bad or values != GOOD[case]:
                wrong[case] = row.reason or values
        elif not row.bad or BAD[case] not in str(row.reason):
            wrong[case] = str(row.reason)
    assert wrong == {}
    assert all(json.loads(case) for case in GOOD)


PLAIN_SCHEMA = (
    "id LONG NOT NULL, s STRING, tiny BYTE, i INT, f FLOAT, d DOUBLE, dec DECIMAL(10,2), ok BOOLEAN, day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, o STRUCT<x: INT NOT NULL, at: TIMESTAMP, note: STRING>"
)
PIECES = {
    "s": [
        '"a"',
        '""',
        '"1.5"',
        '"[1.5]"',
        '"\\u0031.5"',
        '"?\\\\ud800"',
        '"\\/\\n\\u00e9"',
        "12",
        "-0",
        "1.0",
        "1e2",
        "true",
        "{}",
        "[]",
        '{"a":1.50}',
        '"é?"',
    ],
    "tiny": ["127", "128", "-128", "-129", "1.0", "-0", "00", "null"],
    "i": ["2147483647", "-2147483648", "2147483648", "0", "1e1", "-", "5."],
    "f": [
        "0.1",
        "16777217",
        "3.4028235e38",
        "3.4028236e38",
        "1e39",
        "1e-45",
        "-0",
        "-0.0",
        "7",
        "0.30000001192092896",
        "1.17549428e-38",
    ],
    "d": [
        "0.1",
        "-0",
        "-0.0",
        "1e308",
        "1e309",
        "9007199254740993",
        "123456789012345678901234567890",
        "4.9e-324",
        "1e-400",
        ".5",
        "5e-1",
        "1E+2",
    ],
    "dec": [
        "12345678.90",
        "123456789",
        "1.23",
        "1.230000",
        "1.231",
        "-0.01",
        "-0",
        "-0.0",
        "0",
        "1e3",
        "00.1",
        "99999999.99",
        "1.2300000000000000000000",
    ],
    "ok": ["true", "false", "null", "True", "1"],
    "day": [
        '"2026-02-28"',
        '"2024-02-29"',
        '"2023-02-29"',
        '"2026-2-28"',
        '"2026-02-28',
        '"',
        '"1583-01-01"',
        '"9999-12-31"',
    ],
    "at": [
        f'"{date}{between}{time}{zone}"'
        for date in ("2026-01-02", "1900-03-01", "2026-02-30")
        for between in ("T", " ")
        for time in ("03:04:05", "23:59:59.9", "03:04:05.123456", "03:04:05.1234560", "24:00:00", "03:04:60", "03:04")
        for zone in ("", "Z", "+02:00", "-17:59", "+18:00", "+2:00", " UTC", "-00:00")
    ],
    "local": ['"2026-01-02T03:04:05"', '"2026-01-02', '03:04:05.123456"', '"2026-01-02T03:04:05Z"', '"2026-01-02"'],
    "o": [
        '{"x":1}',
        '{"x":null}',
        "{}",
        "null",
        '{"x":1,"at":"2026-01-02T03:04:05Z","note":"é"}',
        '{"x":1,"x":2}',
        '{"x":1.0}',
        "[]",
    ],
}


def documents() -> list[bytes]:
    """Objects of good, odd and bad values; some with odd white space, repeated and unknown fields, cut or changed."""
    chosen = random.Random(11)
    made = [f'{{"id":1,"{name}":{piece}}}'.encode() for name, pieces in PIECES.items() for piece in pieces]
    for number in range(2500):
        names = chosen.sample(sorted(PIECES), chosen.randint(0, 4))
        fields = [f'"{name}":{chosen.choice(PIECES[name])}' for name in names]
        fields.insert(chosen.randint(0, len(fields)), f'"id":{number}')
        if chosen.random() < 0.2:
            unknown = chosen.choice(['"z":[1,{"a":-0.5e1}]', '"z":01', '"z":"\\ud800"', '"":null', '"ID":"\x7f"'])
            fields.insert(chosen.randint(0, len(fields)), unknown)
        data = bytearray(("{" + chosen.choice([",", " , ", ",\n"]).join(fields) + "}").encode())
        if chosen.random() < 0.3:
            data[chosen.randrange(len(data))] = chosen.choice(b'{}[]":,019-.eE \\\xc3\x80tfn')
        made.append(bytes(data))
    return made


@pytest.mark.skipif(not is_compiled(), reason="needs the compiled module")
def test_what_the_source_decodes_has_the_values_that_spark_decodes(spark):
    schema = StructType.fromDDL(PLAIN_SCHEMA)
    columns, value = JsonColumns(schema, "the test"), F.col("value")
    cases = [each for each in (*GOOD, *BAD, *documents()) if each is not None]
    raw = {"value": pa.array(cases, pa.binary())}
    decoded = JsonValues.of(schema, utc=True).decoder().decode(raw, [("t", 0, len(cases))])[0]["json"]
    frame = spark.createDataFrame(
        [(number, bytearray(case)) for number, case in enumerate(cases)], "n INT, value BINARY"
    )
    frame = frame.select("n", "value", columns.parsed(value).alias("parsed"))
    row = F.when(~columns.is_bad(F.col("parsed"), value), F.struct(*columns.columns(F.col("parsed"))))
    expected = frame.select("n", row.alias("row")).toArrow().sort_by("n")["row"].to_pylist()
    found = decoded.to_pylist()
    wrong = {
        case: (ours, sparks)
        for case, ours, sparks in zip(cases, found, expected, strict=True)
        if ours is not None and repr(ours) != repr(sparks)
    }
    assert wrong == {}
    good = sum(row is not None for row in expected)
    assert len(cases) > 3000
    assert sum(row is not None for row in found) > good / 2 > 300


def test_a_type_that_json_does_not_have_is_an_error(spark):
    with pytest.raises(ConfigError, match=r"orders: column 'm', field 'x' is map<int,string>: keys of JSON are str"):
        JsonColumns(StructType.fromDDL("m STRUCT<x: MAP<INT, STRING>>"), "orders")
    with pytest.raises(ConfigError, match=r"orders: column 'i' is interval.*use string"):
        JsonColumns(StructType.fromDDL("i INTERVAL DAY TO SECOND"), "orders")
