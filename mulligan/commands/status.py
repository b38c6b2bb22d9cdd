"""`mulligan status [RUN]`: one run, or the list of all."""

from __future__ import annotations

from functools import partial

import click

from mulligan.client import Client
from mulligan.commands.printing import clock, json_option, legible, show_json, table
from mulligan.commands.waiting import show_waiting
from mulligan.projections.advice import advice
from mulligan.projections.run_view import NodeView, RunView, view


@click.command()
@click.argument("run", required=False)
@json_option
def status(run: str | None, as_json: bool) -> None:
    """Show a run, or list the newest."""
    with Client() as client:
        if run is not None:
            state = client.status(run)
            _show_run(view(state, partial(client.value, run)), advice(state), as_json)
            return
        # Of one run nothing is listed: its reader does not wait for what lists load.
        from mulligan.commands.list_runs import newest, show
        from mulligan.projections.run_list import DEFAULT_LIMIT, Filter

        show(newest(client, Filter(), DEFAULT_LIMIT), as_json, filtered=False)


def _show_run(shown: RunView, can_be_done: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(shown)
        return
    reason = f" ({shown.reason})" if shown.reason else ""
    click.echo(f"{shown.run}  {shown.workflow}  {shown.status}{reason}  version {shown.version}")
    click.echo(f"requested {clock(shown.requested_ms)}, ended {clock(shown.ended_ms)} (UTC)")
    if shown.forked_from is not None:
        click.echo(f"forked from {shown.forked_from} at version {shown.forked_at}")
    if shown.tenant is not None:
        click.echo(f"for tenant {shown.tenant}")
    if shown.waits:
        click.echo(f"waits: {shown.waits}")
    if shown.why:
        click.echo(f"why: {legible(shown.why)}")
    rows = [(name, _standing(node), str(node.attempt or "-")) for name, node in shown.nodes.items()]
    table(("node", "status", "attempt"), rows)
    for line in can_be_done if shown.status == "paused" else ():
        click.echo(f"now: {line}")
    for request in shown.waits_for:
        show_waiting(shown.run, request)


def _standing(node: NodeView) -> str:
    told = f" ({node.reason})" if node.reason else ""
    return f"{node.status}{told}" + (f" (waits for a slot of {node.lane})" if node.lane else "")
