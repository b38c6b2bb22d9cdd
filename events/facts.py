"""
The facts of a run: one immutable struct each, named noun first in the past tense.

The class name is the stable tag under which a fact is stored; `VERSION` counts its shapes
(`events/upcast.py` lifts old ones). A released fact never changes its meaning: new fields have
defaults, and another meaning is another fact. The node and the attempt that a fact is about stand
in its envelope.

Ids: an `invocation` is a node's instance id (`collect`, `part[3]`) or, for a subagent, the id of
the call that began it; a `request_id` is `<invocation>#<n>` for the n-th request of an invocation;
a `call_id` is `<invocation>.<turn>.<n>` for the n-th call of a turn. All are made by counting, so
that a worker that takes over makes the same ones.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from mulligan.events.payload import Payload

PauseReason = Literal[
    "exhausted",
    "awaiting_input",
    "awaiting_approval",
    "awaiting_decision",
    "awaiting_signal",
    "reconciliation_required",
    "context_exceeded",
    "parked",
    "operator",
]
RetryReason = Literal[
    "transport",
    "length",
    "eof",
    "empty_turn",
    "invalid_json",
    "wrong_envelope",
    "schema_violation",
    "mixed_turn",
    "repetitive_output",
]
OverlapPolicy = Literal["skip", "allow"]
"""What becomes of a firing while the run of an earlier one has not ended."""
CatchUpPolicy = Literal["none", "last", "all"]
"""Which of the moments that passed while no worker was up are made up for."""
SkipReason = Literal[
    "overlap", "missed", "unusable", "run_id_taken", "tenant_queue_full", "workers_lost"
]
"""Why a firing has no run."""
ScheduleStatus = Literal["active", "paused", "removed"]
ToolOutcome = Literal["not_started", "succeeded", "failed", "unknown"]
EffectClass = Literal["read", "idempotent", "write"]
OutputMode = Literal["native", "tool", "prompt"]
RepairableKind = Literal["invalid_json", "wrong_envelope", "schema_violation"]
"""What an output can be rejected as and still be worth a repair by the overseer (OVR-3)."""
RepairFailure = Literal[
    "invocation_failed",
    "not_completed",
    "missing_arguments",
    "oversize",
    "truncated",
    "protocol_failed",
    "interrupted",
    "candidate_expired",
]
"""Why the overseer could not help (OVR-7)."""
ReviewVerdict = Literal["approved", "approved_with_minor_suggestions", "rejected"]
Priority = Literal[-1, 0, 1]
"""Of a run's wake-ups in the queue: the smaller goes first."""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every fact has: a version of its shape."""

    VERSION: ClassVar[int] = 1


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens as the provider reported them; what it left out is None, never 0 (REC-21)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    Why something ended: a kind, a fixed message without provider text, the HTTP status. `named` is
    how the provider named its error, for people to look it up (`code …, type …, param …, request
    …`): identifiers only, never its message, which may quote what it was sent.
    """

    kind: str
    message: str
    status: int | None = None
    named: str | None = None

    @property
    def told(self) -> str:
        """All of it but the kind, in a line."""
        status = f"status {self.status}" if self.status is not None else None
        more = "; ".join(filter(None, (status, self.named)))
        return f"{self.message} ({more})" if more else self.message


class CallMade(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A function call that a turn contained: our id, the provider's, and the name called."""

    call_id: str
    provider_id: str
    name: str


class OutputIssue(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is wrong with an output, without quoting it."""

    code: str
    path: str = ""
    schema_path: str = ""
    message: str = ""


# --- Run -----------------------------------------------------------------------------------------


class RunRequested(Fact, frozen=True, kw_only=True):
    """
    A producer asked for a run. `plan` is the compiled workflow, whole, as it will be worked;
    `traceparent` the span in which it was asked for, as W3C Trace Context writes it, `tenant` whom
    it is for: whose limits it is held to.
    """

    workflow: str
    workflow_version: int
    digest: str
    plan: dict[str, Any]
    input: Payload
    tags: tuple[str, ...] = ()
    origin_window: str | None = None
    priority: Priority = 0
    traceparent: str | None = None
    tenant: str | None = None


class TurnAwaited(Fact, frozen=True, kw_only=True):
    """
    A run can't begin yet: its tenant, or all tenants together, have as many at once as they may.
    It begins by itself when its turn comes. Recorded when the wait begins.
    """

    tenant: str


class RunStarted(Fact, frozen=True, kw_only=True):
    """A worker took the run up for the first time."""


class RunPaused(Fact, frozen=True, kw_only=True):
    """Nothing moves until a person, or an operator's command, does something about the reason."""

    reason: PauseReason
    detail: str = ""


class RunResumed(Fact, frozen=True, kw_only=True):
    """An operator let paused work go on: of one node, or of all."""

    target: str | None = None


class RunCancelRequested(Fact, frozen=True, kw_only=True):
    """Someone asked for the run to be cancelled; nothing new is started from here on."""

    reason: str = ""


class RunCancelled(Fact, frozen=True, kw_only=True):
    """The run has ended by cancellation."""


class RunCompleted(Fact, frozen=True, kw_only=True):
    """The run has ended with an output."""

    output: Payload


class RunFailed(Fact, frozen=True, kw_only=True):
    """The run has ended without an output."""

    code: str
    message: str
    failed_node: str | None = None


class RunForked(Fact, frozen=True, kw_only=True):
    """The run began as a copy of another's first events."""

    parent: str
    at_version: int


# --- Nodes and timers ----------------------------------------------------------------------------


class NodeReady(Fact, frozen=True, kw_only=True):
    """
    A node's needs are met. With `fan_out` it is a `for_each` node whose `fan_out` instances
    (`id[0]` …) follow; with `index` it is one of them. `carried` nodes are worked by the run's own
    task, in place; the others have a task of their own.
    """

    carried: bool = False
    fan_out: int | None = None
    index: int | None = None


class NodeStarted(Fact, frozen=True, kw_only=True):
    """Work on a node's attempt begins; for a function node, its intent to call."""


class NodeCompleted(Fact, frozen=True, kw_only=True):
    """A node has its output."""

    output: Payload


class NodeFailed(Fact, frozen=True, kw_only=True):
    """A node has ended without an output."""

    code: str
    message: str


class NodePaused(Fact, frozen=True, kw_only=True):
    """An invocation of the node (its own or a subagent's) waits for a person."""

    reason: PauseReason
    invocation: str
    detail: str = ""


class NodeCancelled(Fact, frozen=True, kw_only=True):
    """A node will not be worked any more, since its run is ending."""


class NodeSkipped(Fact, frozen=True, kw_only=True):
    """A node is left out: its condition was false, or all that it needs was left out."""

    because: Literal["condition", "needs"]


class TimerSet(Fact, frozen=True, kw_only=True):
    """
    Work goes on after a delay. For a retry: what failed, and the attempt that comes next. With
    `invocation` it is that agent which waits (a node has several), else the node's function.
    """

    purpose: Literal["retry", "backoff", "deadline"]
    delay_ms: int
    next_attempt: int | None = None
    cause: Cause | None = None
    invocation: str | None = None


class TimerFired(Fact, frozen=True, kw_only=True):
    """The delay is over."""

    purpose: Literal["retry", "backoff", "deadline"]
    invocation: str | None = None


# --- Signals -------------------------------------------------------------------------------------


class SignalAwaited(Fact, frozen=True, kw_only=True):
    """
    A node waits for a signal of that name, for `timeout_ms` at most, if that is said. Of those that
    came before and that nobody has taken, it takes the oldest.
    """

    name: str
    timeout_ms: int | None = None


class SignalReceived(Fact, frozen=True, kw_only=True):
    """
    Somebody outside sent a signal: `key` is its id, by which it is known when it is sent again. Of
    the nodes that wait for its name the one that waits longest takes it; it is kept for the next,
    if none does.
    """

    name: str
    key: str
    data: Payload
    by: str = ""


class SignalTimedOut(Fact, frozen=True, kw_only=True):
    """
    No signal came in time. The node ends with the output that was declared for this (`default`), or
    fails.
    """

    name: str
    outcome: Literal["default", "failed"]


# --- Schedules -----------------------------------------------------------------------------------
# These stand in the stream of a schedule (`events/schedules.py`), never in that of a run.


class ScheduleTerms(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    When a schedule fires, and what it asks for then. `cron` has five fields and goes by the clocks
    of `timezone`. `source` is the name by which workers load the workflow anew at each firing;
    None: its definition is kept beside this, with the folders of its modules in `code_path`.
    `model` takes the place of that in its settings, `default_model` that of a missing one.
    """

    cron: str
    timezone: str
    workflow: str
    source: str | None = None
    code_path: tuple[str, ...] = ()
    model: str | None = None
    default_model: str | None = None
    tags: tuple[str, ...] = ()
    priority: Priority = 0
    tenant: str | None = None
    overlap: OverlapPolicy = "skip"
    catch_up: CatchUpPolicy = "last"


class ScheduleEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    A firing, and what came of it: `open` until its run is asked for, or it is known why it is not.
    An entry of skipped moments names no run, and tells of `count` of them, up to `due_ms`.
    """

    due_ms: int
    run: str | None = None
    by: str | None = None
    outcome: Literal["open", "requested", "skipped"] = "open"
    reason: SkipReason | None = None
    detail: str = ""
    count: int = 1
    from_ms: int | None = None
    fired_ms: int = 0


class ScheduleCreated(Fact, frozen=True, kw_only=True):
    """A schedule was created, or its terms were replaced; `definition` if they name no source."""

    terms: ScheduleTerms
    input: Payload
    definition: Payload | None = None
    by: str = ""


class SchedulePaused(Fact, frozen=True, kw_only=True):
    """It does not fire until it is resumed."""

    by: str = ""
    reason: str = ""


class ScheduleResumed(Fact, frozen=True, kw_only=True):
    """It fires again; what would have been due meanwhile is not made up for."""

    by: str = ""


class ScheduleRemoved(Fact, frozen=True, kw_only=True):
    """It does not fire any more; another may be created under its name."""

    by: str = ""


class ScheduleFired(Fact, frozen=True, kw_only=True):
    """
    The intent to ask for a run of that id, for the moment `due_ms`; `by` whom, if a person asked
    for it now.
    """

    run: str
    due_ms: int
    by: str | None = None


class ScheduleRunRequested(Fact, frozen=True, kw_only=True):
    """The run of a firing is asked for."""

    run: str


class ScheduleSkipped(Fact, frozen=True, kw_only=True):
    """
    No run: of the firing of that `run`, or of the `count` moments from `from_ms` to `due_ms` that
    were due. A `count` of 10,000 may be more.
    """

    reason: SkipReason
    due_ms: int
    run: str | None = None
    detail: str = ""
    count: int = 1
    from_ms: int | None = None


class ScheduleCompacted(Fact, frozen=True, kw_only=True):
    """What the facts before it came to; they are dropped (`Append.begins_anew`)."""

    terms: ScheduleTerms
    input: Payload
    definition: Payload | None = None
    status: ScheduleStatus
    detail: str = ""
    created_ms: int
    cursor_ms: int
    entries: tuple[ScheduleEntry, ...] = ()
    scheduled_run: str | None = None
    asked_run: str | None = None


# --- Model ---------------------------------------------------------------------------------------


class SlotAwaited(Fact, frozen=True, kw_only=True):
    """
    A request has to wait, since its provider takes no more now: it stands in `lane` until it leaves
    (REC-34), or since a limit of the run's `tenant` is reached. Recorded when the wait begins.
    """

    invocation: str
    lane: str
    tenant: str | None = None


class ModelRequested(Fact, frozen=True, kw_only=True):
    """
    A request is about to leave (the intent). `asked` are the parameters that the workflow set,
    `sent` those of the request's body; `digest` is of the body as a whole.

    `retry_of` names the request of the same turn that this one comes after: it repeats it, body and
    all, where the transport failed or a worker was lost, and takes its place where the response was
    of no use (`AllowanceReserved.request_id` and its reason tell which).
    """

    request_id: str
    invocation: str
    turn: int
    mode: OutputMode
    model: str
    digest: str
    asked: dict[str, Any] = {}
    sent: dict[str, Any] = {}
    retry_of: str | None = None


class ModelAnswered(Fact, frozen=True, kw_only=True):
    """
    A response came to its end. `finish_reason` is as received, or None; `terminal` tells whether a
    terminal event was seen; `text` is kept for turns that stay in the conversation only.
    """

    request_id: str
    invocation: str
    finish_reason: str | None
    terminal: bool
    usage: Usage | None = None
    served_model: str | None = None
    calls: tuple[CallMade, ...] = ()
    text: Payload | None = None
    digest: str = ""


class ModelFailed(Fact, frozen=True, kw_only=True):
    """A request ended in an error of the transport or of the provider."""

    request_id: str
    invocation: str
    cause: Cause
    retry_after_ms: int | None = None
    transient: bool = False


class ModelInterrupted(Fact, frozen=True, kw_only=True):
    """The worker that had sent a request was lost before it recorded what came back."""

    request_id: str
    invocation: str


class HistoryCompacted(Fact, frozen=True, kw_only=True):
    """Older tool rounds were shortened so that the next request fits the context."""

    invocation: str
    call_ids: tuple[str, ...]
    tokens_before: int
    tokens_after: int


# --- Allowance -----------------------------------------------------------------------------------


class AllowanceReserved(Fact, frozen=True, kw_only=True):
    """
    One extra attempt is spent, before it begins; the envelope's attempt is the one it ends,
    `request_id` the request that failed, and `cause` how.
    """

    invocation: str
    reason: RetryReason
    next_attempt: int
    used: int
    limit: int
    request_id: str | None = None
    delay_ms: int | None = None
    cause: Cause | None = None


class AllowanceRefunded(Fact, frozen=True, kw_only=True):
    """A request succeeded and gives back what it had reserved for transport."""

    invocation: str
    request_id: str
    count: int
    used: int


class AllowanceExhausted(Fact, frozen=True, kw_only=True):
    """Automatic recovery ends here, with the cause that it could not get over."""

    invocation: str
    reason: RetryReason
    cause: Cause


# --- Output --------------------------------------------------------------------------------------


class OutputRejected(Fact, frozen=True, kw_only=True):
    """A candidate was not accepted; it is named by digest and size, never quoted."""

    invocation: str
    kind: Literal["truncated", "refused", "invalid_json", "wrong_envelope", "schema_violation"]
    issues: tuple[OutputIssue, ...] = ()
    digest: str = ""
    bytes: int = 0


class OutputRepairRequested(Fact, frozen=True, kw_only=True):
    """
    The overseer is asked to repair a sealed candidate, which is named by digest and size.
    `provider_id` is the provider's id of the call that carried it; None where it came as text.
    """

    invocation: str
    kind: RepairableKind
    digest: str
    bytes: int
    provider_id: str | None = None


class OutputRepairStarted(Fact, frozen=True, kw_only=True):
    """
    The overseer's one request is about to leave: the `ModelRequested` beside it, which is of the
    overseer's own invocation.
    """

    invocation: str
    model: str
    request_id: str


class OutputRepairSucceeded(Fact, frozen=True, kw_only=True):
    """
    The overseer's answer passed the completion protocol, as the output of the call `provider_id`.
    `novel` are paths of strings and numbers that the candidate did not hold (OUT-6).
    """

    invocation: str
    model: str
    request_id: str
    provider_id: str | None = None
    novel: tuple[str, ...] = ()


class OutputRepairFailed(Fact, frozen=True, kw_only=True):
    """The overseer could not help; the original error stands. `detail` says more in fixed words."""

    invocation: str
    reason: RepairFailure
    request_id: str | None = None
    detail: str = ""
    novel: tuple[str, ...] = ()


class OutputAccepted(Fact, frozen=True, kw_only=True):
    """A candidate is the invocation's output; the steps that led to it, and what was coerced."""

    invocation: str
    digest: str
    assistant_message: str | None = None
    steps: tuple[str, ...] = ()
    coercions: tuple[str, ...] = ()


# --- Tools ---------------------------------------------------------------------------------------


class ToolRequested(Fact, frozen=True, kw_only=True):
    """The model called a tool. `key` is what an `idempotent` tool is handed at every execution."""

    call_id: str
    invocation: str
    tool: str
    provider_id: str
    arguments: Payload
    effect: EffectClass
    key: str


class ToolApprovalRequested(Fact, frozen=True, kw_only=True):
    """A person has to allow the call before it is started; what is shown of it is here again."""

    call_id: str
    tool: str = ""
    effect: EffectClass | None = None
    arguments: Payload | None = None


class ToolApproved(Fact, frozen=True, kw_only=True):
    """A person allowed the call."""

    call_id: str
    by: str = ""


class ToolDenied(Fact, frozen=True, kw_only=True):
    """A person refused the call, which is never started; the model is told."""

    call_id: str
    reason: str = ""
    by: str = ""


class ToolStarted(Fact, frozen=True, kw_only=True):
    """A tool is about to run (the intent); `execution` counts from 1."""

    call_id: str
    execution: int


class ToolSucceeded(Fact, frozen=True, kw_only=True):
    """A tool returned."""

    call_id: str
    result: Payload
    duration_ms: int | None = None


class ToolFailed(Fact, frozen=True, kw_only=True):
    """
    A tool did not do its work; the model is told the code and the message. Once the call has been
    started again, what its `execution` before that came to says nothing any more (None: not told).
    """

    call_id: str
    code: str
    message: str
    duration_ms: int | None = None
    execution: int | None = None


class ToolOutcomeUnknown(Fact, frozen=True, kw_only=True):
    """A `write` was started and left no receipt; whether it took effect is open (REC-31)."""

    call_id: str
    evidence: str


class ToolReceiptArrived(Fact, frozen=True, kw_only=True):
    """
    What an `execution` of a call came to in the hands of a worker whose lease another had taken, or
    whose run had ended. A success settles a call that nobody else has settled, a failure only one
    that is unknown since that very execution; of a call that stands otherwise it is evidence. Of a
    function node, the id is the call's and the attempt its execution.
    """

    call_id: str
    execution: int
    outcome: ToolOutcome
    result: Payload | None = None
    code: str | None = None
    message: str | None = None
    duration_ms: int | None = None


class ToolStartLost(Fact, frozen=True, kw_only=True):
    """
    A witness outside the log knows of this start of a write, a tool's or a function node's, and the
    log had lost it: its server was set back. Whether it took effect is open. `event` is the id of
    the start that was lost, `digest` that of its arguments, `at_ms` when it was noted.
    """

    call_id: str
    execution: int
    event: str = ""
    code: str = ""
    digest: str = ""
    at_ms: int = 0


class EffectReconciled(Fact, frozen=True, kw_only=True):
    """An observation or an operator said what became of an unknown effect."""

    call_id: str
    outcome: Literal["succeeded", "failed", "retry"]
    by: str
    result: Payload | None = None


# --- People and subagents ------------------------------------------------------------------------


class InputRequested(Fact, frozen=True, kw_only=True):
    """
    An agent asks the user: with a `message` that wants free text, or with `questions` of
    `{id, header, question, options: [{label, description}]}`. `request_id` is the call's id.
    """

    request_id: str
    invocation: str
    provider_id: str
    message: str | None = None
    questions: tuple[dict[str, Any], ...] = ()


class InputProvided(Fact, frozen=True, kw_only=True):
    """The user answered: with a text, or with an object of the answers by their question's id."""

    request_id: str
    answer: Payload
    by: str = ""


class DecisionRequested(Fact, frozen=True, kw_only=True):
    """
    A repair loop asks a person to accept, abort or take over; `draft` is the digest of the best
    draft that it has.
    """

    request_id: str
    detail: str = ""
    draft: str = ""


class DecisionMade(Fact, frozen=True, kw_only=True):
    """A person decided."""

    request_id: str
    decision: Literal["accept", "abort", "take_over"]
    draft: Payload | None = None
    by: str = ""


class DecompositionRequested(Fact, frozen=True, kw_only=True):
    """
    Not even the model's whole output was enough; the workflow's `decompose` step is about to be
    asked for parts (the intent), in place of another attempt (REC-19).
    """

    invocation: str
    cause: Cause


class JoinRequested(Fact, frozen=True, kw_only=True):
    """All parts of an invocation's work are done; the workflow's `join` is about to be called."""

    invocation: str


class SubagentCalled(Fact, frozen=True, kw_only=True):
    """
    An invocation, or a repair loop, called another agent; `invocation` is the new one, and the
    call's id. `section` is the part of a draft that it works on. With `part`, counted from 1, it is
    the caller itself that works a part of what was too much for one response: `agent` says whose
    name that is.
    """

    invocation: str
    parent: str
    agent: str
    provider_id: str
    input: Payload
    section: str | None = None
    part: int | None = None


class SubagentCompleted(Fact, frozen=True, kw_only=True):
    """A called agent has its output."""

    invocation: str
    output: Payload
    assistant_message: str | None = None


class SubagentFailed(Fact, frozen=True, kw_only=True):
    """A called agent has ended without an output; its caller is told."""

    invocation: str
    code: str
    message: str


# --- Quality -------------------------------------------------------------------------------------


class QualityAssessed(Fact, frozen=True, kw_only=True):
    """
    Gates judged a draft: the first (iteration 0), a round's, or one that a person handed in.
    `draft` is its digest, `content` the draft itself, `vetoes` the number of those triggered.
    """

    iteration: int
    draft: str
    passed: bool
    score: float
    quality: Payload
    content: Payload | None = None
    vetoes: int = 0
    taken_over: bool = False


class QualityFailed(Fact, frozen=True, kw_only=True):
    """
    A draft did not pass; the repair orchestrator takes over. `gate` is the first that failed, in
    declared order, or `vetoes` or `review`.
    """

    iteration: int
    gate: str


class RepairRoundStarted(Fact, frozen=True, kw_only=True):
    """A level is applied, at an estimated cost."""

    iteration: int
    level: int
    trigger: str
    estimate_usd: float


class RepairActionApplied(Fact, frozen=True, kw_only=True):
    """One edit or rewrite of a round, with what it replaced."""

    iteration: int
    kind: str
    line: int | None = None
    section: str | None = None
    before: Payload | None = None
    after: Payload | None = None


class RepairActionSkipped(Fact, frozen=True, kw_only=True):
    """One edit that was not applied, and why."""

    iteration: int
    kind: str
    because: str
    line: int | None = None
    section: str | None = None
    before: Payload | None = None
    after: Payload | None = None


class RepairLevelPassedOver(Fact, frozen=True, kw_only=True):
    """A level had nothing to act on; no round is spent."""

    iteration: int
    level: int
    because: str


class RepairRoundCompleted(Fact, frozen=True, kw_only=True):
    """
    A round is over: the scores of the gate that triggered it before and after, and what it cost
    (None: unknown).
    """

    iteration: int
    level: int
    score_before: float
    score_after: float
    cost_usd: float | None = None


class RepairEnded(Fact, frozen=True, kw_only=True):
    """The loop is over."""

    outcome: Literal["passed", "exhausted", "halted", "accepted", "taken_over", "aborted"]
    halt_reason: Literal["rounds", "budget", "level_5_failed", "no_action"] | None = None


class ReviewReceived(Fact, frozen=True, kw_only=True):
    """
    An independent review of the draft with that digest; one of another draft is stale and does not
    count. `invocation` is the reviewer's.
    """

    draft: str
    invocation: str = ""
    stale: bool = False
    verdict: ReviewVerdict
    review: Payload


class HandedOver(Fact, frozen=True, kw_only=True):
    """The artifact left the loop."""

    completion_status: Literal["DONE", "DONE_WITH_CONCERNS", "BLOCKED", "NEEDS_INPUT"]
    draft: str


FACTS: dict[str, type[Fact]] = {kind.__name__: kind for kind in Fact.__subclasses__()}
"""Every fact by its stable tag."""
