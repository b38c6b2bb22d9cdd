"""Any mix of good, malformed and cut-off answers, and of overseers: one at most an attempt."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.events import facts
from mulligan.events.ids import overseen
from mulligan.projections.history import problems
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import Scripted, ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CUT = Answer(finish_reason="length", terminal=True, text="")


def submitted(arguments: str) -> Answer:
    call = ToolCall("c", "submit_output", arguments)
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))


WORKER: dict[str, Scripted] = {
    "good": {"n": 1},
    "violation": {"n": "many"},
    "broken": submitted("so, {3} or {4}"),
    "cut": CUT,
    "large": submitted('{"output": {"n": "' + "ab " * 30_000 + '"}}'),
}
OVERSEER: dict[str, Scripted] = {
    "repaired": '{"repaired_arguments": {"output": {"n": 2}}}',
    "wrong": '{"repaired_arguments": {"output": {"n": "x"}}}',
    "cut": CUT,
    "prose": "It can't be repaired.",
}


class Asked:
    """Answers each request by what was drawn for it, whoever comes first."""

    def __init__(self, workers: list[str], overseers: list[str]) -> None:
        self.workers, self.overseers = workers, overseers
        self.met: Counter[str] = Counter()

    def worker(self, request: ModelRequest) -> Any:
        return WORKER[self._drawn(self.workers, request)]

    def overseer(self, request: ModelRequest) -> Any:
        self.met[request.request_id] += 1
        return OVERSEER[self._drawn(self.overseers, request)]

    def _drawn(self, from_: list[str], request: ModelRequest) -> str:
        node = int((request.node or "n0")[1:])
        return from_[(3 * node + (request.attempt or 1)) % len(from_)]


@settings(max_examples=60)
@given(
    workers=st.lists(st.sampled_from(sorted(WORKER)), min_size=1, max_size=7),
    overseers=st.lists(st.sampled_from(sorted(OVERSEER)), min_size=1, max_size=5),
    nodes=st.integers(1, 4),
    limit=st.integers(0, 3),
    seed=st.integers(0, 999),
)
def test_ovr2_each_attempt_has_one_overseer_at_most_and_the_run_an_end(
    workers: list[str], overseers: list[str], nodes: int, limit: int, seed: int
) -> None:
    asked = Asked(workers, overseers)
    provider = ScriptedProvider([asked.worker] * 40, [asked.overseer] * 40)
    agent = AgentPlan(prompt="Count.", model="a/b", output_schema=SCHEMA, recovery_limit=limit)
    world = InMemory(provider=provider, seed=seed)

    state = world.run(plan_of(*(NodePlan(id=f"n{n}", work=agent) for n in range(nodes))))

    events = world.events()
    assert [] == problems(events)
    assert state.status in ("completed", "paused")
    assert all(count == 1 for count in asked.met.values())
    assert limit > 0 or not asked.met
    requested = [e for e in events if isinstance(e.data, facts.OutputRepairRequested)]
    ended = [
        e
        for e in events
        if isinstance(e.data, facts.OutputRepairSucceeded | facts.OutputRepairFailed)
    ]
    assert len(requested) == len(ended) == len(asked.met)
    for name, invocation in state.invocations.items():
        own = [r for r in provider.requests if r.node == name and overseen(_of(r)) is None]
        assert len(own) == invocation.recovery.requests == 1 + invocation.recovery.used
        assert world.store.sealed(f"run/o:{name}.{invocation.attempt}") is None


def _of(request: ModelRequest) -> str:
    return request.request_id.rpartition("#")[0]
