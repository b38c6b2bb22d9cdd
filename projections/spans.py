"""
The spans of a run, folded from its log: what is under way, and what ends with each event.

A span's key is made of the ids in the log, so that whoever sees its end names the same span with
the same parent: a run that changes workers is one trace, and a request whose worker was killed ends
with the event that says so. Names and attributes are those of OpenTelemetry's GenAI conventions
(semantic-conventions 1.41), or begin with `mulligan.`. Content is never in them, nor is a message
of an error: only its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact, Usage
from mulligan.events.ids import invocation_of_call, node_of_invocation, overseen, template_of
from mulligan.events.tasks import overseer_subject, parse_task

Attribute = str | int | float | bool | tuple[str, ...]

RUN = "run"
"""The key of the run's own span, the root of its trace."""

MOST_MOMENTS = 100
"""Kept of a span: what a long run's agents were told is in its log."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened within a span, as `mulligan.<the fact's name>`."""

    name: str
    time_ms: int
    attributes: Mapping[str, Attribute] = {}


class Span(msgspec.Struct, kw_only=True):
    """
    A span, under way or ended: times are the server's, in milliseconds since 1970. `error` is the
    kind of what went wrong, `client` whether it waited for another service, `producer` the W3C
    trace context in which its run was asked for.
    """

    key: str
    parent: str | None
    name: str
    start_ms: int
    attributes: dict[str, Attribute]
    client: bool = False
    producer: str | None = None
    moments: list[Moment] = []
    end_ms: int = 0
    error: str | None = None


class RunSpans(msgspec.Struct, kw_only=True):
    """
    What is under way in a run at a version, by key. `models` and `kinds` are those of its plan's
    agents and nodes, `running` the spans of calls that run.
    """

    run: str
    version: int = 0
    requested_ms: int = 0
    models: dict[str, str] = {}
    kinds: dict[str, str] = {}
    calls: dict[str, facts.ToolRequested] = {}
    running: dict[str, str] = {}
    open: dict[str, Span] = {}


def trace_id(run: str, requested_ms: int) -> int:
    """A run's trace, 128 bits: the same on every worker, another for the same id used anew."""
    return int.from_bytes(sha256(f"{run} {requested_ms}".encode()).digest()[:16]) or 1


def span_id(trace: int, key: str) -> int:
    """A span of a trace, 64 bits."""
    return int.from_bytes(sha256(f"{trace:032x} {key}".encode()).digest()[:8]) or 1


# --- Keys ----------------------------------------------------------------------------------------


def node_key(node: str) -> str:
    """The span of a node or an instance."""
    return f"node {node}"


def tool_key(call_id: str, execution: int) -> str:
    """The span of one execution of a call."""
    return f"tool {call_id} {execution}"


def invocation_key(invocation: str) -> str:
    """The span of an agent's invocation: its node's, a called agent's, or the overseer's."""
    repaired = overseen(invocation)
    if repaired is not None:
        return _repair_key(repaired, int(invocation.rpartition(".")[2]))
    if invocation == node_of_invocation(invocation):
        return node_key(invocation)
    return f"agent {invocation}"


def task_key(task: str) -> str:
    """The span of what a task works."""
    _, kind, subject = parse_task(task)
    match kind:
        case "run":
            return RUN
        case "node" | "repair":
            return node_key(subject)
        case "subagent":
            return invocation_key(subject)
        case "overseer":
            return _repair_key(*overseer_subject(subject))


def _repair_key(invocation: str, attempt: int) -> str:
    return f"repair {invocation} {attempt}"


_LEAVES = ("request ", "tool ")
"""How keys of spans begin that hold no others."""


def _request_key(request_id: str) -> str:
    return f"request {request_id}"


def _round_key(node: str, iteration: int) -> str:
    return f"round {node} {iteration}"


# --- The fold ------------------------------------------------------------------------------------

_Change = Callable[[RunSpans, Envelope, Any], Iterator[Span]]
_CHANGES: dict[type[Fact], _Change] = {}


def evolve(spans: RunSpans, event: Envelope) -> list[Span]:
    """Take `spans` to the version of `event`, in place; the spans that ended with it."""
    spans.version = event.version
    change = _CHANGES.get(type(event.data))
    if change is not None:
        return list(change(spans, event, event.data))
    told = _TOLD.get(type(event.data))
    if told is not None:
        _tell(spans, event, told(event.data))
    return []


def _on(*kinds: type[Fact]) -> Callable[[_Change], _Change]:
    def register(change: _Change) -> _Change:
        _CHANGES.update(dict.fromkeys(kinds, change))
        return change

    return register


def _begin(
    spans: RunSpans,
    event: Envelope,
    key: str,
    parent: str | None,
    name: str,
    attributes: Mapping[str, Attribute | None],
    **more: Any,
) -> None:
    about = {
        "mulligan.run": spans.run,
        "mulligan.node": event.node,
        "mulligan.attempt": event.attempt,
    }
    present = {k: v for k, v in {**about, **attributes}.items() if v is not None}
    spans.open[key] = Span(
        key=key, parent=parent, name=name, start_ms=event.time_ms, attributes=present, **more
    )


def _end(
    spans: RunSpans,
    event: Envelope,
    key: str,
    error: str | None = None,
    attributes: Mapping[str, Attribute | None] = {},
) -> Iterator[Span]:
    """End a span, and before it what is still under way within it."""
    span = spans.open.pop(key, None)
    if span is None:
        return
    within = () if key.startswith(_LEAVES) else list(spans.open.values())
    for inner in [one.key for one in within if one.parent == key]:
        yield from _end(spans, event, inner, "cancelled" if error is None else error)
    span.end_ms, span.error = event.time_ms, error
    span.attributes |= {k: v for k, v in attributes.items() if v is not None}
    if error is not None:
        span.attributes["error.type"] = error
    yield span


@_on(facts.RunRequested)
def _requested(spans: RunSpans, event: Envelope, fact: facts.RunRequested) -> Iterator[Span]:
    spans.requested_ms = event.time_ms
    works = {node["id"]: node["work"] for node in fact.plan["nodes"]}
    spans.kinds = {node: work["kind"] for node, work in works.items()}
    agents = {node: work for node, work in works.items() if work["kind"] == "agent"}
    agents = {**fact.plan["agents"], **agents}
    spans.models = {name: agent["model"] or "" for name, agent in agents.items()}
    attributes = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": fact.workflow,
        "mulligan.priority": fact.priority,
    }
    name, producer = f"invoke_workflow {fact.workflow}", fact.traceparent
    _begin(spans, event, RUN, None, name, attributes, producer=producer)
    return iter(())


@_on(facts.RunForked)
def _forked(spans: RunSpans, event: Envelope, fact: facts.RunForked) -> Iterator[Span]:
    spans.open[RUN].attributes["mulligan.forked_from"] = fact.parent
    return iter(())


@_on(facts.RunCompleted, facts.RunFailed, facts.RunCancelled)
def _run_ended(spans: RunSpans, event: Envelope, fact: Fact) -> Iterator[Span]:
    match fact:
        case facts.RunFailed():
            error: str | None = fact.code
        case facts.RunCancelled():
            error = "cancelled"
        case _:
            error = None
    yield from _end(spans, event, RUN, error)


@_on(facts.NodeReady)
def _ready(spans: RunSpans, event: Envelope, fact: facts.NodeReady) -> Iterator[Span]:
    node = event.node or ""
    template = template_of(node)
    parent = RUN if node == template else node_key(template)
    kind = spans.kinds.get(template, "")
    if kind == "agent" and fact.fan_out is None:
        _begin(spans, event, node_key(node), parent, *_agent(template, spans.models[template]))
    else:
        attributes: dict[str, Attribute | None] = {
            "mulligan.node.kind": kind,
            "mulligan.fan_out": fact.fan_out,
        }
        _begin(spans, event, node_key(node), parent, f"node {template}", attributes)
    return iter(())


@_on(facts.NodeCompleted, facts.NodeFailed, facts.NodeCancelled)
def _node_ended(spans: RunSpans, event: Envelope, fact: Fact) -> Iterator[Span]:
    error = fact.code if isinstance(fact, facts.NodeFailed) else None
    error = "cancelled" if isinstance(fact, facts.NodeCancelled) else error
    yield from _end(spans, event, node_key(event.node or ""), error)


@_on(facts.SubagentCalled)
def _called(spans: RunSpans, event: Envelope, fact: facts.SubagentCalled) -> Iterator[Span]:
    parent = invocation_key(fact.parent)
    rounds = [key for key, one in spans.open.items() if _is_round(one, fact.parent)]
    model = spans.models.get(fact.agent, "")
    key = invocation_key(fact.invocation)
    _begin(spans, event, key, [parent, *rounds][-1], *_agent(fact.agent, model))
    return iter(())


@_on(facts.SubagentCompleted, facts.SubagentFailed)
def _answered_caller(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    error = fact.code if isinstance(fact, facts.SubagentFailed) else None
    yield from _end(spans, event, invocation_key(fact.invocation), error)


@_on(facts.ModelRequested)
def _asked(spans: RunSpans, event: Envelope, fact: facts.ModelRequested) -> Iterator[Span]:
    agent = invocation_key(fact.invocation)
    within = spans.open.get(agent)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": within.attributes.get("gen_ai.provider.name") if within else None,
        "gen_ai.request.model": fact.model,
        "gen_ai.request.max_tokens": _number(fact.sent, "max_tokens", "max_completion_tokens"),
        "gen_ai.request.temperature": _number(fact.sent, "temperature"),
        "gen_ai.request.stream": fact.sent.get("stream") is True or None,
        "mulligan.request_id": fact.request_id,
        "mulligan.turn": fact.turn,
        "mulligan.output_mode": fact.mode,
        "mulligan.retry_of": fact.retry_of,
    }
    key = _request_key(fact.request_id)
    _begin(spans, event, key, agent, f"chat {fact.model}", attributes, client=True)
    return iter(())


@_on(facts.ModelAnswered)
def _answered(spans: RunSpans, event: Envelope, fact: facts.ModelAnswered) -> Iterator[Span]:
    reason = (fact.finish_reason,) if fact.finish_reason else None
    attributes = {
        "gen_ai.response.model": fact.served_model,
        "gen_ai.response.finish_reasons": reason,
        "mulligan.terminal": fact.terminal,
        **_used(fact.usage or Usage()),
    }
    yield from _end(spans, event, _request_key(fact.request_id), attributes=attributes)


@_on(facts.ModelFailed, facts.ModelInterrupted)
def _request_failed(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    key = _request_key(fact.request_id)
    if isinstance(fact, facts.ModelInterrupted):
        yield from _end(spans, event, key, "worker_lost")
    else:
        status = {"http.response.status_code": fact.cause.status}
        yield from _end(spans, event, key, fact.cause.kind, status)


@_on(facts.ToolRequested)
def _tool_requested(spans: RunSpans, event: Envelope, fact: facts.ToolRequested) -> Iterator[Span]:
    spans.calls[fact.call_id] = fact
    return iter(())


@_on(facts.ToolStarted)
def _tool_started(spans: RunSpans, event: Envelope, fact: facts.ToolStarted) -> Iterator[Span]:
    """A further execution says that the one before was lost with its worker."""
    yield from _tool_ended(spans, event, fact.call_id, "worker_lost")
    call = spans.calls.get(fact.call_id)
    if call is None:
        return
    attributes: dict[str, Attribute | None] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": fact.call_id,
        "mulligan.effect": call.effect,
        "mulligan.execution": fact.execution,
    }
    key, parent = tool_key(fact.call_id, fact.execution), invocation_key(call.invocation)
    spans.running[fact.call_id] = key
    _begin(spans, event, key, parent, f"execute_tool {call.tool}", attributes)


@_on(facts.ToolSucceeded, facts.ToolFailed, facts.ToolOutcomeUnknown)
def _tool_over(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    match fact:
        case facts.ToolFailed():
            error: str | None = fact.code
        case facts.ToolOutcomeUnknown():
            error = "outcome_unknown"
        case _:
            error = None
    yield from _tool_ended(spans, event, fact.call_id, error)


def _tool_ended(
    spans: RunSpans, event: Envelope, call_id: str, error: str | None
) -> Iterator[Span]:
    yield from _end(spans, event, spans.running.pop(call_id, ""), error)


@_on(facts.OutputRepairRequested)
def _repair(spans: RunSpans, event: Envelope, fact: facts.OutputRepairRequested) -> Iterator[Span]:
    agent = invocation_key(fact.invocation)
    within = spans.open.get(agent)
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "overseer",
        "gen_ai.provider.name": within.attributes.get("gen_ai.provider.name") if within else None,
        "mulligan.repair.kind": fact.kind,
        "mulligan.repair.bytes": fact.bytes,
    }
    key = _repair_key(fact.invocation, event.attempt or 1)
    _begin(spans, event, key, agent, "invoke_agent overseer", attributes)
    return iter(())


@_on(facts.OutputRepairSucceeded, facts.OutputRepairFailed)
def _repaired(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    error = fact.reason if isinstance(fact, facts.OutputRepairFailed) else None
    yield from _end(spans, event, _repair_key(fact.invocation, event.attempt or 1), error)


@_on(facts.RepairRoundStarted)
def _round(spans: RunSpans, event: Envelope, fact: facts.RepairRoundStarted) -> Iterator[Span]:
    node = event.node or ""
    attributes: dict[str, Attribute] = {
        "mulligan.repair.iteration": fact.iteration,
        "mulligan.repair.level": fact.level,
        "mulligan.repair.trigger": fact.trigger,
        "mulligan.repair.estimate_usd": fact.estimate_usd,
    }
    key = _round_key(node, fact.iteration)
    _begin(spans, event, key, node_key(node), f"repair_round {template_of(node)}", attributes)
    return iter(())


@_on(facts.RepairRoundCompleted)
def _round_over(
    spans: RunSpans, event: Envelope, fact: facts.RepairRoundCompleted
) -> Iterator[Span]:
    attributes = {
        "mulligan.repair.score_before": fact.score_before,
        "mulligan.repair.score_after": fact.score_after,
        "mulligan.repair.cost_usd": fact.cost_usd,
    }
    key = _round_key(event.node or "", fact.iteration)
    yield from _end(spans, event, key, attributes=attributes)


def _is_round(span: Span, node: str) -> bool:
    return span.parent == node_key(node) and span.key.startswith("round ")


def _agent(name: str, model: str) -> tuple[str, dict[str, Attribute | None]]:
    provider, slash, own = model.partition("/")
    return f"invoke_agent {name}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.provider.name": provider if slash else None,
        "gen_ai.request.model": own or model or None,
    }


def _used(usage: Usage) -> dict[str, Attribute | None]:
    """What was reported; what was not is left out, never 0 (REC-21)."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "mulligan.cost_usd": usage.cost_usd,
    }


def _number(sent: Mapping[str, Any], *names: str) -> int | float | None:
    found = (sent[name] for name in names if isinstance(sent.get(name), int | float))
    return next(found, None)


# --- What is told within a span ------------------------------------------------------------------

_TOLD: dict[type[Fact], Callable[[Any], tuple[str | None, dict[str, Attribute | None]]]] = {
    facts.RunPaused: lambda f: (RUN, {"reason": f.reason}),
    facts.RunResumed: lambda f: (RUN, {}),
    facts.RunCancelRequested: lambda f: (RUN, {}),
    facts.NodePaused: lambda f: (invocation_key(f.invocation), {"reason": f.reason}),
    facts.NodeStarted: lambda f: (None, {}),
    facts.TimerSet: lambda f: (
        invocation_key(f.invocation) if f.invocation else None,
        {"purpose": f.purpose, "delay_ms": f.delay_ms, "cause": f.cause.kind if f.cause else None},
    ),
    facts.SlotAwaited: lambda f: (invocation_key(f.invocation), {"lane": f.lane}),
    facts.AllowanceReserved: lambda f: (
        invocation_key(f.invocation),
        {"reason": f.reason, "used": f.used, "limit": f.limit, "request_id": f.request_id},
    ),
    facts.AllowanceExhausted: lambda f: (invocation_key(f.invocation), {"reason": f.reason}),
    facts.OutputRejected: lambda f: (invocation_key(f.invocation), {"kind": f.kind}),
    facts.OutputAccepted: lambda f: (invocation_key(f.invocation), {"steps": f.steps}),
    facts.HistoryCompacted: lambda f: (invocation_key(f.invocation), {"calls": len(f.call_ids)}),
    facts.DecompositionRequested: lambda f: (invocation_key(f.invocation), {}),
    facts.ToolApprovalRequested: lambda f: _about_call(f.call_id),
    facts.ToolApproved: lambda f: _about_call(f.call_id),
    facts.ToolDenied: lambda f: _about_call(f.call_id),
    facts.ToolReceiptArrived: lambda f: _about_call(f.call_id),
    facts.EffectReconciled: lambda f: _about_call(f.call_id),
    facts.InputRequested: lambda f: _about_call(f.request_id),
    facts.InputProvided: lambda f: _about_call(f.request_id),
    facts.DecisionRequested: lambda f: (None, {}),
    facts.DecisionMade: lambda f: (None, {"decision": f.decision}),
    facts.QualityAssessed: lambda f: (
        None,
        {"iteration": f.iteration, "passed": f.passed, "score": f.score},
    ),
    facts.QualityFailed: lambda f: (None, {"iteration": f.iteration, "gate": f.gate}),
    facts.ReviewReceived: lambda f: (None, {"verdict": f.verdict}),
    facts.RepairEnded: lambda f: (None, {"outcome": f.outcome}),
}
"""Facts that are told within the span of that key, or that of their node; others are not told."""


def _about_call(call_id: str) -> tuple[str, dict[str, Attribute | None]]:
    return invocation_key(invocation_of_call(call_id)), {"call_id": call_id}


def _tell(
    spans: RunSpans, event: Envelope, told: tuple[str | None, dict[str, Attribute | None]]
) -> None:
    key, attributes = told
    span = spans.open.get(key or node_key(event.node or ""))
    if span is None or len(span.moments) >= MOST_MOMENTS:
        return
    present = {f"mulligan.{name}": value for name, value in attributes.items() if value is not None}
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", event.type).lower()
    span.moments.append(Moment(name=f"mulligan.{name}", time_ms=event.time_ms, attributes=present))
