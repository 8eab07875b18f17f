"""The registry client against the embedded registry: every endpoint that both have."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

import kafkaraw.schemas
from kafkaraw.schemas import (
    AsyncRegistry,
    CompatibilityLevel,
    EmbeddedRegistry,
    IncompatibleSchemaError,
    InvalidSchemaError,
    Metadata,
    Mode,
    Registry,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnavailableError,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaType,
    SubjectConfig,
    SubjectNotFoundError,
    VersionNotFoundError,
)


def record(*fields: str, name: str = "R") -> Schema:
    """An Avro record with int fields; all but the first have a default."""
    listed = [
        {"name": field, "type": "int"} | ({"default": 0} if number else {}) for number, field in enumerate(fields)
    ]
    return Schema(json.dumps({"type": "record", "name": name, "fields": listed}))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedRegistry() as registry:
        yield registry.url


@pytest.fixture
def registry(url: str, request: pytest.FixtureRequest) -> Iterator[Registry]:
    """A client with a context of its own, so that tests do not see each other's subjects."""
    with Registry(url, context=request.node.name.replace("_", "-")[:60]) as client:
        yield client


def test_versions_are_registered_found_and_deleted(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    second = registry.register("s", record("a", "b"))
    assert (registry.versions("s"), registry.subjects()) == ((1, 2), ("s",))
    assert registry.version("s").schema == registry.schema_by_id(second.id).schema
    assert registry.version("s", 1).id == registry.lookup("s", record("a")).id == first.id
    assert registry.subjects_of_id(first.id) == ("s",)
    assert registry.versions_of_id(second.id) == (("s", 2),)
    assert registry.ids_of_guid(registry.version("s").guid or "") != ()
    found = registry.version("s", 2)
    assert found.guid is not None
    assert registry.schema_by_guid(found.guid).schema == found.schema
    assert [each.version for each in registry.schemas("s")] == [1, 2]
    assert [each.version for each in registry.schemas("s", latest_only=True)] == [2]
    assert registry.delete_version("s", 1) == 1
    with pytest.raises(VersionNotFoundError, match="Version 1 not found"):
        registry.version("s", 1)
    assert registry.version("s", 1, deleted=True).id == first.id
    assert registry.versions("s", deleted=True) == (1, 2)
    assert registry.versions("s", deleted_only=True) == (1,)
    with pytest.raises(RegistryError, match="softly first"):
        registry.delete_version("s", 2, permanent=True)
    assert registry.delete_version("s", 1, permanent=True) == 1
    assert registry.delete_subject("s") == (2,)
    assert registry.subjects() == ()
    assert registry.subjects(deleted=True) == ("s",)
    assert registry.delete_subject("s", permanent=True) == (2,)
    with pytest.raises(SubjectNotFoundError):
        registry.versions("s")


def test_what_does_not_exist_has_an_error_of_its_own(registry: Registry) -> None:
    registry.register("s", record("a"))
    for error, call in [
        (SubjectNotFoundError, lambda: registry.version("t")),
        (VersionNotFoundError, lambda: registry.version("s", 9)),
        (SchemaNotFoundError, lambda: registry.schema_by_id(999_999)),
        (SchemaNotFoundError, lambda: registry.schema_by_guid("00000000-0000-0000-0000-000000000000")),
        (SchemaNotFoundError, lambda: registry.lookup("s", record("z"))),
        (SubjectNotFoundError, lambda: registry.lookup("t", record("a"))),
        (InvalidSchemaError, lambda: registry.register("s", Schema("{"))),
        (SubjectNotFoundError, lambda: registry.check("t")),
    ]:
        with pytest.raises(RegistryError) as raised:
            call()
        assert type(raised.value) is error


def test_an_incompatible_version_says_which_rule_and_which_path(registry: Registry) -> None:
    registry.register("s", record("a"))
    wrong = record("b")
    with pytest.raises(IncompatibleSchemaError) as raised:
        registry.register("s", wrong)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in raised.value.messages[0]
    assert "/fields/0" in str(raised.value)
    reasons = registry.incompatibilities("s", wrong)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in reasons[0]
    assert registry.incompatibilities("s", wrong, version="latest") == reasons
    assert registry.incompatibilities("s", record("a", "b")) == ()
    assert registry.incompatibilities("new", wrong) == ()


def test_levels_and_modes_of_subject_and_context(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.set_compatibility("NONE", "s")
    assert registry.compatibility("s") is CompatibilityLevel.NONE
    registry.register("s", record("b"))
    assert registry.delete_config("s").compatibility is CompatibilityLevel.NONE
    with pytest.raises(RegistryError) as raised:
        registry.config("s", default_to_global=False)
    assert raised.value.error_code == 40408
    changed = registry.set_config(SubjectConfig(compatibility=CompatibilityLevel.FULL, normalize=True), "s")
    assert changed.normalize
    assert registry.config("s") == SubjectConfig(compatibility=CompatibilityLevel.FULL, normalize=True)
    assert registry.set_mode(Mode.READONLY, "s") is Mode.READONLY
    with pytest.raises(RegistryError) as raised:
        registry.register("s", record("a", "c"))
    assert raised.value.error_code == 42205
    assert registry.delete_mode("s") is Mode.READONLY
    assert registry.mode("s") is Mode.READWRITE


def test_import_mode_keeps_ids_and_versions(registry: Registry) -> None:
    registry.set_mode(Mode.IMPORT, "s")
    assert registry.register("s", record("a"), schema_id=4711, version=7).id == 4711
    registry.delete_mode("s")
    assert (registry.version("s").id, registry.version("s").version) == (4711, 7)


def test_references_are_resolved_and_protected(registry: Registry) -> None:
    inner = registry.register("inner", record("a", name="Inner"))
    reference = SchemaReference("Inner", "inner", 1)
    outer = Schema('{"type":"record","name":"O","fields":[{"name":"i","type":"Inner"}]}', references=(reference,))
    number = registry.register("outer", outer).id
    assert registry.referenced_by("inner", 1) == (number,)
    bundle = registry.bundle(registry.version("outer").schema)
    assert bundle.references["Inner"].schema.text == registry.schema_by_id(inner.id).schema.text
    with pytest.raises(RegistryError) as raised:
        registry.delete_subject("inner")
    assert raised.value.error_code == 42206


def test_the_latest_version_with_metadata_is_selected(registry: Registry) -> None:
    for number, owner in enumerate(["ada", "bob"]):
        schema = record("a", *"bc"[:number])
        registry.register("s", Schema(schema.text, metadata=Metadata(properties={"owner": owner})))
    found = registry.latest_with_metadata("s", {"owner": "ada"})
    assert found.version == 1
    assert found.schema.metadata == Metadata(properties={"owner": "ada"})
    assert registry.cached_latest_with_metadata("s", {"owner": "ada"}) == found
    assert registry.cached_latest_with_metadata("s", {"owner": "bob"}) is None


def test_contexts_have_ids_of_their_own(url: str) -> None:
    with Registry(url, context="one") as one, Registry(url, context=".two") as two, Registry(url) as plain:
        first = one.register("s", record("one"))
        second = two.register("s", record("two"))
        assert one.subjects() == two.subjects() == ("s",)
        assert {".one", ".two"} <= set(plain.contexts())
        assert one.schema_by_id(first.id).schema != two.schema_by_id(second.id).schema
        assert plain.schema_by_id(first.id, subject=":.one:s").schema.text == one.version("s").schema.text
        assert plain.version(":.one:s").subject == ":.one:s"


def test_the_other_endpoints_answer(registry: Registry) -> None:
    assert set(registry.schema_types()) == set(SchemaType)
    assert registry.registry_id() is not None
    assert registry.request("GET", "/schemas/types") == list(registry.schema_types())


def test_the_async_face_does_the_same(url: str) -> None:
    async def use() -> None:
        async with AsyncRegistry(url, context="async") as registry:
            await registry.check()
            found = await registry.register("s", record("a"))
            assert registry.cached_registration("s", record("a")) == found
            assert (await registry.schema_by_id(found.id)).schema == (await registry.version("s")).schema
            assert await registry.compatibility("s") is CompatibilityLevel.BACKWARD

    asyncio.run(use())


def test_a_registry_that_goes_away_leaves_what_is_cached() -> None:
    with EmbeddedRegistry() as server:
        client = Registry(server.url, retries=1, retry_backoff_ms=1)
        found = client.register("s", record("a"))
    with client:
        assert client.register("s", record("a")) == found
        with pytest.raises(RegistryUnavailableError):
            client.register("s", record("a", "b"))


def test_users_are_checked() -> None:
    with EmbeddedRegistry(users={"ada": "secret"}) as server:
        with Registry(server.url) as client, pytest.raises(RegistryAuthenticationError, match="basic_auth"):
            client.check()
        with Registry(server.url, basic_auth=("ada", "wrong")) as client, pytest.raises(RegistryAuthenticationError):
            client.check()
        with Registry(server.url.replace("//", "//ada:secret@")) as client:
            client.check()


# -- the package


def test_importing_the_package_loads_no_language_and_no_http() -> None:
    code = "import sys, kafkaraw.schemas; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"httpx", "fastavro", "jsonschema", "google.protobuf", "starlette", "asyncio"}.isdisjoint(loaded)
    assert [name for name in loaded if name.startswith("kafkaraw.schemas.")] == []


def test_every_public_name_is_there_documented_and_seen_by_type_checkers() -> None:
    source = inspect.getsource(kafkaraw.schemas)
    for name in kafkaraw.schemas.__all__:
        value = getattr(kafkaraw.schemas, name)
        assert inspect.getdoc(value), name
        home = next(home for home, names in kafkaraw.schemas._HOMES.items() if name in names)
        assert f"    from {home} import {name} as {name}\n" in source
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = kafkaraw.schemas.NoSuchThing


def test_every_error_is_public() -> None:
    from kafkaraw.schemas import errors

    own = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert own <= set(kafkaraw.schemas.__all__)
