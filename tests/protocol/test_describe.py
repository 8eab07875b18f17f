"""Descriptions: they cover every declaration, and say of fields what the declarations say."""

from __future__ import annotations

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import header_of, spec_of
from kafkaraw.protocol.describe import (
    embedded_messages,
    embedded_modules,
    field_docs,
    field_rows,
    grammar_of,
    latest_version,
    messages_named,
    prose_of,
    purpose_of,
    structures_within,
    summary_of,
)
from kafkaraw.protocol.messages.fetch import FetchRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.protocol.messages.produce import ProduceResponse

MESSAGES = [cls for api in API_TABLE for cls in (api.request, api.response)]
EMBEDDED = [cls for module in embedded_modules() for cls in embedded_messages(module)]


def test_every_api_says_what_it_is_for():
    assert [api.name for api in API_TABLE if not purpose_of(api)] == []


def test_every_declaration_has_a_summary():
    classes = {inner for cls in [*MESSAGES, *EMBEDDED] for inner in (cls, *structures_within(cls))}
    assert len(classes) > 400
    assert [cls.__name__ for cls in classes if not summary_of(cls)] == []


def test_a_docstring_speaks_of_no_field_that_is_not_there():
    classes = {inner for cls in [*MESSAGES, *EMBEDDED] for inner in (cls, *structures_within(cls))}
    stray = {cls.__name__: set(field_docs(cls)) - {field.name for field in spec_of(cls).fields} for cls in classes}
    assert {name: names for name, names in stray.items() if names} == {}


@pytest.mark.parametrize("cls", [*MESSAGES, *EMBEDDED], ids=lambda cls: cls.__name__)
def test_every_version_has_rows_and_a_grammar(cls: type[object]):
    versions = header_of(cls).versions
    for version in range(versions.min, versions.max + 1):
        rows = field_rows(cls, version)
        rules = grammar_of(cls, version).splitlines()[1:]
        assert len(rules) == len(rows)
        for row, rule in zip(rows, rules, strict=True):
            assert rule.startswith("  " * (row.depth + 1) + row.name)


def test_a_row_says_type_null_tag_default_and_meaning():
    rows = {row.name: row for row in field_rows(MetadataResponse, 12)}
    assert rows["rack"].nullable
    assert rows["rack"].default == "null"
    assert rows["controller_id"].default == "-1"
    assert rows["brokers"].type == "compact array of MetadataResponseBroker"
    assert "-1 for unknown" in rows["controller_id"].meaning
    assert "error_code" in rows


def test_tagged_fields_come_last_in_the_order_of_their_tags():
    top = [row.tag for row in field_rows(FetchRequest, 18) if row.depth == 0]
    tags = [tag for tag in top if tag is not None]
    assert tags == sorted(tags)
    assert top[: len(top) - len(tags)] == [None] * (len(top) - len(tags))
    assert len(tags) == 2


def test_the_latest_version_is_offered_where_any_is():
    init_producer_id, update_metadata = messages_named("InitProducerId")[0], messages_named("UpdateMetadata")[0]
    assert latest_version(init_producer_id) == 5
    assert latest_version(update_metadata) == 8
    assert latest_version(ProduceResponse) == 13


def test_prose_has_no_attributes_section():
    assert prose_of(MetadataRequest)
    assert not any("Attributes" in paragraph for paragraph in prose_of(MetadataRequest))


def test_names_are_found_however_they_are_spelled():
    assert messages_named("list_offsets") == messages_named("ListOffsets") == messages_named("2")
    assert [cls.__name__ for cls in messages_named("offset-commit-key")] == ["OffsetCommitKey"]


def test_a_key_out_of_range_says_the_range():
    with pytest.raises(UsageError, match="no API 200; keys go from 0 to 92"):
        messages_named("200")


def test_an_unknown_name_without_a_near_one_points_to_the_list():
    with pytest.raises(UsageError, match="kafkaraw protocol list"):
        messages_named("zzzzzzzz")
