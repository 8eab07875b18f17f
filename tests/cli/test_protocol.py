"""`kafkaraw protocol`: what it lists, shows and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw.cli import main
from kafkaraw.protocol.apis import API_BY_NAME, API_TABLE
from kafkaraw.protocol_exports import FORMATS, export


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["protocol", *arguments])


def test_the_list_has_a_line_for_every_api():
    lines = run("list").output.splitlines()
    listed = {line.split()[1] for line in lines if line.strip()[:1].isdigit()}
    assert listed == {api.name for api in API_TABLE}


def test_the_list_marks_removed_and_unstable_versions():
    rows = [line.split() for line in run("list").output.splitlines() if line.strip()[:1].isdigit()]
    lines = {row[1]: row[2:6] for row in rows}
    assert lines["Produce"] == ["3-13", "0-13", "0-2", "-"]
    assert lines["InitProducerId"] == ["0-5", "0-6", "-", "6"]
    assert lines["LeaderAndIsr"] == ["-", "0-7", "0-7", "-"]


def test_the_list_as_json_says_the_same():
    apis = json.loads(run("list", "--json").output)
    assert len(apis) == len(API_TABLE)
    fetch = apis[1]
    assert (fetch["key"], fetch["name"], fetch["offered"], fetch["declared"]) == (1, "Fetch", "4-18", "0-18")
    assert all(api["purpose"] for api in apis)


@pytest.mark.parametrize("name", ["Metadata", "metadata", "METADATA", "3"])
def test_a_message_is_found_in_any_case_and_by_key(name: str):
    output = run("show", name).output
    assert "MetadataRequest v13" in output
    assert "MetadataResponse v13" in output
    assert "after response header v1" in output


def test_one_direction_is_enough_when_asked_for():
    assert "FetchResponse" not in run("show", "Fetch", "--request").output
    assert run("show", "FetchRequest", "--response").exit_code == 2


def test_a_version_shows_its_own_fields_only():
    old, new = (run("show", "Fetch", "--request", "--version", str(version)).output for version in (3, 18))
    assert "replica_id" in old
    assert "forgotten_topics_data" in new
    assert "forgotten_topics_data" not in old
    assert "compact array" in new
    assert "compact array" not in old


def test_all_versions_can_be_shown_together():
    output = run("show", "OffsetFetch", "--request", "--version", "all").output
    assert "0-7" in output
    assert "8+" in output


def test_an_unknown_name_suggests_the_nearest():
    result = run("show", "Metdata")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: there is no API, message or structure 'Metdata': did you mean Metadata")


def test_an_undeclared_version_is_refused_with_the_declared_ones():
    result = run("show", "Heartbeat", "--version", "9")
    assert (result.exit_code, result.stderr) == (1, "Error: HeartbeatRequest has versions 0-4, not 9\n")


def test_the_code_is_the_compiled_source():
    output = run("show", "Heartbeat", "--response", "--code").output
    compile(output, "shown", "exec")
    assert "def decode(buf, pos):" in output
    assert "def encode(message, write):" in output


def test_the_grammar_is_that_of_kafkas_documentation():
    assert run("show", "ApiVersions", "--request", "--bnf").output == (
        "ApiVersions Request (Version: 4) => { client_software_name client_software_version }\n"
        "  client_software_name => COMPACT_STRING\n"
        "  client_software_version => COMPACT_STRING\n"
    )


def test_an_embedded_structure_is_shown_by_its_own_name():
    output = run("show", "ConsumerProtocolSubscription", "--version", "1").output
    assert "owned_partitions" in output
    assert "generation_id" not in output


def test_the_fields_as_json_have_what_the_table_has():
    message = json.loads(run("show", "ProduceResponse", "--json").output)
    assert (message["name"], message["version"], message["header_version"]) == ("ProduceResponse", 13, 1)
    leader = next(field for field in message["fields"] if field["name"] == "current_leader")
    assert (leader["depth"], leader["tag"]) == (2, 0)
    assert "NOT_LEADER" in leader["meaning"]


def test_an_export_of_one_file_is_printed_or_written_to_a_file_or_folder(tmp_path: Path):
    chosen = [api for api in API_TABLE if api.name in ("Metadata", "Fetch")]
    arguments = ("export", "--format", "wireshark", "--apis", "fetch,3")
    (text,) = export("wireshark", chosen).values()
    assert run(*arguments).output == text
    for output, written in (("kafka.lua", "kafka.lua"), (".", "kafkaraw.lua"), ("new/", "new/kafkaraw.lua")):
        assert run(*arguments, "-o", f"{tmp_path}/{output}").exit_code == 0
        assert (tmp_path / written).read_text() == text


def test_every_format_is_exported(tmp_path: Path):
    for name in FORMATS:
        done = run("export", "--format", name, "--apis", "Metadata", "-o", f"{tmp_path}/{name}/")
        assert done.exit_code == 0
        files = export(name, [API_BY_NAME["Metadata"]])
        assert {path.name: path.read_text() for path in (tmp_path / name).iterdir()} == files


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--format", "pdf"), "'pdf' is not one of 'wireshark', 'kaitai', 'imhex', 'json-schema', 'markdown'"),
        (("--format", "kaitai", "--apis", "Metdata"), "there is no API named 'Metdata'; did you mean Metadata?"),
        (("--format", "markdown"), "markdown has 105 files: say where to write them, with --output DIR"),
        (("--format", "kaitai", "-o", "/dev/null/kafka.ksy"), "/dev/null/kafka.ksy cannot be written: "),
    ],
)
def test_an_export_that_cannot_be_written_says_why(arguments: tuple[str, ...], error: str):
    done = run("export", *arguments)
    assert done.exit_code != 0
    assert error in str(done.exception) + done.output
