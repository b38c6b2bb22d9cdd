"""`mulligan usage RUN`: tokens and cost of a run, as providers reported them."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.projections.usage import fold


@click.command()
@click.argument("run")
@json_option
def usage(run: str, as_json: bool) -> None:
    """Show what a run's requests used; what a provider did not report is unknown, not 0."""
    with Client() as client:
        folded = fold(run, client.events(run))
    if as_json:
        show_json(folded)
        return
    rows = [
        (
            model or "-",
            str(used.requests),
            str(used.unknown),
            str(used.prompt_tokens),
            str(used.completion_tokens),
            f"{used.cost_usd:.4f}" if used.cost_usd is not None else "unknown",
        )
        for model, used in folded.models.items()
    ]
    table(("model", "requests", "usage unknown", "prompt", "completion", "cost $"), rows)
