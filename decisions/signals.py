"""
Nodes that wait for a signal, and what is sent to them (see `docs/signals.md`).

Which node takes which signal is not decided but follows of the log's order, in the fold: the node
that waits longest takes the oldest. So a signal that came before anybody waited is not lost, and no
two nodes take the same, whoever works them.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from mulligan.decisions import answers
from mulligan.decisions.decision import Context, Release, Step
from mulligan.errors import InvalidInput
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    NodeCompleted,
    NodeFailed,
    NodePaused,
    NodeStarted,
    SignalAwaited,
    SignalReceived,
    SignalTimedOut,
)
from mulligan.events.payload import Payload
from mulligan.projections.state import ENDED_NODE, Node, RunState
from mulligan.schemas.plan import WaitPlan
from mulligan.schemas.problems import did_you_mean

MOST_UNTAKEN = 1_000
"""Signals of one name that may lie in a run without a node that takes them."""

TIMED_OUT = "signal_timeout"
"""The code with which a node fails that no signal came for."""


def wait(state: RunState, node: Node, plan: WaitPlan, context: Context) -> Step:
    """The next step of a node that waits."""
    if node.status == "ready":
        awaited = SignalAwaited(name=plan.signal, timeout_ms=plan.timeout_ms)
        return _events(node, NodeStarted(), awaited)
    if node.status == "paused" and node.reason != "awaiting_signal":
        return Step(release=Release("wait"))
    if node.signal is not None:
        return _events(node, NodeCompleted(output=state.signals[node.signal].data))
    left_ms = _left_ms(state, node, context.now_ms)
    if left_ms is not None and left_ms <= 0:
        return _too_late(state, node, plan, context.now_ms)
    if node.status == "running":
        detail = f"waits for the signal {plan.signal!r}"
        return _events(
            node, NodePaused(reason="awaiting_signal", invocation=node.id, detail=detail)
        )
    return Step(release=Release("timer", left_ms) if left_ms is not None else Release("wait"))


def _left_ms(state: RunState, node: Node, now_ms: int) -> int | None:
    """What is left of the node's time, or of the workflow's; None: it may wait for ever."""
    ends = [end for end in (node.timer_due_ms, _deadline_ms(state)) if end is not None]
    return min(ends) - now_ms if ends else None


def _deadline_ms(state: RunState) -> int | None:
    deadline_ms = state.plan.settings.deadline_ms if state.plan is not None else None
    return (state.started_ms or 0) + deadline_ms if deadline_ms is not None else None


def _too_late(state: RunState, node: Node, plan: WaitPlan, now_ms: int) -> Step:
    """The workflow's deadline ends a node whatever it declares; its own timeout by that."""
    deadline_ms = _deadline_ms(state)
    if deadline_ms is not None and deadline_ms <= now_ms:
        over = f"no signal {plan.signal!r} came in the time that the workflow allows"
        failed = NodeFailed(code="deadline_exceeded", message=over)
        return _events(node, SignalTimedOut(name=plan.signal, outcome="failed"), failed)
    if plan.default is not UNSET:
        given = NodeCompleted(output=Payload.of(plan.default))
        return _events(node, SignalTimedOut(name=plan.signal, outcome="default"), given)
    over = f"no signal {plan.signal!r} came within {(plan.timeout_ms or 0) / 1000:g} s"
    failed = NodeFailed(code=TIMED_OUT, message=over)
    return _events(node, SignalTimedOut(name=plan.signal, outcome="failed"), failed)


def _events(node: Node, *facts: Fact) -> Step:
    return Step(tuple(NewEvent(fact, node=node.id, attempt=1) for fact in facts))


def received(state: RunState, name: str, key: str, data: Any, *, by: str) -> SignalReceived | None:
    """
    The signal as it is recorded; None: it was sent before.

    Raises:
        InvalidInput: the run has ended, no node waits for such a signal, its data do not fit, the
            key is that of another, or too many were sent that nobody has taken.
    """
    said = Payload.of(data)
    before = state.signals.get(key)
    if before is not None:
        if (before.name, before.data.digest) == (name, said.digest):
            return None
        raise InvalidInput(
            f"run {state.run!r} was sent another signal with the key {key!r} before, which stands: "
            "a new signal needs a key of its own"
        )
    answers.refuse_ending(state)
    _refuse_unawaited(state, name)
    _refuse_misfit(state, name, data)
    untaken = sum(one.name == name and one.taken_by is None for one in state.signals.values())
    if untaken >= MOST_UNTAKEN:
        raise InvalidInput(
            f"{untaken:,} signals {name!r} of run {state.run!r} wait for a node to take them: send "
            "more once it has"
        )
    return SignalReceived(name=name, key=key, data=said, by=by)


def _refuse_unawaited(state: RunState, name: str) -> None:
    waits = [
        (node.work.signal, state.nodes[node.id].status in ENDED_NODE)
        for node in (state.plan.nodes if state.plan is not None else ())
        if isinstance(node.work, WaitPlan)
    ]
    names = sorted({signal for signal, _ in waits})
    if name not in names:
        known = f"it waits for {', '.join(names)}" if names else "none of its nodes waits for any"
        raise InvalidInput(
            f"workflow {state.workflow!r} of run {state.run!r} has no signal {name!r}"
            f"{did_you_mean(name, names)}; {known}"
        )
    if all(ended for signal, ended in waits if signal == name):
        raise InvalidInput(
            f"no node of run {state.run!r} waits for the signal {name!r} any more: "
            "all that did have ended"
        )


def _refuse_misfit(state: RunState, name: str, data: Any) -> None:
    # Who only reads runs should not pay for the library of schemas.
    from mulligan.schemas.author_schema import misfit_of

    for node in state.plan.nodes if state.plan is not None else ():
        work = node.work
        if isinstance(work, WaitPlan) and work.signal == name and work.schema is not None:
            misfit = misfit_of(data, work.schema)
            if misfit is not None:
                raise InvalidInput(
                    f"the data of the signal {name!r} do not fit the schema of node {node.id!r}: "
                    f"{misfit}"
                )
