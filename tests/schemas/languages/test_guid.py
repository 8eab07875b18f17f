"""GUIDs of schemas: MD5 of what `Schema.updateHash` of Confluent's client hashes, in its order."""

from __future__ import annotations

import uuid
from hashlib import md5

from kafkaraw.schemas import Metadata, RuleSet, Schema, SchemaReference
from kafkaraw.schemas.languages import guid_of


def guid(data: bytes) -> str:
    return str(uuid.UUID(md5(data).hexdigest()))


def test_guid_of_a_text_is_its_md5() -> None:
    assert guid_of(Schema('"string"')) == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


def test_guid_covers_references_metadata_and_rules() -> None:
    rule = {
        "name": "encrypt",
        "kind": "TRANSFORM",
        "mode": "WRITEREAD",
        "type": "ENCRYPT",
        "tags": ["PII", "A"],
        "params": {"z": "1", "a": "2"},
        "onFailure": "ERROR,NONE",
        "disabled": True,
    }
    schema = Schema(
        '"é"',
        references=(SchemaReference("n", "s", 258),),
        metadata=Metadata({"t": ("y", "x")}, {"b": "2", "a": "1"}, ("q", "p")),
        rule_set=RuleSet(domain_rules=(rule,)),
    )
    assert guid_of(schema) == guid(
        '"é"'.encode() + b"ns\0\0\1\2" + b"\1txya1b2pq" + b"\1encryptTRANSFORMWRITEREADENCRYPTAPIIa2z1ERROR,NONE\1"
    )


def test_guid_covers_the_defaults_of_rules_and_where_they_are_executed() -> None:
    """`Rule` has kind TRANSFORM and mode WRITEREAD without being told; `RuleSet.updateHash` ends with `enableAt`."""
    rules = RuleSet(domain_rules=({"name": "r", "type": "CEL"},), enable_at="CLIENT")
    assert guid_of(Schema('"int"', rule_set=rules)) == guid(b'"int"\1rTRANSFORMWRITEREADCELCLIENT')
    assert RuleSet.from_json(rules.to_json()) == rules


def test_guid_of_no_metadata_differs_from_the_one_of_empty_metadata() -> None:
    assert guid_of(Schema('"int"')) != guid_of(Schema('"int"', metadata=Metadata()))
