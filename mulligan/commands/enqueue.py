"""`mulligan enqueue WORKFLOW`: ask for a run and print its id."""

from __future__ import annotations

import math

import click
import msgspec
from msgspec import UNSET

from mulligan.client import Client
from mulligan.commands.given_input import read_input
from mulligan.commands.printing import json_option, show_json
from mulligan.commands.tenant_option import tenant_option
from mulligan.commands.windows import window_option
from mulligan.events.facts import Priority
from mulligan.events.prepared import LONGEST_DELAY_MS
from mulligan.replies import Enqueued


@click.command()
@click.argument("workflow")
@click.option(
    "--input",
    "given",
    metavar="FILE|JSON",
    help="The run's input: JSON, or a file of JSON or text.",
)
@click.option("--model", help="Instead of the model in the workflow's settings.")
@click.option("--run-id", help="The same id with the same input is the same run.")
@click.option("--tag", "tags", multiple=True, help="To find the run by; may be given again.")
@click.option(
    "--delay",
    "delay_s",
    type=click.FloatRange(0, LONGEST_DELAY_MS / 1_000),
    default=0,
    help="Seconds until it begins.",
)
@click.option(
    "--priority",
    type=click.Choice(["-1", "0", "1"]),
    default="0",
    show_default=True,
    help="-1 goes first where much waits, 1 last.",
)
@tenant_option
@window_option
@click.option(
    "--traceparent",
    envvar="TRACEPARENT",
    help="The span that the run's trace links to, as W3C Trace Context writes it; by default "
    "$TRACEPARENT.",
)
@json_option
def enqueue(
    workflow: str,
    given: str | None,
    model: str | None,
    run_id: str | None,
    tags: tuple[str, ...],
    delay_s: float,
    priority: str,
    tenant: str | None,
    origin_window: str | None,
    traceparent: str | None,
    as_json: bool,
) -> None:
    """Ask for a run of WORKFLOW: a file, module:attribute, or the name of a shipped one."""
    if math.isnan(delay_s):
        raise click.BadParameter("nan is no number of seconds", param_hint="--delay")
    value = read_input(given)
    told: list[str] = []
    with Client() as client:
        run = client.enqueue(
            workflow,
            value,
            run_id=run_id,
            tags=tags,
            priority=msgspec.convert(int(priority), Priority),
            delay_ms=int(delay_s * 1_000),
            model=model,
            origin_window=origin_window,
            tenant=tenant,
            traceparent=traceparent or None,
            told=told.append,
        )
    for line in told:
        click.echo(line, err=True)
    if as_json:
        show_json(Enqueued(run=run, kept=told[0] if told else UNSET))
    else:
        click.echo(run)
