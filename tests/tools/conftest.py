"""A worker's threads in this process and a model over HTTP, for runs whose agents use tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fpdf import FPDF

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.events.facts import ToolFailed, ToolSucceeded
from mulligan.projections.state import RunState
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer

WAIT_S = 60.0


class Bench:
    """Where runs are asked for: a client, and a worker's threads that work them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.settings = Settings(redis_url=url, data_dir=folder)
        self.client = Client(self.settings)

    def work(self, flow: Any, calls: list[dict[str, Any]], run_id: str | None = None) -> Worked:
        """Work a run whose model makes `calls`, one a round, and then is done."""
        turns = [
            {"match": {"rounds": n}, "times": "always", "tool_calls": [call]}
            for n, call in enumerate(calls)
        ]
        done = {"match": {"rounds": len(calls)}, "times": "always", "json": {"done": True}}
        with ScriptedModel({"turns": [*turns, done]}) as model:
            definition = flow.definition().with_settings(api_base=model.url, model="scripted/any")
            run = self.client.enqueue(definition, {}, run_id=run_id)
            state = self.client.wait(run, timeout_s=WAIT_S)
            return Worked(self.client, run, state, [one.body for one in model.requests])


class Worked:
    """How a run went."""

    def __init__(
        self, client: Client, run: str, state: RunState, requests: list[dict[str, Any]]
    ) -> None:
        self.run = run
        self.state = state
        self.requests = requests
        self.events = list(client.events(run))
        facts = [event.data for event in self.events]
        self.results = [
            client.value(run, one.result) for one in facts if isinstance(one, ToolSucceeded)
        ]
        self.failures = [one.code for one in facts if isinstance(one, ToolFailed)]

    @property
    def told(self) -> list[str]:
        """What the model read of its calls, in order."""
        messages = self.requests[-1]["messages"]
        return [str(one["content"]) for one in messages if one["role"] == "tool"]

    @property
    def offered(self) -> dict[str, Any]:
        """The functions that the model was offered, by name."""
        tools = self.requests[0]["tools"]
        return {one["function"]["name"]: one["function"] for one in tools}


@pytest.fixture(scope="module")
def bench(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench on an empty database."""
    with server.client() as client:
        client.flushall()
    bench = Bench(server.url, tmp_path_factory.mktemp("bench"))
    runtime = assemble(bench.settings)
    with working(runtime, threads=4, drain_s=1, grace_s=1):
        yield bench
    runtime.close()
    bench.client.close()


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PDF files: `long.pdf` of 300 pages, `scan.pdf` without text, `mixed.pdf`."""
    folder = tmp_path_factory.mktemp("papers")
    _pdf(folder / "long.pdf", [f"This is page {n}." for n in range(1, 301)])
    _pdf(folder / "scan.pdf", [None, None])
    _pdf(folder / "mixed.pdf", ["Words.", None])
    _pdf(folder / "locked.pdf", ["Secret."], lambda pdf: pdf.set_encryption("owner", "user"))
    return folder


def _pdf(path: Path, pages: list[str | None], more: Callable[[FPDF], None] | None = None) -> None:
    """A PDF with these texts; None: a picture alone."""
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for text in pages:
        pdf.add_page()
        if text is None:
            pdf.rect(20, 20, 60, 60, style="F")
        else:
            pdf.cell(text=text)
    if more is not None:
        more(pdf)
    pdf.output(str(path))
