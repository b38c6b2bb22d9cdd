"""The option by which a run is given its tenant."""

from __future__ import annotations

import click

tenant_option = click.option(
    "--tenant", metavar="NAME", help="Whom the run is for: it is held to that tenant's limits."
)
