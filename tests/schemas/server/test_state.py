"""What records make of the state: ids, GUIDs, references, deletions, and writes of two instances at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafkaraw.schemas.languages import guid_of
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaReference
from kafkaraw.schemas.server.names import ANY_CONTEXT, SubjectFilter
from kafkaraw.schemas.server.records import (
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
    Value,
    decode,
)
from kafkaraw.schemas.server.state import LATEST, Outcome, State


class Log:
    """Applies records to a state, one after the other."""

    def __init__(self) -> None:
        self.state = State(guid_of)

    def write(self, key: Key, value: Value | None) -> Outcome:
        return self.state.apply(RegistryRecord(key, value), self.state.applied_offset + 1, 1_000)

    def schema(
        self, subject: str, version: int, schema_id: int, text: str = '"int"', *, deleted: bool = False
    ) -> Outcome:
        value = SchemaValue(subject, version, schema_id, Schema(text), deleted)
        return self.write(value.key, value)


def test_the_first_owner_of_an_id_keeps_it() -> None:
    log = Log()
    assert log.schema("a", 1, 1, '"int"').applied
    outcome = log.schema("b", 1, 1, '"string"')
    assert not outcome.applied
    assert "id 1 belongs to another schema, of subject 'a' version 1" in outcome.reason
    assert log.state.version("b", 1) is None
    assert log.schema("b", 1, 1, '"int"').applied  # the same text may have the same id


def test_the_first_owner_of_a_version_keeps_it() -> None:
    log = Log()
    log.schema("a", 1, 1, '"int"')
    outcome = log.schema("a", 1, 2, '"string"')
    assert not outcome.applied
    assert outcome.previous == SchemaValue("a", 1, 1, Schema('"int"'))
    assert log.state.by_id(2, None) is None
    found = log.state.version("a", 1)
    assert found is not None and found.value.id == 1


def test_an_import_replaces_a_version() -> None:
    log = Log()
    log.schema("a", 1, 1, '"int"')
    log.write(Key(KeyType.MODE, "a"), ModeValue(RegistryMode.IMPORT))
    assert log.schema("a", 1, 2, '"string"').applied
    assert log.state.by_id(1, None) is None
    found = log.state.by_id(2, None)
    assert found is not None and found.value.schema.text == '"string"'


def test_ids_are_counted_in_each_context() -> None:
    log = Log()
    log.schema("a", 1, 5)
    log.write(Key(KeyType.CONTEXT, context=".c"), Marker())
    log.schema(":.c:a", 1, 1, '"string"')
    assert (log.state.next_id("b"), log.state.next_id(":.c:b"), log.state.next_id(":.d:b")) == (6, 2, 1)
    found = log.state.by_id(1, "a")  # a subject without a context is searched in all
    assert found is not None and found.value.subject == ":.c:a"
    assert log.state.by_id(1, None) is None
    guid = guid_of(Schema('"string"'))
    assert log.state.ids_of_guid(guid) == [(".c", 1)]


def test_the_highest_id_survives_the_deletion_of_its_schema() -> None:
    log = Log()
    log.schema("a", 1, 9)
    log.write(Key(KeyType.SCHEMA, "a", 1), None)
    assert log.state.next_id("a") == 10


def test_soft_deletion_of_a_subject_covers_the_versions_until_then() -> None:
    log = Log()
    log.schema("a", 1, 1)
    log.schema("a", 2, 2, '"string"')
    log.write(Key(KeyType.DELETE_SUBJECT, "a"), DeleteSubjectValue(2))
    log.schema("a", 3, 3, '"long"')
    everything = SubjectFilter(ANY_CONTEXT)
    assert [it.value.deleted for it in log.state.versions("a")] == [True, True, False]
    assert log.state.version("a", 1) is None and log.state.version("a", 1, deleted=True) is not None
    latest = log.state.version("a", LATEST)
    assert latest is not None and latest.value.version == 3
    log.write(Key(KeyType.DELETE_SUBJECT, "a"), DeleteSubjectValue(3))
    assert log.state.subjects(everything) == []
    assert log.state.subjects(everything, deleted=True) == log.state.subjects(everything, deleted_only=True) == ["a"]


def test_an_older_version_with_the_id_of_a_deleted_one_is_found() -> None:
    log = Log()
    log.schema("a", 1, 1)
    log.write(Key(KeyType.MODE, "a"), ModeValue(RegistryMode.IMPORT))
    log.schema("a", 3, 1)
    log.write(Key(KeyType.SCHEMA, "a", 3), None)
    found = log.state.by_id(1, None)
    assert found is not None and found.value.version == 1


def test_clearing_forgets_what_is_deleted_softly() -> None:
    log = Log()
    log.schema(":.c:a", 1, 1, deleted=True)
    log.schema(":.c:b", 1, 2, '"string"')
    log.schema("a", 1, 1, deleted=True)
    log.write(Key(KeyType.CLEAR_SUBJECT, ":.c:"), Marker())
    assert [it.value.subject for name in (":.c:a", ":.c:b", "a") for it in log.state.versions(name)] == [":.c:b", "a"]
    log.write(Key(KeyType.CLEAR_SUBJECT), Marker())
    assert log.state.versions("a") == []


def test_references_are_known_from_both_ends() -> None:
    log = Log()
    log.schema("a", 1, 1)
    reference = (SchemaReference("A", "a", 1),)
    value = SchemaValue("b", 1, 2, Schema('"string"', references=reference))
    log.write(value.key, value)
    assert log.state.referrers("a", 1, deleted=False) == [(".", 2)]
    assert log.state.referring_subjects("a", 1, deleted=False) == {"b"}
    log.write(Key(KeyType.DELETE_SUBJECT, "b"), DeleteSubjectValue(1))
    assert log.state.referrers("a", 1, deleted=False) == []
    assert log.state.referrers("a", 1, deleted=True) == [(".", 2)]
    log.write(value.key, None)
    assert log.state.referrers("a", 1, deleted=True) == []


def test_references_of_a_context_stay_in_it() -> None:
    log = Log()
    value = SchemaValue(":.c:b", 1, 2, Schema('"string"', references=(SchemaReference("A", "a", 1),)))
    log.write(value.key, value)
    assert log.state.referrers("a", 1, deleted=True) == []
    assert log.state.referrers(":.c:a", 1, deleted=True) == [(".c", 2)]


def test_settings_are_inherited_from_context_and_global_context() -> None:
    log, level = Log(), CompatibilityLevel
    assert log.state.config_in_scope("a").compatibility_level is level.BACKWARD
    assert log.state.config("a") is None
    for subject, chosen in ((":.__GLOBAL:", level.NONE), (None, level.FULL), (":.c:", level.FORWARD)):
        log.write(Key(KeyType.CONFIG, subject), ConfigValue(compatibility_level=chosen))
    found = {name: log.state.config_in_scope(name).compatibility_level for name in ("a", ":.c:a", ":.d:a")}
    assert found == {"a": level.FULL, ":.c:a": level.FORWARD, ":.d:a": level.NONE}
    log.write(Key(KeyType.CONFIG), ConfigValue(normalize=True))
    log.write(Key(KeyType.CONFIG, "a"), ConfigValue(alias="b"))
    own = log.state.config_in_scope("a")
    assert (own.alias, own.normalize, own.compatibility_level) == ("b", True, level.BACKWARD)
    log.write(Key(KeyType.MODE, ":.c:"), ModeValue(RegistryMode.READONLY))
    assert log.state.mode_in_scope(":.c:a") is RegistryMode.READONLY
    assert log.state.mode_in_scope("a") is log.state.mode(None) is RegistryMode.READWRITE
    log.write(Key(KeyType.MODE, ":.c:"), None)
    assert log.state.mode_in_scope(":.c:a") is RegistryMode.READWRITE


def test_two_states_with_the_same_records_are_the_same_whatever_is_compacted_away() -> None:
    records = [
        ("a", 1, 1, '"int"', False),
        ("a", 2, 2, '"string"', False),
        ("a", 1, 1, '"int"', True),
        ("b", 1, 2, '"string"', False),
        ("a", 3, 3, '"long"', False),
    ]
    whole, compacted = Log(), Log()
    for record in records:
        whole.schema(*record[:4], deleted=record[4])
    for index, record in enumerate(records):
        if all(record[:2] != later[:2] for later in records[index + 1 :]):
            compacted.schema(*record[:4], deleted=record[4])

    def shown(log: Log) -> object:
        return [(it.value, it.guid) for name in ("a", "b") for it in log.state.versions(name)], log.state.next_id("a")

    assert shown(whole) == shown(compacted)


def test_prefixes_select_subjects_of_contexts() -> None:
    names = ["a", "ab", ":.c:a", ":.cd:b"]
    selected = {prefix: [name for name in names if SubjectFilter(prefix)(name)] for prefix in (
        "", "a", ":*:", ":*:a", ":.c:", ":.c", ":.c:b"
    )}  # fmt: skip
    assert selected == {
        "": ["a", "ab"],
        "a": ["a", "ab"],
        ":*:": names,
        ":*:a": ["a", "ab", ":.c:a"],
        ":.c:": [":.c:a"],
        ":.c": [":.c:a", ":.cd:b"],
        ":.c:b": [],
    }


WHOLE = {
    "subject": "s", "version": 1, "id": 1, "md5": "A" * 24, "schemaType": "AVRO", "schema": '"int"', "deleted": False,
    "references": [{"name": "a", "subject": "b", "version": 1}],
    "metadata": {"tags": {"a": ["b"]}, "properties": {"a": "b"}, "sensitive": ["a"]},
    "ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "tags": ["a"], "params": {"a": "b"}}], "enableAt": "ALL"},
    "compatibilityLevel": "FULL", "mode": "IMPORT", "normalize": True, "overrideRuleSet": {"domainRules": []},
}  # fmt: skip
WHOLE_KEY = {"subject": "s", "version": 1, "magic": 1, "context": ".c", "tenant": "default"}
WRONG: list[object] = [None, True, 0, -1, 10**30, 1.5, "a", "\ud800", [], {}, [1], {"a": 1}, float("nan")]


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*path, name)
        yield from places(item, (*path, name))


def replaced(value: object, path: tuple[str | int, ...], new: object) -> Any:
    copy: Any = json.loads(json.dumps(value))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return copy


@pytest.mark.parametrize("kind", list(KeyType))
def test_a_record_with_any_field_of_a_wrong_type_is_refused_or_applied(kind: KeyType) -> None:
    """Anything but these errors would end the reader of the topic, and with it every write until a restart."""
    key: dict[str, object] = {"keytype": kind.value, **WHOLE_KEY}
    records = [(replaced(key, path, new), WHOLE) for path in places(key) for new in WRONG]
    records += [(key, replaced(WHOLE, path, new)) for path in places(WHOLE) for new in WRONG]
    applied = 0
    for wrong_key, wrong_value in records:
        with suppress(RecordError, ValueError):
            State(guid_of).apply(decode(json.dumps(wrong_key).encode(), json.dumps(wrong_value).encode()), 0, 0)
            applied += 1
    assert 0 < applied < len(records)
