"""Options that several commands of `kafkaraw pipelines` have: where the pipeline is, and settings of the session.

Each command receives `place`, and `conf` as a dict.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click


def _settings(_ctx: click.Context, _parameter: click.Parameter, conf: tuple[str, ...]) -> dict[str, str]:
    settings = dict[str, str]()
    for each in conf:
        name, separator, value = each.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{each!r} must be NAME=VALUE")
        settings[name] = value
    return settings


place_argument: Final = click.argument("place", type=click.Path(path_type=Path), default=Path(), metavar="[FILE|DIR]")
"""The pipeline, of commands without another argument."""
place_option: Final = click.option(
    "--pipeline",
    "place",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder of the pipeline, or its spec.  [default: this folder, or the nearest parent]",
)
"""The pipeline, of commands whose arguments are something else."""
conf_option: Final = click.option(
    "--conf",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_settings,
    help="A setting of the Spark session; repeatable.",
)
