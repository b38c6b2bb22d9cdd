"""
A stage for agents: a worker's threads in this process, a tool to call, and the three public ways to
have an agent work. What it does is asked of a model over HTTP.

    with staged(server.url, folder) as stage, ScriptedModel(turns) as model:
        for entry in stage.entries.values():
            ended = entry(model, recovery_limit=0)
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.errors import InvocationFailed
from mulligan.events.envelope import Envelope
from mulligan.events.facts import AllowanceReserved
from mulligan.projections.run import fold
from mulligan.projections.state import Recovery, RunState
from mulligan.schemas.builder import Workflow
from mulligan.settings import load_settings
from mulligan.single_call import Invoked, ainvoke, invoke
from mulligan.testing.scripted_model import ScriptedModel

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
"""Of the agent's output, unless another is given."""
RETRY: dict[str, float | str] = {"backoff": "20ms", "backoff_max": "40ms"}
PROMPT = "Count."
WAIT_S = 60.0
OF_FLOW = ("limits", "deadline")
"""Options that are a workflow's, not an agent's."""

TOOLS = '''
from pathlib import Path
from mulligan import tool

CALLS = Path(__file__).with_name("calls")

@tool(effect="read")
def look(q: str) -> str:
    """Look something up."""
    with CALLS.open("a") as calls:
        calls.write(q + "\\n")
    return "found " + q
'''


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """
    How an entry point came to its end. `code` is the kind of the original cause, "" without one;
    `recovery` is that of the first invocation.
    """

    status: str
    reason: str | None
    output: Any
    code: str
    events: list[Envelope]

    @property
    def state(self) -> RunState:
        """The run's state, folded from its events."""
        return fold(self.events[0].run, self.events)

    @property
    def recovery(self) -> Recovery:
        """The allowance of the first invocation."""
        return next(iter(self.state.invocations.values())).recovery

    def of(self, kind: type) -> list[Any]:
        """The facts of a kind."""
        return [event.data for event in self.events if isinstance(event.data, kind)]

    @property
    def reasons(self) -> list[str]:
        """Why attempts were reserved, in order."""
        return [fact.reason for fact in self.of(AllowanceReserved)]


Entry = Callable[..., Ended]
"""Takes a model and an agent's options (`tools=[1]` offers the tool), and works it to its end."""


class Stage:
    """What `staged` yields: a client, and a folder with the tool `look` in it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.settings = load_settings(redis_url=url)
        self.client = Client(self.settings)
        self._calls = folder / "calls"
        (folder / "stage_tools.py").write_text(TOOLS)
        self.tools = importlib.import_module("stage_tools")

    @property
    def entries(self) -> dict[str, Entry]:
        """The public entry points by name: `run`, `invoke` and `ainvoke`."""
        return {"run": self.by_run, "invoke": self.by_invoke, "ainvoke": self.by_ainvoke}

    @property
    def looked(self) -> list[str]:
        """What the tool was asked, in order."""
        return self._calls.read_text().split() if self._calls.exists() else []

    def forget(self) -> None:
        """Forget what the tool was asked."""
        self._calls.unlink(missing_ok=True)

    def flow(self, model: ScriptedModel, /, **options: Any) -> Workflow:
        """A workflow of the one agent."""
        of_flow = {name: options.pop(name) for name in OF_FLOW if name in options}
        name = options.pop("model", "scripted/m")
        flow = Workflow("flow", model=name, api_base=model.url, retry=RETRY, **of_flow)
        tools = ["stage_tools:look"] if options.pop("tools", ()) else []
        flow.agent("agent", prompt=PROMPT, tools=tools, **{"output": SCHEMA, **options})
        return flow

    def enqueue(self, model: ScriptedModel, /, **options: Any) -> str:
        """Ask for a run of the agent."""
        return self.client.enqueue(self.flow(model, **options))

    def ended(self, run: str) -> Ended:
        """How a run ended or is paused, waited for."""
        state = self.client.wait(run, timeout_s=WAIT_S)
        output = self.client.value(run, state.output) if state.output is not None else None
        return Ended(
            status=state.status,
            reason=state.reason,
            output=output,
            code=_code(state),
            events=list(self.client.events(run)),
        )

    def by_run(self, model: ScriptedModel, /, **options: Any) -> Ended:
        """As a run, worked by this process's threads."""
        return self.ended(self.enqueue(model, **options))

    def by_invoke(self, model: ScriptedModel, /, **options: Any) -> Ended:
        """By `mulligan.invoke`."""
        return _told(lambda: invoke(PROMPT, **self.call_options(model, options)))

    def by_ainvoke(self, model: ScriptedModel, /, **options: Any) -> Ended:
        """By `mulligan.ainvoke`, in an event loop of its own."""

        async def call() -> Invoked:
            return await ainvoke(PROMPT, **self.call_options(model, options))

        return _told(lambda: asyncio.run(call()))

    def call_options(self, model: ScriptedModel, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a single call of the agent."""
        given = {"output": SCHEMA, "model": "scripted/m", **options}
        if given.pop("tools", ()):
            given["tools"] = [self.tools.look]
        base = {"api_base": model.url, "retry": RETRY}
        return {**base, "settings": self.settings, **given}


@contextmanager
def staged(url: str, folder: Path, *, threads: int = 4) -> Iterator[Stage]:
    """A stage on the server at `url`, its threads at work within this context."""
    sys.path.insert(0, str(folder))
    try:
        stage = Stage(url, folder)
        runtime = assemble(stage.settings)
        with working(runtime, threads=threads, drain_s=1, grace_s=1):
            yield stage
        runtime.close()
        stage.client.close()
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("stage_tools", None)


def _code(state: RunState) -> str:
    if state.failure is not None:
        return state.failure.kind
    causes = [one.recovery.cause for one in state.invocations.values()]
    return next((cause.kind for cause in causes if cause is not None), "")


def _told(call: Callable[[], Invoked]) -> Ended:
    failed: InvocationFailed | None = None
    try:
        done = call()
    except InvocationFailed as error:
        failed, done = error, error.invocation
    # Phase first, then the error (REC-8).
    assert done.recovery.phase != "retrying"
    return Ended(
        status=failed.status if failed else "completed",
        reason=failed.reason if failed else None,
        output=done.output,
        code=failed.code if failed else "",
        events=list(done.events),
    )
