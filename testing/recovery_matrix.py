"""
What becomes of every kind of failure, at every place where it can strike: played over real HTTP, on
a real server, through every entry point that it can come through.

`python -m mulligan.testing.recovery_matrix docs/recovery.md` plays all of it and writes the tables
of that page between its two marks. A test holds the page to what it plays.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from mulligan.projections.history import problems
from mulligan.projections.state import Invocation
from mulligan.schemas.builder import Workflow
from mulligan.testing.accounting import unaccounted
from mulligan.testing.recovery_cells import (
    CALLER,
    FAILS_AT,
    KINDS,
    PLACES,
    Cell,
    Place,
    cells,
)
from mulligan.testing.scripted_model import ReceivedRequest, ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.stage import PROMPT, RETRY, SCHEMA, Ended, Stage, staged
from mulligan.testing.waiting import until

SIDE_BY_SIDE = 12
"""Cells played at once; they wait for the model most of the time."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a failure ended. `requests` is the server's count; `used`, `limit` and `phase` are of the
    agent that met it, `agent` is what became of that one and for which cause, `run` of the run.
    """

    requests: int
    used: int
    limit: int
    phase: str
    agent: str
    run: str


class Entangled(Exception):
    """Entry points disagree, or a cell's log is not that of its requests; says which and how."""


def play(stage: Stage, kinds: list[str]) -> dict[str, dict[Place, Row]]:
    """
    The rows of these kinds, by place.

    Raises:
        Entangled: see there.
    """
    every = cells(kinds)
    with (
        ScriptedModel([turn for cell in every for turn in cell.turns()]) as model,
        ThreadPoolExecutor(SIDE_BY_SIDE) as threads,
    ):
        played = list(threads.map(lambda cell: _row(stage, model, cell), every))
    rows: dict[str, dict[Place, Row]] = {}
    for cell, row in zip(every, played, strict=True):
        same = rows.setdefault(cell.kind, {}).setdefault(cell.place, row)
        if same != row:
            raise Entangled(f"{cell}: {row}, and by another entry point {same}")
    return rows


def _row(stage: Stage, model: ScriptedModel, cell: Cell) -> Row:
    ended = _ended(stage, model, cell)
    received = _received(model, cell)
    wrong = [*problems(ended.events), *unaccounted(received, [ended.events])]
    if wrong:
        raise Entangled(f"{cell}: {wrong}")
    subject = ended.state.invocations[cell.subject]
    return Row(
        requests=len(received),
        used=subject.recovery.used,
        limit=subject.recovery.limit,
        phase=subject.recovery.phase,
        agent=_became(subject, ended),
        run=ended.status,
    )


def _became(subject: Invocation, ended: Ended) -> str:
    """What became of an agent, and the kind of the cause that it ended or is paused for."""
    state = ended.state
    cause = subject.recovery.cause or state.failure
    if subject.status == "failed" and subject.parent is not None:
        cause = state.invocations[subject.parent].calls[subject.id].error
    if cause is None or subject.status in ("completed", "cancelled"):
        return subject.status
    return f"{subject.status}: `{cause.kind}`"


def _ended(stage: Stage, model: ScriptedModel, cell: Cell) -> Ended:
    options = {"model": f"scripted/{cell.model}", "tools": [1], **cell.limits}
    if cell.entry != "run":
        return stage.entries[cell.entry](model, **options)
    flow = _calling(model, cell) if cell.place == "subagent" else stage.flow(model, **options)
    run = stage.client.enqueue(flow)
    if cell.kind == "cancellation":
        until(lambda: len(_received(model, cell)) == FAILS_AT[cell.place])
        stage.client.cancel(run)
    return stage.ended(run)


def _calling(model: ScriptedModel, cell: Cell) -> Workflow:
    """A flow whose agent calls the one that meets the failure."""
    flow = Workflow("flow", model=f"scripted/{cell.model}", api_base=model.url, retry=RETRY)
    flow.subagent("helper", prompt=PROMPT, output=SCHEMA, tools=["stage_tools:look"], **cell.limits)
    flow.agent(CALLER, prompt=PROMPT, output=SCHEMA, subagents=["helper"])
    return flow


def _received(model: ScriptedModel, cell: Cell) -> list[ReceivedRequest]:
    return [one for one in model.requests if one.body["model"] == cell.model]


# --- The page ------------------------------------------------------------------------------------

BEGIN, END = "<!-- what the tests' runs give begins -->", "<!-- and ends -->"
HEADER = ("failure", "requests", "used", "phase", "agent", "run")


def tables(rows: dict[str, dict[Place, Row]]) -> str:
    """The page's tables: one for each place, with a line for each kind."""
    parts = []
    for place, words in PLACES.items():
        lines = [line(kind, at[place]) for kind, at in rows.items()]
        head = [_columns(HEADER), _columns(("---",) * len(HEADER))]
        parts.append("\n".join([f"### {place.capitalize()}", "", words, "", *head, *lines]))
    return "\n\n".join(parts)


def line(kind: str, row: Row) -> str:
    """A line of a table."""
    used = f"{row.used} of {row.limit}"
    return _columns((kind, str(row.requests), used, row.phase, row.agent, row.run))


def _columns(texts: tuple[str, ...]) -> str:
    return f"| {' | '.join(texts)} |"


def written(page: str, rows: dict[str, dict[Place, Row]]) -> str:
    """The page with its tables in place of those between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(rows)}\n\n{END}{after}"


def main() -> None:
    """Play everything on a server of our own, and write the page named on the command line."""
    page = Path(sys.argv[1])
    with (
        ValkeyServer() as server,
        tempfile.TemporaryDirectory() as folder,
        staged(server.url, Path(folder), threads=SIDE_BY_SIDE) as stage,
    ):
        rows = play(stage, list(KINDS))
    page.write_text(written(page.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
