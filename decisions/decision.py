"""
The vocabulary of decisions: what comes in, and what goes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from mulligan.events.envelope import NewEvent
from mulligan.events.facts import Cause, EffectClass, ToolStartLost
from mulligan.events.payload import Payload
from mulligan.events.sealed import Sealed
from mulligan.events.store import Move
from mulligan.providers.port import Answer, Failure, ModelRequest, Prepared
from mulligan.schemas.plan import FunctionPlan, PluginPlan, ToolSpec
from mulligan.schemas.run_context import RunContext

# --- In ------------------------------------------------------------------------------------------


class NoSlot(msgspec.Struct, frozen=True):
    """
    A request has to wait in `lane`: look again after `wait_ms`, or when called (REC-34). `tenant`:
    it is that tenant's limit which is reached.
    """

    lane: str
    wait_ms: int
    tenant: str | None = None


class Context(msgspec.Struct, frozen=True):
    """
    What a decision may ask about the world besides the state: the server's time, the value behind
    a payload (content-addressed, so the same whenever it is read), how a request would leave,
    `chance`, a random number from 0 to 1 for the jitter of waits, the candidate that is sealed for
    a task of the overseer's, None once it is gone, `no_slot`, if it is known that no request may
    leave now, how long a worker that lost the task may still do what it was doing, and `turn_ms`,
    if the run's tenant may not have it begin now: when to look again, if it is not called.
    """

    now_ms: int
    value_of: Callable[[Payload], Any]
    prepare: Callable[[ModelRequest], Prepared]
    chance: float
    candidate_of: Callable[[str], str | None]
    no_slot: NoSlot | None = None
    others_end_in_ms: int = 0
    turn_ms: int | None = None


class ModelOutcome(msgspec.Struct, frozen=True):
    """What came of a request."""

    request_id: str
    result: Answer | Failure


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of a tool's `execution`: a result, or a typed error; `unknown`: it may have taken
    effect. It was not begun where there are `lost` starts: of writes that a witness knows of, and
    the log does not.
    """

    call_id: str
    execution: int = 1
    result: Payload | None = None
    error: Cause | None = None
    unknown: bool = False
    duration_ms: int
    lost: tuple[ToolStartLost, ...] = ()


class ObservedOutcome(msgspec.Struct, frozen=True):
    """What a tool's own `verify` says of a call that left no receipt (REC-31)."""

    call_id: str
    seen: Literal["succeeded", "not_started", "unknown"]


class FunctionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of a function node's call: an output, or an error, which may be that it has
    `questions` to people; `unknown`: it may have taken effect. For `lost` see `ToolOutcome`.
    """

    node: str
    output: Payload | None = None
    error: Cause | None = None
    questions: tuple[dict[str, Any], ...] = ()
    unknown: bool = False
    lost: tuple[ToolStartLost, ...] = ()


class DraftOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of judging a draft, or of redoing one: the answer of `rework`, None where it was only
    judged, and the report of the gates, None where no new draft came; or an error.
    """

    node: str
    answer: Any = None
    quality: Any = None
    error: Cause | None = None


Outcome = ModelOutcome | ToolOutcome | ObservedOutcome | FunctionOutcome | DraftOutcome

# --- Out -----------------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """
    Send this request, once. Not answered `within_ms`, it is given up, as a `Failure` of the kind
    `deadline_exceeded`.
    """

    prepared: Prepared
    within_ms: int | None = None


class RunTool(msgspec.Struct, frozen=True):
    """
    Run this tool, once, handing it the key and the run's context; `execution` counts the call's
    starts, `effect` is the class of this call.
    """

    call_id: str
    spec: ToolSpec
    arguments: Any
    key: str
    execution: int = 1
    effect: EffectClass = "write"
    context: RunContext | None = None


class ObserveTool(msgspec.Struct, frozen=True):
    """Ask this tool's `verify`, once, whether the call took effect; the tool itself is not run."""

    call_id: str
    spec: ToolSpec
    arguments: Any
    key: str
    context: RunContext | None = None


class CallFunction(msgspec.Struct, frozen=True):
    """Call this function, once."""

    node: str
    plan: FunctionPlan
    arguments: dict[str, Any]


class JudgeDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Have the gates judge a draft; `values` are the draft and what they name of the workflow's."""

    node: str
    gates: PluginPlan
    values: dict[str, Any]


class ReworkDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Have this draft redone, and the gates judge the new one, if it comes to one."""

    node: str
    rework: PluginPlan
    given: dict[str, Any]
    gates: PluginPlan
    values: dict[str, Any]


Effect = AskModel | RunTool | ObserveTool | CallFunction | JudgeDraft | ReworkDraft
"""The one thing in the world that follows a decision; its intent is among the events."""


class Release(msgspec.Struct, frozen=True):
    """The task is left: it ends, waits to be woken, or comes back after `delay_ms`."""

    to: Literal["end", "wait", "timer"]
    delay_ms: int = 0


class Step(msgspec.Struct, frozen=True):
    """
    One step of a decision: events, then an effect or a release. With neither, the next step is
    taken on the state that the events lead to. `sealed` and `discarded`: candidates (see `Append`).
    """

    events: tuple[NewEvent, ...] = ()
    effect: Effect | None = None
    release: Release | None = None
    phase: Literal["cancelling", "closed"] | None = None
    sealed: tuple[Sealed, ...] = ()
    discarded: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """
    A whole decision: what to append in one piece, and what to do after it. Where the task is
    released, `follows` is the one to go on with, and an effect is its; `as_of` is the run's version
    for which alone the decisions of others hold that are among it.
    """

    events: tuple[NewEvent, ...]
    moves: tuple[Move, ...]
    effect: Effect | None
    release: Release | None
    phase: Literal["cancelling", "closed"] | None
    sealed: tuple[Sealed, ...] = ()
    discarded: tuple[str, ...] = ()
    follows: str | None = None
    as_of: int | None = None
