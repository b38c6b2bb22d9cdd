"""
REC-31, REC-33: a worker that is killed, paused, broken or cut off at any named point leaves a run
that comes to the same outcome, or waits for a reason that a person can read; docs/faults.md tells
of each. (What a projector comes to is in `test_projector_faults.py`.)

`make test` plays a few of these cells, `make faults` all of them, and writes the page.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, assert_never

import pytest

from mulligan.actors.reconciler import RESEND_MS
from mulligan.events import facts
from mulligan.events.crash_points import POINTS
from mulligan.projections.calls import is_lost_function
from mulligan.projections.state import RunState
from mulligan.testing.checker import Effect, check
from mulligan.testing.fault_cells import (
    CELLS,
    EVERYDAY,
    SPOTS,
    Cell,
    Outcome,
    Result,
    Spot,
    expected,
)
from mulligan.testing.fault_matrix import DEFAULT_LEASE, DEFAULT_LEASE_MS, FINDERS, LEASE_MS, told
from mulligan.testing.misread_invoice import INPUT, RECORD, ROUNDS, script

pytestmark = pytest.mark.server

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

SLOW_MS = 700
"""A model that takes as long lets a round of renewals come."""

TOOLS = {"gather.1.1": "look", "gather.2.1": "put", "gather.3.1": "mail", "gather.4.1": "send"}
"""The calls of `every`, and the line that each leaves in the record; functions leave their id."""

ADVICE = {"advice": "this one"}
WRITES = ("mail", "send", "publish")

PLAYED = [
    pytest.param(cell, id=cell.id, marks=() if cell.id in EVERYDAY else pytest.mark.exhaustive)
    for cell in CELLS
    if cell.spot.actor != "projector"
]


@pytest.mark.parametrize("cell", PLAYED)
def test_rec33_a_fault_ends_as_the_page_says(scene: Any, note: Any, cell: Cell) -> None:
    run = ask(scene, cell.spot)
    first = held(scene, cell.spot)
    resumed_ms = None
    match cell.fault:
        case "killed":
            resumed_ms = scene.kill(first, run)
            outcome = in_words(settled(scene, run))
            assert resumed_ms <= bound_ms(cell.spot, LEASE_MS)
        case "paused":
            outcome = paused_and_woken(scene, run, first)
        case "raised":
            scene.listener.answer("raise")
            outcome = in_words(settled(scene, run))
            assert first.alive, "a failure is no reason to end the process"
        case "reply lost":
            scene.lose_reply(cell.spot)
            outcome = in_words(settled(scene, run))
        case _:
            assert_never(cell.fault)

    assert outcome == expected(cell), scene.told()
    ended_by_a_person(scene, run)
    assert_sound(scene.probe, run, cell.spot)
    note(Result(cell=cell.id, outcome=outcome, resumed_ms=resumed_ms))


@pytest.mark.exhaustive
def test_rec33_a_killed_workers_step_goes_on_within_the_default_lease_and_a_second(
    scene: Any, note: Any
) -> None:
    spot = Spot("node", "tool.before", of="read")
    run = ask(scene, spot)
    first = held(scene, spot, lease_ms=DEFAULT_LEASE_MS)

    resumed_ms = scene.kill(first, run)

    assert resumed_ms <= bound_ms(spot, DEFAULT_LEASE_MS)
    outcome = in_words(settled(scene, run))
    assert_sound(scene.probe, run, spot)
    note(Result(cell=DEFAULT_LEASE, outcome=outcome, resumed_ms=resumed_ms))


def test_every_point_is_in_the_matrix_and_every_cell_on_the_page() -> None:
    of_the_browser = {"act.before", "act.after"}  # tests/browser plays those
    assert {spot.point for spot in SPOTS} == set(POINTS) - of_the_browser
    assert {cell.id for cell in CELLS} >= EVERYDAY
    assert told(PAGE.read_text(encoding="utf-8")) == {cell.id: expected(cell) for cell in CELLS}


# --- A cell --------------------------------------------------------------------------------------


def ask(scene: Any, spot: Spot) -> str:
    """A run that comes to the spot; on its way there nothing else is amiss."""
    probe = scene.probe
    if spot.flow == "records":
        probe.model.play(script())
        return str(probe.client.enqueue("records", INPUT, model="scripted/probe"))
    probe.model.play({"turns": turns(probe, slow=spot.actor == "leases")})
    run = probe.enqueue(flow=spot.flow)
    if spot.actor == "reconciler":  # a sweep finds only what nobody was told of
        probe.lose_messages()
    return str(run)


def held(scene: Any, spot: Spot, lease_ms: int = LEASE_MS) -> Any:
    """A worker that has come to the spot."""
    worker = scene.fork(lease_ms=lease_ms, **scene.armed(spot))
    assert scene.listener.wait() == spot.point
    return worker


def bound_ms(spot: Spot, lease_ms: int) -> int:
    """
    How long another worker may take to go on: the lease and a second; where nobody had a lease and
    a wake-up is gone, until it is sent again and a second.
    """
    return (RESEND_MS if spot.actor in FINDERS else lease_ms) + 1_000


def paused_and_woken(scene: Any, run: str, first: Any) -> Outcome:
    """Another worker does all that it can, and then the first one goes on where it was."""
    os.kill(first.pid, signal.SIGSTOP)
    scene.fork()
    waited = settled(scene, run).status == "paused"
    first.wake()
    scene.listener.answer("go")
    scene.end(first)
    state = settled(scene, run)
    return "waits, then goes on" if waited and state.ended else in_words(state)


def settled(scene: Any, run: str, beyond: int = 0) -> RunState:
    """The run's state once it has ended, or waits for a person."""
    return scene.probe.until(run, lambda state: state.version > beyond and is_settled(state))


def is_settled(state: RunState) -> bool:
    # A late receipt may have just told what a person would have been asked for.
    waits = state.reason != "reconciliation_required" or bool(unknown(state))
    return state.ended or (state.status == "paused" and waits)


def unknown(state: RunState) -> list[str]:
    """The calls and function nodes of which a person has to say what became of them."""
    calls = [call for one in state.invocations.values() for call in one.calls.values()]
    functions = [node for node in state.nodes if is_lost_function(state, node)]
    return [*(call.id for call in calls if call.status == "unknown"), *functions]


def in_words(state: RunState) -> Outcome:
    if state.ended:
        return "goes on"
    return "asks a person" if state.reason == "reconciliation_required" else "parked"


def ended_by_a_person(scene: Any, run: str) -> None:
    """What waits for a person is decided as what really happened says."""
    client, done = scene.probe.client, scene.probe.done()
    while not (state := settled(scene, run)).ended:
        for call in unknown(state):
            tool = TOOLS.get(call, call)
            if done[tool]:
                client.reconcile(run, call, "succeeded", result=f"{tool}ed")
            else:
                client.reconcile(run, call, "retry")
        if state.reason == "parked":
            client.resume(run)
        settled(scene, run, beyond=state.version)


# --- What must be true however a run has come to its end ------------------------------------------


def assert_sound(probe: Any, run: str, spot: Spot) -> None:
    """It is complete, its log is sound and says what really happened."""
    state, history = probe.client.status(run), probe.events(run)
    assert state.status == "completed"
    lines = (line.split() for line in probe.record.read_text().splitlines())
    writes = [Effect(key) for tool, key in lines if tool in WRITES]
    assert check(probe.client.store, effects=writes) == []
    assert len(probe.model.requests) <= probe.types(run).count("ModelRequested")
    value = probe.client.value(run, state.output)
    match spot.flow:
        case "every":
            assert value == {"name": "probe", "found": 1}
            assert_calls_were_made_as_logged(probe, run)
        case "glance":
            assert value == "seen"
        case "publish":
            assert value == "published"
            assert probe.done()["publish"] == 1
        case "publish_beside":
            assert value == {"publish": "published", "one": ADVICE}
            assert probe.done()["publish"] == 1
        case "agents":
            assert value == {"one": ADVICE, "other": ADVICE}
        case "functions":
            assert value == {"one": "seen", "other": "seen"}
        case "records":
            assert value["draft"]["documents"][0]["records"] == [RECORD]
            called = [e.data.invocation for e in history if e.type == "SubagentCalled"]
            assert called == list(ROUNDS), "a round was spent twice"
        case _:
            assert_never(spot.flow)


def assert_calls_were_made_as_logged(probe: Any, run: str) -> None:
    """Each tool ran at least once, and no more often than the log says."""
    done, history = probe.done(), probe.events(run)
    starts = [e.data.call_id for e in history if isinstance(e.data, facts.ToolStarted)]
    calls = probe.client.status(run).invocations["gather"].calls
    for call_id, tool in TOOLS.items():
        # A write that certainly did not happen is told to its model, which goes on without it.
        least = 0 if tool in WRITES and calls[call_id].status == "failed" else 1
        assert least <= done[tool] <= starts.count(call_id), f"{tool}: {done}, {starts}"
    keys = {line for line in probe.record.read_text().splitlines() if line.startswith("put ")}
    assert len(keys) == 1, "an idempotent tool was called again under another key"


def turns(probe: Any, *, slow: bool) -> list[dict[str, Any]]:
    """What the models of the probes say, told apart by tool rounds, so that any may ask again."""

    def calling(tool: str, **arguments: str) -> list[dict[str, Any]]:
        return [{"name": tool, "arguments": arguments}]

    wrong = [{"name": "submit_output", "arguments": '{"output": {"found": "one"}}'}]
    mended = {"repaired_arguments": {"output": {"found": 1}}}
    return [
        probe.turn(0, tool_calls=calling("look"), delay_ms=SLOW_MS if slow else 0),
        probe.turn(1, tool_calls=calling("put")),
        probe.turn(2, tool_calls=calling("mail")),
        probe.turn(3, tool_calls=calling("send")),
        probe.turn(4, tool_calls=calling("call_subagent", subagent="helper", input="which?")),
        *(probe.turn(0, agent, json=ADVICE) for agent in ("gather.5.1", "one", "other")),
        probe.turn(5, tool_calls=wrong),
        {"match": {"overseer": True}, "json": mended, "times": "always"},
    ]
