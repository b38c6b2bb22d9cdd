"""
Given / when / then for decisions: a run's history in, a task's decision out, nothing in between.

    given = Given(flow).happened(NodeReady(), node="a").happened(NodeStarted(), node="a", attempt=1)
    decision = given.decide("n:a")
    assert facts(decision) == [...]
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.decisions.decision import Context, Decision, Outcome
from mulligan.decisions.onward import onward
from mulligan.decisions.task import decide
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact, RunRequested
from mulligan.events.payload import Payload, canonical, digest_of
from mulligan.events.sealed import unseal
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState
from mulligan.providers.port import ModelRequest, Prepared
from mulligan.schemas.plan import AgentPlan, NodePlan, Plan, SettingsPlan, ToolSpec, plan_to_dict

RUN = "run"


def plan_of(
    *nodes: NodePlan,
    agents: dict[str, AgentPlan] | None = None,
    tools: dict[str, ToolSpec] | None = None,
    **limits: int,
) -> Plan:
    """
    A plan of these nodes, with settings that leave everything at its default but the `limits`
    (`context_window`, `max_output_tokens`, `deadline_ms`, `backoff_ms`).
    """
    defaults = {"backoff_ms": 500, "backoff_max_ms": 30_000}
    settings = SettingsPlan(
        recovery_limit=2,
        output_repair_strict=False,
        **(defaults | limits),  # type: ignore[arg-type]
    )
    return Plan(
        name="flow",
        version=1,
        settings=settings,
        nodes=nodes,
        agents=agents or {},
        tools=tools or {},
    )


def prepare(request: ModelRequest) -> Prepared:
    """A request as a provider would prepare it that sends whatever it is told to."""
    body = msgspec.to_builtins(request)
    return Prepared(
        request=request,
        model=request.model,
        sent=dict(request.parameters),
        digest=digest_of(canonical(body)),
        body=body,
    )


class Given:
    """
    A run with a history; the clock stands still until `at` moves it, and `chance` is what falls.
    `candidates` are those that are sealed, by their tasks.
    """

    def __init__(self, plan: Plan, input: Any = None, *, now_ms: int = 1_000) -> None:  # noqa: A002 - the field's name
        self.state = RunState(run=RUN)
        self.now_ms = now_ms
        self.chance = 1.0
        self.candidates: dict[str, str] = {}
        self.log: list[Envelope] = []
        self.happened(
            RunRequested(
                workflow=plan.name,
                workflow_version=plan.version,
                digest=plan.digest,
                plan=plan_to_dict(plan),
                input=Payload.of(input),
            )
        )

    @classmethod
    def replayed(cls, log: list[Envelope]) -> Given:
        """A run with the history of another, as a worker that takes over knows it."""
        given = cls.__new__(cls)
        given.state, given.log = RunState(run=RUN), list(log)
        given.now_ms, given.chance = log[-1].time_ms, 1.0
        given.candidates = {}
        for event in log:
            evolve(given.state, event)
        return given

    def happened(self, fact: Fact, node: str | None = None, attempt: int | None = None) -> Given:
        """One more event in the log."""
        version = self.state.version + 1
        event = Envelope(
            id=f"op{version}.0",
            run=RUN,
            version=version,
            time_ms=self.now_ms,
            data=fact,
            node=node,
            attempt=attempt,
        )
        self.log.append(event)
        evolve(self.state, event)
        return self

    def at(self, now_ms: int) -> Given:
        """Later, by the server's clock."""
        self.now_ms = now_ms
        return self

    def decide(self, task: str = "", outcome: Outcome | None = None) -> Decision:
        """What the holder of `<run>/<task>` decides; the history stays as it is."""
        return decide(self.state, f"{RUN}/{task}", self._context(), outcome)

    def onward(self, task: str = "", outcome: Outcome | None = None) -> Decision:
        """As `decide`, with what follows from it that is others' to decide."""
        decision = self.decide(task, outcome)
        return onward(self.state, f"{RUN}/{task}", decision, self._context())

    def _context(self) -> Context:
        return Context(
            self.now_ms, lambda payload: payload.value, prepare, self.chance, self.candidates.get
        )

    def then(self, task: str = "", outcome: Outcome | None = None) -> Decision:
        """As `decide`, and what was decided happens."""
        decision = self.decide(task, outcome)
        for event in decision.events:
            self.happened(event.data, event.node, event.attempt)
        self.candidates |= {one.task: unseal(one.data) for one in decision.sealed}
        for task in decision.discarded:
            self.candidates.pop(task, None)
        return decision


def facts(decision: Decision) -> list[str]:
    """The tags of a decision's events, with the node that each is about: `NodeReady a`."""
    return [
        " ".join(filter(None, (type(event.data).__name__, event.node))) for event in decision.events
    ]
