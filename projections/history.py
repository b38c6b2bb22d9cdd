"""
What must be true of any run's history, whatever happened to its workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact
from mulligan.events.ids import invocation_of_call, template_of
from mulligan.projections.allowance import RESUMABLE
from mulligan.projections.problem import Invariant, Problem
from mulligan.projections.repair_history import RepairCheck
from mulligan.projections.state import MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION

_RECEIPTS = (
    facts.ToolSucceeded,
    facts.ToolFailed,
    facts.ToolOutcomeUnknown,
    facts.ToolReceiptArrived,
    facts.EffectReconciled,
)
_RUN_ENDS = (facts.RunCompleted, facts.RunFailed, facts.RunCancelled)
_NODE_ENDS = (facts.NodeCompleted, facts.NodeFailed, facts.NodeSkipped, facts.NodeCancelled)


def problems(events: Iterable[Envelope]) -> list[Problem]:
    """
    Every way in which a history can't be that of a run: empty for a sound one.

    Versions rise by one from a `RunRequested` on; `RunForked` follows what was copied; nothing but
    late receipts follows the run's end; a node ends once and starts only when it is ready; a
    request is answered, or given up, once; a tool starts after it was called, and a `write` once,
    unless a person let it be tried again; no result is followed by another start; what wants
    approval starts after it, and never after a denial; what is answered was asked, once; rounds of
    repair are counted by one and bounded by their node's rounds and money, at levels that never go
    down, and none begins on a draft that passed; an agent is called, and ends, once; the overseer
    is asked once an attempt at most, ends once, and not after its run's cancellation; no allowance
    is overdrawn, gives back more than it reserved for transport, or is drawn on when it is
    exhausted or its run is being cancelled.
    """
    check, repairs = _Check(), RepairCheck()
    for event in events:
        check.take(event)
        repairs.take(event)
    return [*check.found, *repairs.found]


class _Check:
    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._version = 0
        self._ended = False
        self._ids: set[str] = set()
        self._ready: set[str] = set()
        self._closed_nodes: set[str] = set()
        self._write_nodes: set[str] = set()
        self._open_requests: set[str] = set()
        self._requests: set[str] = set()
        self._effects: dict[str, str] = {}
        self._starts: dict[str, int] = {}
        self._allowed: dict[str, int] = {}
        self._answered: set[str] = set()
        self._used: dict[str, int] = {}
        self._for_transport: dict[str, int] = {}
        self._exhausted: set[str] = set()
        self._questions: set[str] = set()
        self._awaits: set[str] = set()
        self._paused: dict[str, tuple[str, str]] = {}
        self._cancelling = False
        self._output_repairs: dict[tuple[str, int | None], int] = {}
        self._open_output_repairs: set[str] = set()

    def take(self, event: Envelope) -> None:
        self._order(event)
        for kind, check in _CHECKS.items():
            if isinstance(event.data, kind):
                check(self, event, event.data)

    def say(
        self, event: Envelope, problem: str, invariant: Invariant = "history_impossible"
    ) -> None:
        told = f"event {event.version} ({event.type}): {problem}"
        self.found.append(Problem(invariant, told, event.run))

    def _order(self, event: Envelope) -> None:
        if event.version != self._version + 1:
            gap = event.version > self._version
            self.say(
                event,
                f"follows version {self._version}",
                "append_lost" if gap else "append_disordered",
            )
        self._version = event.version
        if event.id in self._ids:
            self.say(event, f"its id {event.id} is there twice", "append_doubled")
        self._ids.add(event.id)
        if event.version == 1 and not isinstance(event.data, facts.RunRequested):
            self.say(event, "a history begins with RunRequested")
        if self._ended and not isinstance(event.data, _RECEIPTS):
            self.say(event, "the run had ended")
        self._ended = self._ended or isinstance(event.data, _RUN_ENDS)

    def ready(self, event: Envelope, fact: Fact) -> None:
        if event.node in self._ready:
            self.say(event, f"node {event.node} was ready before")
        self._ready.add(event.node or "")

    def requested(self, event: Envelope, fact: facts.RunRequested) -> None:
        for node in fact.plan.get("nodes", ()):
            if node["work"].get("effect") == "write":
                self._write_nodes.add(node["id"])

    def started(self, event: Envelope, fact: Fact) -> None:
        node = event.node or ""
        if node not in self._ready:
            self.say(event, f"node {node} was not ready")
        starts = self._starts[node] = self._starts.get(node, 0) + 1
        if template_of(node) in self._write_nodes and starts > self._allowed.get(node, 1):
            again = f"the write of node {node} was started again on its own"
            self.say(event, again, "effect_doubled")
        if event.node in self._closed_nodes:
            self.say(event, f"node {event.node} had ended", "progress_lost")

    def forked(self, event: Envelope, fact: facts.RunForked) -> None:
        if event.version != fact.at_version + 1:
            self.say(event, f"{fact.at_version} events are copied")

    def node_ended(self, event: Envelope, fact: Fact) -> None:
        if event.node in self._closed_nodes:
            self.say(event, f"node {event.node} had ended", "progress_lost")
        self._closed_nodes.add(event.node or "")

    def asked(self, event: Envelope, fact: facts.ModelRequested) -> None:
        if fact.request_id in self._requests:
            self.say(event, f"request {fact.request_id} was sent before")
        self._requests.add(fact.request_id)
        self._open_requests.add(fact.request_id)

    def heard(self, event: Envelope, fact: Any) -> None:
        if fact.request_id not in self._open_requests:
            self.say(event, f"request {fact.request_id} was not open")
        self._open_requests.discard(fact.request_id)

    def called(self, event: Envelope, fact: facts.ToolRequested) -> None:
        if fact.call_id in self._effects:
            self.say(event, f"call {fact.call_id} was made before")
        self._effects[fact.call_id] = fact.effect
        self._allowed[fact.call_id] = 1

    def tool_started(self, event: Envelope, fact: facts.ToolStarted) -> None:
        effect = self._effects.get(fact.call_id)
        if effect is None:
            self.say(event, f"call {fact.call_id} was never made")
        if fact.call_id in self._answered:
            self.say(event, f"call {fact.call_id} had its result", "progress_lost")
        if fact.call_id in self._awaits:
            self.say(event, f"call {fact.call_id} was not approved")
        starts = self._starts[fact.call_id] = self._starts.get(fact.call_id, 0) + 1
        if effect == "write" and starts > self._allowed[fact.call_id]:
            again = f"the write {fact.call_id} was started again on its own"
            self.say(event, again, "effect_doubled")

    def tool_answered(self, event: Envelope, fact: Any) -> None:
        execution = fact.execution if isinstance(fact, facts.ToolFailed) else None
        if execution is None or execution >= self._starts.get(fact.call_id, 0):
            self._answered.add(fact.call_id)

    def receipt_arrived(self, event: Envelope, fact: facts.ToolReceiptArrived) -> None:
        """A failure need not be the call's last word; a success is."""
        if fact.call_id in self._effects and fact.execution > self._starts.get(fact.call_id, 0):
            self.say(event, f"execution {fact.execution} of {fact.call_id} was never started")
        if fact.outcome == "succeeded":
            self._answered.add(fact.call_id)

    def approval_asked(self, event: Envelope, fact: facts.ToolApprovalRequested) -> None:
        if fact.call_id not in self._effects:
            self.say(event, f"call {fact.call_id} was never made")
        self._awaits.add(fact.call_id)

    def approved(self, event: Envelope, fact: facts.ToolApproved) -> None:
        """The first word counts: a call that was denied has its answer."""
        if fact.call_id not in self._answered:
            self._awaits.discard(fact.call_id)

    def denied(self, event: Envelope, fact: facts.ToolDenied) -> None:
        if fact.call_id in self._awaits:
            self._answered.add(fact.call_id)

    def question_asked(self, event: Envelope, fact: facts.InputRequested) -> None:
        if fact.request_id in self._questions:
            self.say(event, f"question {fact.request_id} was asked before")
        self._questions.add(fact.request_id)

    def question_answered(self, event: Envelope, fact: facts.InputProvided) -> None:
        """A function that asked is called again, once for the first answer."""
        if fact.request_id not in self._questions:
            self.say(event, f"question {fact.request_id} was never asked")
        elif fact.request_id not in self._answered:
            self._answered.add(fact.request_id)
            self._allow(invocation_of_call(fact.request_id))

    def timer_set(self, event: Envelope, fact: facts.TimerSet) -> None:
        """A function that failed is tried again, since its author says so."""
        if fact.purpose == "retry" and fact.invocation is None:
            self._allow(event.node or "")

    def _allow(self, subject: str) -> None:
        self._allowed[subject] = self._allowed.get(subject, 1) + 1

    def reconciled(self, event: Envelope, fact: facts.EffectReconciled) -> None:
        if fact.outcome == "retry":
            self._allow(fact.call_id)

    def reserved(self, event: Envelope, fact: facts.AllowanceReserved) -> None:
        if fact.used > fact.limit:
            self.say(event, f"{fact.used} used of {fact.limit}", "allowance_exceeded")
        self._count(event, fact.used, self._used.get(fact.invocation, 0) + 1, "one more is spent")
        if fact.next_attempt != (event.attempt or 0) + 1:
            self.say(event, f"attempt {event.attempt} is followed by {fact.next_attempt}")
        if fact.invocation in self._exhausted:
            exhausted = f"the allowance of {fact.invocation} was exhausted"
            self.say(event, exhausted, "allowance_exceeded")
        if self._cancelling:
            self.say(event, "the run is being cancelled")
        self._used[fact.invocation] = fact.used
        if fact.reason == "transport":
            reserved = self._for_transport.get(fact.invocation, 0)
            self._for_transport[fact.invocation] = reserved + 1

    def refunded(self, event: Envelope, fact: facts.AllowanceRefunded) -> None:
        reserved = self._for_transport.pop(fact.invocation, 0)
        if fact.count > reserved:
            too_many = f"{fact.count} given back of {reserved} reserved for transport"
            self.say(event, too_many, "allowance_exceeded")
        left = self._used.get(fact.invocation, 0) - fact.count
        self._count(event, fact.used, left, f"{fact.count} were given back")
        self._used[fact.invocation] = fact.used

    def _count(self, event: Envelope, used: int, right: int, after: str) -> None:
        """What an allowance says that is used must be what its own history adds up to."""
        if used != right:
            wrong: Invariant = "allowance_reset" if used < right else "allowance_exceeded"
            self.say(event, f"{used} used after {after}, not {right}", wrong)

    def exhausted(self, event: Envelope, fact: facts.AllowanceExhausted) -> None:
        self._exhausted.add(fact.invocation)

    def paused(self, event: Envelope, fact: facts.NodePaused) -> None:
        self._paused[fact.invocation] = (event.node or "", fact.reason)

    def resumed(self, event: Envelope, fact: facts.RunResumed) -> None:
        """Fresh allowances for what the resume is meant for."""
        for invocation, (node, reason) in list(self._paused.items()):
            if reason in RESUMABLE and fact.target in (None, node):
                del self._paused[invocation]
                self._exhausted.discard(invocation)
                self._for_transport.pop(invocation, None)
                self._used.pop(invocation, None)

    def output_repair_asked(self, event: Envelope, fact: facts.OutputRepairRequested) -> None:
        of = fact.invocation, event.attempt
        count = self._output_repairs[of] = self._output_repairs.get(of, 0) + 1
        if count > MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION:
            self.say(event, f"the overseer was asked about attempt {event.attempt} before")
        self._open_output_repairs.add(fact.invocation)

    def output_repair_ended(self, event: Envelope, fact: Any) -> None:
        if fact.invocation not in self._open_output_repairs:
            self.say(event, f"no repair of {fact.invocation} was under way")
        self._open_output_repairs.discard(fact.invocation)
        if self._cancelling:
            self.say(event, "the run is being cancelled")

    def cancelling(self, event: Envelope, fact: Fact) -> None:
        self._cancelling = True


_CHECKS: dict[Any, Callable[[_Check, Envelope, Any], None]] = {
    facts.RunRequested: _Check.requested,
    facts.NodeReady: _Check.ready,
    facts.NodeStarted: _Check.started,
    facts.RunForked: _Check.forked,
    _NODE_ENDS: _Check.node_ended,
    facts.ModelRequested: _Check.asked,
    (facts.ModelAnswered, facts.ModelFailed, facts.ModelInterrupted): _Check.heard,
    facts.ToolRequested: _Check.called,
    facts.ToolStarted: _Check.tool_started,
    (facts.ToolSucceeded, facts.ToolFailed): _Check.tool_answered,
    facts.ToolReceiptArrived: _Check.receipt_arrived,
    facts.ToolApprovalRequested: _Check.approval_asked,
    facts.ToolApproved: _Check.approved,
    facts.ToolDenied: _Check.denied,
    facts.InputRequested: _Check.question_asked,
    facts.InputProvided: _Check.question_answered,
    facts.EffectReconciled: _Check.reconciled,
    facts.TimerSet: _Check.timer_set,
    facts.OutputRepairRequested: _Check.output_repair_asked,
    (facts.OutputRepairSucceeded, facts.OutputRepairFailed): _Check.output_repair_ended,
    facts.AllowanceReserved: _Check.reserved,
    facts.AllowanceRefunded: _Check.refunded,
    facts.AllowanceExhausted: _Check.exhausted,
    facts.NodePaused: _Check.paused,
    facts.RunResumed: _Check.resumed,
    facts.RunCancelRequested: _Check.cancelling,
}
