"""Avro schemas compared with Apache Avro's own classes, which the registry of Confluent uses."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from kafkaraw.schemas import Schema, SchemaBundle, SchemaParseError, SchemaReference
from kafkaraw.schemas.languages.avro import AvroSchema, avro_incompatibilities, parse_avro
from tests.interop.avro_oracle import AvroOracle, avro_oracle, why_no_avro_oracle
from tests.schemas.languages.random_avro import RandomAvro

# ruff: noqa: E501
pytestmark = pytest.mark.skipif(why_no_avro_oracle() is not None, reason=why_no_avro_oracle() or "")


@pytest.fixture(scope="module")
def oracle() -> Iterator[AvroOracle]:
    with avro_oracle() as running:
        yield running


def parsed(text: str, **references: str) -> AvroSchema:
    bundles = {name: SchemaBundle(Schema(reference)) for name, reference in references.items()}
    listed = tuple(SchemaReference(name, name, 1) for name in references)
    return parse_avro(SchemaBundle(Schema(text, references=listed), bundles))


def compare_pairs(oracle: AvroOracle, seeds: range) -> int:
    incompatible = 0
    for seed in seeds:
        make = RandomAvro(seed)
        one = make.schema()
        other = make.changed(one)
        reader, writer = random.Random(seed).sample([one, other], 2)
        texts = json.dumps(reader), json.dumps(writer)
        answer = oracle.ask(reader=texts[0], writer=texts[1])
        try:
            found = avro_incompatibilities(parsed(texts[0]).root, parsed(texts[1]).root)
        except SchemaParseError as error:
            assert "error" in answer, f"seed {seed}: {error}\n{texts}"
            continue
        if "error" in answer:
            assert [one.rule for one in found] == ["UNEXPECTED_EXCEPTION"], f"seed {seed}: {answer}\n{texts}"
            assert "matches multiple fields" in answer["error"]
            continue
        mine = [(one.rule, one.path, one.template.split("additionalInfo:'")[1][:-2]) for one in found]
        assert mine == [tuple(one) for one in answer["found"]], f"seed {seed}: {texts}"
        incompatible += bool(mine)
    return incompatible


def test_incompatibilities_of_random_pairs_are_javas(oracle: AvroOracle) -> None:
    incompatible = compare_pairs(oracle, range(600))
    assert 100 < incompatible < 500


@pytest.mark.soak
def test_incompatibilities_of_10_000_random_pairs_are_javas(oracle: AvroOracle) -> None:
    incompatible = compare_pairs(oracle, range(1_000, 11_000))
    print(f"10,000 pairs, {incompatible} of them incompatible; the findings are Java's in all")


def test_canonical_text_of_random_schemas_is_javas(oracle: AvroOracle) -> None:
    for seed in range(300):
        make = RandomAvro(seed)
        text = json.dumps(make.changed(make.schema()), ensure_ascii=seed % 2 == 0)
        answer = oracle.ask(text=text)
        try:
            schema = parsed(text)
        except SchemaParseError as error:
            assert "error" in answer, f"seed {seed}: {error}\n{text}"
            continue
        assert "error" not in answer, f"seed {seed}: {answer}\n{text}"
        assert schema.canonical_text == answer["text"], f"seed {seed}"
        # Reading it again and normalizing it twice change nothing.
        assert parsed(schema.canonical_text).canonical_text == schema.canonical_text, f"seed {seed}"
        normalized = schema.normalized_text
        if ".Oldest" in text:  # Java writes an alias without a namespace as one of the record's namespace
            continue
        assert parsed(normalized).normalized_text == normalized, f"seed {seed}"


def test_references_are_written_as_names_as_java_does(oracle: AvroOracle) -> None:
    address = (
        '{"type":"record","name":"x.Address","fields":['
        '{"name":"city","type":{"type":"enum","name":"City","symbols":["A"]}}]}'
    )
    order = (
        '{"type":"record","name":"y.Order","fields":[{"name":"to","type":"x.Address"},{"name":"c","type":"x.City"},'
        '{"name":"more","type":{"type":"array","items":"x.Address"}}]}'
    )
    answer = oracle.ask(text=order, references=[address])
    schema = parsed(order, Address=address)
    assert schema.canonical_text == answer["text"]
    assert schema.resolved_text == answer["resolved"]


STRANGE = (
    '"string"',
    '{"type":"string"}',
    "[]",
    '["null"]',
    '{"type":"record","name":"R","fields":[]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"Later"},{"name":"b","type":{"type":"fixed","name":"Later","size":2}}]}',
    '{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"enum","name":"record","symbols":["A"]}},{"name":"b","type":"n.record"}]}',
    '{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"fixed","name":"F","namespace":"","size":1}},{"name":"b","type":"F"}]}',
    '/* before */ {"type":"record", // after\n"name":"R","fields":[{"name":"a","type":"string","doc":"// no /* comment */"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":"1.5"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":["null",{"type":"R"}]}]}',
    '{"type":"int","logicalType":"date","logicalType":"time-millis"}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},{"name":"b","type":{"type":"fixed","name":"F","size":1}}]}',
    '{"type":"record","name":"R","doc":null,"fields":[{"name":"a","type":"int","doc":7}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"long","default":9223372036854775807,"x":1E400}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1E-3},{"name":"b","type":"double","default":-0.0}]}',
)
REFUSED = (
    "",
    "{",
    "7",
    "null",
    '"unknown"',
    '{"type":"record"}',
    '{"type":"record","name":"R"}',
    '{"type":"record","name":"R","fields":[{"name":"a"}]}',
    '{"type":"record","name":"R","fields":[{"type":"int"}]}',
    '{"type":"record","name":"1R","fields":[]}',
    '{"type":"record","name":"a-b.R","fields":[]}',
    '{"type":"record","name":"\u00e9","fields":[]}',
    '{"type":"record","name":"int","fields":[]}',
    '{"type":"record","name":"R","fields":[{"name":"a b","type":"int"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":1.0}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":2147483648}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"up"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":"b"}]}',
    '{"type":"enum","name":"E","symbols":["A","A"]}',
    '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
    '{"type":"enum","name":"E","symbols":["a-b"]}',
    '{"type":"enum","name":"E"}',
    '{"type":"fixed","name":"F","size":-1}',
    '{"type":"fixed","name":"F","size":"1"}',
    '{"type":"array"}',
    '{"type":"map"}',
    '{"type":{"type":"string"}}',
    '["int","int"]',
    '["null",["int"]]',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"Missing"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},{"name":"b","type":{"type":"fixed","name":"F","size":2}}]}',
    '"string" "int"',
)


def test_strange_texts_are_read_as_java_reads_them(oracle: AvroOracle) -> None:
    for text in STRANGE:
        answer = oracle.ask(text=text)
        if text.endswith("1E400}]}"):  # Java makes a string of the infinite number
            continue
        assert "error" not in answer, (text, answer)
        assert parsed(text).canonical_text == answer["text"], text


def test_texts_that_java_refuses_are_refused(oracle: AvroOracle) -> None:
    for text in REFUSED:
        assert "error" in oracle.ask(text=text), text
        with pytest.raises(SchemaParseError):
            parsed(text)
