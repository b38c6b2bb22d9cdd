"""`mulligan scripted-model SCRIPT`: a model server that does what a script says."""

from __future__ import annotations

import threading
from pathlib import Path

import click
import msgspec

from mulligan.actors.end_signals import end_signals
from mulligan.commands.printing import json_option, show_json


class Serving(msgspec.Struct, frozen=True):
    """A scripted model that takes requests: `url` is what to set as `api_base`."""

    url: str
    port: int


@click.command("scripted-model")
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free one.")
@json_option
def scripted_model(script: Path, port: int, as_json: bool) -> None:
    """
    Serve an OpenAI-compatible model on 127.0.0.1 that plays SCRIPT (YAML or JSON), until it is
    interrupted. Set the URL that it prints as `api_base`, and `scripted/NAME` as the model.
    """
    # The server's libraries are no business of the other commands.
    from mulligan.testing.scripted_model import ScriptedModel

    ended = threading.Event()
    with ScriptedModel(script, port=port) as model, end_signals(ended.set):
        if as_json:
            show_json(Serving(model.url, model.port))
        else:
            click.echo(model.url)
        ended.wait()
