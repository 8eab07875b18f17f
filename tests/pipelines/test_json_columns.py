"""JSON values as columns: every record has all its values, or is bad with a reason."""

from __future__ import annotations

import datetime
import decimal
import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.json_columns import JsonColumns

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
    found = frame.select("number", "bad", reason, row).collect()
    wrong = {}
    for row in found:
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


def test_a_type_that_json_does_not_have_is_an_error(spark):
    with pytest.raises(ConfigError, match=r"orders: column 'm', field 'x' is map<int,string>: keys of JSON are str"):
        JsonColumns(StructType.fromDDL("m STRUCT<x: MAP<INT, STRING>>"), "orders")
    with pytest.raises(ConfigError, match=r"orders: column 'i' is interval.*use string"):
        JsonColumns(StructType.fromDDL("i INTERVAL DAY TO SECOND"), "orders")
