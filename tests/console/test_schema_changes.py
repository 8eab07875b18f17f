"""Changes in a schema registry: versions are checked and registered, levels set, versions and subjects deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema, SchemaType
from tests.console.running import HOSTILE_TEXTS, post, running


def record(*fields: str, default: bool = True) -> str:
    """An Avro record."""
    optional = {"default": "x"} if default else {}
    of = [{"name": "id", "type": "long"}, *({"name": each, "type": "string", **optional} for each in fields)]
    return json.dumps({"type": "record", "name": "Order", "fields": of})


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    with EmbeddedRegistry() as server:
        yield server.url


@pytest.fixture(scope="module")
def registry(registry_url: str) -> Iterator[Registry]:
    with Registry(registry_url) as client:
        client.register("orders-value", Schema(record(), SchemaType.AVRO))
        yield client


@pytest.fixture(scope="module")
def console(servers: str, registry_url: str) -> Iterator[httpx.Client]:
    with running(servers, of={"registry": {"url": registry_url}}, allow_writes=True) as client:
        yield client


def check(console: httpx.Client, subject: str, **fields: str) -> str:
    path = str(httpx.URL("/c/test/schema", params={"subject": subject}))
    return post(console, path, type="AVRO", **fields).text


def test_a_version_is_checked_and_then_registered(console: httpx.Client, registry: Registry) -> None:
    page = check(console, "orders-value", schema=record("more"))
    assert "It is compatible. Nothing was registered." in page and "Register it" in page
    assert registry.versions("orders-value") == (1,)
    answer = post(console, "/c/test/schema/register", subject="orders-value", type="AVRO", schema=record("more"))
    assert answer.status_code == 303
    page = console.get(answer.headers["location"]).text
    assert "version 2" in page and "Compare with" in page and '<span class="plus">+' in page
    assert registry.versions("orders-value") == (1, 2)
    both = {"subject": "orders-value", "version": "1", "against": "2"}
    assert '<span class="minus">-' in console.get("/c/test/schema", params=both).text


def test_an_incompatible_version_is_not_registered(console: httpx.Client, registry: Registry) -> None:
    before = registry.versions("orders-value")
    bad = record("needed", default=False)
    assert "It would be refused" in check(console, "orders-value", schema=bad)
    answer = post(console, "/c/test/schema/register", subject="orders-value", type="AVRO", schema=bad)
    assert answer.status_code == 400 and "was not changed" in answer.text
    assert registry.versions("orders-value") == before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subject": "s", "type": "XML", "schema": "x"}, "must be one of AVRO"),
        ({"subject": "", "type": "AVRO", "schema": '"long"'}, "needs the name of a subject"),
        ({"subject": "s", "type": "AVRO", "schema": '"long"', "references": "one two"}, "NAME SUBJECT VERSION"),
        ({"subject": "s", "type": "AVRO", "schema": "{"}, ""),
    ],
)
def test_what_is_no_schema_is_refused(console: httpx.Client, fields: dict[str, str], said: str) -> None:
    answer = post(console, "/c/test/schema/register", **fields)
    assert answer.status_code == 400 and said in answer.text, answer.text


def test_a_schema_with_references_is_a_new_subject(console: httpx.Client, registry: Registry) -> None:
    given = {"type": "AVRO", "schema": '{"type": "array", "items": "Order"}', "references": "Order orders-value 1"}
    assert "REFERENCES" not in console.get("/c/test/new-schema").text
    assert post(console, "/c/test/schema/register", subject="lists-value", **given).status_code == 303
    assert [each.subject for each in registry.version("lists-value").schema.references] == ["orders-value"]
    assert "Order orders-value 1" in console.get("/c/test/schema", params={"subject": "lists-value"}).text
    facts = console.get("/c/test/schema/delete", params={"subject": "orders-value", "version": "1"}).text
    assert "as long as other schemas reference it" in facts


def test_levels_are_set_and_removed(console: httpx.Client, registry: Registry) -> None:
    assert post(console, "/c/test/schema/level", subject="orders-value", level="FULL").status_code == 303
    assert registry.compatibility("orders-value").value == "FULL"
    assert "compatibility FULL" in console.get("/c/test/schema", params={"subject": "orders-value"}).text
    assert post(console, "/c/test/schema/level", subject="orders-value", level="").status_code == 303
    assert registry.compatibility("orders-value").value == "BACKWARD"
    assert post(console, "/c/test/schema/level", level="FORWARD").status_code == 303
    assert registry.compatibility().value == "FORWARD"
    assert post(console, "/c/test/schema/level", level="").status_code == 400
    assert post(console, "/c/test/schema/level", level="BACKWARD").status_code == 303


def test_versions_and_subjects_are_deleted_softly_and_then_permanently(
    console: httpx.Client, registry: Registry
) -> None:
    for fields in ((), ("a",), ("a", "b")):
        registry.register("gone-value", Schema(record(*fields), SchemaType.AVRO))
    path, one = "/c/test/schema/delete", {"subject": "gone-value", "version": "2"}
    assert "Version 2 of subject gone-value is deleted softly." in console.get(path, params=one).text
    assert post(console, path, **one, confirm="gone").status_code == 400
    assert post(console, path, **one, confirm="gone-value").status_code == 303
    assert registry.versions("gone-value") == (1, 3)
    assert "version 2 (deleted)" in console.get("/c/test/schema", params={"subject": "gone-value"}).text
    hard = {**one, "permanent": "1"}
    assert "cannot be decoded any more" in console.get(path, params=hard).text
    assert post(console, path, **hard, confirm="gone-value").status_code == 303
    assert registry.versions("gone-value", deleted=True) == (1, 3)
    whole = {"subject": "gone-value"}
    assert "Version 1, 3 of subject" in console.get(path, params=whole).text
    assert post(console, path, **whole, confirm="gone-value").status_code == 303
    assert "gone-value" not in console.get("/c/test/schemas").text
    assert "gone-value" in console.get("/c/test/schemas", params={"deleted": "1"}).text
    assert "Delete subject permanently" in console.get("/c/test/schema", params=whole).text
    assert post(console, path, **whole, permanent="1", confirm="gone-value").status_code == 303
    assert console.get("/c/test/schema", params=whole).status_code == 404
    assert "gone-value" not in registry.subjects(deleted=True)


def test_hostile_subjects_are_escaped(console: httpx.Client, registry: Registry) -> None:
    for text in HOSTILE_TEXTS:
        registry.register(text, Schema(record(), SchemaType.AVRO))
        pages = [
            console.get("/c/test/schemas").text,
            console.get("/c/test/schema", params={"subject": text}).text,
            console.get("/c/test/schema/delete", params={"subject": text}).text,
            check(console, text, schema=text),
        ]
        for page in pages:
            for part in ("<script>alert", "<img src=x", "</textarea><b>"):
                assert part not in page


def test_a_registry_that_is_away_is_not_the_cluster(servers: str) -> None:
    with running(servers, of={"registry": {"url": "http://127.0.0.1:1"}}) as client:
        answer = client.get("/c/test/schemas")
        assert answer.status_code == 502 and "The cluster does not answer" not in answer.text
        assert "127.0.0.1:1" in answer.text
