"""
Why a run stands where it stands, and what a person can do about it now.
"""

from __future__ import annotations

from typing import assert_never

from mulligan.events.facts import Cause, PauseReason
from mulligan.projections.calls import is_lost_function
from mulligan.projections.lost_starts import told as told_start
from mulligan.projections.open_requests import open_requests
from mulligan.projections.state import RunState

NEW_RUN = "it has ended for good: ask for a new run"
OF_FAILURES = {
    "unauthorized": "set the provider's key",
    "forbidden": "have the key allowed to use this model, or name another model",
    "not_found": "name a model that the provider has, or correct `api_base`",
    "quota": "raise the quota of the provider's account",
    "bad_request": "correct what the provider named: it takes no such parameter, schema or value",
    "redirect": "set `api_base` to the address that it redirects to",
    "refused": "change the prompt, or name another model",
    "deadline_exceeded": "give it more time: `timeout` of the agent, `deadline` of the workflow",
}
"""By the code of a failure, what to do before the next run."""
OF_EXHAUSTION = {
    "length": "allow more (`max_output_tokens`) or ask for less in a new run",
    "wrong_envelope": "look at what it was asked for; another model may do better in a new run",
    "schema_violation": "look at its schema; another model may do better in a new run",
    "invalid_json": "another model may do better in a new run",
    "repetitive_output": "another model or temperature may do better in a new run",
}
"""By the kind of the cause that recovery could not get over, what may help beside a resume."""


def why(state: RunState) -> str:
    """Why a run has no output, in a line."""
    if state.failure is not None:
        return f"{state.failure.kind}: {state.failure.message}"
    causes = [
        f"{one.id}: {one.recovery.cause.told}"
        for one in state.invocations.values()
        if one.recovery.cause is not None and one.status == "paused"
    ]
    asked = [one.line for one in open_requests(state)]
    effects = [*_unknown_effects(state), *_lost(state)]
    told = "; ".join(causes + effects + asked) or state.detail
    return ": ".join(filter(None, (state.reason, told)))


def waits(state: RunState) -> str:
    """Why a run that was asked for has not begun, in a line; empty where nothing keeps it."""
    if not state.awaits_turn:
        return ""
    return f"tenant {state.tenant} has as many runs at once as it may; it begins when one ends"


def advice(state: RunState) -> tuple[str, ...]:
    """What can be done now, one thing a line; empty where nothing has to be."""
    match state.status:
        case "completed":
            return ()
        case "queued" | "running" | "cancelling":
            return (f"nothing has to be done; `mulligan tail {state.run} --follow` follows it",)
        case "cancelled":
            return (*_unsettled(state), NEW_RUN)
        case "failed":
            before = OF_FAILURES.get(state.failure.kind) if state.failure is not None else None
            return (*_unsettled(state), *([before] if before else []), NEW_RUN)
        case "paused":
            return _of_pauses(state)
        case _:
            assert_never(state.status)


def _of_pauses(state: RunState) -> tuple[str, ...]:
    nodes = [node.reason for node in state.nodes.values() if node.status == "paused"]
    reasons = dict.fromkeys(reason for reason in (state.reason, *nodes) if reason is not None)
    return tuple(line for reason in reasons for line in _of_pause(state, reason))


def _of_pause(state: RunState, reason: PauseReason) -> tuple[str, ...]:
    resume = f"`mulligan resume {state.run}` lets it go on with a fresh allowance"
    match reason:
        case "exhausted":
            kinds = [cause.kind for cause in _causes(state)]
            return (resume, *dict.fromkeys(OF_EXHAUSTION[k] for k in kinds if k in OF_EXHAUSTION))
        case "operator":
            return (resume,)
        case "context_exceeded":
            return (
                "ask for less, return less from its tools, or name a model with a larger context, "
                "in a new run",
            )
        case "parked":
            return (f"once the reason is seen to, `mulligan redrive {state.run}` wakes it",)
        case "reconciliation_required":
            return _unsettled(state)
        case "awaiting_decision":
            decide = f"`mulligan decide {state.run} accept|abort|take-over`"
            return (f"look at the drafts (`mulligan repair-log {state.run}`), then {decide}",)
        case "awaiting_input":
            return (f"`mulligan answer {state.run}` answers what is asked",)
        case "awaiting_signal":
            names = " or ".join(sorted(set(state.awaits.values()))) or "NAME"
            return (f"`mulligan signal {state.run} {names} --data JSON` sends what it waits for",)
        case "awaiting_approval":
            return (f"`mulligan approve|deny {state.run} CALL` decides about each call",)
        case _:
            assert_never(reason)


def _causes(state: RunState) -> list[Cause]:
    recoveries = [one.recovery for one in state.invocations.values() if one.status == "paused"]
    return [recovery.cause for recovery in recoveries if recovery.cause is not None]


def _lost(state: RunState) -> list[str]:
    """Why effects are asked for that the log knows nothing of."""
    lost = state.lost_starts if state.reason == "reconciliation_required" else ()
    return [f"the log was set back, and had lost the start of {told_start(one)}" for one in lost]


def _unsettled(state: RunState) -> tuple[str, ...]:
    """What is asked of a person about effects that may have happened."""
    calls = [
        call.id
        for one in state.invocations.values()
        for call in one.calls.values()
        if call.status == "unknown"
    ]
    lost = [node for node in state.nodes if is_lost_function(state, node)]
    if state.ended:
        return tuple(f"{call} may or may not have taken effect: look there" for call in calls)
    return tuple(
        f"see what became of {call}, then `mulligan reconcile {state.run} {call} "
        "succeeded|failed|retry`"
        for call in (*calls, *lost)
    )


def _unknown_effects(state: RunState) -> list[str]:
    """What `reconcile` is asked for: calls by name and id."""
    return [
        f"{call.name} ({call.id}) may or may not have taken effect"
        for one in state.invocations.values()
        for call in one.calls.values()
        if call.status == "unknown"
    ]
