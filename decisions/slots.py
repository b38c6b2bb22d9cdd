"""
Waiting for a slot: a request whose provider takes no more now does not leave (REC-34).

It is no failure and reserves nothing. Neither the intent nor the request happens; the task is left
to a timer, or until it is called, and whoever takes it up decides anew: time limits go on counting,
a cancellation wins.
"""

from __future__ import annotations

from typing import assert_never

from mulligan.decisions.decision import AskModel, NoSlot, Release, Step
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import SlotAwaited
from mulligan.events.tasks import parse_task
from mulligan.projections.state import Invocation, Place, RunState


def wait_in_lane(state: RunState, task: str, effect: AskModel, no_slot: NoSlot) -> Step:
    """What takes the place of a request and its intent. The log is told once, not at every look."""
    wait_ms = no_slot.wait_ms
    if effect.within_ms is not None:
        wait_ms = min(wait_ms, effect.within_ms)
    release = Release("timer", wait_ms)
    place, asking = place_of(state, task), asking_of(state, task)
    if asking is None or (place is not None and place.lane == no_slot.lane):
        return Step(release=release)
    request = effect.prepared.request
    waits = SlotAwaited(invocation=asking.id, lane=no_slot.lane, tenant=no_slot.tenant)
    return Step((NewEvent(waits, node=request.node, attempt=request.attempt),), release=release)


def place_of(state: RunState, task: str) -> Place | None:
    """Where a task's invocation waits; an invocation that has ended since waits no more."""
    asking = asking_of(state, task)
    return asking.place if asking is not None and asking.status == "active" else None


def asking_of(state: RunState, task: str) -> Invocation | None:
    """The invocation that a task asks models for; None: it asks for none."""
    _, kind, subject = parse_task(task)
    match kind:
        case "run":
            return state.invocations.get(state.carried or "")
        case "node" | "subagent":
            return state.invocations.get(subject)
        case "overseer":
            return state.invocations.get(subject.rpartition(".")[0])
        case "repair" | "schedule":
            return None
        case _:
            assert_never(kind)
