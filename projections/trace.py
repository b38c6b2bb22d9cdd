"""
A run's trace: what happened at each node, in order, in words that a person can act on.

Content is never in it: outputs and arguments are named by size and digest. What a person is asked
to answer or to approve is, or nobody could: in its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact, Usage
from mulligan.events.payload import Payload, canonical
from mulligan.projections import run as runs
from mulligan.projections import usage as usages
from mulligan.projections.advice import advice, why
from mulligan.projections.lost_starts import told
from mulligan.projections.open_requests import excerpt
from mulligan.projections.state import RunState
from mulligan.projections.usage import ModelUsage, RunUsage


class TraceStep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of the trace. `at_ms` counts from the run's request; `text` says what happened."""

    version: int
    type: str
    at_ms: int
    text: str
    node: str | None = None
    attempt: int | None = None
    invocation: str | None = None


class Trace(msgspec.Struct, kw_only=True):
    """
    A run's steps, and the state that they led to: the usage by model, why it stands still, and what
    can be done now.
    """

    run: str
    workflow: str = ""
    status: str = "queued"
    reason: str | None = None
    requested_ms: int | None = None
    duration_ms: int | None = None
    steps: list[TraceStep] = []
    usage: dict[str, ModelUsage] = {}
    why: str = ""
    advice: tuple[str, ...] = ()


def fold(run: str, events: Iterable[Envelope]) -> Trace:
    """The trace of `run` after `events`, from its first one on."""
    state, usage, trace = RunState(run=run), RunUsage(run=run), Trace(run=run)
    for event in events:
        runs.evolve(state, event)
        usages.evolve(usage, event)
        evolve(trace, event)
    trace.status, trace.reason = state.status, state.reason
    trace.usage, trace.advice = usage.models, advice(state)
    trace.why = why(state) if state.status in ("paused", "failed") else ""
    if state.ended_ms is not None and state.requested_ms is not None:
        trace.duration_ms = state.ended_ms - state.requested_ms
    return trace


def evolve(trace: Trace, event: Envelope) -> None:
    """Add an event's line, in place."""
    if trace.requested_ms is None:
        trace.requested_ms = event.time_ms
    if isinstance(event.data, facts.RunRequested):
        trace.workflow = event.data.workflow
    trace.steps.append(
        TraceStep(
            version=event.version,
            type=event.type,
            at_ms=event.time_ms - trace.requested_ms,
            text=_say(event.data),
            node=event.node,
            attempt=event.attempt,
            invocation=getattr(event.data, "invocation", None),
        )
    )


# --- Words ---------------------------------------------------------------------------------------

FactT = TypeVar("FactT", bound=Fact)

_PARAMETERS = ("max_tokens", "max_completion_tokens", "temperature")
_LATE = {"default": "the default counts", "failed": "the node fails"}
_SKIPPED = {"condition": "its condition is false", "needs": "all that it needs was skipped"}
_SAY: dict[type[Fact], Callable[[Any], str]] = {
    facts.RunRequested: lambda f: f"requested: workflow {f.workflow}, version {f.workflow_version}",
    facts.RunStarted: lambda f: "taken up by a worker",
    facts.RunPaused: lambda f: f"paused: {f.reason}{_more(f.detail)}",
    facts.RunResumed: lambda f: f"resumed by an operator{_more(f.target)}",
    facts.RunForked: lambda f: f"forked from run {f.parent}, which was at version {f.at_version}",
    facts.RunCancelRequested: lambda f: f"cancellation asked for{_more(f.reason)}",
    facts.RunCancelled: lambda f: "cancelled",
    facts.RunCompleted: lambda f: f"completed with {_size(f.output)}",
    facts.RunFailed: lambda f: f"failed: {f.code}: {f.message}",
    facts.NodeReady: lambda f: _ready(f),
    facts.NodeStarted: lambda f: "started",
    facts.NodeCompleted: lambda f: f"completed with {_size(f.output)}",
    facts.NodeFailed: lambda f: f"failed: {f.code}: {f.message}",
    facts.NodePaused: lambda f: f"paused: {f.reason}{_more(f.detail)}",
    facts.NodeCancelled: lambda f: "cancelled",
    facts.NodeSkipped: lambda f: f"skipped: {_SKIPPED[f.because]}",
    facts.TimerSet: lambda f: (
        f"waits {f.delay_ms} ms before attempt {f.next_attempt}{_cause(f.cause)}"
    ),
    facts.TimerFired: lambda f: f"{f.purpose} timer fired",
    facts.TurnAwaited: lambda f: f"waits: tenant {f.tenant} has as many runs at once as it may",
    facts.SlotAwaited: lambda f: (
        f"waits for a slot of {f.lane}"
        if f.tenant is None
        else f"waits: tenant {f.tenant} has taken what it may of models"
    ),
    facts.ModelRequested: lambda f: (
        f"{f.request_id} → {f.model}, turn {f.turn}, mode {f.mode}{_sent(f)}"
        f"{_more(f.retry_of and f'after {f.retry_of}')}"
    ),
    facts.HistoryCompacted: lambda f: (
        f"{f.invocation}: {len(f.call_ids)} older calls shortened, "
        f"history about {f.tokens_before} → {f.tokens_after} tokens (estimated)"
    ),
    facts.ModelAnswered: lambda f: _answered(f),
    facts.ModelFailed: lambda f: f"{f.request_id} failed{_cause(f.cause)}, {_usage(None)}",
    facts.ModelInterrupted: lambda f: (
        f"{f.request_id}: its worker was lost before it was answered, {_usage(None)}"
    ),
    facts.AllowanceReserved: lambda f: (
        f"attempt {f.next_attempt} follows: {f.reason} ({f.used} of {f.limit} used)"
        f"{_cause(f.cause)}"
    ),
    facts.AllowanceRefunded: lambda f: f"{f.count} given back, {f.used} used",
    facts.AllowanceExhausted: lambda f: f"automatic recovery ends: {f.reason}{_cause(f.cause)}",
    facts.OutputRejected: lambda f: _rejected(f),
    facts.OutputRepairRequested: lambda f: f"overseer asked to repair {f.bytes:,} bytes ({f.kind})",
    facts.OutputRepairStarted: lambda f: f"overseer asks {f.model} ({f.request_id})",
    facts.OutputRepairSucceeded: lambda f: f"overseer repaired the output{_novel(f.novel)}",
    facts.OutputRepairFailed: lambda f: (
        f"overseer could not repair it: {f.reason}{_more(f.detail)}{_novel(f.novel)}"
    ),
    facts.OutputAccepted: lambda f: f"output accepted{_more(', '.join(f.steps))}",
    facts.ToolRequested: lambda f: (
        f"{f.call_id}: {f.tool} called ({f.effect}), {_size(f.arguments)}"
    ),
    facts.ToolApprovalRequested: lambda f: _approval(f),
    facts.ToolApproved: lambda f: f"{f.call_id}: approved{_by(f.by)}",
    facts.ToolDenied: lambda f: f"{f.call_id}: denied{_by(f.by)}{_more(f.reason)}",
    facts.InputRequested: lambda f: f"{f.request_id} asks: {_question(f)}",
    facts.InputProvided: lambda f: f"{f.request_id}: answered{_by(f.by)}, {_size(f.answer)}",
    facts.SignalAwaited: lambda f: f"waits for the signal {f.name!r}{_within(f.timeout_ms)}",
    facts.SignalReceived: lambda f: (
        f"signal {f.name!r} ({f.key}) received{_by(f.by)}, {_size(f.data)}"
    ),
    facts.SignalTimedOut: lambda f: f"no signal {f.name!r} came in time: {_LATE[f.outcome]}",
    facts.ToolStarted: lambda f: f"{f.call_id}: execution {f.execution} begins",
    facts.ToolSucceeded: lambda f: f"{f.call_id}: succeeded with {_size(f.result)}",
    facts.ToolFailed: lambda f: f"{f.call_id}: failed: {f.code}: {f.message}",
    facts.ToolOutcomeUnknown: lambda f: f"{f.call_id}: outcome unknown: {f.evidence}",
    facts.ToolReceiptArrived: lambda f: (
        f"{f.call_id}: late receipt of execution {f.execution}: {f.outcome}{_more(_late(f))}"
    ),
    facts.ToolStartLost: lambda f: f"the log had lost the start of {told(f)}",
    facts.EffectReconciled: lambda f: f"{f.call_id}: reconciled as {f.outcome} by {f.by}",
    facts.DecompositionRequested: lambda f: f"{f.invocation}: to be split{_cause(f.cause)}",
    facts.JoinRequested: lambda f: f"{f.invocation}: its parts are joined",
    facts.SubagentCalled: lambda f: (
        f"{f.invocation}: agent {f.agent} called{_more(f.part and f'part {f.part}')}"
    ),
    facts.SubagentCompleted: lambda f: f"{f.invocation}: agent completed with {_size(f.output)}",
    facts.SubagentFailed: lambda f: f"{f.invocation}: agent failed: {f.code}: {f.message}",
    facts.QualityAssessed: lambda f: (
        f"draft {f.draft[:8]} {'passed' if f.passed else 'did not pass'}: score {f.score:g}"
        f"{_more('handed in by a person' if f.taken_over else None)}"
    ),
    facts.QualityFailed: lambda f: f"repair is for: {f.gate}",
    facts.RepairRoundStarted: lambda f: (
        f"round {f.iteration} begins at level {f.level}, for {f.trigger}, "
        f"estimated at ${f.estimate_usd:.2f}"
    ),
    facts.RepairActionApplied: lambda f: f"{f.kind}{_place(f)} applied",
    facts.RepairActionSkipped: lambda f: f"{f.kind}{_place(f)} skipped: {f.because}",
    facts.RepairLevelPassedOver: lambda f: f"level {f.level} passed over: {f.because}",
    facts.RepairRoundCompleted: lambda f: (
        f"round {f.iteration} is over: {f.score_before:g} → {f.score_after:g}, {_dollars(f)}"
    ),
    facts.RepairEnded: lambda f: f"repair ended: {f.outcome}{_more(f.halt_reason)}",
    facts.ReviewReceived: lambda f: (
        f"review: {f.verdict}{_more('of another draft: does not count' if f.stale else None)}"
    ),
    facts.DecisionRequested: lambda f: f"a person has to decide: {f.detail}",
    facts.DecisionMade: lambda f: f"decided: {f.decision}{_more(f.by and f'by {f.by}')}",
    facts.HandedOver: lambda f: f"draft {f.draft[:8]} handed over: {f.completion_status}",
}


def _say(fact: Fact) -> str:
    say = _SAY.get(type(fact))
    return say(fact) if say is not None else ""


def _size(payload: Payload) -> str:
    return f"{payload.size:,} bytes ({payload.digest[:8]})"


def _more(text: str | None) -> str:
    return f" ({text})" if text else ""


def _novel(paths: tuple[str, ...]) -> str:
    return f"; not in the candidate: {', '.join(paths)}" if paths else ""


def _late(fact: facts.ToolReceiptArrived) -> str | None:
    return f"{fact.code}: {fact.message}" if fact.code is not None else None


def _cause(cause: facts.Cause | None) -> str:
    return f": {cause.told}" if cause is not None else ""


def _ready(fact: facts.NodeReady) -> str:
    if fact.fan_out is not None:
        return f"ready: {fact.fan_out} instances"
    return "ready, carried by the run" if fact.carried else "ready"


def _answered(fact: facts.ModelAnswered) -> str:
    stop = fact.finish_reason or ("no finish reason" if fact.terminal else "no terminal event")
    count = len(fact.calls)
    calls = f", {count} call{'s' if count > 1 else ''}" if count else ""
    return f"{fact.request_id} answered: {stop}{calls}, {_usage(fact.usage)}"


def _approval(fact: facts.ToolApprovalRequested) -> str:
    given = fact.arguments
    if given is None or not given.inline:  # large ones are for `mulligan status` to show
        arguments = _size(given) if given is not None else "nothing"
    else:
        arguments = excerpt(canonical(given.value).decode())
    return f"{fact.call_id} waits for approval: {fact.tool} ({fact.effect}) with {arguments}"


def _question(fact: facts.InputRequested) -> str:
    return excerpt(fact.message or " | ".join(one["question"] for one in fact.questions))


def _within(timeout_ms: int | None) -> str:
    return f" for {timeout_ms / 1000:g} s at most" if timeout_ms is not None else ""


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def _sent(fact: facts.ModelRequested) -> str:
    """The parameters of the body that the workflow sets, or that were set for it."""
    told = [f"{name} {fact.sent[name]}" for name in _PARAMETERS if name in fact.sent]
    return "".join(f", {one}" for one in told)


def _usage(usage: Usage | None) -> str:
    if usage is None or usage.completion_tokens is None:
        return "usage unknown"
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ""
    prompt = "unknown" if usage.prompt_tokens is None else usage.prompt_tokens
    return f"{prompt} + {usage.completion_tokens} tokens{cost}"


def _place(fact: facts.RepairActionApplied | facts.RepairActionSkipped) -> str:
    line = f" at line {fact.line}" if fact.line is not None else ""
    return f"{line}{_more(fact.section)}"


def _dollars(fact: facts.RepairRoundCompleted) -> str:
    return "cost unknown" if fact.cost_usd is None else f"${fact.cost_usd:.4f}"


def _rejected(fact: facts.OutputRejected) -> str:
    told = (f"{one.path} {one.message}".strip() for one in fact.issues[:1])
    return f"output rejected as {fact.kind}, {fact.bytes:,} bytes{''.join(f': {t}' for t in told)}"
