"""
A user's folder: a workflow file with its tools beside it, and a model over real HTTP.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.stage import Entry, Stage, staged

FLOW = """\
name: research
settings: {model: scripted/any, recovery_limit: 0}
agents:
  checker:
    prompt: Check it.
    output_schema: {type: object, properties: {fine: {type: boolean}}, required: [fine]}
nodes:
  - id: collect
    kind: agent
    prompt: "Collect what is known about {input.topic}."
    tools: ["my_tools:search"]
    subagents: [checker]
    output_schema:
      type: object
      properties: {items: {type: array, items: {type: string}}}
      required: [items]
  - id: part
    kind: agent
    needs: [collect]
    when: "len(collect['items']) > 1"
    for_each: collect.items
    prompt: "Say something about {item}."
    output_schema: {type: object, properties: {text: {type: string}}, required: [text]}
  - id: join
    kind: function
    needs: [collect, part]
    call: "my_tools:join"
"""

TOOLS = """\
from pathlib import Path
from mulligan import tool

@tool(effect="write")
def search(query: str) -> list[str]:
    "Search."
    with Path("searches.txt").open("a") as file:
        file.write(query + "\\n")
    return ["green", "black"]

def join(collect, part):
    if part is None:
        raise LookupError("there is nothing to join")
    return " ".join(one["text"] for one in part)
"""


def said(invocation: str, rounds: int, **what: Any) -> dict[str, Any]:
    """A turn of the script for one request."""
    return {"match": {"invocation": invocation, "rounds": rounds}, **what}


def script(items: tuple[str, ...] = ("green", "black")) -> list[dict[str, Any]]:
    """What the flow's model says: a search, a check by another agent, the items, a text each."""
    search = {"name": "search", "arguments": {"query": "tea"}}
    check = {"name": "call_subagent", "arguments": {"subagent": "checker", "input": "green"}}
    return [
        said("collect", 0, tool_calls=[search]),
        said("collect", 1, tool_calls=[check]),
        said("collect.2.1", 0, json={"fine": True}),
        said("collect", 2, json={"items": list(items)}),
        *(said(f"part[{n}]", 0, json={"text": f"{item} tea"}) for n, item in enumerate(items)),
    ]


class Desk:
    """Where a user works: a folder, a server, a model, and the command line."""

    script = staticmethod(script)

    def __init__(
        self,
        folder: Path,
        server: ValkeyServer,
        model: ScriptedModel,
        command: Callable[..., subprocess.CompletedProcess[str]],
    ) -> None:
        self.folder = folder
        self.flow = folder / "research.yaml"
        self.flow.write_text(FLOW)
        (folder / "my_tools.py").write_text(TOOLS)
        self.server = server
        self.model = model
        self.client = Client(Settings(redis_url=server.url, data_dir=folder / "data"))
        self._command = command
        self.environment = {"MULLIGAN_REDIS_URL": server.url, "MULLIGAN_API_BASE": model.url}

    def mulligan(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command of ours in the folder."""
        return self._command(*arguments, folder=self.folder, **{**self.environment, **variables})

    def edit(self, old: str, new: str) -> None:
        """Change the workflow file."""
        text = self.flow.read_text()
        assert old in text
        self.flow.write_text(text.replace(old, new))

    def searches(self) -> list[str]:
        """What the tool wrote down."""
        written = self.folder / "searches.txt"
        return written.read_text().splitlines() if written.exists() else []

    def untouched(self) -> bool:
        """Whether no run, task or event has been written to the server."""
        with self.server.client() as client:
            kinds = ("r:", "tasks", "due", "runs", "feed")
            return not [key for kind in kinds for key in client.keys(f"*}}:{kind}*")]


@pytest.fixture(autouse=True)
def _own_modules() -> Iterator[None]:
    """Each desk has a module `my_tools` of its own; one that a test has loaded ends with it."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("my_tools", None)


@pytest.fixture
def desk(
    tmp_path: Path,
    server: ValkeyServer,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> Iterator[Desk]:
    """A user's folder with the workflow `research`, whose model plays `script()`."""
    with server.client() as client:
        client.flushall()
    with ScriptedModel({"turns": script()}) as model:
        desk = Desk(tmp_path, server, model, command)
        yield desk
        desk.client.close()


@pytest.fixture(scope="module")
def stage(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A worker's threads in this process, on an empty database, and a tool to call."""
    with server.client() as client:
        client.flushall()
    with staged(server.url, tmp_path_factory.mktemp("stage"), threads=12) as stage:
        yield stage


@pytest.fixture(params=["run", "invoke", "ainvoke"])
def entry(request: pytest.FixtureRequest, stage: Stage) -> Entry:
    """A public entry point: works a call or run of one agent and says how it ended."""
    return stage.entries[request.param]
