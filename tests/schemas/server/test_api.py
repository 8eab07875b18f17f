"""The REST API, request by request: answers, error codes and messages as Confluent's registry sends them.

The expected messages are those of its `Errors` and `Rest*Exception` classes.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kafkaraw.schemas.server.app import AppSettings, create_app
from kafkaraw.schemas.server.state import State
from tests.schemas.server.conftest import Api


def record(*fields: tuple[str, object]) -> str:
    """The text of an Avro record, as the registry stores it."""
    made = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "R", "fields": made}, separators=(",", ":"))


def optional(name: str, kind: str = "string") -> str:
    """The text of a record with a field that has a default."""
    fields = [{"name": "a", "type": "int"}, {"name": name, "type": kind, "default": ""}]
    return json.dumps({"type": "record", "name": "R", "fields": fields}, separators=(",", ":"))


A = record(("a", "int"))
AB = optional("b")
OTHER = record(("z", "string"))


def register(api: Api, subject: str, text: str, **fields: object) -> Any:
    return api("POST", f"/subjects/{subject}/versions", {"schema": text, **fields})


def test_a_new_registry_is_empty(api: Api) -> None:
    assert api("GET", "/") == {}
    assert api("GET", "/subjects") == api("GET", "/schemas") == []
    assert api("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert api("GET", "/contexts") == ["."]
    assert api("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert api("GET", "/mode") == {"mode": "READWRITE"}


def test_registering_gives_an_id_a_version_and_a_guid(api: Api) -> None:
    found = register(api, "s", " " + A)
    assert found == {"id": 1, "version": 1, "guid": found["guid"], "schemaType": "AVRO", "schema": A}
    assert register(api, "s", A) == found
    assert register(api, "t", A)["id"] == 1
    assert register(api, "s", AB)["version"] == register(api, "s", AB)["id"] == 2


def test_a_version_is_read_in_every_way(api: Api) -> None:
    register(api, "s", A)
    register(api, "s", AB)
    register(api, "t", A)
    version = api("GET", "/subjects/s/versions/1")
    assert version.pop("ts") > 0
    guid = version.pop("guid")
    assert version == {"subject": "s", "version": 1, "id": 1, "schemaType": "AVRO", "schema": A, "deleted": False}
    assert api("GET", "/subjects/s/versions") == [1, 2]
    assert api("GET", "/subjects/s/versions/latest")["version"] == api("GET", "/subjects/s/versions/-1")["version"] == 2
    assert api.send("GET", "/subjects/s/versions/1/schema").text == A
    assert api.send("GET", "/schemas/ids/1/schema").text == A
    by_id = api("GET", "/schemas/ids/1")
    assert (by_id["schema"], by_id["guid"], "subject" in by_id) == (A, guid, False)
    assert api("GET", "/schemas/ids/1?subject=t&fetchMaxId=true")["maxId"] == 2
    assert api("GET", "/schemas/ids/1?subject=t")["subject"] == "t"
    assert api("GET", "/schemas/ids/1/subjects") == ["s", "t"]
    assert api("GET", "/schemas/ids/1/versions") == [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}]
    assert api("GET", f"/schemas/guids/{guid}")["schema"] == A
    assert api("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]
    assert [(it["subject"], it["version"]) for it in api("GET", "/schemas")] == [("s", 1), ("s", 2), ("t", 1)]
    assert [it["version"] for it in api("GET", "/schemas?subjectPrefix=s&latestOnly=true")] == [2]
    assert [it["subject"] for it in api("GET", "/schemas?offset=1&limit=2")] == ["s", "t"]


MISSING = {
    "GET /subjects/x/versions": (404, 40401, "Subject 'x' not found."),
    "GET /subjects/x/versions/1": (404, 40401, "Subject 'x' not found."),
    "GET /subjects/s/versions/9": (404, 40402, "Version 9 not found."),
    "GET /subjects/s/versions/9/schema": (404, 40402, "Version 9 not found."),
    "GET /subjects/s/versions/0": (
        422,
        42202,
        "The specified version '0' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    ),
    "GET /subjects/s/versions/first": (
        422,
        42202,
        "The specified version 'first' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    ),
    "GET /schemas/ids/9": (404, 40403, "Schema 9 not found"),
    "GET /schemas/ids/9/versions": (404, 40403, "Schema not found"),
    "GET /schemas/ids/9/subjects": (404, 40403, "Schema not found"),
    "GET /schemas/ids/nine": (404, 404, "HTTP 404 Not Found"),
    "GET /schemas/guids/nope": (404, 40403, "Schema nope not found"),
    "GET /config/s": (404, 40408, "Subject 's' does not have subject-level compatibility configured"),
    "GET /mode/s": (404, 40409, "Subject 's' does not have subject-level mode configured"),
    "DELETE /config/s": (404, 40401, "Subject 's' not found."),
    "DELETE /mode/s": (404, 40401, "Subject 's' not found."),
    "DELETE /subjects/x": (404, 40401, "Subject 'x' not found."),
    "DELETE /subjects/x/versions/1": (404, 40401, "Subject 'x' not found."),
    "DELETE /subjects/s/versions/9": (404, 40402, "Version 9 not found."),
    "DELETE /subjects/s?permanent=true": (
        404,
        40405,
        "Subject 's' was not deleted first before being permanently deleted",
    ),
    "DELETE /subjects/s/versions/1?permanent=true": (
        404,
        40407,
        "Subject 's' Version 1 was not deleted first before being permanently deleted",
    ),
    "GET /nothing": (404, 404, "HTTP 404 Not Found"),
    "PUT /subjects": (405, 405, "HTTP 405 Method Not Allowed"),
    "GET /subjects/s/metadata?key=a&value=b": (404, 40403, "Schema not found"),
    "GET /subjects/x/metadata?key=a&value=b": (404, 40401, "Subject 'x' not found."),
}


@pytest.mark.parametrize("request_line", MISSING)
def test_what_is_missing_has_confluents_code_and_message(api: Api, request_line: str) -> None:
    register(api, "s", A)
    assert api(*request_line.split(" ")) == MISSING[request_line]


def test_lookup_finds_a_schema_by_its_content(api: Api) -> None:
    register(api, "s", A)
    register(api, "s", AB)
    found = api("POST", "/subjects/s", {"schema": json.dumps(json.loads(A), indent=2)})
    assert (found["subject"], found["version"], found["id"], found["schema"]) == ("s", 1, 1, A)
    assert api("POST", "/subjects/s", {"schema": OTHER}) == (404, 40403, "Schema not found")
    assert api("POST", "/subjects/x", {"schema": A}) == (404, 40401, "Subject 'x' not found.")
    api("DELETE", "/subjects/s/versions/1")
    assert api("POST", "/subjects/s", {"schema": A}) == (404, 40403, "Schema not found")
    assert api("POST", "/subjects/s?deleted=true", {"schema": A})["version"] == 1


def test_an_incompatible_schema_is_refused_with_rule_and_path(api: Api) -> None:
    register(api, "s", A)
    status, code, message = register(api, "s", record(("a", "int"), ("b", "string")))
    assert (status, code) == (409, 40901)
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'"
    )
    assert "{oldSchemaVersion: 1}" in message
    assert message.endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")
    body = {"schema": record(("a", "int"), ("b", "string"))}
    for path in ("/compatibility/subjects/s/versions", "/compatibility/subjects/s/versions/latest"):
        assert api("POST", path, body) == {"is_compatible": False}
        verbose = api("POST", path + "?verbose=true", body)
        assert not verbose["is_compatible"] and len(verbose["messages"]) == 4
    assert api("POST", "/compatibility/subjects/s/versions", {"schema": AB}) == {"is_compatible": True}
    assert api("POST", "/compatibility/subjects/x/versions/latest?verbose=true", {"schema": A}) == {
        "is_compatible": True,
        "messages": [],
    }
    assert api("POST", "/compatibility/subjects/x/versions/3", {"schema": A}) == (404, 40402, "Version 3 not found.")
    assert register(api, "s", record(("a", "int"), ("b", "string")))[0] == 409
    assert api("POST", "/subjects/s/versions?force=true", body)["version"] == 2


def test_levels_decide_which_versions_are_compared(api: Api) -> None:
    api("PUT", "/config/s", {"compatibility": "backward_transitive"})
    register(api, "s", record(("a", "int")))
    register(api, "s", AB)
    without_default = record(("a", "int"), ("b", "string"))
    assert register(api, "s", without_default)[0] == 409
    assert api("PUT", "/config/s", {"compatibility": "BACKWARD"}) == {"compatibility": "BACKWARD"}
    assert register(api, "s", without_default)["version"] == 3
    assert api("PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert register(api, "s", OTHER)["version"] == 4


def with_reference(name: str, version: int) -> dict[str, object]:
    return {"schema": A, "references": [{"name": name, "subject": "r", "version": version}]}


def with_properties(value: str) -> dict[str, object]:
    return {"schema": A, "metadata": {"properties": {"a": value}}}


def with_rule(kind: str = "domainRules", **fields: object) -> dict[str, object]:
    return {"schema": A, "ruleSet": {kind: [{"name": "r", "type": "CEL", **fields}]}}


UNTYPED_RULE = {"domainRules": [{"name": "r"}]}
BAD_BODIES: dict[str, tuple[str, Any, int, int]] = {
    "not Avro": ("/subjects/s/versions", {"schema": "{"}, 422, 42201),
    "unknown language": ("/subjects/s/versions", {"schema": A, "schemaType": "XML"}, 422, 42201),
    "no text": ("/subjects/s/versions", {}, 422, 42201),
    "blank text": ("/subjects/s/versions", {"schema": " "}, 422, 42201),
    "text is an object": ("/subjects/s/versions", {"schema": {}}, 400, 400),
    "not an object": ("/subjects/s/versions", [], 400, 400),
    "references are no array": ("/subjects/s/versions", {"schema": A, "references": 3}, 400, 400),
    "a reference without a name": ("/subjects/s/versions", {"schema": A, "references": [{}]}, 400, 400),
    "half a surrogate pair": ("/subjects/s/versions", {"schema": '"\ud800"'}, 400, 400),
    "id outside of an import": ("/subjects/s/versions", {"schema": A, "id": 5}, 422, 42205),
    "version that is not next": ("/subjects/s/versions", {"schema": A, "version": 5}, 422, 42201),
    "version of 40 digits": ("/subjects/s/versions", {"schema": A, "version": 10**40}, 400, 400),
    "half a surrogate pair in a reference": ("/subjects/s/versions", with_reference("\ud800", 1), 400, 400),
    "half a surrogate pair in metadata": ("/subjects/s/versions", with_properties("\ud800"), 400, 400),
    "a reference to a version of 40 digits": ("/subjects/s/versions", with_reference("r", 10**40), 400, 400),
    "NaN": ("/subjects/s/versions", {"schema": A, "x": float("nan")}, 400, 400),
    "tags of a rule that are no text": ("/subjects/s/versions", with_rule(tags=[1, "a"]), 400, 400),
    "params of a rule that are an array": ("/subjects/s/versions", with_rule(params=["a"]), 400, 400),
    "a mode of a rule that is an array": ("/subjects/s/versions", with_rule(mode=[1]), 400, 400),
    "an unknown kind of a rule": (
        "/subjects/s/versions",
        {"schema": A, "ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "kind": "X"}]}},
        400,
        400,
    ),
    "a rule set for an unknown place": ("/subjects/s/versions", {"schema": A, "ruleSet": {"enableAt": "X"}}, 400, 400),
    "a migration rule without a mode": ("/subjects/s/versions", with_rule("migrationRules"), 422, 42210),
    "a rule without a type": ("/subjects/s/versions", {"schema": A, "ruleSet": UNTYPED_RULE}, 422, 42210),
    "a reserved subject": ("/subjects/__GLOBAL/versions", {"schema": A}, 422, 42208),
    "a subject with a control character": ("/subjects/a%00b/versions", {"schema": A}, 422, 42208),
    "inline tags": ("/subjects/s/versions", {"schema": A, "schemaTagsToAdd": [{}]}, 422, 42201),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_registrations_are_refused(api: Api, name: str) -> None:
    path, body, status, code = BAD_BODIES[name]
    text = json.dumps(body)
    answer = api.send("POST", path, content=text, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert api("GET", "/subjects") == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"schema": A, "schemaType": "XML"}, "Invalid schema type XML"),
        ({}, "Empty schema"),
        ({"schema": A, "version": 5}, "Version is not one more than previous version"),
        (
            {"schema": A, "references": [{"name": "A", "subject": "a", "version": 1}]},
            'Invalid schema of type AVRO, details: No schema reference found for subject "a" and version 1',
        ),
    ],
)
def test_invalid_schemas_have_confluents_message(api: Api, body: dict[str, object], message: str) -> None:
    assert api("POST", "/subjects/s/versions", body) == (422, 42201, message)


def test_ids_and_pages_that_are_no_numbers_lead_nowhere(api: Api) -> None:
    register(api, "s", A)
    for text in ("--1", "+-1", "1_0", "%D9%A1", "1" * 20, "1" * 5_000, "1.0", "2147483648"):
        assert api("GET", f"/schemas/ids/{text}")[:2] == api("GET", f"/subjects?limit={text}")[:2] == (404, 404), text
    assert api("GET", "/schemas/ids/0001")["schema"] == A


def test_compressed_bodies_are_refused_with_their_encoding(api: Api) -> None:
    content = gzip.compress(json.dumps({"schema": A}).encode())
    answer = api.send("POST", "/subjects/s/versions", content=content, headers={"content-encoding": "gzip"})
    expected = "the body has the Content-Encoding 'gzip'; send it without one"
    assert answer.json() == {"error_code": 415, "message": expected}
    body = json.dumps({"schema": A})
    answer = api.send("POST", "/subjects/s/versions", content=body, headers={"content-encoding": "identity"})
    assert answer.json()["id"] == 1


def test_a_fault_is_answered_as_an_error_and_does_not_end_the_connection(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise TypeError("a fault of this package")

    monkeypatch.setattr(State, "subjects", broken)
    asked = httpx.ASGITransport(create_app(api.service))  # raises what a server would see, and then hang up

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=asked, base_url="http://registry") as client:
            return await client.get("/subjects")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()) == (500, {"error_code": 500, "message": "Internal Server Error"})


def test_bodies_that_are_no_json_are_refused(api: Api) -> None:
    surrogate = json.dumps({"schema": A}).encode().replace(b"R", b"\xed\xa0\x80")
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"schema": 1e999999}', surrogate):
        answer = api.send("POST", "/subjects/s/versions", content=content)
        assert answer.status_code == 400, content[:20]
        assert answer.json()["error_code"] == 400
    assert api.send("POST", "/subjects/s/versions").json() == {"error_code": 422, "message": "request may not be null"}


def test_deletion_goes_from_soft_to_permanent(api: Api) -> None:
    for text in (A, AB):
        register(api, "s", text)
    assert api("DELETE", "/subjects/s/versions/1") == 1
    assert api("DELETE", "/subjects/s/versions/1") == (
        404,
        40406,
        "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently",
    )
    assert api("GET", "/subjects/s/versions") == [2]
    assert api("GET", "/subjects/s/versions?deleted=true") == [1, 2]
    assert api("GET", "/subjects/s/versions?deletedOnly=true") == [1]
    assert api("GET", "/subjects/s/versions?deletedAsNegative=true") == [-1, 2]
    assert api("GET", "/schemas/ids/1")["deleted"] is True
    assert api("GET", "/schemas/ids/1/versions") == []
    assert api("GET", "/schemas/ids/1/versions?deleted=true") == [{"subject": "s", "version": 1}]
    assert api("DELETE", "/subjects/s/versions/1?permanent=true") == 1
    assert api("GET", "/schemas/ids/1") == (404, 40403, "Schema 1 not found")
    assert api("DELETE", "/subjects/s") == [2]
    assert api("GET", "/subjects") == []
    assert api("GET", "/subjects?deleted=true") == api("GET", "/subjects?deletedOnly=true") == ["s"]
    assert api("DELETE", "/subjects/s") == (
        404,
        40404,
        "Subject 's' was soft deleted.Set permanent=true to delete permanently",
    )
    assert register(api, "s", A)["version"] == 3  # versions of a soft deletion are not given again
    api("DELETE", "/subjects/s")
    assert api("DELETE", "/subjects/s?permanent=true") == [2, 3]
    assert register(api, "s", OTHER) == {**register(api, "s", OTHER), "version": 1, "id": 4}


def test_a_deleted_schema_that_is_registered_again_keeps_its_id(api: Api) -> None:
    first = register(api, "s", A)["id"]
    api("DELETE", "/subjects/s")
    again = register(api, "s", A)
    assert (again["id"], again["version"]) == (first, 2)
    assert api("GET", "/subjects/s/versions?deleted=true") == [2]  # as theirs: the older one gives way


REFERRER = json.dumps({"type": "record", "name": "S", "fields": [{"name": "r", "type": "R"}]}, separators=(",", ":"))


def test_references_protect_what_they_name(api: Api) -> None:
    register(api, "r", A)
    reference = {"name": "R", "subject": "r", "version": -1}
    found = register(api, "s", REFERRER, references=[reference])
    assert found["references"] == [{"name": "R", "subject": "r", "version": 1}]
    assert api("GET", "/subjects/r/versions/1/referencedby") == [2]
    refused = (
        422,
        42206,
        "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=r,version=1}.",
    )
    assert api("DELETE", "/subjects/r") == api("DELETE", "/subjects/r/versions/1") == refused
    assert api("POST", "/subjects/s", {"schema": REFERRER, "references": [reference]})["id"] == 2
    api("DELETE", "/subjects/s")
    assert api("GET", "/subjects/r/versions/1/referencedby") == []
    assert api("GET", "/subjects/r/versions/1/referencedby?deleted=true") == [2]
    assert api("DELETE", "/subjects/r") == [1]
    assert api("DELETE", "/subjects/r?permanent=true") == refused
    api("DELETE", "/subjects/s?permanent=true")
    assert api("DELETE", "/subjects/r?permanent=true") == [1]


def test_a_reference_counts_until_the_last_subject_with_it_is_deleted(api: Api) -> None:
    register(api, "r", A)
    references = [{"name": "R", "subject": "r", "version": 1}]
    for subject in ("s", "t"):
        assert register(api, subject, REFERRER, references=references)["id"] == 2
    api("DELETE", "/subjects/s")
    api("DELETE", "/subjects/s?permanent=true")
    assert api("GET", "/subjects/r/versions/1/referencedby") == [2]
    assert api("DELETE", "/subjects/r")[:2] == (422, 42206)
    api("DELETE", "/subjects/t")
    api("DELETE", "/subjects/t?permanent=true")
    assert api("DELETE", "/subjects/r") == [1]


def test_modes_decide_what_may_be_written(api: Api) -> None:
    register(api, "s", A)
    assert api("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    refused = (422, 42205, "Subject s in context  is in read-only mode")
    assert register(api, "s", AB) == api("DELETE", "/subjects/s") == refused
    assert api("DELETE", "/subjects/s/versions/1") == api("PUT", "/config/s", {"compatibility": "NONE"}) == refused
    assert register(api, "s", A)["version"] == 1  # what is there is answered
    assert api("GET", "/mode/s") == {"mode": "READONLY"}
    assert api("GET", "/mode/t?defaultToGlobal=true") == {"mode": "READWRITE"}
    assert api("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert register(api, "s", AB)["version"] == 2
    assert api("PUT", "/mode", {"mode": "IMPORT"}) == (422, 42205, "Cannot import since found existing subjects")
    assert api("PUT", "/mode", {"mode": "NOPE"}) == (
        422,
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.",
    )
    assert api("PUT", "/mode/s", {"mode": "FORWARD"}) == (422, 42204, "Forward mode only supported on global level")
    assert api("PUT", "/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert register(api, "t", OTHER) == (422, 42205, "Subject t in context  is not in read-write mode")


def test_an_import_keeps_ids_and_versions(api: Api) -> None:
    api("PUT", "/mode/s", {"mode": "IMPORT"})
    assert register(api, "s", A, id=100, version=7)["id"] == 100
    assert register(api, "s", OTHER, id=101, version=3)["version"] == 3  # no compatibility, no order
    assert api("GET", "/subjects/s/versions") == [3, 7]
    assert register(api, "s", AB, id=100, version=8) == (
        422,
        42205,
        "Overwrite new schema with id 100 in context  is not permitted.",
    )
    assert register(api, "u", A, id=100) == (422, 42205, "Subject u in context  is not in import mode")
    assert register(api, "u", optional("c"))["id"] == 102


def test_the_highest_id_and_version_are_the_last_ones(api: Api) -> None:
    last = 2**31 - 1
    api("PUT", "/config", {"compatibility": "NONE"})
    api("PUT", "/mode/s", {"mode": "IMPORT"})
    assert register(api, "s", A, id=last, version=last)["id"] == last
    api("PUT", "/mode/s", {"mode": "READWRITE"})
    assert register(api, "t", A)["id"] == last  # the same schema
    for subject, text, what in (("t", OTHER, "no id is left"), ("s", OTHER, "no id is left")):
        status, code, message = register(api, subject, text)
        assert (status, code) == (422, 42205)
        assert what in message
    assert register(api, ":.other:t", OTHER)["id"] == 1


def test_configurations_are_merged_field_by_field(api: Api) -> None:
    assert api("PUT", "/config/s", {"compatibility": "full", "alias": "t"}) == {"alias": "t", "compatibility": "FULL"}
    assert api("PUT", "/config/s", {"normalize": True}) == {"alias": "t", "normalize": True, "compatibility": "FULL"}
    assert api("PUT", "/config/s", {"alias": None}) == {"normalize": True, "compatibility": "FULL"}
    assert api("GET", "/config/s") == {"normalize": True, "compatibilityLevel": "FULL"}
    assert api("PUT", "/config/s", {"compatibility": "sideways"}) == (
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )
    assert api("DELETE", "/config/s") == {"normalize": True, "compatibilityLevel": "FULL"}
    assert api("GET", "/config/s?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    api("PUT", "/config", {"compatibility": "NONE"})
    assert api("DELETE", "/config") == {"compatibilityLevel": "NONE"}
    assert api("GET", "/config") == {"compatibilityLevel": "BACKWARD"}


def test_an_alias_stands_for_its_subject(api: Api) -> None:
    register(api, "real", A)
    api("PUT", "/config/short", {"alias": "real"})
    assert api("GET", "/subjects/short/versions/latest")["subject"] == "real"
    assert api("GET", "/schemas/ids/1?subject=short")["subject"] == "real"
    found = api("GET", "/schemas?aliases=true")
    assert [(it["subject"], it["aliases"]) for it in found] == [("real", ["short"])]


def test_contexts_are_apart(api: Api) -> None:
    register(api, "s", A)
    assert register(api, ":.c:s", OTHER)["id"] == 1
    assert api("POST", "/contexts/.c/subjects/t/versions", {"schema": A})["id"] == 2
    assert api("GET", "/contexts") == [".", ".c"]
    assert api("GET", "/subjects") == [":.c:s", ":.c:t", "s"]
    assert api("GET", "/contexts/c/subjects") == api("GET", "/subjects?subjectPrefix=:.c:") == [":.c:s", ":.c:t"]
    assert api("GET", "/contexts/:.c:/schemas/ids/1")["schema"] == OTHER
    assert api("GET", "/schemas/ids/1")["schema"] == A
    assert api("GET", "/subjects/t/versions/1")["subject"] == ":.c:t"  # without a context, all are searched
    assert api("PUT", "/contexts/.c/config", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert api("GET", "/config/:.c:") == {"compatibilityLevel": "NONE"}
    assert api("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert register(api, ":.c:s", A)["version"] == 2
    assert api("PUT", "/contexts/.c/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert register(api, ":.c:s", AB) == (422, 42205, "Subject :.c:s in context :.c: is in read-only mode")
    assert api("DELETE", "/contexts/.c") == (422, 42211, "The specified context ':.c:' is not empty.")
    assert api("DELETE", "/contexts/.c/mode/s") == {"mode": "READONLY"}
    for subject in ("s", "t"):
        api("DELETE", f"/subjects/:.c:{subject}")
        api("DELETE", f"/subjects/:.c:{subject}?permanent=true")
    assert api.send("DELETE", "/contexts/.c").status_code == 204
    assert api("GET", "/contexts") == ["."]
    assert api("GET", "/contexts/a:b/subjects") == (400, 400, "Context name 'a:b' cannot contain a colon")


def test_one_content_has_one_guid_in_all_contexts(api: Api) -> None:
    guid = register(api, "s", A)["guid"]
    register(api, ":.c:x", OTHER)
    assert register(api, ":.c:s", A)["guid"] == guid
    assert api("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}, {"context": ".c", "id": 2}]


@pytest.mark.parametrize("subject", ["a/b", "a b", "größe", "a%2Fb", "a?b#c", "a+b", ":.c:a/b"])
def test_subjects_may_have_any_printable_character(api: Api, subject: str) -> None:
    from urllib.parse import quote

    register(api, quote(subject, safe=""), A)
    assert api("GET", "/subjects") == [subject]
    assert api("GET", f"/subjects/{quote(subject, safe='')}/versions") == [1]


def test_metadata_and_rules_are_kept_and_inherited(api: Api) -> None:
    metadata = {"properties": {"owner": "me"}, "tags": {"**.a": ["PII"]}}
    given = {"domainRules": [{"name": "r", "type": "CEL", "mode": "WRITE", "expr": "1 > 0", "unknown": 1, "doc": None}]}
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL", "expr": "1 > 0", "disabled": False}
    rules = {"domainRules": [rule | {"unknown": 1}]}
    found = register(api, "s", A, metadata=metadata, ruleSet=given)
    assert list(found["ruleSet"]["domainRules"][0]) == [*rule, "unknown"]  # in the order of Confluent's registry
    assert (found["metadata"], found["ruleSet"]) == (metadata, rules)
    again = register(api, "s", AB)
    assert (again["metadata"], again["ruleSet"]) == (metadata, rules)
    assert register(api, "s", AB) == again
    assert api("GET", "/subjects/s/metadata?key=owner&value=me")["version"] == 2
    assert api("GET", "/subjects/s/metadata?key=owner&value=you") == (404, 40403, "Schema not found")
    assert [it["version"] for it in api("GET", "/schemas?ruleType=CEL")] == [1, 2]
    assert api("GET", "/schemas?ruleType=JSONATA") == []
    without_text = api("POST", "/subjects/s/versions", {"metadata": {"properties": {"owner": "you"}}})
    assert (without_text["version"], without_text["schema"]) == (3, AB)
    api("PUT", "/config/t", {"defaultMetadata": {"properties": {"team": "x"}}})
    assert register(api, "t", A, metadata={"properties": {"a": "b"}})["metadata"] == {
        "properties": {"a": "b", "team": "x"}
    }


def test_a_compatibility_group_separates_versions(api: Api) -> None:
    api("PUT", "/config/s", {"compatibilityGroup": "major"})
    assert register(api, "s", A, metadata={"properties": {"major": "1"}})["version"] == 1
    assert register(api, "s", record(("a", "string")), metadata={"properties": {"major": "1"}})[0] == 409
    assert register(api, "s", record(("a", "string")), metadata={"properties": {"major": "2"}})["version"] == 2


def test_reserved_fields_are_those_of_the_latest_version_of_every_group(api: Api) -> None:
    api("PUT", "/config/s", {"compatibilityGroup": "major", "validateFields": True})
    first = {"properties": {"major": "1", "confluent:reserved": "old"}}
    register(api, "s", A, metadata=first)
    refused = register(api, "s", AB, metadata={"properties": {"major": "2"}})
    assert refused[:2] == (409, 40901)
    assert refused[2].endswith("{validateFields: 'true', compatibility: 'BACKWARD'}]")
    assert "reserved field old removed" in refused[2]
    other = register(api, "s", record(("a", "string")), metadata=first)
    assert other[2].count("{validateFields:") == 1


def test_a_rule_set_says_where_it_is_executed(api: Api) -> None:
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "CEL", "disabled": False}
    rules = {"domainRules": [rule], "enableAt": "CLIENT"}
    found = register(api, "s", A, ruleSet=rules)
    assert found["ruleSet"] == rules
    del rules["enableAt"]
    assert register(api, "t", A, ruleSet=rules)["id"] != found["id"]
    api("PUT", "/config/u", {"defaultRuleSet": {"enableAt": "SERVER"}})
    assert register(api, "u", A, ruleSet=rules)["ruleSet"] == {**rules, "enableAt": "SERVER"}


def test_normalization_makes_equal_what_differs_in_order(api: Api) -> None:
    first = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}],"doc":"d"}'
    found = api("POST", "/subjects/s/versions?normalize=true", {"schema": first})
    assert api("POST", "/subjects/s/versions?normalize=true", {"schema": first}) == found
    api("PUT", "/config/s", {"normalize": True})
    assert register(api, "s", first)["id"] == found["id"]


def test_media_types_are_negotiated(api: Api) -> None:
    v1 = "application/vnd.schemaregistry.v1+json"
    expected = {
        None: v1,
        "*/*": v1,
        "application/json": "application/json",
        "application/json; q=0.1, application/vnd.schemaregistry+json": "application/vnd.schemaregistry+json",
        f"text/html, {v1}; q=0.5": v1,
    }
    for accept, media_type in expected.items():
        headers = {} if accept is None else {"accept": accept}
        assert api.send("GET", "/subjects", headers=headers).headers["content-type"] == media_type
    answer = api.send("GET", "/subjects", headers={"accept": "text/html"})
    assert answer.json() == {"error_code": 406, "message": "HTTP 406 Not Acceptable"}
    body = json.dumps({"schema": A})
    for content_type, status in ((v1, 200), ("application/octet-stream", 200), ("text/plain", 415)):
        answer = api.send("POST", "/subjects/s/versions", content=body, headers={"content-type": content_type})
        assert answer.status_code == status, content_type


def test_a_read_only_registry_refuses_every_change(make_api: Callable[..., Api]) -> None:
    api = make_api(read_only=True)
    refused = (422, 42205, "This registry is in read-only mode")
    assert register(api, "s", A) == api("PUT", "/config", {"compatibility": "NONE"}) == refused
    assert api("PUT", "/mode", {"mode": "READONLY"}) == api("DELETE", "/subjects/s") == refused
    assert api("GET", "/subjects") == []


def test_modes_cannot_be_changed_if_that_is_forbidden(make_api: Callable[..., Api]) -> None:
    api = make_api(mode_changes=False)
    assert api("PUT", "/mode", {"mode": "READONLY"}) == (422, 42205, "Mode changes are not allowed")


def test_cve_2025_61673_users_authenticate(make_api: Callable[..., Api]) -> None:
    api = make_api(AppSettings(users={"ada": "pass:word"}))

    def status(header: str | None) -> int:
        return api.send("GET", "/subjects", headers={} if header is None else {"authorization": header}).status_code

    def basic(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    assert status(basic("ada:pass:word")) == 200
    wrong = [None, "", "Basic", "Basic !!", "Bearer x", basic("ada:"), basic("ada"), basic("eve:x"), basic(":\0")]
    assert {status(header) for header in wrong} == {401}
    answer = api.send("POST", "/subjects/s/versions", {"schema": A})
    assert answer.json() == {"error_code": 401, "message": "Unauthorized"}
    assert answer.headers["www-authenticate"].startswith("Basic realm=")


def test_large_bodies_are_refused_before_they_are_read(make_api: Callable[..., Api]) -> None:
    api = make_api(AppSettings(body_bytes_max=1000))
    answer = api.send("POST", "/subjects/s/versions", {"schema": " " * 2000})
    assert answer.json() == {"error_code": 413, "message": "the body is larger than 1000 bytes"}

    async def endless() -> Any:
        while True:
            yield b"x" * 500

    assert api.send("POST", "/subjects/s/versions", content=endless()).status_code == 413


def test_a_body_that_does_not_end_is_given_up(make_api: Callable[..., Api]) -> None:
    import asyncio

    api = make_api(AppSettings(body_timeout_s=0.02))

    async def slow() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    answer = api.send("POST", "/subjects/s/versions", content=slow())
    assert answer.json() == {"error_code": 408, "message": "the body was not received within 0.02 s"}


def test_the_application_works_inside_of_another_one(api: Api) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/schema registry", create_app(api.service))])

    async def ask(method: str, path: str, body: object = None) -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://x") as client:
            return (await client.request(method, path, json=body)).json()

    async def both() -> None:
        assert (await ask("POST", "/schema%20registry/subjects/a%2Fb/versions", {"schema": A}))["id"] == 1
        assert await ask("GET", "/schema%20registry/subjects") == ["a/b"]

    api._runner.run(both())


def test_reserved_fields_stay_reserved_if_fields_are_validated(api: Api) -> None:
    reserved = {"properties": {"confluent:reserved": "x,y"}}
    api("PUT", "/config/s", {"validateFields": True})
    register(api, "s", A, metadata=reserved)
    status, code, message = register(api, "s", optional("x"), metadata=reserved)
    assert (status, code) == (409, 40901)
    assert "The new schema has field that conflicts with the reserved field x." in message
    assert message.endswith("{validateFields: 'true', compatibility: 'BACKWARD'}]")
    _, _, message = register(api, "s", AB, metadata={"properties": {"confluent:reserved": "x"}})
    assert (
        "The new schema has reserved field y removed from its metadata which is present in the old schema's metadata."
        in message
    )


PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}


def test_json_schemas_are_registered_and_compared(api: Api) -> None:
    def body(schema: object, **more: object) -> dict[str, object]:
        return {"schema": json.dumps(schema), "schemaType": "JSON", **more}

    found = api("POST", "/subjects/s/versions", body(PERSON))
    assert (found["id"], found["schemaType"]) == (1, "JSON")
    assert api("POST", "/subjects/s", body(PERSON))["id"] == 1
    stricter = {**PERSON, "required": ["name"]}
    status, code, message = api("POST", "/subjects/s/versions", body(stricter))
    assert (status, code) == (409, 40901) and "REQUIRED_ATTRIBUTE_ADDED" in message
    assert api("POST", "/subjects/a/versions", {"schema": '"int"'})["id"] == 2
    assert api("POST", "/compatibility/subjects/a/versions?verbose=true", body(PERSON))["is_compatible"] is False
    reference = {"name": "person.json", "subject": "s", "version": 1}
    holder = {"type": "object", "properties": {"p": {"$ref": "person.json"}}}
    held = api("POST", "/subjects/h/versions", body(holder, references=[reference]))
    assert held["references"] == [reference]
    assert api("GET", "/subjects/s/versions/1/referencedby") == [held["id"]]
    status, code, _ = api("POST", "/subjects/u/versions", body({"$ref": "http://127.0.0.1:1/never-fetched.json"}))
    assert (status, code) == (422, 42201)
