"""`mulligan serve [APP]`: the HTTP API and the page."""

from __future__ import annotations

from typing import Literal

import click
import msgspec

from mulligan.actors.end_signals import end_signals
from mulligan.app import load_app
from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import InvalidInput
from mulligan.logs import configure_logs
from mulligan.settings import Settings, load_settings

DEFAULT_PORT = 8810


class Served(msgspec.Struct, kw_only=True):
    """The API takes requests at `url`; `token`: one is asked for."""

    kind: Literal["serving"] = "serving"
    url: str
    token: bool


@click.command()
@click.argument("app", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="0 takes a free one.",
)
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    help="May be asked for too: a file or module:attribute; may be given again.",
)
@json_option
def serve(app: str | None, host: str, port: int, workflows: tuple[str, ...], as_json: bool) -> None:
    """
    Serve the HTTP API and the page, until SIGTERM or Ctrl-C. Runs of the workflows that ship, of
    those that APP (module:attribute) registers, and of each --workflow may be asked for; workers
    need their code too.

    Every address but this machine's own asks for a token: MULLIGAN_HTTP_TOKENS.
    """
    settings = load_settings()
    _check_reach(settings, host)
    click.echo("starting", err=True)  # what follows takes seconds on a busy machine
    # The server's libraries are no business of the other commands.
    from mulligan.web.access import Access
    from mulligan.web.app import create_app
    from mulligan.web.catalogue import Catalogue
    from mulligan.web.server import Server, allow_connections, listen

    configure_logs(settings.log_level)
    allow_connections()
    catalogue = Catalogue(load_app(app) if app is not None else None, workflows)
    access = Access(
        settings.http_tokens.split(",") if settings.http_tokens else (), settings.http_hosts
    )
    with listen(host, port) as listener, Client(settings) as client:
        address, taken = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        served = Served(url=f"http://{shown}:{taken}/", token=access.needs_token)
        told = (lambda: show_json(served)) if as_json else (lambda: _tell(served))
        server = Server(create_app(client, access, catalogue), told)
        with end_signals(server.end):
            server.run([listener])


def _check_reach(settings: Settings, host: str) -> None:
    """Raises InvalidInput: others could ask here, and nothing would be asked of them."""
    from mulligan.web.access import is_loopback

    if settings.http_tokens or is_loopback(host):
        return
    raise InvalidInput(
        f"--host {host}: others can reach it, and would need no token; set MULLIGAN_HTTP_TOKENS "
        "(python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one), or listen on "
        "127.0.0.1"
    )


def _tell(served: Served) -> None:
    needs = "; it asks for a token of MULLIGAN_HTTP_TOKENS" if served.token else ""
    click.echo(f"serving {served.url}{needs}")
