"""
The one thing in the world that a decision asked for, done once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, assert_never

from msgspec.structs import replace

from mulligan.actors.write_process import not_run
from mulligan.actors.writes import Write
from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    DraftOutcome,
    Effect,
    FunctionOutcome,
    JudgeDraft,
    ModelOutcome,
    ObservedOutcome,
    ObserveTool,
    Outcome,
    ReworkDraft,
    RunTool,
    ToolOutcome,
)
from mulligan.decisions.waiting import DEADLINE_EXCEEDED
from mulligan.errors import MulliganError
from mulligan.events.crash_points import reach
from mulligan.events.facts import Cause, ToolStartLost
from mulligan.events.intents import Intent
from mulligan.events.payload import Payload, copied
from mulligan.projections.lost_starts import started, told
from mulligan.providers.port import Cancellation, Failure, Hear, Provider
from mulligan.schemas.plan import DEFAULT_TOOL_TIMEOUT_MS, CodeRef, ToolSpec
from mulligan.tools.call import call_function
from mulligan.tools.registry import Tool
from mulligan.tools.result import ToolResult

if TYPE_CHECKING:
    from mulligan.actors.session import Session
    from mulligan.tools.mcp.call import McpCall

T = TypeVar("T")

SHOWN = 3
"""Of the writes that the log has lost a message names so many; the facts name all."""


def perform(session: Session, effect: Effect) -> Outcome:
    """Do it, and say what came of it: a failure of what was done is an outcome, not an error."""
    match effect:
        case AskModel():
            return _ask(session, effect)
        case RunTool():
            return _run_tool(session, effect)
        case ObserveTool():
            return observe_tool(session.code_of(effect), effect)
        case CallFunction():
            return _call_function(session, effect)
        case JudgeDraft():
            return _judge(session, effect)
        case ReworkDraft():
            return _rework(session, effect)
        case _:
            assert_never(effect)


def _ask(session: Session, effect: AskModel) -> ModelOutcome:
    cancellation = Cancellation()
    session.lease.on_stop(cancellation.cancel)
    reach("model.before")
    with session.runtime.live.hearing(session.run, effect.prepared.request) as hear:
        outcome = ask_model(session.runtime.provider, effect, cancellation, hear)
    session.slot.give_back(outcome)
    reach("model.after")
    return outcome


def ask_model(
    provider: Provider, effect: AskModel, cancellation: Cancellation, hear: Hear | None = None
) -> ModelOutcome:
    """Send a request, once, and give it up at the end of its time; `hear` is told what streams."""
    with _deadline(effect.within_ms, cancellation) as deadline:
        result = provider.ask(effect.prepared, cancellation, hear)
    if isinstance(result, Failure) and deadline.passed:
        result = Failure(cause=DEADLINE_EXCEEDED, transient=False)
    return ModelOutcome(effect.prepared.request.request_id, result)


class _Deadline:
    """Whether a deadline has passed."""

    passed = False


@contextmanager
def _deadline(within_ms: int | None, cancellation: Cancellation) -> Iterator[_Deadline]:
    """Cancel what is done within this context once its time is over."""
    deadline = _Deadline()
    if within_ms is None:
        yield deadline
        return

    def pass_() -> None:
        deadline.passed = True
        cancellation.cancel()

    timer = threading.Timer(within_ms / 1000, pass_)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    finally:
        timer.cancel()


def _run_tool(session: Session, effect: RunTool) -> ToolOutcome:
    tool = session.code_of(effect)
    spec = effect.spec
    timeout_ms = spec.timeout_ms or DEFAULT_TOOL_TIMEOUT_MS
    reach("tool.before")
    started_s = time.monotonic()
    if effect.effect == "write":
        write = _write_of(session, "tool", spec, effect.arguments, timeout_ms)
        server_tool = spec if spec.mcp is not None else None
        write = replace(write, key=effect.key, context=effect.context, server_tool=server_tool)
        result, lost = _do_write(session, effect.call_id, write)
    else:
        result, lost = within(timeout_ms, called(tool, effect)), ()
    duration_ms = int((time.monotonic() - started_s) * 1000)
    reach("tool.after")
    return replace(tool_outcome(effect, result, duration_ms, timeout_ms), lost=lost)


def observe_tool(tool: Tool[..., Any] | McpCall, effect: ObserveTool) -> ObservedOutcome:
    """Ask a tool's `verify`; one that does not answer within the tool's time can't tell."""
    timeout_ms = effect.spec.timeout_ms or DEFAULT_TOOL_TIMEOUT_MS
    arguments = copied(effect.arguments)
    seen = within(
        timeout_ms, partial(tool.observe, arguments, key=effect.key, context=effect.context)
    )
    if seen == "succeeded" or seen == "not_started":
        return ObservedOutcome(effect.call_id, seen)
    return ObservedOutcome(effect.call_id, "unknown")


def called(tool: Tool[..., Any] | McpCall, effect: RunTool) -> Callable[[], ToolResult]:
    """The call of a tool, to be made in this process."""
    arguments = copied(effect.arguments)
    return partial(tool.call, arguments, key=effect.key, context=effect.context)


def tool_outcome(
    effect: RunTool, result: ToolResult | None, duration_ms: int, timeout_ms: int
) -> ToolOutcome:
    """
    What a tool came to. None: it gave no result, and a `write` may have taken effect, as it may if
    the tool itself says that it can't tell.
    """
    error = _error(result, duration_ms, timeout_ms)
    return ToolOutcome(
        call_id=effect.call_id,
        execution=effect.execution,
        result=Payload.of(result.value) if result is not None and error is None else None,
        error=error,
        unknown=effect.effect == "write" and _open_ended(result),
        duration_ms=duration_ms,
    )


def _call_function(session: Session, effect: CallFunction) -> FunctionOutcome:
    function = session.code_of(effect)
    plan = effect.plan
    reach("function.before")
    started_s = time.monotonic()
    if plan.effect == "write":
        write = _write_of(session, "function", plan.call, effect.arguments, plan.timeout_ms)
        result, lost = _do_write(session, effect.node, write)
    else:
        call = partial(call_function, function, copied(effect.arguments))
        result, lost = within(plan.timeout_ms, call), ()
    duration_ms = int((time.monotonic() - started_s) * 1000)
    reach("function.after")
    error = _error(result, duration_ms, plan.timeout_ms)
    return FunctionOutcome(
        node=effect.node,
        output=Payload.of(result.value) if result is not None and error is None else None,
        error=error,
        questions=result.questions if result is not None else (),
        unknown=plan.effect == "write" and _open_ended(result),
        lost=lost,
    )


def _judge(session: Session, effect: JudgeDraft) -> DraftOutcome:
    gates = session.code_of(effect)
    reach("gates.before")
    result = call_function(gates, copied(effect.values))
    reach("gates.after")
    return DraftOutcome(node=effect.node, quality=result.value, error=_error(result, 0, None))


def _rework(session: Session, effect: ReworkDraft) -> DraftOutcome:
    """Both functions are pure, so a crash between them costs nothing but doing them again."""
    rework, gates = session.code_of(effect)
    reach("rework.before")
    answer = call_function(rework, copied(effect.given))
    quality = None
    if isinstance(answer.value, dict) and "draft" in answer.value:
        values = {**effect.values, "draft": answer.value["draft"]}
        quality = call_function(gates, copied(values))
    reach("rework.after")
    failed = answer if answer.is_error or quality is None else quality
    return DraftOutcome(
        node=effect.node,
        answer=answer.value,
        quality=quality.value if quality is not None else None,
        error=_error(failed, 0, None),
    )


def _do_write(
    session: Session, call_id: str, write: Write
) -> tuple[ToolResult | None, tuple[ToolStartLost, ...]]:
    """
    Run it, if its start is as safe as was asked for, and no other write of the run is known to a
    witness that the log has lost. Else say why not, and what was lost.
    """
    fold = session.fold
    starts = started(fold.branch(), call_id)
    if not starts:
        return not_run("the log has lost its start: the server was set back"), ()
    intent = Intent(
        run=session.run,
        call_id=call_id,
        execution=len(starts),
        event=starts[-1],
        code=write.path,
        digest=Payload.of(write.arguments).digest if write.kind == "tool" else "",
        at_ms=session.now_ms(),
    )
    try:
        lost = session.runtime.intents.announce(intent, fold.branch, fold.catch_up)
    except MulliganError as error:
        return not_run(str(error)), ()
    if lost:
        return _not_begun(lost), lost
    return session.runtime.writes.run(session.lease, write), ()


def _not_begun(lost: tuple[ToolStartLost, ...]) -> ToolResult:
    shown = "; ".join(told(one) for one in lost[:SHOWN]) + (" …" if len(lost) > SHOWN else "")
    message = f"it was not begun: the log was set back, and had lost the start of {shown}"
    return ToolResult(is_error=True, code="start_lost", message=message[:500], unknown=True)


def _write_of(
    session: Session,
    kind: Literal["tool", "function"],
    code: ToolSpec | CodeRef,
    arguments: Any,
    timeout_ms: int | None,
) -> Write:
    """What must not be repeated, to be run where the lease's end stops it."""
    return Write(
        kind=kind,
        path=code.path,
        digest=code.digest,
        folders=session.fold.code_path,
        arguments=arguments,
        timeout_ms=timeout_ms,
    )


def _open_ended(result: ToolResult | None) -> bool:
    return result is None or result.unknown


def _error(result: ToolResult | None, took_ms: int, timeout_ms: int | None) -> Cause | None:
    if result is None and (timeout_ms is None or took_ms < timeout_ms):
        return Cause(kind="stopped", message="its process ended before it returned")
    if result is None:
        return Cause(kind="timeout", message=f"no result within {timeout_ms} ms")
    if result.is_error:
        return Cause(kind=result.code or "failed", message=result.message or "")
    return None


def within(timeout_ms: int | None, call: Callable[[], T]) -> T | None:
    """
    What `call` returns, or None where it does not within its time: it is then left to itself in a
    thread that nobody waits for, since Python can't stop it.
    """
    if timeout_ms is None:
        return call()
    returned: list[T] = []
    bound = copy_context()  # what lines of the log and spans of users' own are about
    thread = threading.Thread(target=lambda: returned.append(bound.run(call)), daemon=True)
    thread.start()
    thread.join(timeout_ms / 1000)
    return returned[0] if returned else None
