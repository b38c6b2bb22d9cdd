"""`mulligan demo`: a run whose worker is killed midway, shown live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mulligan.client import Client
from mulligan.commands.printing import EXIT_CODES, json_option, show_json
from mulligan.commands.progress import progress
from mulligan.commands.trace import show as show_trace
from mulligan.projections.history import problems
from mulligan.projections.projector import Projector
from mulligan.projections.trace import fold
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
    does not fit its schema, a third is broken JSON in prose.
    """
    with Client() as client:
        record = _record(client.settings.data_dir)
        with ScriptedModel(script(record)) as model, _worker(client, model.url):
            name = client.enqueue("demo", {"topic": "tea"})
            with progress(name) as shown:
                shown.note(f"a worker starts; it will be killed at {CRASH_AT.split(':')[0]}")
                state = client.wait(name, timeout_s=WAIT_S, seen=shown.seen)
            asked = len(model.requests)
        Projector(client.store).catch_up()
        events = list(client.events(name))
        if as_json:
            show_json(fold(name, events))
        else:
            show_trace(fold(name, events))
            _sum_up(name, record, asked, problems(events))
    sys.exit(EXIT_CODES[state.status])


def _record(data_dir: Path) -> Path:
    """A fresh file in which the demo's tool writes down its calls."""
    folder = data_dir.resolve() / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="calls-", suffix=".txt", dir=folder)
    os.close(handle)
    return Path(name)


@contextmanager
def _worker(client: Client, api_base: str) -> Iterator[None]:
    """A supervised worker process that dies at the crash point, and is replaced."""
    environment = {
        **client.settings.child_environment(armed=True),
        "MULLIGAN_API_BASE": api_base,
        "MULLIGAN_CRASH_AT": CRASH_AT,
        "MULLIGAN_LEASE_MS": str(LEASE_MS),
        "MULLIGAN_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "mulligan.cli", "worker", "--processes", "1"]
    worker = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def _sum_up(run: str, record: Path, asked: int, found: list[str]) -> None:
    calls = record.read_text(encoding="utf-8").splitlines()
    click.echo("")
    click.echo(f"The tool's own record ({record}) shows {len(calls)} call: {', '.join(calls)}.")
    click.echo(f"The model's server received {asked} requests.")
    click.echo(f"The history is {'sound' if not found else 'NOT SOUND: ' + '; '.join(found)}.")
    click.echo(f"Look again: mulligan trace {run}; the server goes on until `mulligan down`.")
