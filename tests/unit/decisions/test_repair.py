"""The repair loop in memory: whatever gates and levels do, it ends, within rounds and money."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.decisions import people, rounds
from mulligan.errors import InvalidInput, VersionConflict
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections import repair_log, workspace
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.quality.report import Gate, judged
from mulligan.schemas.plan import AgentPlan, CodeRef, NodePlan, PluginPlan, RepairPlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

REVIEW = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}


def gates(draft: dict[str, Any]) -> Any:
    """A draft here says itself how good it is: {score, vetoes, sections}."""
    score = draft["score"]
    gate = Gate(passed=score >= 80, score=score, metric=score, direction="higher", threshold=80.0)
    return judged({"taste": gate}, vetoes=draft.get("vetoes", ()))


def plugin(path: str, *arguments: str) -> PluginPlan:
    return PluginPlan(call=CodeRef(path=path, digest=""), arguments=arguments)


def repairing(**settings: Any) -> NodePlan:
    work = RepairPlan(
        draft="input",
        gates=plugin("toy:gates"),
        rework=plugin("toy:rework", "level", "draft", "stages", "repairs"),
        agents=("writer",),
        **settings,
    )
    return NodePlan(id="polish", work=work)


def agent() -> AgentPlan:
    return AgentPlan(prompt="work", output_schema={"type": "object"}, recovery_limit=0, model="m/m")


class World:
    """A run of one repair node, with a `rework` of the test's."""

    def __init__(self, rework: Any, answers: Any = (), **settings: Any) -> None:
        self.provider = ScriptedProvider(list(answers))
        self.world = InMemory(
            provider=self.provider, code={"toy:gates": gates, "toy:rework": rework}
        )
        self.plan = plan_of(repairing(**settings), agents={"writer": agent(), "critic": agent()})

    def run(self, draft: Any) -> RunState:
        return self.world.run(self.plan, draft)

    def decide(self, decision: Any, **given: Any) -> RunState:
        state = self.world.state()
        self.world.store.append(
            people.decide(state, f"d{state.version}", decision, by="me", **given)
        )
        self.world.work()
        return self.world.state()

    def log(self, kind: type[facts.Fact]) -> list[Any]:
        return [event.data for event in self.events() if isinstance(event.data, kind)]

    def events(self) -> list[Envelope]:
        return self.world.events()


def redone(score: float, **more: Any) -> dict[str, Any]:
    return {"form": "redone", "draft": {"score": score}, **more}


def output(world: World, state: RunState) -> dict[str, Any]:
    assert state.output is not None
    value: dict[str, Any] = state.output.value
    return value


def test_a_draft_that_passes_is_not_touched() -> None:
    world = World(lambda **_: pytest.fail("nothing to redo"))

    state = world.run({"score": 90})

    assert output(world, state)["outcome"] == "passed"
    assert output(world, state)["draft"] == {"score": 90}
    assert not world.log(facts.RepairRoundStarted)


def test_rpr_7_passing_ends_the_loop_at_once() -> None:
    world = World(lambda draft, **_: redone(draft["score"] + 30))

    state = world.run({"score": 40})

    assert state.status == "completed"
    levels = [one.level for one in world.log(facts.RepairRoundStarted)]
    assert levels == [1, 1]
    assert output(world, state)["score"] == 100


def test_rpr_10_exhausted_keeps_the_best_draft_of_all_the_first_included() -> None:
    world = World(lambda draft, **_: redone(draft["score"] - 1))

    state = world.run({"score": 70})

    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    (asked,) = world.log(facts.DecisionRequested)
    first = world.log(facts.QualityAssessed)[0]
    assert asked.draft == first.draft
    ended = world.log(facts.RepairEnded)
    assert [(one.outcome, one.halt_reason) for one in ended] == [("exhausted", "rounds")]
    assert len(world.log(facts.RepairRoundCompleted)) == 4

    state = world.decide("accept")

    assert output(world, state)["draft"] == {"score": 70}
    assert output(world, state)["completion_status"] == "DONE_WITH_CONCERNS"


def test_rpr_10_a_person_may_abort() -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})
    world.run({"score": 10})

    state = world.decide("abort")

    assert state.status == "failed"
    assert state.failure is not None
    assert state.failure.kind == "repair_aborted"


def test_rpr_10_a_draft_that_is_taken_over_is_gated_like_any_other() -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})
    world.run({"score": 10})

    state = world.decide("take_over", draft={"score": 20})
    assert (state.status, state.reason) == ("paused", "awaiting_decision")

    state = world.decide("take_over", draft={"score": 85})
    assert output(world, state)["outcome"] == "taken_over"
    assert [one.score for one in world.log(facts.QualityAssessed)] == [10, 20, 85]


def test_a_decision_that_nobody_asked_for_is_refused() -> None:
    world = World(lambda **_: pytest.fail("nothing to redo"))
    state = world.run({"score": 90})

    with pytest.raises(InvalidInput, match="no decision is asked for"):
        people.decide(state, "op", "accept", by="me")


def test_rpr_6_levels_with_nothing_to_act_on_are_passed_over_and_no_round_is_spent() -> None:
    world = World(
        lambda level, draft, **_: (
            redone(90) if level == 5 else {"form": "nothing", "because": "not here"}
        )
    )

    state = world.run({"score": 10})

    assert [one.level for one in world.log(facts.RepairLevelPassedOver)] == [1, 2, 3, 4]
    assert output(world, state)["rounds"] == 1


def test_no_level_that_acts_halts_the_loop() -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})

    world.run({"score": 10})

    ended = world.log(facts.RepairEnded)
    assert [(one.outcome, one.halt_reason) for one in ended] == [("halted", "no_action")]


def test_rpr_9_a_round_of_unknown_cost_counts_with_its_estimate() -> None:
    """The writer's usage is not reported: 0.10 is counted, and 0.10 more would exceed 0.19."""
    job = {"form": "jobs", "jobs": [{"agent": "writer", "input": "go"}]}
    world = World(
        lambda draft, stages, **_: redone(draft["score"] + 10) if stages else job,
        [{"summary": "ok"}],
        budget_usd=0.19,
    )

    world.run({"score": 10})

    (completed,) = world.log(facts.RepairRoundCompleted)
    assert completed.cost_usd is None
    (ended,) = world.log(facts.RepairEnded)
    assert (ended.outcome, ended.halt_reason) == ("halted", "budget")


def test_jobs_are_worked_by_agents_stage_after_stage() -> None:
    def rework(draft: Any, stages: Any, **_: Any) -> Any:
        if len(stages) < 2:
            job = {"agent": "writer", "input": f"stage {len(stages)}", "section": "s"}
            return {"form": "jobs", "jobs": [job, job]}
        made = [[one["output"]["summary"] for one in stage] for stage in stages]
        return {"form": "redone", "draft": {"score": 99, "made": made}}

    world = World(rework, [{"summary": text} for text in "abcd"])

    state = world.run({"score": 1})

    assert output(world, state)["draft"]["made"] == [["a", "b"], ["c", "d"]]
    assert [one.section for one in world.log(facts.SubagentCalled)] == ["s"] * 4
    assert not problems(world.events())


def test_an_agent_that_the_node_does_not_name_fails_it() -> None:
    job = {"form": "jobs", "jobs": [{"agent": "critic", "input": "go"}]}
    world = World(lambda **_: job)

    state = world.run({"score": 1})

    assert state.failure is not None
    assert state.failure.kind == "unknown_agent"


@pytest.mark.parametrize(
    "answer", [7, {"form": "redone"}, {"form": "jobs", "jobs": []}, {"form": "perhaps"}]
)
def test_an_answer_that_is_none_fails_the_node(answer: Any) -> None:
    state = World(lambda **_: answer).run({"score": 1})

    assert state.failure is not None
    assert state.failure.kind == "invalid_workload"


def test_a_workload_whose_round_never_ends_is_found() -> None:
    job = {"agent": "writer", "input": "again"}
    world = World(lambda **_: {"form": "jobs", "jobs": [job]}, [{"summary": "ok"}] * 20)

    state = world.run({"score": 1})

    assert state.failure is not None
    assert state.failure.kind == "invalid_workload"
    assert len(world.log(facts.SubagentCalled)) == rounds.MOST_STAGES


def test_a_workload_that_asks_for_too_many_agents_at_once_is_refused() -> None:
    job = {"agent": "writer", "input": "all"}
    world = World(lambda **_: {"form": "jobs", "jobs": [job] * (rounds.MOST_JOBS + 1)})

    state = world.run({"score": 1})

    assert state.failure is not None
    assert "201 jobs at once" in state.failure.message
    assert not world.log(facts.SubagentCalled)


def test_a_plug_in_that_raises_fails_the_node_with_its_error() -> None:
    def rework(**_: Any) -> Any:
        raise ValueError("lost")

    state = World(rework).run({"score": 1})

    assert state.status == "failed"
    assert state.failure is not None
    assert "lost" in state.failure.message


def test_rpr_11_a_review_that_rejects_gives_the_next_repairs_within_the_same_cap() -> None:
    asked: list[Any] = []

    def rework(draft: Any, repairs: Any, **_: Any) -> Any:
        asked.append(repairs)
        return redone(95)

    rejected = {"verdict": "rejected", "would_change": ["the end"], "veto_reasons": []}
    world = World(rework, [rejected, {"verdict": "approved"}], reviewer="critic")

    state = world.run({"score": 90})

    assert state.status == "completed"
    assert [one["instruction"] for one in asked[0]] == ["the end"]
    assert [one.verdict for one in world.log(facts.ReviewReceived)] == ["rejected", "approved"]
    assert [one.gate for one in world.log(facts.QualityFailed)] == ["review"]


def test_rpr_2_a_review_of_another_draft_is_stale_and_does_not_count() -> None:
    stale = {"verdict": "rejected", "digest": "of another"}
    world = World(
        lambda **_: pytest.fail("nothing to redo"),
        [stale, {"verdict": "approved"}],
        reviewer="critic",
    )

    state = world.run({"score": 90})

    assert state.status == "completed"
    assert [one.stale for one in world.log(facts.ReviewReceived)] == [True, False]


# --- Interrupted ---------------------------------------------------------------------------------

JOB = {"form": "jobs", "jobs": [{"agent": "writer", "input": "go"}]}


def by_a_writer(draft: Any, stages: Any, **_: Any) -> Any:
    return redone(90) if stages else JOB


def test_an_agent_that_is_exhausted_in_a_round_pauses_it_and_a_resume_goes_on_with_it() -> None:
    world = World(by_a_writer, ["no JSON at all", {"summary": "ok"}])
    state = world.run({"score": 10})
    assert (state.status, state.reason) == ("paused", "exhausted")
    with pytest.raises(InvalidInput, match="no decision is asked for"):
        people.decide(state, "early", "accept", by="me")

    world.world.store.append(people.resume(state, "op"))
    world.world.work()

    state = world.world.state()
    assert output(world, state)["rounds"] == 1
    assert len(world.log(facts.SubagentCalled)) == 1
    assert not problems(world.events())


def test_a_run_that_is_cancelled_in_a_round_ends_without_a_verdict_on_its_draft() -> None:
    world = World(by_a_writer, ["no JSON at all"])
    cancelled = people.cancel(world.run({"score": 10}), "op")
    assert cancelled is not None

    world.world.store.append(cancelled)
    world.world.work()

    assert world.world.state().status == "cancelled"
    assert not world.log(facts.RepairRoundCompleted)
    assert not problems(world.events())


def test_of_two_decisions_the_first_one_stands() -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})
    state = world.run({"score": 10})
    both = [people.decide(state, op, word, by=op) for op, word in (("a", "accept"), ("b", "abort"))]

    for one in both:
        with suppress(VersionConflict):
            world.world.store.append(one)
    world.world.work()

    assert world.world.state().status == "completed"
    with pytest.raises(InvalidInput, match="no decision is asked for"):
        people.decide(world.world.state(), "c", "abort", by="c")
    assert not problems(world.events())


@pytest.mark.parametrize("draft", ["text", [1], 7])
def test_a_draft_of_another_kind_is_not_taken_over(draft: Any) -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})
    state = world.run({"score": 10})

    with pytest.raises(InvalidInput, match=r"drafts are an object \(JSON\)"):
        people.decide(state, "op", "take_over", by="me", draft=draft)


def test_a_report_that_was_made_elsewhere_can_fail_a_draft_but_not_pass_it() -> None:
    passing = msgspec.to_builtins(gates({"score": 90}))
    world = World(lambda draft, **_: redone(95), quality="input.quality")

    state = world.run({"score": 10, "quality": passing})

    assert [one.passed for one in world.log(facts.QualityAssessed)] == [False, True]
    assert output(world, state)["rounds"] == 1


def test_two_loops_of_a_run_are_decided_one_by_one() -> None:
    world = World(lambda **_: {"form": "nothing", "because": "no idea"})
    one = repairing()
    world.plan = plan_of(one, msgspec.structs.replace(one, id="other"))
    state = world.run({"score": 10})

    with pytest.raises(InvalidInput, match="several nodes ask: other, polish"):
        people.decide(state, "op", "accept", by="me")
    state = world.decide("accept", node="other")
    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    state = world.decide("accept", node="polish")

    assert state.status == "completed"
    loops = repair_log.fold("run", world.events(), lambda payload: payload.value).loops
    assert [loop.outcome for loop in loops] == ["accepted", "accepted"]


def test_each_item_of_a_for_each_has_its_own_loop_and_folder() -> None:
    world = World(lambda draft, **_: redone(draft["score"] + 40))
    one = repairing()
    work = msgspec.structs.replace(one.work, draft="item")
    world.plan = plan_of(msgspec.structs.replace(one, work=work, for_each="input.items"))

    state = world.run({"items": [{"score": 50}, {"score": 90}]})

    assert [each["rounds"] for each in output(world, state)] == [1, 0]
    files = workspace.files("run", world.events(), lambda payload: payload.value)
    assert {"polish[0]/draft.r01.json", "polish[1]/draft.r00.json"} <= set(files)
    assert not problems(world.events())


SCORES = st.integers(0, 100).map(float)
MOVES = st.dictionaries(
    st.tuples(st.integers(0, 12), st.integers(1, 5)),
    st.one_of(st.none(), st.tuples(SCORES, st.booleans())),
    max_size=40,
)


@given(
    first=SCORES,
    moves=MOVES,
    max_rounds=st.integers(0, 6),
    budget_usd=st.floats(0, 3),
    start_rules=st.booleans(),
)
def test_whatever_levels_do_the_loop_ends_within_its_bounds(
    first: float, moves: Any, max_rounds: int, budget_usd: float, start_rules: bool
) -> None:
    """
    Never more than `max_rounds`, never above the budget, levels never go down, the best draft is
    asked about, and nothing that passed is repaired (RPR-5, 6, 7, 9, 10).
    """

    def rework(level: int, draft: Any, **_: Any) -> Any:
        move = moves.get((draft.get("at", 0), level))
        if move is None:
            return {"form": "nothing", "because": "not drawn"}
        score, veto = move
        vetoes = ["no"] if veto else []
        new = {"score": score, "vetoes": vetoes, "at": draft.get("at", 0) + 1}
        return {"form": "redone", "draft": new}

    world = World(rework, max_rounds=max_rounds, budget_usd=budget_usd, start_rules=start_rules)

    state = world.run({"score": first})

    assert not problems(world.events())
    started = world.log(facts.RepairRoundStarted)
    drafts = world.log(facts.QualityAssessed)
    levels = [one.level for one in started]
    assert len(started) == len(world.log(facts.RepairRoundCompleted)) <= max_rounds
    assert levels == sorted(levels)
    assert sum(one.estimate_usd for one in started[-1:]) <= budget_usd + 1e-6
    assert not any(one.passed for one in drafts[:-1])
    if drafts[-1].passed:
        assert state.status == "completed"
        return
    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    best = max(range(len(drafts)), key=lambda i: (drafts[i].score, -drafts[i].vetoes, -i))
    assert world.log(facts.DecisionRequested)[-1].draft == drafts[best].draft
