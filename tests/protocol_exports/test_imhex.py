"""The ImHex pattern: every message is there, and a type is declared before it is used.

ImHex has no command line that packages offer, so that these tests check the structure of the text.
"""

from __future__ import annotations

import re

from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import spec_of
from kafkaraw.protocol_exports.imhex import imhex_pattern
from tests.cases import Cases

BUILT_IN = {"u8", "u32", "u64", "s8", "s16", "s32", "s64", "u16", "bool", "double", "char", "type::uLEB128", "auto"}


def test_every_type_is_declared_once_before_it_is_used() -> None:
    (text,) = imhex_pattern(API_TABLE).values()
    declared: set[str] = set()
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")
    for line in re.sub(r"//.*", "", text).splitlines():
        if head := re.match(r"(?:struct|bitfield|enum) (\w+)", line):
            assert head[1] not in declared, line
            declared.add(head[1])
        elif member := re.match(r"\s+([\w:]+)(?:<[^;]*>)? \w+(?:\[.*\])?(?: = .*| in)?;$", line):
            assert member[1] in declared | BUILT_IN | {"return"}, line


def test_every_message_has_its_fields_in_order() -> None:
    (text,) = imhex_pattern(API_TABLE).values()
    with Cases() as case:
        for api in API_TABLE:
            for cls in (api.request, api.response):
                with case(cls.__name__):
                    (body,) = re.findall(
                        rf"^struct {cls.__name__}<auto version, auto flexible> {{\n(.*?)^}};", text, re.M | re.S
                    )
                    names = re.findall(r" (\w+)(?:\[\w+\.count\])?;$", body, re.M)
                    found = [name for name in dict.fromkeys(names) if not name.endswith(("_count", "_marker"))]
                    plain = [
                        field.name
                        for field in spec_of(cls).fields
                        if field.tag is None or field.tagged.min > field.versions.min
                    ]
                    assert [name for name in found if name != "tagged_fields"] == plain
            assert f"        ({api.key}): {{\n" in text
