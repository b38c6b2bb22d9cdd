"""`mulligan down`: stop the embedded server."""

from __future__ import annotations

from typing import Literal

import click
import msgspec

from mulligan.commands.printing import json_option, show_json
from mulligan.embedded import stop_server
from mulligan.settings import load_settings


class Down(msgspec.Struct, kw_only=True):
    """Whether a server was stopped; none may have run."""

    kind: Literal["down"] = "down"
    stopped: bool
    data_dir: str


@click.command()
@json_option
def down(as_json: bool) -> None:
    """
    Stop the embedded server of the data directory, its data safe on disk. Workers wait for it; the
    next command that needs it starts it again.
    """
    settings = load_settings()
    stopped = stop_server(settings.data_dir)
    if as_json:
        show_json(Down(stopped=stopped, data_dir=str(settings.data_dir)))
    elif stopped:
        click.echo(f"stopped the embedded server of {settings.data_dir}; its data stays there")
    else:
        click.echo(f"no embedded server of {settings.data_dir} was running")
