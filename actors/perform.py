"""
The one thing in the world that a decision asked for, done once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

import structlog

from mulligan.actors.crash_points import reach
from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    Effect,
    FunctionOutcome,
    ModelOutcome,
    Outcome,
    RunTool,
    ToolOutcome,
)
from mulligan.events.facts import Cause, EffectClass
from mulligan.events.payload import Payload
from mulligan.providers.port import Cancellation
from mulligan.schemas.plan import DEFAULT_TOOL_TIMEOUT_MS
from mulligan.tools.call import call_function
from mulligan.tools.result import ToolResult

if TYPE_CHECKING:
    from mulligan.actors.session import Session

T = TypeVar("T")

_log = structlog.get_logger(__name__)


def perform(session: Session, effect: Effect) -> Outcome | None:
    """
    Do it, and say what came of it: a failure of what was done is an outcome, not an error. None:
    it is a `write`, and the lease was lost before it began.
    """
    match effect:
        case AskModel():
            return _ask(session, effect)
        case RunTool():
            return _run_tool(session, effect)
        case CallFunction():
            return _call_function(session, effect)
        case _:
            assert_never(effect)


def _ask(session: Session, effect: AskModel) -> ModelOutcome:
    cancellation = Cancellation()
    session.lease.on_stop(cancellation.cancel)
    reach("model.before")
    result = session.runtime.provider.ask(effect.prepared, cancellation)
    reach("model.after")
    return ModelOutcome(effect.prepared.request.request_id, result)


def _run_tool(session: Session, effect: RunTool) -> ToolOutcome | None:
    tool = session.code_of(effect)
    timeout_ms = effect.spec.timeout_ms or DEFAULT_TOOL_TIMEOUT_MS
    reach("tool.before")
    if not _may_begin(session, effect.spec.effect):
        return None
    started_s = time.monotonic()
    result = _within(timeout_ms, partial(tool.call, effect.arguments, key=effect.key))
    duration_ms = int((time.monotonic() - started_s) * 1000)
    reach("tool.after")
    error = _error(result, timeout_ms)
    return ToolOutcome(
        call_id=effect.call_id,
        result=Payload.of(result.value) if result is not None and error is None else None,
        error=error,
        unknown=result is None and effect.spec.effect == "write",
        duration_ms=duration_ms,
    )


def _call_function(session: Session, effect: CallFunction) -> FunctionOutcome | None:
    function = session.code_of(effect)
    reach("function.before")
    if not _may_begin(session, effect.plan.effect):
        return None
    result = _within(effect.plan.timeout_ms, partial(call_function, function, effect.arguments))
    reach("function.after")
    error = _error(result, effect.plan.timeout_ms)
    output = Payload.of(result.value) if result is not None and error is None else None
    return FunctionOutcome(node=effect.node, output=output, error=error)


def _may_begin(session: Session, effect: EffectClass) -> bool:
    """
    Whether it may run here. Before a `write` the server is asked: a worker that slept through its
    lease must not wake up and write, since others have called its outcome unknown by then.
    """
    if effect != "write" or session.runtime.leases.renew(session.lease):
        return True
    _log.warning("lease_lost_before_write")
    return False


def _error(result: ToolResult | None, timeout_ms: int | None) -> Cause | None:
    if result is None:
        return Cause(kind="timeout", message=f"no result within {timeout_ms} ms")
    if result.is_error:
        return Cause(kind=result.code or "failed", message=result.message or "")
    return None


def _within(timeout_ms: int | None, call: Callable[[], T]) -> T | None:
    """
    What `call` returns, or None where it does not within its time: it is then left to itself in a
    thread that nobody waits for, since Python can't stop it.
    """
    if timeout_ms is None:
        return call()
    returned: list[T] = []
    thread = threading.Thread(target=lambda: returned.append(call()), daemon=True)
    thread.start()
    thread.join(timeout_ms / 1000)
    return returned[0] if returned else None
