"""
REC-30, REC-31, REC-33: whatever workers, messages, clocks and the server go through, in whatever
order, the history checker finds nothing. And it does find what is planted.

`SIMULATIONS=20000 pytest tests/faults/test_simulations.py` plays as many worlds. One that fails
prints its seed; `simulate(…, seed=…)` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from mulligan.actors.session import Session
from mulligan.decisions import allowance, effects, node
from mulligan.decisions.decision import Context, Step
from mulligan.events.memory_store import MemoryEventStore
from mulligan.projections.state import Invocation, RunState
from mulligan.schemas.plan import FunctionPlan
from mulligan.testing import simulation
from mulligan.testing.simulated_flows import Played, hands, spent
from mulligan.testing.simulation import Simulated, Weather, simulate

WORLDS = int(os.environ.get("SIMULATIONS", "1000"))
CHUNKS = 8
FLOWS = {"hands": hands, "spent": spent}

JUMPY = Weather(clock_jumps=1.0)
PLANTED_WORLDS = 600
"""In as many at most a planted fault has to show; most do in the first few."""


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """What thousands of worlds log, nobody reads."""
    kept = structlog.get_config()
    structlog.configure(processors=[_drop])
    yield
    structlog.configure(**kept)


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent


def play(flow: Played, seed: int, weather: Weather | None = None) -> Simulated:
    return simulate(
        flow.plan, flow.input, seed=seed, model=flow.model, code=flow.code, weather=weather
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", FLOWS)
def test_nothing_is_wrong_whatever_happens(name: str, chunk: int) -> None:
    flow, happened = FLOWS[name](), Counter[str]()
    for seed in range(chunk, WORLDS // len(FLOWS), CHUNKS):
        outcome = play(flow, seed)
        assert not outcome.problems, outcome
        happened += outcome.happened
    print(happened)
    for mishap in ("call lost", "message lost", "message doubled", "process stopped"):
        assert happened[mishap], f"no world of this chunk had: {mishap}"


def test_a_seed_plays_the_same_world_again() -> None:
    flow = hands()
    first, again = play(flow, 3), play(flow, 3)

    assert first.happened == again.happened
    assert first.state.ended_ms == again.state.ended_ms
    assert first.state.version == again.state.version


# --- Planted faults ------------------------------------------------------------------------------


def start_a_lost_write_again(patch: pytest.MonkeyPatch) -> None:
    """As decisions would that know no effect classes."""
    real = effects.next_call

    def planted(state: RunState, invocation: Invocation, context: Context) -> Step | None:
        for call in invocation.calls.values():
            if call.status == "started" and call.effect == "write":
                return effects._start(state, invocation, call, context)
        return real(state, invocation, context)

    patch.setattr(effects, "next_call", planted)


def call_a_lost_function_again(patch: pytest.MonkeyPatch) -> None:
    def planted(state: RunState, of: Any, plan: FunctionPlan, context: Context) -> Step:
        if of.status == "running":
            return node._call(state, of, plan, context, max(of.attempt, 1))
        return real(state, of, plan, context)

    real = node._function
    patch.setattr(node, "_function", planted)


def forget_what_is_used(patch: pytest.MonkeyPatch) -> None:
    real = allowance.recover
    patch.setattr(
        allowance, "recover", lambda invocation, failed, used: real(invocation, failed, 0)
    )


def take_any_token(patch: pytest.MonkeyPatch) -> None:
    def planted(self: MemoryEventStore, append: Any, writer: Any, run: Any) -> Any:
        found = real(self, append, writer, run)
        return "OK" if found == "FENCED" and writer.task in self._tasks else found

    real = MemoryEventStore._judge_task
    patch.setattr(MemoryEventStore, "_judge_task", planted)


def forget_a_reference(patch: pytest.MonkeyPatch) -> None:
    def planted(self: MemoryEventStore, run: str, version: int, count: int) -> None:
        if version % 7:
            real(self, run, version, count)

    real = MemoryEventStore._refer
    patch.setattr(MemoryEventStore, "_refer", planted)


def forget_to_wake(patch: pytest.MonkeyPatch) -> None:
    """A run that nobody tells that a node of its has ended."""

    def planted(self: MemoryEventStore, move: Any, now_ms: int) -> Any:
        return real(self, move, now_ms) if move.to != "wake" else None

    real = MemoryEventStore._move
    patch.setattr(MemoryEventStore, "_move", planted)


def observe_at_once(patch: pytest.MonkeyPatch) -> None:
    """As long as its lease is not over by its own clock, a worker may still be at it."""
    patch.setattr(Session, "others_end_in_ms", lambda self: 0)


@pytest.mark.parametrize(
    ("plant", "flow", "name"),
    [
        (start_a_lost_write_again, "hands", "effect_doubled"),
        (call_a_lost_function_again, "spent", "effect_doubled"),
        (forget_what_is_used, "spent", "allowance_reset"),
        (take_any_token, "hands", "stale_fence"),
        (forget_a_reference, "hands", "feed_skipped"),
        (forget_to_wake, "hands", "run_stalled"),
        (observe_at_once, "spent", "effect_denied"),
    ],
)
def test_a_planted_fault_shows(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    flow: str,
    name: str,
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(simulation, "CALM_ROUNDS", 20)

    for seed in range(PLANTED_WORLDS):
        outcome = play(FLOWS[flow](), seed, JUMPY)
        if name in {problem.invariant for problem in outcome.problems}:
            print(f"shown by the world {outcome}")
            return
    pytest.fail(f"no world of {PLANTED_WORLDS} showed it")
