"""`mulligan run WORKFLOW`: work a run here and follow it to its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import click

from mulligan.actors.assemble import assemble
from mulligan.actors.process import DRAIN_S, working
from mulligan.actors.runtime import Runtime
from mulligan.client import Client
from mulligan.commands.given_input import read_input
from mulligan.commands.live import watched
from mulligan.commands.printing import EXIT_CODES, json_option, legible, show_json
from mulligan.commands.progress import Progress, progress
from mulligan.commands.tenant_option import tenant_option
from mulligan.commands.windows import window_option
from mulligan.events.deltas import Delta, Subscription
from mulligan.events.envelope import Envelope
from mulligan.logs import configure_logs
from mulligan.projections.advice import why
from mulligan.projections.live import Void
from mulligan.projections.projector import Projector
from mulligan.projections.run_view import result_view
from mulligan.projections.state import RunState
from mulligan.providers.port import ModelRequest
from mulligan.schemas.plan import AgentPlan, Plan
from mulligan.watch import Watch
from mulligan.workspace import CHANGING, workspace_of, write_workspace

THREADS = 16

GOES_ON_BY = {
    "exhausted": "resume {run}",
    "awaiting_input": "answer {run} …",
    "awaiting_approval": "approve|deny {run} CALL",
    "awaiting_signal": "signal {run} NAME --data JSON",
    "parked": "redrive {run}",
    "awaiting_decision": "decide {run} accept|abort|take-over",
    "reconciliation_required": "reconcile {run} CALL succeeded|failed|retry",
}
"""By the reason of a pause, the command that ends it."""


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
@click.option("--deltas", is_flag=True, help="Show what models say, as they say it.")
@tenant_option
@window_option
@json_option
def run(
    workflow: str,
    given: str | None,
    model: str | None,
    run_id: str | None,
    deltas: bool,
    tenant: str | None,
    origin_window: str | None,
    as_json: bool,
) -> None:
    """
    Work a run of WORKFLOW in this process and follow it until it ends or is paused. Progress goes
    to standard error, the output to standard output. Workers of the same server that are up take
    part in it, with the code and settings that they have. Interrupted, it goes on with the next.

    With --deltas, progress has what models say while they say it, candidates that nobody has judged
    among it; what was cut off or rejected is taken back in words. None of that is stored anywhere.
    """
    value = read_input(given)
    sys.exit(
        work_here(
            workflow,
            value,
            model=model,
            run_id=run_id,
            origin_window=origin_window,
            tenant=tenant,
            as_json=as_json,
            deltas=deltas,
        )
    )


def work_here(
    workflow: str | Plan,
    value: Any,
    *,
    model: str | None = None,
    run_id: str | None = None,
    origin_window: str | None = None,
    tenant: str | None = None,
    as_json: bool = False,
    deltas: bool = False,
    artifacts: Path | None = None,
) -> int:
    """
    Work a run in this process, show it, and return the exit code that says how it ended; what its
    repair loops made is written to `artifacts`, or to the run's own folder.
    """
    configure_logs("warning")
    with Client() as client:
        plan = client.plan(workflow, model=model)
        runtime = assemble(client.settings)
        check_models(plan, runtime)
        name = client.enqueue(
            plan,
            value,
            run_id=run_id,
            origin_window=origin_window,
            tenant=tenant,
            told=partial(click.echo, err=True),
        )
        folder = artifacts or workspace_of(client, name)
        keep = partial(_keep, client, name, folder)
        with (
            _listening(client, name if deltas else None) as heard,
            working(runtime, threads=THREADS),
            progress(name, also=keep) as shown,
        ):
            state = _follow(client, name, shown, heard)
        Projector(client.store).catch_up()
        if state.repairs and _written(client, name, folder):
            click.echo(f"drafts, reports and repair log: {folder}", err=True)
        _show(client, state, as_json)
    return EXIT_CODES[state.status]


@contextmanager
def _listening(client: Client, run: str | None) -> Iterator[Subscription | None]:
    """Listen to a run's live output, from before it is worked; None: to nothing."""
    if run is None:
        yield None
        return
    with closing(client.deltas.subscribe(run)) as subscription:
        yield subscription


def _follow(client: Client, run: str, shown: Progress, heard: Subscription | None) -> RunState:
    try:
        if heard is None:
            return client.wait(run, seen=shown.seen)
        return _live(client, run, shown, heard)
    except KeyboardInterrupt:
        shown.note(f"interrupted; what was begun has {DRAIN_S:.0f} s to end (Ctrl-C again: none)")
        shown.note(f"the next `mulligan worker` goes on with {run}")
        raise


def _live(client: Client, run: str, shown: Progress, heard: Subscription) -> RunState:
    """As `Client.wait`, with live output shown beside the events."""
    watch = Watch(client.store, run)
    for line in watched(watch, heard):
        match line:
            case Delta():
                shown.heard(line)
            case Void():
                shown.void(line)
            case Envelope():
                shown.seen(line)
            case _:
                assert_never(line)
    return watch.state


def _keep(client: Client, run: str, folder: Path, event: Envelope) -> None:
    """Write what a run's repair loops make as they go on."""
    if isinstance(event.data, CHANGING):
        _written(client, run, folder)


def _written(client: Client, run: str, folder: Path) -> bool:
    """Whether the artifacts could be written; the run does not depend on it."""
    try:
        write_workspace(client, run, folder)
    except OSError as error:
        click.echo(f"{error.filename or folder} can't be written: {error.strerror}", err=True)
        return False
    return True


def check_models(plan: Plan, runtime: Runtime) -> None:
    """
    Find out before anything is begun whether every model of a plan can be asked.

    Raises:
        EnvironmentUnfit: one can't; the message says what is missing.
    """
    agents = [node.work for node in plan.nodes if isinstance(node.work, AgentPlan)]
    for name in dict.fromkeys(agent.model or "" for agent in (*agents, *plan.agents.values())):
        runtime.provider.prepare(
            ModelRequest(
                request_id="check", model=name, messages=(), api_base=plan.settings.api_base
            )
        )


def _show(client: Client, state: RunState, as_json: bool) -> None:
    if as_json:
        show_json(result_view(state, partial(client.value, state.run)))
        return
    if state.output is not None:
        show_json(client.value(state.run, state.output))
        return
    click.echo(legible(f"{state.run} is {state.status}: {why(state)}"), err=True)
    command = GOES_ON_BY.get(state.reason or "")
    if command is not None:
        command = command.format(run=state.run)
        click.echo(f"`mulligan {command}` lets it go on; a worker must run", err=True)
