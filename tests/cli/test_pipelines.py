"""The commands of `kafkaraw pipelines` that need no Spark: names, options, exit codes and messages."""

from __future__ import annotations

from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from kafkaraw.cli.pipelines import COMMANDS, pipelines


@pytest.mark.parametrize("name", COMMANDS)
def test_command_can_be_imported_by_its_name(name):
    module, _, attribute = COMMANDS[name].partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert pipelines.get_command(click.Context(pipelines), name) is command


def test_unknown_command_is_wrong_usage():
    result = CliRunner().invoke(main, ["pipelines", "no-such-command"])
    assert (result.exit_code, "No such command 'no-such-command'" in result.output) == (2, True)


def test_folder_without_a_pipeline_is_a_wrong_definition(tmp_path):
    result = CliRunner().invoke(main, ["pipelines", "plan", str(tmp_path)])
    assert result.exit_code == 2
    assert "has no spark-pipeline.yml" in result.output
    assert "kafkaraw pipelines init NAME" in result.output


def test_wrong_specification_is_named_with_its_line(tmp_path):
    (tmp_path / "spark-pipeline.yml").write_text("name: sales\nstorage: storage\nlibrary: []\n")
    result = CliRunner().invoke(main, ["pipelines", "plan", str(tmp_path)])
    assert result.exit_code == 2
    assert "spark-pipeline.yml:3: unknown field 'library'; did you mean 'libraries'?" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--conf", "x"], "'x' must be NAME=VALUE"),
        (["--output", "plan.png"], "end it with .txt, .svg or .json, or give --format"),
        (["--format", "png"], "'png' is not one of 'text', 'svg', 'json'"),
    ],
)
def test_wrong_option_of_plan_is_wrong_usage(tmp_path, options, message):
    result = CliRunner().invoke(main, ["pipelines", "plan", str(tmp_path), *options])
    assert (result.exit_code, message in result.output) == (2, True), result.output
