"""
The workflows that mulligan's own simulations play, with their models and their code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mulligan.events.facts import Cause, EffectClass
from mulligan.providers.port import Answer, Failure, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.scripted_provider import Scripted
from mulligan.tools.registry import Tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Played(NamedTuple):
    """What a simulation is given."""

    plan: Plan
    input: Any
    model: Callable[[ModelRequest], Scripted]
    code: Mapping[str, Callable[..., Any]]


def _done(idempotency_key: str) -> int:
    return 1


def _fails(idempotency_key: str) -> int:
    raise ValueError("it is that kind of function")


def _tool(name: str, effect: EffectClass, *, verifiable: bool = False) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="",
        parameters={"type": "object"},
        effect=effect,
        path=f"steps:{name}",
        digest="",
        verifiable=verifiable,
    )


def _function(name: str, effect: EffectClass, attempts: int = 1) -> FunctionPlan:
    return FunctionPlan(
        call=CodeRef(path=f"steps:{name}", digest=""),
        arguments=("idempotency_key",),
        effect=effect,
        attempts=attempts,
        backoff_ms=500,
        backoff_max_ms=5_000,
    )


TOOLS = (
    _tool("look", "read"),
    _tool("put", "idempotent"),
    _tool("send", "write"),
    _tool("mail", "write", verifiable=True),
)
CODE: dict[str, Callable[..., Any]] = {
    **{one.path: Tool(_done, name=one.name, effect=one.effect) for one in TOOLS},
    **{f"steps:{name}": _done for name in ("part", "publish")},
    "steps:fails": _fails,
}


def _calls(request: ModelRequest, *names: str) -> Answer:
    calls = tuple(ToolCall(f"{request.request_id}.{name}", name, "{}") for name in names)
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=calls)


def _rounds(request: ModelRequest) -> int:
    return sum(message.role == "tool" for message in request.messages)


def _hands(request: ModelRequest) -> Scripted:
    """Calls every tool, and hands in an output at its second attempt."""
    if _rounds(request) == 0:
        return _calls(request, "send", "mail", "put", "look")
    return "no output" if request.attempt == 1 else {"n": 1}


def hands() -> Played:
    """An agent with a tool of each effect class, beside a function, and then a `write`."""
    agent = AgentPlan(
        prompt="Do it.",
        model="m",
        output_schema=SCHEMA,
        recovery_limit=2,
        tools=tuple(one.path for one in TOOLS),
    )
    plan = plan_of(
        NodePlan(id="hand", work=agent),
        NodePlan(id="part", work=_function("part", "idempotent")),
        NodePlan(id="publish", work=_function("publish", "write"), needs=("hand", "part")),
        tools={one.path: one for one in TOOLS},
    )
    return Played(plan, None, _hands, CODE)


def _spent(request: ModelRequest) -> Scripted:
    """Is cut off, mails, and hands in nothing until somebody gives it a fresh allowance."""
    if request.attempt == 1:
        return Failure(cause=Cause(kind="reset", message="reset"), transient=True)
    if _rounds(request) == 0:
        return _calls(request, "mail")
    return "no output" if request.attempt in (2, 3, 4) else {"n": 1}


def spent() -> Played:
    """An agent that uses up its allowance, beside a fan-out of writes."""
    agent = AgentPlan(
        prompt="Do it.", model="m", output_schema=SCHEMA, recovery_limit=2, tools=("steps:mail",)
    )
    plan = plan_of(
        NodePlan(id="spent", work=agent),
        NodePlan(id="publish", work=_function("publish", "write"), for_each="input"),
        NodePlan(id="part", work=_function("part", "read"), needs=("spent", "publish")),
        tools={one.path: one for one in TOOLS},
    )
    return Played(plan, [1, 2], _spent, CODE)
