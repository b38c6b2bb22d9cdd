"""The option by which a run is given its browser window."""

from __future__ import annotations

import click

window_option = click.option(
    "--origin-window",
    metavar="WINDOW",
    help="The window of `mulligan browser` that the run's agents browse in.",
)
