"""
Histories that were recorded from real runs: today's code still reads them and folds them to what
the runs came to. They are never edited; a new shape of an event gets a lift (`events/upcast.py`).
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.decisions.decision import Context
from mulligan.decisions.task import decide
from mulligan.events.archive_format import unpack
from mulligan.events.codec import decode, encode
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.payload import Payload
from mulligan.events.tasks import run_task
from mulligan.projections import recovery, repair_log, run, trace, usage, workspace
from mulligan.projections.history import problems
from mulligan.projections.rows import SUMMARIES
from mulligan.projections.state import RunState
from mulligan.testing.given import prepare

FOLDER = Path(__file__).parent
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
RUN = "recorded"

each = pytest.mark.parametrize("name", sorted(EXPECTED))


def history(name: str) -> list[Envelope]:
    lines = map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines())
    return [decode(RUN, one["version"], int(one["t"]), one["d"].encode()) for one in lines]


def inline(payload: Payload) -> Any:
    return payload.value


def outcome(state: RunState) -> dict[str, Any]:
    """What must stay the same for ever."""
    return {
        "version": state.version,
        "status": state.status,
        "reason": state.reason,
        "output": state.output.value if state.output is not None else None,
        "nodes": {node.id: node.status for node in state.nodes.values()},
        "calls": {
            call.id: [call.status, call.executions]
            for invocation in state.invocations.values()
            for call in invocation.calls.values()
        },
    }


def test_every_recorded_history_has_its_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(EXPECTED)


@each
def test_it_folds_to_what_the_run_came_to(name: str) -> None:
    assert outcome(run.fold(RUN, history(name))) == EXPECTED[name]


@each
def test_it_is_sound(name: str) -> None:
    assert problems(history(name)) == []


@each
def test_every_projection_takes_it_and_again_the_same(name: str) -> None:
    for fold in (run.fold, trace.fold, recovery.fold, usage.fold):
        first, again = (msgspec.json.encode(fold(RUN, history(name))) for _ in range(2))
        assert first == again
    for artifacts in (repair_log.fold, workspace.files):
        made, again_made = (artifacts(RUN, history(name), inline) for _ in range(2))
        assert made == again_made
    row = SUMMARIES.fold(RUN, history(name))
    assert (row.status, row.version) == (EXPECTED[name]["status"], EXPECTED[name]["version"])


@each
def test_what_is_written_back_reads_the_same(name: str) -> None:
    for event in history(name):
        raw = encode(
            NewEvent(event.data, event.node, event.attempt),
            id=event.id,
            causation=event.causation,
            correlation=event.correlation,
        )
        assert decode(RUN, event.version, event.time_ms, raw) == event


@each
def test_whoever_wakes_it_has_nothing_to_do(name: str) -> None:
    """What has ended or waits for a person is left as it is."""
    context = Context(10**13, lambda payload: payload.value, prepare, 0.5, {}.get)
    decision = decide(run.fold(RUN, history(name)), run_task(RUN), context)

    assert decision.events == ()
    assert decision.effect is None
    assert decision.release is not None


def test_an_archived_run_is_read_from_the_file_that_was_written() -> None:
    """Format 1, whatever comes after it."""
    kept = unpack(RUN, (FOLDER / "forked.archived.jsonl.gz").read_bytes())

    events = enumerate(kept.events, start=1)
    read = [decode(RUN, version, event.time_ms, event.raw) for version, event in events]
    assert read == history("forked")
    assert list(kept.payloads.values()) == [b'"a large value"']
    assert kept.rows.keys() == {"run", "usage"}


def test_the_artifacts_of_a_repaired_draft_are_the_ones_that_were_written() -> None:
    """RPR-3, RPR-15: bytes, so that they stay the same for ever."""
    written = workspace.files(RUN, history("accepted"), inline)

    digests = {name: sha256(data).hexdigest()[:16] for name, data in sorted(written.items())}
    assert digests == json.loads((FOLDER / "accepted.workspace.json").read_text())


@each
def test_a_fold_goes_on_from_a_snapshot_of_any_version(name: str) -> None:
    events = history(name)
    folded = RunState(run=RUN)
    for event in events:
        folded = msgspec.json.decode(msgspec.json.encode(folded), type=RunState)
        run.evolve(folded, event)

    assert msgspec.json.encode(folded) == msgspec.json.encode(run.fold(RUN, events))
