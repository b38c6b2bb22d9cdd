"""`mulligan verify [RUN]`: fold runs twice and check their histories."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import EventUnreadable, RunForgotten, RunUnknown, VerificationFailed
from mulligan.events.envelope import Envelope
from mulligan.events.folder_intents import FolderIntents
from mulligan.projections.lost_starts import lacking, told
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
    """
    Fold one run, or all, twice and compare; check what must be true of any history, and that the
    log has every write that was noted outside it (MULLIGAN_INTENTS_DIR).
    """
    found = Verified(runs=0, events=0, problems={})
    with Client() as client:
        folder = client.settings.intents_dir
        noted = FolderIntents(folder) if folder is not None else None
        for name in [run] if run is not None else _runs(client, noted):
            found.runs += 1
            problems = _problems(client, name, noted, found)
            if problems:
                found.problems[name] = problems
    _show(found, as_json)
    if found.problems:
        sys.exit(VerificationFailed.exit_code)


def _runs(client: Client, noted: FolderIntents | None) -> Iterable[str]:
    """Those of the log, and those that only the witness knows."""
    names = [name for name, _ in client.store.runs()]
    return dict.fromkeys([*names, *(noted.runs() if noted is not None else ())])


def _problems(client: Client, run: str, noted: FolderIntents | None, found: Verified) -> list[str]:
    intents = noted.of_run(run) if noted is not None else []
    events: list[Envelope] = []
    problems = []
    try:
        events = list(client.events(run))
        problems = [one.line for one in problems_of(client.store, run, events)]
    except RunForgotten:  # on purpose: there is nothing to verify
        return []
    except EventUnreadable as error:  # the others are none the worse
        return [str(error)]
    except RunUnknown:
        if not intents:
            raise
        problems = ["append_lost: the log does not know it: its server was set back"]
    found.events += len(events)
    lost = lacking(events, intents)
    return problems + [f"append_lost: the log lacks the start of {told(one)}" for one in lost]


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
