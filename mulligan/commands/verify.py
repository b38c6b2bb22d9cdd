"""`mulligan verify [RUN]`: fold runs twice and check their histories."""

from __future__ import annotations

import sys

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import EventUnreadable, VerificationFailed
from mulligan.projections.verify import problems_of


class Verified(msgspec.Struct, kw_only=True):
    """How many runs and events were looked at, and what is wrong, by run."""

    runs: int
    events: int
    problems: dict[str, list[str]]


@click.command()
@click.argument("run", required=False)
@json_option
def verify(run: str | None, as_json: bool) -> None:
    """Fold one run, or all, twice and compare; check what must be true of any history."""
    found = Verified(runs=0, events=0, problems={})
    with Client() as client:
        for name in [run] if run is not None else [name for name, _ in client.store.runs()]:
            found.runs += 1
            try:
                events = list(client.events(name))
                found.events += len(events)
                problems = [one.line for one in problems_of(client.store, name, events)]
            except EventUnreadable as error:  # the others are none the worse
                problems = [str(error)]
            if problems:
                found.problems[name] = problems
    _show(found, as_json)
    if found.problems:
        sys.exit(VerificationFailed.exit_code)


def _show(found: Verified, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    for name, problems in found.problems.items():
        for problem in problems:
            click.echo(f"{name}: {problem}")
    state = f"{len(found.problems)} with problems" if found.problems else "all sound"
    runs = "1 run" if found.runs == 1 else f"{found.runs} runs"
    click.echo(f"{runs}, {found.events} events: {state}")
