"""`mulligan browser`: the bridge that owns Chromium."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial

import click

from mulligan.commands.browser_socket import Listening
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.events.crash_points import arm, reach
from mulligan.logs import configure_logs
from mulligan.settings import Settings, load_settings
from mulligan.tools.web_use.bridge.holdings import Configuration
from mulligan.tools.web_use.bridge.pages import MADE
from mulligan.tools.web_use.bridge.service import BridgeService
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.executable import find_chromium

DEFAULT_WINDOW = "main"


@click.command()
@click.option(
    "--window",
    "windows",
    multiple=True,
    help=f"The id of a window; may be given again.  [default: {DEFAULT_WINDOW}]",
)
@click.option("--headed", is_flag=True, help="Show Chromium on this desktop.")
@click.option(
    "--bind",
    nargs=2,
    metavar="RUN WINDOW",
    help="Ask the bridge that runs to open a window's pages to a run, and end.",
)
@json_option
def browser(
    windows: tuple[str, ...], headed: bool, bind: tuple[str, str] | None, as_json: bool
) -> None:
    """
    Own a Chromium for the runs of this machine, until SIGTERM or Ctrl-C.

    Runs that browse name one of its windows by --origin-window. Workers reach it by a socket that
    only this user can open.
    """
    settings = load_settings()
    configure_logs(settings.log_level)
    if bind is not None:
        _bind(settings, *bind)
        return
    _check_windows(windows)
    arm(settings.crash_at)
    os.umask(0o077)
    listening = Listening(
        socket=str(settings.browser_socket_path),
        windows=tuple(dict.fromkeys(windows)) or (DEFAULT_WINDOW,),
    )
    service = BridgeService(
        settings.browser_socket_path,
        find_chromium(settings.browser_executable),
        listening.windows,
        configuration_of(settings),
        headed=headed,
    )
    told = partial(show_json, listening) if as_json else partial(_tell, listening)
    asyncio.run(_serve(service, told))


def configuration_of(settings: Settings) -> Configuration:
    """
    What the settings say of the bridge.

    Raises InvalidInput: a secret that may be typed has no value here.
    """
    secrets = {}
    for name in settings.browser_secrets:
        value = settings.provider_key(name) if name.isupper() else None
        if value is None:
            raise InvalidInput(
                f"MULLIGAN_BROWSER_SECRETS names {name}, which is not set (in capitals) in the "
                "environment or .env; set it, or take it out"
            )
        secrets[name] = value.get_secret_value()
    return Configuration(
        folder=(settings.data_dir / "browser").absolute(),
        secrets=secrets,
        secret_hosts=settings.browser_secrets,
        uploads=settings.browser_files,
        reach=reach,
    )


def _bind(settings: Settings, run: str, window: str) -> None:
    try:
        with BridgeClient(settings.browser_socket_path) as client:
            client.bind(run, window)
    except WebUseFailed as failed:
        raise EnvironmentUnfit(str(failed)) from None


def _check_windows(windows: tuple[str, ...]) -> None:
    for window in windows:
        if not window or len(window) > 200 or window.startswith(MADE):
            raise InvalidInput(
                f"--window {window[:50]!r}: an id of 1 to 200 characters that does not begin with "
                f"{MADE!r}"
            )


def _tell(listening: Listening) -> None:
    click.echo(f"listening on {listening.socket}; windows: {', '.join(listening.windows)}")


async def _serve(service: BridgeService, told: Callable[[], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await service.start()
    told()
    try:
        await stop.wait()
    finally:
        await service.close()
