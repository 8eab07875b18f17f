"""`kafkaraw wire encode`: bytes of the protocol out of JSON."""

from __future__ import annotations

import base64
import json
import sys
from typing import Final, TextIO

import click

from kafkaraw.errors import UsageError

FORMATS: Final = ("hex", "base64", "raw")


@click.command()
@click.argument("file", type=click.File("r"), default="-")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="hex", show_default=True, help="Form of the bytes.")
def encode(file: TextIO, output: str) -> None:
    r"""Make the bytes of a frame out of JSON.

    FILE has what `wire decode --json` prints: change a `value` in its tree, and the frame changes. Or a short form, in
    which fields that are left out have Kafka's defaults:

    \b
      {"api": "Metadata", "version": 12, "direction": "request", "client_id": "me",
       "correlation_id": 7, "body": {"topics": [{"name": "orders"}]}}

    Bytes are hex, or {"text": "..."}; records are hex, or a list such as [{"key": {"text": "k"}, "value": "00ff"}],
    which becomes one batch. Without FILE, or if it is -, the JSON is read from standard input. A list makes several
    frames, one behind the other.
    """
    from kafkaraw.inspect.encoding import encode_json

    try:
        document = json.load(file)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}") from None
    frames = [encode_json(one) for one in (document if isinstance(document, list) else [document])]
    if output == "raw":
        sys.stdout.buffer.write(b"".join(frames))
        return
    for frame in frames:
        click.echo(frame.hex() if output == "hex" else base64.b64encode(frame).decode())
