"""The bytes of `_schemas`: Confluent's registry must find its own keys and values in them."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.schemas.model import CompatibilityLevel, Metadata, RuleSet, Schema, SchemaReference, SchemaType
from kafkaraw.schemas.server.records import (
    NOOP,
    ConfigValue,
    DeleteSubjectValue,
    Key,
    KeyType,
    Marker,
    ModeValue,
    RecordError,
    RegistryMode,
    RegistryRecord,
    SchemaValue,
    decode,
    encode_key,
    encode_value,
)

# The field order and the spelling of Confluent's JsonPropertyOrder annotations and of its documentation
# ("Schema storage in Kafka"): compaction compares these bytes.
KEYS = {
    b'{"keytype":"SCHEMA","subject":"orders-value","version":3,"magic":1}': Key(KeyType.SCHEMA, "orders-value", 3),
    b'{"keytype":"CONFIG","magic":0}': Key(KeyType.CONFIG),
    b'{"keytype":"CONFIG","subject":"orders-value","magic":0}': Key(KeyType.CONFIG, "orders-value"),
    b'{"keytype":"MODE","subject":":.ctx:","magic":0}': Key(KeyType.MODE, ":.ctx:"),
    b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}': Key(KeyType.DELETE_SUBJECT, "s"),
    b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}': Key(KeyType.CLEAR_SUBJECT, "s"),
    b'{"keytype":"CONTEXT","tenant":"default","context":".ctx","magic":0}': Key(KeyType.CONTEXT, context=".ctx"),
    b'{"keytype":"NOOP","magic":0}': NOOP,
    '{"keytype":"SCHEMA","subject":"größe/\\"x\\"","version":1,"magic":1}'.encode(): Key(
        KeyType.SCHEMA, 'größe/"x"', 1
    ),
}


# Jackson writes characters beyond U+FFFF as two escapes, and escapes in upper case.
KEYS[b'{"keytype":"SCHEMA","subject":"\\uD83D\\uDE00\\u001F\\b\\\\u001f\xc2\x80","version":1,"magic":1}'] = Key(
    KeyType.SCHEMA, "\U0001f600\x1f\b\\u001f\x80", 1
)


def test_keys_have_the_bytes_of_confluents_registry() -> None:
    assert {encode_key(key): key for key in KEYS.values()} == KEYS


def test_keys_of_confluents_registry_are_read() -> None:
    assert {data: decode(data, None).key for data in KEYS} == KEYS


def test_a_global_key_of_an_older_registry_names_its_subject_null() -> None:
    assert decode(b'{"keytype":"CONFIG","subject":null,"magic":0}', None).key == Key(KeyType.CONFIG)


SCHEMA_VALUE = (
    '{"subject":"s","version":2,"id":7,"schemaType":"PROTOBUF",'
    '"references":[{"name":"a.proto","subject":"a","version":1}],'
    '"metadata":{"tags":{"**.ssn":["PII"]},"properties":{"owner":"me"}},'
    '"ruleSet":{"domainRules":[{"name":"r","type":"CEL"}]},"schema":"syntax = \\"proto3\\";","deleted":false}'
)


def test_a_schema_value_has_the_bytes_of_confluents_registry() -> None:
    schema = Schema(
        'syntax = "proto3";',
        SchemaType.PROTOBUF,
        (SchemaReference("a.proto", "a", 1),),
        Metadata({"**.ssn": ("PII",)}, {"owner": "me"}),
        RuleSet(domain_rules=({"name": "r", "type": "CEL"},)),
    )
    value = SchemaValue("s", 2, 7, schema)
    assert encode_value(RegistryRecord(value.key, value)) == SCHEMA_VALUE.encode()


def test_values_without_a_type_are_avro_and_may_lack_what_is_newer() -> None:
    key = encode_key(Key(KeyType.SCHEMA, "s", 1))
    found = decode(key, b'{"subject":"s","version":1,"id":1,"schema":"\\"string\\"","deleted":true,"ts":5,"new":[]}')
    assert found.value == SchemaValue("s", 1, 1, Schema('"string"'), deleted=True)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            RegistryRecord(Key(KeyType.CONFIG, "s"), ConfigValue(compatibility_level=CompatibilityLevel.FULL)),
            b'{"subject":"s","compatibilityLevel":"FULL"}',
        ),
        (
            RegistryRecord(Key(KeyType.CONFIG), ConfigValue(alias="t", normalize=False)),
            b'{"alias":"t","normalize":false}',
        ),
        (RegistryRecord(Key(KeyType.MODE, "s"), ModeValue(RegistryMode.IMPORT)), b'{"subject":"s","mode":"IMPORT"}'),
        (RegistryRecord(Key(KeyType.MODE), ModeValue(RegistryMode.READONLY)), b'{"mode":"READONLY"}'),
        (RegistryRecord(Key(KeyType.DELETE_SUBJECT, "s"), DeleteSubjectValue(3)), b'{"subject":"s","version":3}'),
        (RegistryRecord(Key(KeyType.CLEAR_SUBJECT, "s"), Marker()), b'{"subject":"s"}'),
        (RegistryRecord(Key(KeyType.CONTEXT, context=".c"), Marker()), b'{"tenant":"default","context":".c"}'),
        (RegistryRecord(Key(KeyType.SCHEMA, "s", 1), None), None),
        (RegistryRecord(NOOP, None), None),
    ],
)
def test_values_have_the_bytes_of_confluents_registry_and_are_read(
    record: RegistryRecord, expected: bytes | None
) -> None:
    assert encode_value(record) == expected
    assert decode(encode_key(record.key), expected) == record


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        (None, b"{}", "no key"),
        (b"\x00\x01", None, "no JSON"),
        (b"[]", None, "no JSON object"),
        (b'{"keytype":"OTHER"}', None, "OTHER"),
        (b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}', None, "version"),
        (b'{"keytype":"SCHEMA","version":1,"magic":1}', None, "no subject"),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":2147483648,"magic":1}',
            None,
            "from 1 to 2.31-1, not 2147483648",
        ),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":2147483648,"schema":"x"}',
            "id must be a number from 0 to 2.31-1, not 2147483648",
        ),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":9}', None, "magic byte 9"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"subject":"s"}', "id must be"),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":"NOPE"}', "NOPE"),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"NOPE"}', "NOPE"),
        (b"[" * 100_000, None, "no JSON"),
    ],
)
def test_damaged_records_are_refused_with_what_is_wrong(key: bytes | None, value: bytes | None, named: str) -> None:
    with pytest.raises(RecordError, match=named):
        decode(key, value)


@given(st.binary(max_size=80), st.binary(max_size=80) | st.none())
def test_arbitrary_bytes_are_a_record_or_a_record_error(key: bytes, value: bytes | None) -> None:
    with suppress(RecordError):
        decode(key, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["subject", "version", "id", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted", "mode"]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(list(KeyType)), st.dictionaries(FIELDS, JSON, max_size=8))
def test_json_with_the_right_names_is_a_record_or_a_record_error(kind: KeyType, fields: dict[str, object]) -> None:
    key = encode_key(Key(kind, "s", 1 if kind is KeyType.SCHEMA else None, ".c"))
    with suppress(RecordError):
        decode(key, json.dumps(fields).encode())
