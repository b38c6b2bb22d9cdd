"""
The spans of a run, folded from its log: what is under way, and what ends with each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact, Usage
from mulligan.events.ids import template_of
from mulligan.projections.span_moments import TOLD, tell
from mulligan.projections.spans import (
    LEAVES,
    RUN,
    Attribute,
    RunSpans,
    Span,
    invocation_key,
    node_key,
    repair_key,
    request_key,
    round_key,
    tool_key,
)

_Change = Callable[[RunSpans, Envelope, Any], Iterator[Span]]
_CHANGES: dict[type[Fact], _Change] = {}


def evolve(spans: RunSpans, event: Envelope) -> list[Span]:
    """Take `spans` to the version of `event`, in place; the spans that ended with it."""
    spans.version = event.version
    change = _CHANGES.get(type(event.data))
    if change is not None:
        return list(change(spans, event, event.data))
    told = TOLD.get(type(event.data))
    if told is not None:
        tell(spans, event, told(event.data))
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
    within = () if key.startswith(LEAVES) else list(spans.open.values())
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
        **({"mulligan.tenant": fact.tenant} if fact.tenant is not None else {}),
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
    key = request_key(fact.request_id)
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
    yield from _end(spans, event, request_key(fact.request_id), attributes=attributes)


@_on(facts.ModelFailed, facts.ModelInterrupted)
def _request_failed(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    key = request_key(fact.request_id)
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
    key = repair_key(fact.invocation, event.attempt or 1)
    _begin(spans, event, key, agent, "invoke_agent overseer", attributes)
    return iter(())


@_on(facts.OutputRepairSucceeded, facts.OutputRepairFailed)
def _repaired(spans: RunSpans, event: Envelope, fact: Any) -> Iterator[Span]:
    error = fact.reason if isinstance(fact, facts.OutputRepairFailed) else None
    yield from _end(spans, event, repair_key(fact.invocation, event.attempt or 1), error)


@_on(facts.RepairRoundStarted)
def _round(spans: RunSpans, event: Envelope, fact: facts.RepairRoundStarted) -> Iterator[Span]:
    node = event.node or ""
    attributes: dict[str, Attribute] = {
        "mulligan.repair.iteration": fact.iteration,
        "mulligan.repair.level": fact.level,
        "mulligan.repair.trigger": fact.trigger,
        "mulligan.repair.estimate_usd": fact.estimate_usd,
    }
    key = round_key(node, fact.iteration)
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
    key = round_key(event.node or "", fact.iteration)
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
