"""`mulligan demo`: a run whose model misbehaves and whose worker is killed, shown live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.printing import EXIT_CODES, json_option, show_json
from mulligan.commands.progress import Progress, progress
from mulligan.commands.repair_log import show as show_repairs
from mulligan.commands.serve import DEFAULT_PORT
from mulligan.commands.trace import show as show_trace
from mulligan.errors import WaitTimedOut
from mulligan.events.envelope import Envelope
from mulligan.events.facts import AllowanceReserved, ModelInterrupted, OutputRepairSucceeded
from mulligan.projections.history import problems
from mulligan.projections.projector import Projector
from mulligan.projections.repair_log import fold as fold_repairs
from mulligan.projections.state import RunState
from mulligan.projections.trace import fold
from mulligan.schemas.load import load_workflow
from mulligan.schemas.workflow import WorkflowDefinition
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.workflows.demo.script import script

CRASH_AT = "model.before:2:kill"
"""The second request is in the log and has not left: the tool before it has its result."""

LEASE_MS = 3_000
WAIT_S = 60.0


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """
    Run the workflow `demo` in a worker process that is killed (SIGKILL) after its tool has run, and
    watch another one go on where the log ends. Its model misbehaves: an answer is cut off, another
    does not fit its schema, a third is broken JSON in prose. What it writes does not pass the
    gates, and is repaired.
    """
    with Client() as client:
        record = _record(client.settings.data_dir)
        with ScriptedModel(script(record)) as model, _worker(client):
            name = client.enqueue(_workflow(model.url), {"topic": "tea"})
            state = _follow(client, name)
            asked = len(model.requests)
        Projector(client.store).catch_up()
        events = list(client.events(name))
        if as_json:
            show_json(fold(name, events))
        else:
            if not _seen_already():
                show_trace(fold(name, events))
            _sum_up(events, record, asked)
            click.echo("")
            show_repairs(fold_repairs(name, events, partial(client.value, name)))
            _say_output(client, state)
            _say_what_next(client, name)
    sys.exit(EXIT_CODES[state.status])


def _workflow(api_base: str) -> WorkflowDefinition:
    """
    The demo's workflow, which itself says where its model is: the worker may find other runs on
    this server, and must not ask the demo's model for theirs.
    """
    return load_workflow("demo").with_settings(api_base=api_base)


def _follow(client: Client, name: str) -> RunState:
    """Show the run until its end. Interrupted, it is cancelled: its model ends with the demo."""
    try:
        with progress(name) as shown:
            shown.note(
                "a worker process starts; it will be killed at its second request to the model"
            )
            return client.wait(name, timeout_s=WAIT_S, seen=partial(_seen, shown))
    except BaseException:
        client.cancel(name, "the demo was interrupted")
        with suppress(WaitTimedOut):
            client.wait(name, timeout_s=2 * LEASE_MS / 1_000)
        raise


def _seen(shown: Progress, event: Envelope) -> None:
    shown.seen(event)
    if isinstance(event.data, ModelInterrupted):
        shown.note("that worker was killed; another process goes on where the log ends")


def _record(data_dir: Path) -> Path:
    """A fresh file in which the demo's tool writes down its calls."""
    folder = data_dir.resolve() / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="calls-", suffix=".txt", dir=folder)
    os.close(handle)
    return Path(name)


@contextmanager
def _worker(client: Client) -> Iterator[None]:
    """A supervised worker process that dies at the crash point, and is replaced."""
    environment = {
        **client.settings.child_environment(armed=True),
        "MULLIGAN_CRASH_AT": CRASH_AT,
        "MULLIGAN_LEASE_MS": str(LEASE_MS),
        # That a worker dies is what is shown: a warning of it in JSON would tear the view.
        "MULLIGAN_LOG_LEVEL": "error",
    }
    command = [sys.executable, "-m", "mulligan.cli", "worker", "--processes", "1"]
    worker = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def _seen_already() -> bool:
    """Whether the run's lines went where its trace would go, as in the log of a build."""
    return not sys.stderr.isatty() and os.path.sameopenfile(1, 2)


def _sum_up(events: list[Envelope], record: Path, asked: int) -> None:
    kinds = Counter(type(event.data) for event in events)
    calls = record.read_text(encoding="utf-8").splitlines()
    found = problems(events)
    click.echo("")
    click.echo(f"Requests lost with their worker, and sent again: {kinds[ModelInterrupted]}")
    click.echo(f"Answers that were no use, and asked for again: {kinds[AllowanceReserved]}")
    click.echo(f"Outputs that the overseer put into form: {kinds[OutputRepairSucceeded]}")
    click.echo(f"Requests that reached the model's server: {asked}")
    click.echo(f"The tool's own record ({record}) shows {len(calls)} call: {', '.join(calls)}.")
    wrong = "; ".join(one.line for one in found)
    click.echo(f"The history is {f'NOT SOUND: {wrong}' if wrong else 'sound'}.")


def _say_output(client: Client, state: RunState) -> None:
    if state.output is not None:
        output = client.value(state.run, state.output)
        click.echo(f"Output: {msgspec.json.encode(output).decode()}")


def _say_what_next(client: Client, run: str) -> None:
    again = (f"mulligan {command} {run}" for command in ("trace", "recovery", "repair-log"))
    click.echo(f"\nLook again: {'; '.join(again)}")
    click.echo(
        f"Or in a browser: `mulligan serve`, then http://127.0.0.1:{DEFAULT_PORT}/#/runs/{run}"
    )
    if client.settings.redis_url is None:
        click.echo("The embedded server goes on until `mulligan down`.")
