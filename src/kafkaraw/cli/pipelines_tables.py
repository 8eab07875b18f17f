"""`kafkaraw pipelines tables`: where the tables of a pipeline are."""

from __future__ import annotations

from pathlib import Path

import click

from kafkaraw.cli.pipelines_options import place_argument
from kafkaraw.cli.rendering import print_rows


@click.command()
@place_argument
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
def tables(place: Path, as_json: bool) -> None:
    """List the tables that a pipeline has computed, with the folders of their files.

    Any tool that reads such files can read them; in Python, `kafkaraw.pipelines.read_tables` makes DataFrames of them.
    The folder of a table whose contents are replaced (a materialized view, a table of changes) changes with each run.
    """
    from kafkaraw.pipelines.running.contents import tables_of

    rows = [
        {"TABLE": each.name, "KIND": each.kind, "FORMAT": each.file_format, "PATH": str(each.path)}
        for each in tables_of(place)
    ]
    print_rows(rows, as_json=as_json)
