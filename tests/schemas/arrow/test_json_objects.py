"""Plain JSON objects as columns: whatever is decoded is exact, everything else is left to another decoder."""

from __future__ import annotations

import datetime
import decimal
import json
import random

import pyarrow as pa
import pytest

from kafkaraw.schemas.arrow import json_objects
from kafkaraw.schemas.arrow.json_objects import JsonObjects

pytestmark = pytest.mark.skipif(not json_objects.is_compiled(), reason="needs the compiled module")

UTC = datetime.UTC
KIND = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("tiny", pa.int8()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(10, 2)),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("o", pa.struct([pa.field("x", pa.int32(), nullable=False), ("note", pa.string()), ("é", pa.int16())])),
    ]
)

PLAIN = {
    b'{"id":1}': {},
    b' \t{ "id" : 1 , "unknown" : {"a":[1,"x\\n",{}],"b":-1.5e3,"c":[ ],"d":[true,false,null]} }\r\n': {},
    b'{"id":1,"s":null,"o":null,"d":null,"at":null}': {},
    b'{"s":"a","id":1}': {"s": "a"},
    b'{"id":1,"ID":2,"i d":3,"":4}': {},
    b'{"id":1,"tiny":-128,"i":2147483647}': {"tiny": -128, "i": 2147483647},
    b'{"id":1,"d":1}': {"d": 1.0},
    b'{"id":1,"d":-1.5e3,"f":0.5}': {"d": -1500.0, "f": 0.5},
    b'{"id":1,"d":0.1}': {"d": 0.1},
    b'{"id":1,"d":-0.0}': {"d": -0.0},
    b'{"id":1,"d":1234567890123456789012}': {"d": 1234567890123456789012.0},
    b'{"id":1,"d":2.2250738585072011e-208}': {"d": 2.2250738585072011e-208},
    b'{"id":1,"d":9007199254740993}': {"d": 9007199254740992.0},
    b'{"id":1,"dec":12345678.9}': {"dec": decimal.Decimal("12345678.90")},
    b'{"id":1,"dec":-1.2300}': {"dec": decimal.Decimal("-1.23")},
    b'{"id":1,"dec":0.05}': {"dec": decimal.Decimal("0.05")},
    b'{"id":1,"ok":true}': {"ok": True},
    b'{"id":1,"ok":false}': {"ok": False},
    b'{"id":1,"day":"2024-02-29"}': {"day": datetime.date(2024, 2, 29)},
    b'{"id":1,"at":"2026-01-02T03:04:05.123456Z"}': {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)},
    b'{"id":1,"at":"2026-01-02 03:04:05.5+02:30"}': {"at": datetime.datetime(2026, 1, 2, 0, 34, 5, 500000, UTC)},
    b'{"id":1,"at":"1969-12-31T23:59:59.999999-01:00"}': {"at": datetime.datetime(1970, 1, 1, 0, 59, 59, 999999, UTC)},
    b'{"id":1,"at":"2026-01-02T03:04:05"}': {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, 0, UTC)},
    b'{"id":1,"local":"2026-01-02T03:04:05"}': {"local": datetime.datetime(2026, 1, 2, 3, 4, 5)},
    b'{"id":1,"s":"1.10"}': {"s": "1.10"},
    b'{"id":1,"s":-123}': {"s": "-123"},
    b'{"id":1,"s":""}': {"s": ""},
    b'{"id":1,"s":"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC."}': {"s": 'a"\\/\b\f\n\r\té€.'},
    '{"id":1,"s":"é€😀","o":{"x":2,"note":"ü","é":-5}}'.encode(): {"s": "é€😀", "o": {"x": 2, "note": "ü", "é": -5}},
    b'{"id":1,"o":{"x":1,"more":2}}': {"o": {"x": 1, "note": None, "é": None}},
}

NOT_PLAIN = (
    # no JSON objects
    *(b"", b" ", b"null", b"1", b'"x"', b"[]", b"{", b"{}x", b"{'id':1}", b"{id:1}", b'\xef\xbb\xbf{"id":1}'),
    *(b'{"id":1}{"id":2}', b'{"id":1}]', b'{"id":1,}', b'{,"id":1}', b'{"id":1 "i":2}', b'{"id":1/**/}', b'{"id"1}'),
    *(b'{"id":01}', b'{"id":+1}', b'{"id":1.}', b'{"id":.5}', b'{"id":1e}', b'{"id":-}', b'{"id":NaN}', b'{"id":tru}'),
    *(b'{"id":1,"x":01}', b'{"id":1,"x":1.}', b'{"id":1,"x":[1,]}', b'{"id":1,"x":{"a"}}', b'{"id":1,"x":nul}'),
    *(b'{"id":1,"x":"a\tb"}', b'{"id":1,"x":"\\x"}', b'{"id":1,"x":"\\u12g4"}', b'{"id":1,"x":"\\ud800"}'),
    *(b'{"id":1,"x":"\xff"}', b'{"id":1,"x":"\xed\xa0\x80"}', b'{"id":1,"s":"\xc3"}', b'{"id":1,"\xff":1}'),
    # what the columns do not take
    *(b"{}", b'{"id":null}', b'{"id":"1"}', b'{"id":1.0}', b'{"id":1e3}', b'{"id":9223372036854775808}'),
    *(b'{"id":1,"tiny":128}', b'{"id":1,"tiny":-129}', b'{"id":1,"i":2147483648}', b'{"id":1,"f":1e39}'),
    *(b'{"id":1,"d":1e400}', b'{"id":1,"d":"1.5"}', b'{"id":1,"dec":1.239}', b'{"id":1,"dec":123456789}'),
    *(b'{"id":1,"ok":1}', b'{"id":1,"ok":"true"}', b'{"id":1,"day":"2026-02-29"}', b'{"id":1,"day":"2026-13-01"}'),
    *(b'{"id":1,"day":20500}', b'{"id":1,"at":"12:30"}', b'{"id":1,"at":"2026-01-02T03:04:05.1234567Z"}'),
    *(b'{"id":1,"at":"2026-01-02T24:00:00Z"}', b'{"id":1,"at":1767225600000}', b'{"id":1,"at":"2026-01-02"}'),
    *(b'{"id":1,"day":"202:-01-02"}', b'{"id":1,"at":"20a6-01-02T03:04:05Z"}', b'{"id":1,"at":"2026-01-02T0:04:05Z"}'),
    *(b'{"id":1,"local":"2026-01-02T03:04:05Z"}', b'{"id":1,"o":{}}', b'{"id":1,"o":{"x":"q"}}', b'{"id":1,"o":[1]}'),
    # what needs a rule
    *(b'{"id":1,"id":2}', b'{"id":-0}', b'{"id":1,"d":-0}', b'{"id":1,"dec":1e3}', b'{"id":1,"\\u0069":2}'),
    *(b'{"id":1,"s":1.10}', b'{"id":1,"s":true}', b'{"id":1,"s":{"a":1}}', b'{"id":1,"s":"1.\\u0035"}'),
    *(b'{"id":1,"s":"why?\\ud83d\\ude00"}', b'{"id":1,"s":"?\\\\ud800"}', b'{"id":1,"s":"\\u0000"}'),
    *(
        b'{"id":1,"f":16777217}',
        b'{"id":1,"at":"1500-01-01T00:00:00Z"}',
        b'{"id":1,"x":' + b"[" * 80 + b"]" * 80 + b"}",
    ),
    b'{"id":1,"x":"' + b"a" * 1_100_000 + b'"}',
)


def decoded(documents: list[bytes | None], kind: pa.StructType = KIND, *, utc: bool = True) -> list[object]:
    objects = JsonObjects.of(kind, utc=utc)
    assert objects is not None
    found = objects.decode(pa.array(documents, pa.binary()))
    found.validate(full=True)
    return found.to_pylist()


def test_plain_objects_have_their_values_in_columns():
    empty = dict.fromkeys(KIND.names)
    found = decoded(list(PLAIN))
    assert found == [empty | {"id": 1} | expected for expected in PLAIN.values()]
    assert [str(each["d"]) for each in found if each["d"] == 0] == ["-0.0"]


def test_what_needs_a_rule_or_is_bad_is_null_and_the_rows_around_it_are_not():
    documents = [each for bad in NOT_PLAIN for each in (bad, b'{"id":7,"s":"x","o":{"x":1}}')]
    found = decoded(documents)
    wrong = [documents[2 * number][:80] for number, row in enumerate(found[::2]) if row is not None]
    assert wrong == []
    assert {json.dumps(row, sort_keys=True, default=str) for row in found[1::2]} == {
        json.dumps(
            dict.fromkeys(KIND.names) | {"id": 7, "s": "x", "o": {"x": 1, "note": None, "é": None}}, sort_keys=True
        )
    }


def test_an_object_that_is_cut_or_changed_anywhere_is_never_read_wrongly():
    chosen = random.Random(3)
    for whole in PLAIN:
        assert decoded([whole[:size] for size in range(len(whole.rstrip()))]) == [None] * len(whole.rstrip())
        changed = []
        for _ in range(200):
            data = bytearray(whole)
            data[chosen.randrange(len(data))] = chosen.choice(b'{}[]":,0189-.eE \\\xc3\x80tfn\x00')
            changed.append(bytes(data))
        for document, row in zip(changed, decoded(changed), strict=True):
            if row is not None:
                assert json.loads(document)["id"] == row["id"]


def test_numbers_are_the_nearest_ones_of_their_digits():
    chosen = random.Random(5)
    texts = [repr(chosen.uniform(-1, 1) * 10 ** chosen.randint(-200, 200)) for _ in range(2000)]
    texts += [f"{chosen.randint(0, 10**19)}.{chosen.randint(0, 10**12)}" for _ in range(500)]
    # Twenty digits whose number is 0 in 64 bits.
    texts += [f"{2**64}", "18.446744073709551616", f"0.{2**64}", f"-0.{2**64}", f"0.{2**64}0", f"0.000{2**64}e5"]
    found = decoded([f'{{"d":{text},"f":{text}}}'.encode() for text in texts], pa.struct([("d", pa.float64())]))
    assert [row["d"] for row in found] == [float(text) for text in texts]
    exact = pa.struct([("n", pa.decimal128(18, 18))])
    assert decoded([f'{{"n":0.{2**64}}}'.encode(), f'{{"n":0.{2**64}000}}'.encode()], exact) == [None, None]
    whole = [chosen.randint(-(2**63), 2**63 - 1) for _ in range(500)] + [2**63 - 1, -(2**63)]
    assert decoded([b'{"n":%d}' % each for each in whole], pa.struct([("n", pa.int64())])) == [{"n": n} for n in whole]


def test_dates_are_those_of_the_calendar():
    start = datetime.date(1583, 1, 1)
    days = [start + datetime.timedelta(each) for each in range(0, 3_074_000, 97)]
    kind = pa.struct([("day", pa.date32())])
    assert decoded([b'{"day":"%b"}' % day.isoformat().encode() for day in days], kind) == [{"day": day} for day in days]


def test_a_time_without_a_zone_is_plain_only_if_times_are_utc():
    kind = pa.struct([("at", pa.timestamp("us", "UTC"))])
    documents = [b'{"at":"2026-01-02T03:04:05"}', b'{"at":"2026-01-02T03:04:05Z"}']
    expected = {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, 0, UTC)}
    assert decoded(documents, kind, utc=True) == [expected, expected]
    assert decoded(documents, kind, utc=False) == [None, expected]


def test_slices_nulls_and_no_rows_are_read():
    objects = JsonObjects.of(KIND, utc=True)
    values = pa.array([b'{"id":%d}' % number if number % 3 else None for number in range(100)], pa.binary())
    found = objects.decode(values.slice(11, 50))
    assert [row and row["id"] for row in found.to_pylist()] == [n if n % 3 else None for n in range(11, 61)]
    assert objects.decode(values.slice(0, 0)).to_pylist() == []
    assert objects.decode(values).type == objects.type


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.struct([("l", pa.list_(pa.int32()))]),
        pa.struct([("b", pa.binary())]),
        pa.struct([("m", pa.map_(pa.string(), pa.int32()))]),
        pa.struct([("t", pa.timestamp("ns"))]),
        pa.struct([("a", pa.int32()), ("a", pa.int32())]),
        pa.struct([("o", pa.struct([]))]),
    ],
)
def test_other_types_have_no_decoder(kind):
    assert JsonObjects.of(kind, utc=True) is None
