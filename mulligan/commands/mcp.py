"""`mulligan mcp`: tools for MCP clients, over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from mulligan.errors import InvalidInput
from mulligan.logs import configure_logs
from mulligan.schemas.web_rules import WebRules
from mulligan.settings import load_settings


@click.command()
@click.option("--window", help="The browser's window to work in; one is made if none is named.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder whose files `read` may read; may be given again. Without it there is no `read`.",
)
def mcp(window: str | None, roots: tuple[Path, ...]) -> None:
    """
    Serve the tools `web_use` and `read` to an MCP client, by stdio.

    The browser is that of `mulligan browser`, and goes to the hosts of MULLIGAN_BROWSER_ALLOW.
    """
    settings = load_settings()
    configure_logs(settings.log_level)
    for root in roots:
        if not root.is_dir():
            raise InvalidInput(f"--root {root}: there is no such folder")
    from mulligan.tools.mcp.server import ToolServer

    ToolServer(
        settings.browser_socket_path,
        WebRules(allow=settings.browser_allow, networks=settings.browser_networks),
        window=window,
        roots=tuple(str(root.absolute()) for root in roots),
    ).run()
