"""
Real tasks for a real model that is bad at them: `make local-model`.

    python bench/local_model.py                 # the hundred tasks, or `--tasks 10` of them
    python bench/local_model.py serve --port N  # the model alone, for runs of your own

Each task is a run of one agent, worked by a worker process on a private Valkey. A relay between the
worker and the model keeps what the model said. The report tells how each run ended. It exits with 1
if one hung, ended in a value that the model did not say in a complete response or that does not fit
its schema, sent other requests than its log tells of, or broke a rule of the log.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from local_model_relay import Exchange, Relay
from local_model_tasks import Task, tasks
from local_model_verdict import misfits, says

from mulligan.client import Client
from mulligan.errors import WaitTimedOut
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.schemas.builder import Workflow
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / ".venv-local-model"
MODEL = "hosted_vllm/smollm2"
OUTPUT_TOKENS = 96
AT_ONCE = 2
"""Runs under way: the model answers one request at a time, and the next waits for it."""
HANG_S = 600.0
"""Three attempts of 96 tokens, behind those of another run, at a twentieth of the usual speed."""


@dataclass(frozen=True)
class Ending:
    """How a task's run ended; `wrong` is what must not be."""

    task: Task
    end: str
    attempts: int
    requests: int
    took_s: float
    finished: tuple[str, ...]
    steps: tuple[str, ...]
    wrong: tuple[str, ...]
    said: tuple[str, ...]
    value: Any


@contextmanager
def model(python: Path, port: int = 0) -> Iterator[str]:
    """The model's server in an environment of its own; gives its address."""
    threads = max(1, (os.cpu_count() or 1) - 1)
    command = [str(python), str(HERE / "local_model_server.py"), str(port), str(threads)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                sys.exit("no task was given: the model did not start")
            yield address
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.terminate()


def play(client: Client, relay: Relay, task: Task, mode: str) -> Ending:
    """One task from its request to its verdict."""
    flow = Workflow(task.kind, model=MODEL, api_base=relay.url)
    flow.agent(
        task.id,
        prompt="{input}",
        output=task.schema,
        mode=mode,
        max_output_tokens=OUTPUT_TOKENS,
        temperature=0.0,
    )
    began_s = time.monotonic()
    run = client.enqueue(flow, task.prompt, run_id=task.id)
    try:
        state = client.wait(run, timeout_s=HANG_S)
        hung = []
    except WaitTimedOut:
        state = client.status(run)
        hung = [f"still {state.status} after {HANG_S:g} s"]
    took_s = time.monotonic() - began_s
    events = list(client.events(run))
    said = relay.of(task.id)
    return Ending(
        task=task,
        end=_end(state),
        attempts=sum(one.attempt for one in state.invocations.values()),
        requests=len(said),
        took_s=took_s,
        finished=tuple(one.finish_reason or f"status {one.status}" for one in said),
        steps=_steps(events),
        wrong=tuple(hung + wrong(client, state, events, task, said)),
        said=tuple(one.text for one in said),
        value=client.value(run, state.output) if state.output is not None else None,
    )


def _end(state: RunState) -> str:
    if state.failure is not None:
        return f"failed: {state.failure.kind}"
    return f"paused: {state.reason}" if state.status == "paused" else state.status


def _steps(events: list[Envelope]) -> tuple[str, ...]:
    """What was done to the accepted text to read it."""
    return tuple(
        step
        for event in events
        if isinstance(event.data, facts.OutputAccepted)
        for step in event.data.steps + event.data.coercions
    )


def wrong(
    client: Client, state: RunState, events: list[Envelope], task: Task, said: list[Exchange]
) -> list[str]:
    """What must not be, in the run, its log, or between them and the wire."""
    found = problems(events)
    announced = sum(isinstance(event.data, facts.ModelRequested) for event in events)
    if announced != len(said):
        found.append(f"{announced} requests announced, {len(said)} sent")
    if state.output is not None:
        found += wrong_value(client.value(state.run, state.output), task, said)
    return found


def wrong_value(value: Any, task: Task, said: list[Exchange]) -> list[str]:
    """Why a value is not what the model said in its last response."""
    found = misfits(value, task.schema)
    last = said[-1] if said else Exchange(task.id)
    if not last.whole or last.finish_reason != "stop":
        found.append(f"accepted from a response that ended with {last.finish_reason}")
    if not says(last.text, value):
        found.append(f"the value {value!r} is not what the model said: {last.text!r}")
    return found


def show(ending: Ending) -> None:
    """A task's line, as soon as it has ended."""
    print(
        f"{ending.task.id:<12} {ending.end:<24} attempts={ending.attempts} "
        f"requests={ending.requests} {ending.took_s:6.1f} s  {','.join(ending.finished):<20} "
        f"{' '.join(ending.steps)}",
        flush=True,
    )
    for one in ending.wrong:
        print(f"    WRONG {one}", flush=True)


def report(endings: list[Ending], took_s: float) -> bool:
    """The sums; whether nothing was wrong."""
    print(f"\n{len(endings)} tasks in {took_s:.0f} s")
    for end, number in Counter(one.end for one in endings).most_common():
        chosen = [one for one in endings if one.end == end]
        print(
            f"{number:>5}  {end:<24} attempts={sum(one.attempts for one in chosen)} "
            f"requests={sum(one.requests for one in chosen)}"
        )
    kinds = Counter(one.task.kind for one in endings if one.end == "completed")
    for title, counted in (
        ("completed by kind", kinds),
        ("responses that ended with", Counter(word for one in endings for word in one.finished)),
        ("steps of what was accepted", Counter(step for one in endings for step in one.steps)),
    ):
        print(f"{title}: {', '.join(f'{key} {number}' for key, number in counted.most_common())}")
    bad = [one for one in endings if one.wrong]
    print(f"wrong or hung: {len(bad)}{''.join(f' {one.task.id}' for one in bad)}")
    return not bad


def run(python: Path, number: int, mode: str, keep: Path | None) -> bool:
    """So many tasks; what was said goes to the file `keep`, a line a task."""
    with (
        model(python) as address,
        Relay(address) as relay,
        ValkeyServer() as server,
        WorkerProcess(
            server.url, threads=AT_ONCE, lease_ms=10_000, lease_margin_ms=1_000
        ) as worker,
        Client(Settings(redis_url=server.url)) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        worker.until_working()
        began_s = time.monotonic()
        endings = []
        for ending in pool.map(lambda task: play(client, relay, task, mode), tasks(number)):
            show(ending)
            endings.append(ending)
            if keep is not None:
                with keep.open("ab") as kept:
                    kept.write(msgspec.json.encode(ending) + b"\n")
        return report(endings, time.monotonic() - began_s)


def serve(python: Path, port: int) -> None:
    """The model alone, until interrupted."""
    with model(python, port) as address, suppress(KeyboardInterrupt):
        print(f"export MULLIGAN_API_BASE={address} MULLIGAN_MODEL={MODEL}", flush=True)
        while True:
            time.sleep(3_600)


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Structured tasks for a real local model.")
    parser.add_argument("what", nargs="?", choices=["run", "serve"], default="run")
    parser.add_argument("--tasks", type=int, default=100, help="how many of the hundred")
    parser.add_argument("--mode", choices=["prompt", "tool", "native"], default="prompt")
    parser.add_argument("--port", type=int, default=0, help="of `serve`; default: a free one")
    parser.add_argument("--keep", type=Path, help="append what was said to this file, as JSON")
    parser.add_argument("--python", type=Path, default=ENVIRONMENT / "bin" / "python")
    given = parser.parse_args()
    if not given.python.exists():
        sys.exit(f"{given.python} is not there; `make local-model` makes it")
    # As Ctrl-C: what was started here ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.what == "serve":
        return serve(given.python, given.port)
    sys.exit(0 if run(given.python, given.tasks, given.mode, given.keep) else 1)


if __name__ == "__main__":
    main()
