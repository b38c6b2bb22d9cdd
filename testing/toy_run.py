"""
A run small enough to be played ten thousand times, with all that the log has to bear: a fan-out and
its join, a timer, a question to a person, effects in the world, cancellation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import (
    InputProvided,
    InputRequested,
    NodeCancelled,
    NodeCompleted,
    NodePaused,
    NodeReady,
    RunCancelled,
    RunCancelRequested,
    RunCompleted,
    RunPaused,
    RunRequested,
    RunStarted,
    TimerFired,
    TimerSet,
    ToolFailed,
    ToolOutcomeUnknown,
    ToolStarted,
    ToolSucceeded,
)
from mulligan.events.payload import Payload
from mulligan.events.store import Append, AsNew, Move
from mulligan.events.tasks import node_task, run_task

Kind = Literal["plain", "slow", "ask"]

JOIN = "join"
NOTHING = Payload.of(None)


class Pace(msgspec.Struct, frozen=True):
    """How long a lease holds, a backoff takes, and a cancelled run waits for its tools."""

    lease_ms: int = 10_000
    backoff_ms: int = 20_000
    grace_ms: int = 15_000


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a task does next; with a `call`, an effect in the world follows its intent."""

    events: tuple[NewEvent, ...]
    moves: tuple[Move, ...]
    phase: Literal["cancelling", "closed"] | None = None
    call: str | None = None


@dataclass(slots=True)
class Toy:
    """The state of a toy run, folded from its events."""

    run: str
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    started: bool = False
    cancelled: bool = False
    join_ready: bool = False
    completed: set[str] = field(default_factory=set)
    executions: dict[str, int] = field(default_factory=dict)
    open_calls: dict[str, str] = field(default_factory=dict)
    """call → node"""
    backing_off: set[str] = field(default_factory=set)
    backed_off: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    grace_inbox: int | None = None
    """the run's task's inbox when it began to wait for the tools of a cancelled run"""

    @classmethod
    def fold(cls, run: str, events: Iterable[Envelope]) -> Toy:
        """Return the state that the events lead to."""
        toy = cls(run)
        for event in events:
            toy.see(event)
        return toy

    def see(self, event: Envelope) -> None:
        """Take one more event into account."""
        node = event.node or ""
        match event.data:
            case RunRequested(plan=plan):
                self.kinds = plan["nodes"]
            case RunStarted():
                self.started = True
            case RunCancelRequested():
                self.cancelled = True
            case NodeReady():
                self.join_ready |= node == JOIN
            case NodeCompleted():
                self.completed.add(node)
            case ToolStarted(call_id=call, execution=execution):
                self.executions[node] = execution
                self.open_calls[call] = node
            case ToolSucceeded(call_id=call) | ToolFailed(call_id=call):
                self.open_calls.pop(call, None)
            case InputRequested():
                self.asked.add(node)
            case InputProvided(request_id=request):
                self.answered.add(request)
            case TimerSet(purpose="backoff"):
                self.backing_off.add(node)
            case TimerFired(purpose="backoff"):
                self.backed_off.add(node)
            case TimerSet(purpose="deadline", next_attempt=inbox):
                self.grace_inbox = inbox
            case _:
                pass


def request(run: str, op: str, kinds: Mapping[str, Kind]) -> Append:
    """The append that begins a toy run with these parallel nodes."""
    plan = {"nodes": dict(kinds)}
    fact = RunRequested(workflow="toy", workflow_version=1, digest="", plan=plan, input=NOTHING)
    return Append(
        run=run,
        op=op,
        writer=AsNew("toy"),
        events=(NewEvent(fact),),
        moves=(Move(run_task(run), "ready", 1_000),),
    )


# --- The run's own task --------------------------------------------------------------------------


def decide_run(toy: Toy, inbox: int, pace: Pace) -> Decision:
    """What the run's task does next, having read `inbox` wake-ups."""
    own = run_task(toy.run)
    if toy.cancelled:
        return _cancel(toy, inbox, pace)
    if not toy.started:
        ready = tuple(NewEvent(NodeReady(), node) for node in toy.kinds)
        return _fan_out(toy, (NewEvent(RunStarted()), *ready), tuple(toy.kinds))
    if JOIN in toy.completed:
        done = (NewEvent(RunCompleted(output=NOTHING)),)
        return Decision(events=done, moves=(Move(own, "end"),), phase="closed")
    if not toy.join_ready and toy.completed >= set(toy.kinds):
        return _fan_out(toy, (NewEvent(NodeReady(), JOIN),), (JOIN,))
    return _wait_on(own)


def _fan_out(toy: Toy, events: tuple[NewEvent, ...], nodes: tuple[str, ...]) -> Decision:
    ready = (Move(node_task(toy.run, node), "ready", 1_000) for node in nodes)
    return Decision(events=events, moves=(*ready, Move(run_task(toy.run), "wait")))


def _wait_on(task: str) -> Decision:
    """Woken with nothing to decide yet."""
    return Decision(events=(), moves=(Move(task, "wait"),))


def _cancel(toy: Toy, inbox: int, pace: Pace) -> Decision:
    own = run_task(toy.run)
    waited_to_the_end = toy.grace_inbox == inbox
    if toy.open_calls and not waited_to_the_end:
        timer = TimerSet(purpose="deadline", delay_ms=pace.grace_ms, next_attempt=inbox)
        return Decision(events=(NewEvent(timer),), moves=(Move(own, "timer", pace.grace_ms),))
    unknown = tuple(
        NewEvent(ToolOutcomeUnknown(call_id=call, evidence="started"), node)
        for call, node in toy.open_calls.items()
    )
    left = tuple(NewEvent(NodeCancelled(), node) for node in toy.kinds if node not in toy.completed)
    return Decision(
        events=(*unknown, *left, NewEvent(RunCancelled())),
        moves=(Move(own, "end"),),
        phase="closed",
    )


# --- A node's task -------------------------------------------------------------------------------


def decide_node(toy: Toy, node: str, pace: Pace) -> Decision:
    """What a node's task does next."""
    kind = toy.kinds.get(node, "plain")
    own = node_task(toy.run, node)
    if kind == "slow" and node not in toy.backing_off:
        timer = TimerSet(purpose="backoff", delay_ms=pace.backoff_ms)
        return Decision(
            events=(NewEvent(timer, node),), moves=(Move(own, "timer", pace.backoff_ms),)
        )
    if kind == "ask" and node not in toy.asked:
        question = InputRequested(request_id=node, invocation=node, provider_id="")
        return Decision(events=(NewEvent(question, node),), moves=(Move(own, "wait"),))
    if kind == "ask" and node not in toy.answered:
        return _wait_on(own)
    return _begin_call(toy, node, pace)


def _begin_call(toy: Toy, node: str, pace: Pace) -> Decision:
    execution = toy.executions.get(node, 0) + 1
    call = f"{node}.{execution}"
    lost = tuple(
        NewEvent(ToolFailed(call_id=open_call, code="interrupted", message="worker lost"), node)
        for open_call, of in toy.open_calls.items()
        if of == node
    )
    fired = toy.kinds.get(node) == "slow" and node not in toy.backed_off
    timer = (NewEvent(TimerFired(purpose="backoff"), node),) if fired else ()
    intent = NewEvent(ToolStarted(call_id=call, execution=execution), node)
    own = node_task(toy.run, node)
    return Decision(
        events=(*lost, *timer, intent), moves=(Move(own, "keep", pace.lease_ms),), call=call
    )


def completed(run: str, node: str, call: str) -> Decision:
    """What a node's task does when its call has succeeded."""
    return Decision(
        events=(succeeded(node, call), NewEvent(NodeCompleted(output=NOTHING), node)),
        moves=(Move(node_task(run, node), "end"), Move(run_task(run), "wake")),
    )


def succeeded(node: str, call: str) -> NewEvent:
    """The outcome of a call."""
    return NewEvent(ToolSucceeded(call_id=call, result=NOTHING), node)


def parked(run: str, node: str, task: str) -> Decision:
    """What the holder of a poisoned task does: leave it to a person."""
    fact = NodePaused(reason="parked", invocation=node) if node else RunPaused(reason="parked")
    return Decision(events=(NewEvent(fact, node or None),), moves=(Move(task, "wait"),))
