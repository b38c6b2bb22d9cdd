"""`mulligan usage [RUN]`: tokens and cost, as providers reported them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.projections.projector import Projector
from mulligan.projections.rows import USAGE, read_rows
from mulligan.projections.usage import ModelUsage, RunUsage, UsageTotals, fold, totals


@click.command()
@click.argument("run", required=False)
@json_option
def usage(run: str | None, as_json: bool) -> None:
    """
    Show what the requests of a run used, or those of all runs together; what a provider did not
    report is unknown, not 0.
    """
    with Client() as client:
        if run is None:
            Projector(client.store, lambda sentence: click.echo(sentence, err=True)).catch_up()
            _show(totals(read_rows(client.store, USAGE)), as_json)
        else:
            _show(fold(run, client.events(run)), as_json)


def _show(shown: UsageTotals | RunUsage, as_json: bool) -> None:
    if as_json:
        show_json(shown)
        return
    rows = [*_rows(shown.models), *_rows(shown.overseer, " (overseer)")]
    if isinstance(shown, UsageTotals) and shown.unreadable:
        runs = ", ".join(shown.unreadable)
        click.echo(f"not read to their end, for events of a newer version: {runs}", err=True)
    table(("model", "requests", "usage unknown", "prompt", "completion", "cost $"), rows)


def _rows(models: Mapping[str, ModelUsage], by: str = "") -> list[tuple[str, ...]]:
    return [
        (
            f"{model or '-'}{by}",
            str(used.requests),
            str(used.unknown),
            str(used.prompt_tokens),
            str(used.completion_tokens),
            f"{used.cost_usd:.4f}" if used.cost_usd is not None else "unknown",
        )
        for model, used in models.items()
    ]
