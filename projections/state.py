"""
What a run is, folded from its log: the state that decisions are taken on.

Everything below the run is immutable and replaced as a whole, so that a decision may try events on
a branch of the state without touching the one that a process shares.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mulligan.events.facts import (
    CallMade,
    Cause,
    DecisionMade,
    EffectClass,
    OutputIssue,
    OutputMode,
    PauseReason,
    Priority,
    RepairableKind,
    RetryReason,
    ReviewVerdict,
    ToolStartLost,
)
from mulligan.events.ids import node_of_invocation, template_of
from mulligan.events.payload import Payload
from mulligan.events.tasks import node_task, repair_task, run_task, subagent_task
from mulligan.schemas.plan import (
    AgentPlan,
    FunctionPlan,
    NodePlan,
    Plan,
    RepairPlan,
    ToolSpec,
    WaitPlan,
)

RunStatus = Literal["queued", "running", "paused", "cancelling", "cancelled", "completed", "failed"]
NodeStatus = Literal[
    "pending",
    "ready",
    "running",
    "retrying",
    "paused",
    "completed",
    "failed",
    "cancelled",
    "skipped",
]
CallStatus = Literal[
    "requested",
    "awaiting_approval",
    "awaiting_input",
    "started",
    "succeeded",
    "failed",
    "unknown",
    "denied",
]
InvocationStatus = Literal["active", "paused", "completed", "failed", "cancelled"]
Phase = Literal["active", "retrying", "paused", "cancelled"]

ENDED_RUN: frozenset[RunStatus] = frozenset({"cancelled", "completed", "failed"})
ENDED_NODE: frozenset[NodeStatus] = frozenset({"completed", "failed", "cancelled", "skipped"})
ACTIVE_NODE: frozenset[NodeStatus] = frozenset({"ready", "running", "retrying"})
ANSWERED_CALL: frozenset[CallStatus] = frozenset({"succeeded", "failed", "denied"})
ASKS_A_PERSON: frozenset[PauseReason] = frozenset({"awaiting_input", "awaiting_approval"})
"""The reasons to be paused for which an agent's time goes on: the caller's limits hold for people
too."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request that was sent and has not been answered."""

    id: str
    turn: int
    attempt: int
    mode: OutputMode
    cap: int | None = None
    """the output limit in its body, in tokens"""


class Call(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A call of a tool, of a subagent, or a question to a person, and its receipt (REC-32)."""

    id: str
    name: str
    provider_id: str
    arguments: Payload
    effect: EffectClass | None = None
    """None: a call of a subagent."""
    key: str = ""
    status: CallStatus = "requested"
    executions: int = 0
    write_starts: tuple[str, ...] = ()
    """the events that announced them, of a `write`"""
    approved: bool = False
    """a person allowed it"""
    result: Payload | None = None
    error: Cause | None = None
    section: str | None = None
    """the part of a draft that a called agent works on"""
    part: int | None = None
    """which part of its caller's own work it is, from 1"""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A turn that stays in the conversation: what the model said, and what it called."""

    number: int
    attempt: int
    text: Payload | None = None
    calls: tuple[str, ...] = ()


class RecoveryEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of an allowance's history (REC-1)."""

    kind: Literal["reserve", "refund", "dispatch"]
    attempt: int
    reason: RetryReason | None = None
    request_id: str | None = None
    count: int = 1


class Recovery(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An invocation's allowance (REC-1); `requests` is a diagnostic that limits nothing."""

    invocation_id: str
    limit: int
    parent_id: str | None = None
    phase: Phase = "active"
    used: int = 0
    requests: int = 0
    exhausted: bool = False
    transport_exhausted: bool = False
    cause: Cause | None = None
    resumed_from: int | None = None
    """the number of the allowance before this one, counted from 1"""
    number: int = 1
    entries: tuple[RecoveryEntry, ...] = ()


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why the model's last response was of no use: what the next request tells it."""

    reason: RetryReason
    message: str = ""
    issues: tuple[OutputIssue, ...] = ()
    kept: bool = False
    """it called what could not be called, and stays in the conversation with what it was told"""


class Place(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where a request waits for a slot, and since when; `tenant`: for a limit of that tenant."""

    lane: str
    since_ms: int
    tenant: str | None = None


MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION = 1
"""Calls of the overseer for one attempt of an agent (OVR-2, whose name this is)."""


class OutputRepair(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The overseer's work on the output of an attempt; `over` once the agent has gone on."""

    attempt: int
    kind: RepairableKind
    requested_ms: int
    provider_id: str | None = None
    phase: Literal["requested", "started", "failed", "over"] = "requested"
    model: str = ""
    request: Request | None = None
    """the overseer's own, while it is not answered"""

    @property
    def open(self) -> bool:
        """Whether the overseer has still to say what comes of it."""
        return self.phase in ("requested", "started")


class Invocation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One execution of an agent, from its prompt to its final output."""

    id: str
    recovery: Recovery
    agent: str | None = None
    """the callable subagent's name; None: the node's own agent"""
    input: Payload | None = None
    part: int | None = None
    """which part of its caller's work it is, from 1; a part is not divided again"""
    split: Cause | None = None
    """why its work is done in parts"""
    joining: bool = False
    attempt: int = 1
    interrupted: int = 0
    """requests of this turn that a lost worker had sent"""
    request: Request | None = None
    retry_of: str | None = None
    """the request of the turn under way that the next one comes after"""
    resends: int = 0
    """reservations that the request under way has made for transport and may get back (REC-4)"""
    trouble: Trouble | None = None
    """of the turn under way; a complete tool round ends it"""
    issues: tuple[OutputIssue, ...] = ()
    """of the output that was rejected last"""
    output_repair: OutputRepair | None = None
    """the last that was asked for"""
    compacted: tuple[str, ...] = ()
    """calls whose arguments and results are shown to the model shortened (REC-20)"""
    since_ms: int = 0
    """when it began, or was last let go on: where its time limit counts from"""
    timer_due_ms: int | None = None
    place: Place | None = None
    """of the next request, until it leaves"""
    turns: tuple[Turn, ...] = ()
    calls: dict[str, Call] = {}
    status: InvocationStatus = "active"
    reason: PauseReason | None = None

    @property
    def parent(self) -> str | None:
        """The invocation that called this one."""
        return self.recovery.parent_id

    @property
    def next_open(self) -> Call | None:
        """The first call, agents' aside, without an answer: calls are taken in order."""
        own = (call for call in self.calls.values() if call.effect is not None)
        return next((call for call in own if call.status not in ANSWERED_CALL), None)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def output_repairs(self) -> int:
        """How often the overseer was asked about the attempt under way."""
        last = self.output_repair
        return 1 if last is not None and last.attempt == self.attempt else 0


class AssessedDraft(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A draft that gates have judged; the first is of iteration 0, before any repair."""

    iteration: int
    digest: str
    content: Payload
    quality: Payload
    passed: bool
    score: float
    vetoes: int = 0
    taken_over: bool = False
    """a person handed it in"""


class LevelTried(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A level that was applied, and by how much its gate's score rose; None: passed over."""

    level: int
    improvement: float | None = None


class OpenRound(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The round under way, the calls of its stages, and what its requests have cost so far."""

    iteration: int
    level: int
    trigger: str
    estimate_usd: float
    stages: tuple[tuple[str, ...], ...] = ()
    cost_usd: float = 0.0
    cost_unknown: bool = False


class Review(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The review of the draft with that digest, by the called agent; without a verdict, awaited."""

    draft: str
    call: str
    verdict: ReviewVerdict | None = None
    review: Payload | None = None


class Repair(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A repair node's loop."""

    drafts: tuple[AssessedDraft, ...] = ()
    tried: tuple[LevelTried, ...] = ()
    rounds: int = 0
    """levels that were applied"""
    open: OpenRound | None = None
    turn: int = 0
    """of calls: each stage of a round is one, and each review"""
    trigger: str | None = None
    """the gate for which the newest draft is to be repaired"""
    orchestrated: bool = False
    """the repair orchestrator has taken over from the node's own task"""
    review: Review | None = None
    spent_usd: float = 0.0
    """by the rounds that are over; one of unknown cost counts with its estimate (RPR-9)"""
    best: str = ""
    awaits: str | None = None
    """the decision that a person is asked for"""
    decisions: int = 0
    decided: DecisionMade | None = None
    outcome: str | None = None
    halt_reason: str | None = None


class Node(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A node, or one instance of a `for_each` node."""

    id: str
    status: NodeStatus = "pending"
    attempt: int = 0
    carried: bool = False
    index: int | None = None
    fan_out: int | None = None
    readied: int = 0
    """of a `for_each` node: instances made so far"""
    done: int = 0
    """of a `for_each` node: instances that have ended"""
    output: Payload | None = None
    reason: PauseReason | None = None
    detail: str = ""
    """why it is paused, in words"""
    failure: Cause | None = None
    timer_due_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    cause: str = ""
    """the event that made it ready"""
    write_starts: tuple[str, ...] = ()
    """the events that announced a call of its function, if that is a `write`"""
    begun_in: str | None = None
    """the run in which its work began, if this one was forked while it was under way"""
    signal: str | None = None
    """the key of the signal that it has taken"""


class Signal(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A signal that was sent to a run, and the node that has taken it."""

    key: str
    name: str
    data: Payload
    taken_by: str | None = None


class RunState(msgspec.Struct, kw_only=True):
    """A run at a version. `last_event` is the id of the event at that version."""

    run: str
    version: int = 0
    last_event: str = ""
    status: RunStatus = "queued"
    reason: PauseReason | None = None
    detail: str = ""
    workflow: str = ""
    plan: Plan | None = None
    input: Payload | None = None
    tags: tuple[str, ...] = ()
    priority: Priority = 0
    correlation: str | None = None
    forked_from: str | None = None
    forked_at: int | None = None
    """the run whose first events these were, and how many"""
    nodes: dict[str, Node] = {}
    invocations: dict[str, Invocation] = {}
    repairs: dict[str, Repair] = {}
    signals: dict[str, Signal] = {}
    """all that were sent, by key, in the order in which they came"""
    awaits: dict[str, str] = {}
    """the nodes that wait for a signal, longest first, and its name"""
    active: int = 0
    """nodes and instances that are ready, running or retrying"""
    paused: int = 0
    """nodes and instances that are"""
    open_needs: dict[str, int] = {}
    """of the plan's nodes that need others: how many of those have not ended"""
    movable: dict[str, int] = {}
    """the plan's nodes that the graph may decide on now, each with its place in the plan"""
    carried: str | None = None
    """the node that the run's own task is working"""
    output: Payload | None = None
    failure: Cause | None = None
    failed_node: str | None = None
    lost_starts: tuple[ToolStartLost, ...] = ()
    """writes that a witness knew of when the log had lost their starts"""
    cancel_requested_ms: int | None = None
    origin_window: str | None = None
    """where it was asked for: the browser window whose pages it sees"""
    tenant: str | None = None
    """whom it is for"""
    awaits_turn: bool = False
    """it has not begun, since its tenant has as many runs at once as it may"""
    was_paused: bool = False
    requested_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None

    def branch(self) -> RunState:
        """A state to try events on; nothing of this one changes with it."""
        copy = msgspec.structs.replace(self)
        copy.nodes = dict(self.nodes)
        copy.invocations = dict(self.invocations)
        copy.repairs = dict(self.repairs)
        copy.signals = dict(self.signals)
        copy.awaits = dict(self.awaits)
        copy.open_needs = dict(self.open_needs)
        copy.movable = dict(self.movable)
        return copy

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self.status in ENDED_RUN

    def plan_of(self, node: str) -> NodePlan:
        """The plan of a node or of an instance's template."""
        if self.plan is None:
            raise KeyError(node)
        return self.plan.node(template_of(node))

    def agent_of(self, invocation: Invocation) -> AgentPlan:
        """The plan of the agent that an invocation executes."""
        if invocation.agent is not None and self.plan is not None:
            return self.plan.agents[invocation.agent]
        agent = self.plan_of(node_of_invocation(invocation.id)).work
        if not isinstance(agent, AgentPlan):
            raise KeyError(invocation.id)
        return agent

    def function_of(self, node: str) -> FunctionPlan | None:
        """The plan of a node's function; None: the node is an agent's."""
        work = self.plan_of(node).work
        return work if isinstance(work, FunctionPlan) else None

    def repair_of(self, node: str) -> RepairPlan | None:
        """The plan of a node's repair loop; None: it has none."""
        work = self.plan_of(node).work
        return work if isinstance(work, RepairPlan) else None

    def wait_of(self, node: str) -> WaitPlan | None:
        """The plan of a node that waits for a signal; None: it does not."""
        work = self.plan_of(node).work
        return work if isinstance(work, WaitPlan) else None

    def begun_in(self, node: str) -> str:
        """
        The run in which a node's work began: of this one's parent, if it was forked meanwhile. What
        is repeated in a fork is repeated with the key by which its effect is known.
        """
        return self.nodes[node].begun_in or self.run

    def tool_of(self, invocation: Invocation, name: str) -> ToolSpec | None:
        """The tool that an invocation's agent may call by `name`."""
        tools = self.plan.tools if self.plan is not None else {}
        offered = (tools[path] for path in self.agent_of(invocation).tools)
        return next((spec for spec in offered if spec.name == name), None)

    def worker_of(self, invocation: str) -> str:
        """The task that works a node (its invocation has the same id), its repairs, or an agent."""
        node = node_of_invocation(invocation)
        if node != invocation:
            return subagent_task(self.run, invocation)
        if node in self.repairs and self.repairs[node].orchestrated:
            return repair_task(self.run, node)
        return run_task(self.run) if self.nodes[node].carried else node_task(self.run, node)

    def agents_of(self, node: str) -> list[Invocation]:
        """The invocations that work for a node or instance: its own, and those called from it."""
        found, left = [], [node]
        while left:
            invocation = self.invocations.get(left.pop())
            if invocation is not None:
                found.append(invocation)
                called = (call.id for call in invocation.calls.values() if call.effect is None)
                left += reversed(list(called))
        return found

    def instances(self, template: str) -> list[Node]:
        """The instances of a `for_each` node that exist, in order."""
        count = self.nodes[template].readied
        return [self.nodes[f"{template}[{index}]"] for index in range(count)]


def lanes_of(state: RunState) -> dict[str, str]:
    """The lanes where agents of a run wait for a slot, by node; of a node's several, one."""
    if state.status != "running":
        return {}
    return {
        node_of_invocation(invocation.id): (
            "tenants" if invocation.place.tenant is not None else invocation.place.lane
        )
        for invocation in state.invocations.values()
        if invocation.place is not None and invocation.status == "active"
    }


__all__ = [
    "ACTIVE_NODE",
    "ANSWERED_CALL",
    "ASKS_A_PERSON",
    "ENDED_NODE",
    "ENDED_RUN",
    "MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION",
    "AssessedDraft",
    "Call",
    "CallMade",
    "Invocation",
    "InvocationStatus",
    "LevelTried",
    "Node",
    "NodeStatus",
    "OpenRound",
    "OutputRepair",
    "Phase",
    "Place",
    "Recovery",
    "RecoveryEntry",
    "Repair",
    "Request",
    "Review",
    "RunState",
    "RunStatus",
    "Signal",
    "Trouble",
    "Turn",
    "lanes_of",
]
