"""`kafkaraw schemas`, and framed records in `consume` and `produce`, with an embedded registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw.cli import main
from kafkaraw.schemas import EmbeddedRegistry, Registry, RuleSet, Schema
from tests.cli.running import fill, make_topic, read, run
from tests.schemas.scripted_server import HTML, SILENCE, ScriptedServer, error

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
PRICE = {"name": "price", "type": ["null", "double"], "default": None}
WITH_PRICE = ORDER | {"fields": [*ORDER["fields"], PRICE]}
INCOMPATIBLE = ORDER | {"fields": [*ORDER["fields"], {"name": "price", "type": "double"}]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedRegistry() as registry:
        yield registry.url


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, schema in [("order", ORDER), ("price", WITH_PRICE), ("bad", INCOMPATIBLE)]:
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    (tmp_path / "broken.avsc").write_text(json.dumps(ORDER | {"fields": [{"name": "id", "type": "lng"}]}))
    return tmp_path


def schemas(url: str | None, *arguments: object, code: int = 0, given: bytes = b"") -> Result:
    """Run `kafkaraw schemas`; it must end with that exit code."""
    registry = [] if url is None else ["-r", url]
    result = CliRunner().invoke(main, ["schemas", *map(str, arguments), *registry], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def test_a_schema_is_registered_once(url: str, files: Path) -> None:
    assert schemas(url, "register", "once-value", files / "order.avsc").stdout.startswith(
        "Registered: subject once-value, version 1, id "
    )
    assert schemas(url, "register", "once-value", files / "order.avsc").stdout.startswith("Already registered: ")
    printed = json.loads(schemas(url, "register", "once-value", files / "price.avsc", "--json").stdout)
    assert (printed["version"], printed["new"]) == (2, True)


def test_check_has_exit_codes_for_ci(url: str, files: Path) -> None:
    schemas(url, "register", "ci-value", files / "order.avsc")
    assert "compatible" in schemas(url, "check", "ci-value", files / "price.avsc").stderr
    result = schemas(url, "check", "ci-value", files / "bad.avsc", code=1)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE: The field 'price' at path '/fields/2'" in result.stdout
    assert "(compared with version 1, level BACKWARD)" in result.stdout
    assert "lng" in schemas(url, "check", "ci-value", files / "broken.avsc", code=1).output
    assert "did you mean 'ci-value'" in schemas(url, "check", "ci-valu", code=1).stderr
    schemas(url, "check", "ci-value")
    schemas(url, "check")
    schemas(url, "check", "ci-value", files / "none.avsc", code=2)
    schemas(None, "check", code=2)
    assert schemas(url, "list", "ci-value", "-q").stdout == "1\n"


def test_check_tells_apart_a_registry_that_cannot_be_asked(files: Path) -> None:
    with ScriptedServer([SILENCE]) as server:
        down = server.url
    assert "Connection refused" in schemas(down, "check", "-X", "retries=0", code=3).stderr
    for script, wanted in [
        (HTML, "is this the URL of a schema registry"),
        (error(401, 401, "who are you"), "wants credentials"),
        (error(403, 40301, "not you"), "ask for permission"),
    ]:
        with ScriptedServer([script]) as server:
            assert wanted in schemas(server.url, "check", "s", files / "order.avsc", code=3).stderr
    with ScriptedServer([SILENCE]) as server:
        settings = ["-X", "request.timeout.ms=50", "-X", "retries=0"]
        assert "no answer within 50 ms" in schemas(server.url, "check", *settings, code=3).stderr


def test_files_are_compared_without_a_registry(files: Path) -> None:
    schemas(None, "check", files / "price.avsc", "--against", files / "order.avsc", "--level", "full")
    result = schemas(None, "check", files / "bad.avsc", "--against", files / "order.avsc", code=1)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in result.stdout
    schemas(None, "check", files / "broken.avsc", "--against", files / "order.avsc", code=1)
    schemas(None, "check", files / "bad.avsc", "--against", files / "order.avsc", "--level", "SOME", code=2)
    schemas(None, "check", "--level", "FULL", code=2)


def test_show_prints_a_schema_that_can_be_registered_again(url: str, files: Path) -> None:
    schemas(url, "register", "show-value", files / "price.avsc")
    shown = schemas(url, "show", "show-value")
    assert json.loads(shown.stdout) == WITH_PRICE
    assert "% subject show-value, version 1, id " in shown.stderr
    number = json.loads(schemas(url, "show", "show-value", "1", "--json").stdout)["id"]
    assert schemas(url, "show", "--id", number).stdout == shown.stdout
    registered = schemas(url, "register", "show2-value", "-", "--type", "avro", given=shown.stdout_bytes)
    assert f"id {number}" in registered.stdout
    schemas(url, "show", code=2)
    assert "Schema 99999" in schemas(url, "show", "--id", 99999, code=1).output
    schemas(url, "show", "show-value", "x", code=1)


def test_diff_shows_what_changed(url: str, files: Path) -> None:
    schemas(url, "register", "diff-value", files / "order.avsc")
    schemas(url, "diff", "diff-value", code=1)
    schemas(url, "register", "diff-value", files / "price.avsc")
    assert '+      "name": "price",' in schemas(url, "diff", "diff-value", code=1).stdout
    assert schemas(url, "diff", "diff-value", files / "price.avsc").stdout == ""
    assert '-      "name": "price",' in schemas(url, "diff", "diff-value", 2, files / "order.avsc", code=1).stdout


def test_delete_shows_and_needs_execute(url: str, files: Path) -> None:
    schemas(url, "register", "gone-value", files / "order.avsc")
    assert "Nothing was changed" in schemas(url, "delete", "gone-value").stderr
    assert "gone-value" in schemas(url, "list", "-q").stdout
    assert "softly first" in schemas(url, "delete", "gone-value", "--permanent", "--execute", code=1).output
    schemas(url, "delete", "gone-value", "--execute")
    assert "gone-value" not in schemas(url, "list", "-q").stdout
    assert "yes" in schemas(url, "list", "gone-value", "--deleted").stdout
    schemas(url, "delete", "gone-value", "--permanent", "--execute")
    schemas(url, "list", "gone-value", "--deleted", code=1)


def test_a_referenced_schema_is_not_deleted(url: str, files: Path) -> None:
    schemas(url, "register", "used-value", files / "order.avsc")
    (files / "uses.avsc").write_text('{"type": "record", "name": "Uses", "fields": [{"name": "o", "type": "Order"}]}')
    schemas(url, "register", "uses-value", files / "uses.avsc", "--reference", "Order=used-value:1")
    assert "references Order = used-value:1" in schemas(url, "show", "uses-value").stderr
    assert "reference it" in schemas(url, "delete", "used-value", "--execute", code=1).output
    schemas(url, "register", "uses-value", files / "uses.avsc", "--reference", "Order=used-value", code=2)


def test_levels_and_modes_are_shown_and_set(url: str) -> None:
    assert schemas(url, "compatibility").stdout == "BACKWARD\n"
    assert schemas(url, "compatibility", "level-value", "--set", "full").stdout == "FULL\n"
    assert schemas(url, "compatibility", "level-value", "--unset").stdout == "BACKWARD\n"
    assert schemas(url, "mode", "level-value", "--set", "READONLY").stdout == "READONLY\n"
    assert schemas(url, "mode", "level-value", "--unset").stdout == "READWRITE\n"
    schemas(url, "compatibility", "--unset", code=2)
    assert "must be one of NONE" in schemas(url, "compatibility", "--set", "SOME", code=1).output


# -- records


def test_avro_that_is_sent_comes_out_as_json(servers: str, url: str, files: Path) -> None:
    lines = b'{"id":1,"item":"cup","price":{"double":2.5}}\n{"id":2,"item":"t\xc3\xa9","price":null}\n'
    arguments = ["orders", "-s", "value=avro", "-r", url]
    run(servers, "produce", *arguments, "--schema", str(files / "price.avsc"), "-p", "0", "-q", given=lines)
    assert read(servers, *arguments) == lines
    assert read(servers, "orders", "-r", url) == lines
    assert json.loads(read(servers, *arguments, "-J").splitlines()[0])["payload"]["price"] == {"double": 2.5}
    assert json.loads(read(servers, "orders", "-r", url, "-J").splitlines()[0])["payload"]["id"] == 1
    run(servers, "produce", *arguments, "-p", "0", "-q", given=b'{"id":3,"item":"pot","price":9}\n')
    assert read(servers, *arguments, "-o", "-1").endswith(b'"price":{"double":9.0}}\n')
    assert read(servers, "orders", "-s", "value=hex").startswith(b"00000000")


def test_a_message_that_does_not_fit_names_the_field(servers: str, url: str, files: Path) -> None:
    arguments = ["misfit", "-s", "value=avro", "-r", url, "--schema", f"value={files / 'order.avsc'}"]
    result = run(servers, "produce", *arguments, given=b'{"id":1,"item":"a"}\n{"id":"x"}\n', code=1)
    assert "message 2 of the input" in result.output
    assert "id: must be long" in result.output
    assert read(servers, "misfit", "-r", url) == b'{"id":1,"item":"a"}\n'


def test_a_subject_without_a_schema_ends_produce_before_the_first_message(servers: str, url: str) -> None:
    result = run(servers, "produce", "nothing", "-s", "value=avro", "-r", url, given=b"1\n", code=1)
    assert "Subject 'nothing-value' not found" in result.output


def test_records_that_are_not_framed_are_shown_as_they_are_unless_s_asks_for_framing(servers: str, url: str) -> None:
    make_topic(servers, "mixed")
    fill(servers, "mixed", [b"plain", b"\0\0\0\0\0\0\0\x07", b"\0\0", None], key=b"k")
    assert read(servers, "mixed", "-r", url, "-Z") == b"plain\n\0\0\0\0\0\0\0\x07\n\0\0\nNULL\n"
    result = run(servers, "consume", "mixed", "-e", "-s", "value=avro", "-r", url, code=1)
    assert "mixed [0] at offset 0 is not framed avro" in result.output
    assert "plain text" in result.output


def test_another_language_and_a_missing_registry_are_named(servers: str, url: str, files: Path) -> None:
    arguments = ["language", "-s", "value=avro", "-r", url, "--schema", str(files / "order.avsc")]
    run(servers, "produce", *arguments, "-q", given=b'{"id":1,"item":"a"}\n')
    result = run(servers, "consume", "language", "-e", "-s", "value=protobuf", "-r", url, code=1)
    assert "use -s value=avro" in result.output
    result = run(servers, "consume", "language", "-e", "-s", "value=avro", code=2)
    assert "needs a schema registry: -r URL" in result.output
    result = run(servers, "produce", "language", "--schema", "x.avsc", code=2)
    assert "--schema needs -s" in result.output


def test_a_registry_in_the_file_of_config_is_used(servers: str, url: str, files: Path) -> None:
    properties = files / "client.properties"
    properties.write_text(f"schema.registry.url={url}\nauto.register.schemas=false\nacks=all\n")
    config = ["--config", str(properties)]
    arguments = ["file", "-s", "value=avro", *config, "--schema", str(files / "order.avsc")]
    run(servers, "produce", *arguments, "-q", given=b'{"id":1,"item":"a"}\n')
    assert read(servers, "file", *config) == b'{"id":1,"item":"a"}\n'
    assert "file-value" in schemas(None, "list", "-q", *config).stdout


def test_a_schema_with_rules_needs_ignore_rules(servers: str, url: str) -> None:
    rules = RuleSet(domain_rules=({"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"},))
    with Registry(url) as registry:
        registry.register("secret-value", Schema(json.dumps(ORDER), rule_set=rules))
    arguments = ["secret", "-s", "value=avro", "-r", url]
    line = b'{"id":1,"item":"a"}\n'
    result = run(servers, "produce", *arguments, given=line, code=2)
    assert "in the clear" in result.output
    run(servers, "produce", *arguments, "--ignore-rules", "-q", given=line)
    assert "has rules" in run(servers, "consume", *arguments, "-e", code=1).output
    assert read(servers, *arguments, "--ignore-rules") == line


def test_a_registry_that_is_down_ends_consume_with_its_reason(servers: str, files: Path) -> None:
    make_topic(servers, "later")
    fill(servers, "later", [b"\0\0\0\0\1\2"])
    with ScriptedServer([SILENCE]) as server:
        down = server.url
    result = run(servers, "consume", "later", "-e", "-s", "value=avro", "-r", down, code=1)
    assert "Connection refused" in result.output
