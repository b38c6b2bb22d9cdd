"""`mulligan trace RUN`: what happened in a run, step by step."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, legible, show_json
from mulligan.commands.recovery import costs
from mulligan.errors import PayloadKeyMissing
from mulligan.events.codec import Outline
from mulligan.events.facts import FACTS
from mulligan.projections.trace import Trace, TraceStep, fold

LONGEST_TYPE = max(map(len, FACTS))
"""Characters of the column that names what happened."""


@click.command()
@click.argument("run")
@json_option
def trace(run: str, as_json: bool) -> None:
    """Show what happened in a run, step by step."""
    with Client() as client:
        try:
            folded = fold(run, client.events(run))
        except PayloadKeyMissing as error:
            if not as_json:
                show_outlines(run, client.store.outlines(run), error.told)
            raise
    if as_json:
        show_json(folded)
    else:
        show(folded)


def show(folded: Trace) -> None:
    """Print a trace for people: a line a step."""
    reason = f" ({folded.reason})" if folded.reason else ""
    took = f" in {folded.duration_ms / 1000:.2f} s" if folded.duration_ms is not None else ""
    click.echo(f"{folded.run}  {folded.workflow}  {folded.status}{reason}{took}")
    width = max((len(step.node or "") for step in folded.steps), default=0)
    for step in folded.steps:
        click.echo(line(step, width))
    if folded.why:
        click.echo(f"why: {folded.why}")
    for told in (*costs(folded.usage), *(f"now: {one}" for one in folded.advice)):
        click.echo(told)


def show_outlines(run: str, outlines: list[Outline], told: str) -> None:
    """Print what a run's events tell without the key to what they hold: a line an event."""
    click.echo(f"{run}  {told}")
    width = max((len(one.node or "") for one in outlines), default=0)
    for one in outlines:
        attempt = f"/{one.attempt}" if one.attempt else ""
        where = f"{one.node or ''}{attempt}".ljust(width + 3)
        at_s = (one.time_ms - outlines[0].time_ms) / 1000
        said = told if one.encrypted else ""
        click.echo(f"{at_s:9.3f} {one.version:4}  {where} {one.type:19} {said}".rstrip())


def line(step: TraceStep, width: int) -> str:
    """One step: seconds since the request, version, node and attempt, what happened."""
    attempt = f"/{step.attempt}" if step.attempt else ""
    text = legible(step.text).replace("\n", " ")
    where = f"{step.node or ''}{attempt}".ljust(width + 3)
    kind = step.type.ljust(LONGEST_TYPE)
    return f"{step.at_ms / 1000:9.3f} {step.version:4}  {where} {kind} {text}".rstrip()
