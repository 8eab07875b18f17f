"""`kafkaraw wire decode`: its output for published bytes, its exit code, its widths, and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from kafkaraw.cli import main
from kafkaraw.cli.wire import _plain_lines, table_of
from kafkaraw.inspect import annotate
from kafkaraw.inspect.render import rows_of
from tests.inspect.golden_output import GOLDEN, Golden
from tests.inspect.sample_frames import SAMPLE, SAMPLES, Sample


def decode(data: bytes | str, *options: str) -> Result:
    return CliRunner().invoke(main, ["wire", "decode", *options], input=data)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_the_output_for_published_bytes_is_as_kept(golden: Golden):
    assert golden.output() == golden.path.read_text(), "python -m tests.inspect.golden_output --write"


def test_the_dump_of_kafka_14935_reports_the_missing_bytes():
    result = decode(next(golden for golden in GOLDEN if golden.name == "kafka_14935").text)
    assert result.exit_code == 1
    assert "declared 43 bytes, have 42: the frame is cut short" in result.output
    assert "header.client_id: at byte 12" in result.output


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_whole_frames_exit_with_0_and_cut_ones_with_1(sample: Sample):
    assert decode(sample.frame.hex()).exit_code == 0
    cut = decode(sample.frame[:-1].hex())
    assert cut.exit_code == 1
    assert "have" in cut.output
    assert "Traceback" not in cut.output


def test_a_file_is_read_as_well_as_standard_input(tmp_path: Path):
    file = tmp_path / "frame.bin"
    file.write_bytes(SAMPLE["Metadata request v12"].frame)
    result = CliRunner().invoke(main, ["wire", "decode", str(file)])
    assert result.exit_code == 0
    assert "from raw bytes" in result.output


def test_several_frames_are_separated():
    both = SAMPLE["Metadata request v12"].frame + SAMPLE["ApiVersions request v3"].frame
    result = decode(both)
    assert result.exit_code == 0
    assert "Frame 1 of 2" in result.output
    assert "Frame 2 of 2" in result.output
    assert len(json.loads(decode(both, "--json").stdout)) == 2


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_json_has_every_field_with_offsets_and_bytes(sample: Sample):
    found = json.loads(decode(sample.frame, "--json").stdout)
    assert (found["api"], found["direction"], found["whole"], found["error"]) == (
        sample.api,
        sample.direction,
        True,
        None,
    )
    covered = bytearray()
    _collect(found["tree"], covered)
    assert bytes(covered) == sample.frame
    names = {child["name"] for child in found["tree"]["children"]}
    assert names == {"size", "header", "body"}


def _collect(node: dict[str, object], out: bytearray) -> None:
    out += bytes.fromhex(str(node["hex"]))
    for child in node.get("children", []):  # type: ignore[attr-defined]
        if "offsets_in" not in child:
            _collect(child, out)


def test_json_of_a_broken_frame_says_where_it_breaks():
    frame = SAMPLE["Metadata request v12"].frame
    result = decode(frame[:-3], "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["whole"] is False
    assert found["error"]["offset"] <= len(frame) - 3
    assert "the frame is cut short" in found["error"]["message"]


def test_paths_can_be_searched():
    output = decode(SAMPLE["Metadata request v12"].frame, "--paths").output
    assert "body.topics[1].name" in output


def test_a_guess_says_how_sure_it_is():
    # size 10, correlation id 1, throttle time 0, no error: many APIs answer so.
    result = decode("0000000a 00000001 00000000 0000")
    assert result.exit_code == 0
    assert "Could be several things; shown as the likeliest" in result.output
    assert "Heartbeat response v1-3" in result.output
    named = decode("0000000a 00000001 00000000 0000", "--api", "EndTxn", "--version", "0", "--response")
    assert named.output.startswith("EndTxn response v0: ")
    assert "Could be" not in named.output


def test_bytes_without_a_reading_are_an_unknown_frame():
    result = decode("ff" * 30)
    assert result.exit_code == 1
    assert result.output.startswith("Unknown frame: 30 bytes, from hex")


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        ([], "", "the input is empty"),
        ([], "certainly not bytes", "no known form"),
        (["--version", "3"], "0000", "--version needs --api"),
        (["--api", "Metadat"], "00000000", "did you mean Metadata?"),
        (["--api", "Fetch", "--version", "99"], "00000000", "Fetch has versions"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], text: str, says: str):
    result = decode(text, *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("name", ["Metadata request v12", "Fetch response v11, gzip", "JoinGroup request v5"])
def test_a_table_fits_the_terminal_and_loses_nothing(width: int, name: str):
    rows = list(rows_of(annotate(SAMPLE[name].frame)))
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, no_color=True).print(table_of(rows, width))
    lines = out.getvalue().splitlines()
    assert max(map(len, map(_plain, lines))) <= width
    text = " ".join(_plain(line) for line in lines).replace(" ", "")
    assert all(row.name.replace(" ", "") in text for row in rows if len(row.name) < 16)
    # A word may be broken over two lines, never to single letters.
    assert len(lines) < 4 * len(rows)


def _plain(line: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()


def test_a_pipe_gets_one_line_per_field_and_no_trailing_blanks():
    rows = list(rows_of(annotate(SAMPLE["Fetch response v11, zstd"].frame)))
    lines = list(_plain_lines(rows, paths=False))
    assert len(lines) == len(rows) + 1
    assert all(line == line.rstrip() and "\n" not in line for line in lines)
