"""
The article workload in memory: the shipped workflow, its gates and its levels, with a scripted
model (RPR-5…12, ART-1…3). What each level redoes, and what stays byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from mulligan.decisions import people
from mulligan.events import facts
from mulligan.projections.repair_log import RepairLog, fold
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.schemas.plan import Plan, RepairPlan
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.testing.tea_article import (
    APPROVED,
    BRIEF,
    GOOD,
    OUTLINE,
    PLAIN,
    STOCK,
    WATER,
    article,
    faulty,
    planned,
    stock_report,
)
from mulligan.workflows.article.levels import content_of

AGENTS = {
    "You mend single lines": "editor",
    "You rewrite one section": "writer",
    "You restructure": "outliner",
    "You check an article": "checker",
    "You are given one section": "humanizer",
    "You review": "reviewer",
}
Reply = Callable[[dict[str, Any], ModelRequest], Any]


class Newsroom:
    """
    A run of the workflow. `first` are the sections as they are written at first, `replies` what the
    repairing agents say to their input; a writer that is not told writes the good section.
    """

    def __init__(self, first: dict[str, str], **replies: Reply) -> None:
        self.first = first
        self.replies = replies
        self.asked: list[str] = []
        self.provider = ScriptedProvider([self.reply] * 200)

    def run(self, **changes: Any) -> RepairLog:
        return self.work("article", BRIEF, **changes)

    def work(self, workflow: str, given: Any, **changes: Any) -> RepairLog:
        plan = compile_plan(load_workflow(workflow), default_model="scripted/any")
        plan = with_repair(plan, **changes)
        self.world = InMemory(provider=self.provider)
        self.state = self.world.run(plan, given)
        return self.log()

    def log(self) -> RepairLog:
        (log,) = fold("run", self.world.events(), self.value).loops
        return log

    def value(self, payload: Any) -> Any:
        if payload.inline:
            return payload.value
        return msgspec.json.decode(self.world.store.payload("run", payload.digest))

    def drafts(self) -> list[str]:
        events = (event.data for event in self.world.events())
        return [self.value(one.content) for one in events if isinstance(one, facts.QualityAssessed)]

    def reply(self, request: ModelRequest) -> Any:
        node, system = request.node, str(request.messages[0].content)
        agent = next((name for told, name in AGENTS.items() if system.startswith(told)), None)
        if agent is not None:
            self.asked.append(agent)
            return self.as_agent(agent, request)
        said = planned()
        if node in said:
            return said[node]
        return {"text": list(self.first.values())[int(str(node)[-2])]}

    def as_agent(self, agent: str, request: ModelRequest) -> Any:
        given = json.loads(str(request.messages[1].content))
        if agent in self.replies:
            return self.replies[agent](given, request)
        match agent:
            case "writer":
                return {"text": GOOD[given["heading"].removeprefix("## ")]}
            case "humanizer":
                return {"text": next(t for t in GOOD.values() if t[:9] == given["text"][:9])}
            case "outliner":
                return OUTLINE
            case "checker":
                return {"unsupported": []}
        return APPROVED


def with_repair(plan: Plan, **changes: Any) -> Plan:
    nodes = tuple(
        msgspec.structs.replace(node, work=msgspec.structs.replace(node.work, **changes))
        if isinstance(node.work, RepairPlan)
        else node
        for node in plan.nodes
        if node.id != "published"
    )
    return msgspec.structs.replace(plan, nodes=nodes)


def test_a_good_article_is_reviewed_and_not_touched() -> None:
    room = Newsroom(GOOD)

    log = room.run()

    assert log.outcome == "passed"
    assert log.iterations == ()
    assert room.asked == ["reviewer"]


def test_level_1_with_after_needs_no_model_and_changes_its_words_alone() -> None:
    bad = faulty("Water", "A filter helps, and", "A filter helps — and")
    room = Newsroom(bad)

    log = room.run()

    assert [(one.level, one.verdict) for one in log.iterations] == [(1, "passed")]
    assert room.asked == ["reviewer"]
    before, after = room.drafts()
    (action,) = log.iterations[0].actions
    assert content_of(after)["Leaves"] == content_of(before)["Leaves"]
    assert "—" in before
    assert "—" not in after
    assert action.skipped is None


def edits(*calls: dict[str, Any]) -> Reply:
    """An editor that makes these edits, and then is done."""

    def reply(given: dict[str, Any], request: ModelRequest) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return {"summary": "done"}
        line = given["faults"][0]["line"]
        made = tuple(
            ToolCall(f"{request.request_id}.{n}", "edit", json.dumps({"line": line, **call}))
            for n, call in enumerate(calls)
        )
        return Answer(finish_reason="tool_calls", terminal=True, text="", calls=made)

    return reply


def made_elsewhere() -> dict[str, Any]:
    """A draft with a stock phrase, and a report that names it without saying what else to write."""
    draft = article().replace(PLAIN, STOCK)
    return {"draft": draft, "quality": stock_report(draft), "brief": BRIEF, "outline": OUTLINE}


def test_level_1_without_after_asks_the_editor_whose_only_tool_is_edit() -> None:
    room = Newsroom({}, editor=edits({"before": "is a game-changer for", "after": "dulls"}))

    log = room.work("repair", made_elsewhere())

    assert [(one.level, one.verdict) for one in log.iterations] == [(1, "passed")]
    assert room.asked[0] == "editor"
    asked = next(r for r in room.provider.requests if "You mend" in str(r.messages[0].content))
    assert [tool.name for tool in asked.tools] == ["edit", "submit_output"]
    before, after = room.drafts()
    assert after == before.replace(STOCK, PLAIN)


def test_rpr_12_a_replacement_that_is_banned_itself_is_refused_and_told_to_the_editor() -> None:
    room = Newsroom(
        {},
        editor=edits(
            {"before": "is a game-changer for", "after": "is a testament to"},
            {"before": "is a game-changer for", "after": "dulls"},
        ),
    )

    log = room.work("repair", made_elsewhere())

    failed = [e.data for e in room.world.events() if isinstance(e.data, facts.ToolFailed)]
    assert [one.code for one in failed] == ["replacement_refused"]
    assert [one.verdict for one in log.iterations] == ["passed"]


def test_rpr_12_an_edit_whose_before_is_gone_is_skipped_and_recorded() -> None:
    room = Newsroom({}, editor=edits({"before": "is not there", "after": "dulls"}))

    log = room.work("repair", made_elsewhere())

    first = log.iterations[0]
    assert first.actions[0].skipped is not None
    assert room.drafts()[1] == room.drafts()[0]
    assert log.outcome == "passed"


def test_level_2_rewrites_the_failing_section_and_keeps_the_others() -> None:
    first = {**GOOD, "Water": "\n\n".join([*WATER.split("\n\n")[:2], "Hard water dulls both.\n"])}
    room = Newsroom(first)

    log = room.run()

    assert [one.level for one in log.passed_over] == [1]
    assert [(one.level, one.verdict) for one in log.iterations] == [(2, "passed")]
    assert set(room.asked) == {"writer", "reviewer"}
    assert [action.section for action in log.iterations[0].actions] == ["Water"]
    before, after = room.drafts()
    assert content_of(after)["Leaves"] == content_of(before)["Leaves"]


def test_rpr_11_a_review_that_rejects_leads_to_another_round_and_another_review() -> None:
    verdicts = iter(["rejected", "approved"])
    room = Newsroom(
        GOOD,
        reviewer=lambda given, request: {
            **APPROVED,
            "verdict": next(verdicts),
            "would_change": ["the second paragraph is thin"],
        },
    )

    log = room.run()

    assert [one.verdict for one in log.reviews] == ["rejected", "approved"]
    assert {one.metric for one in log.iterations} == {"review"}
    assert log.outcome == "passed"


def test_rpr_10_what_never_gets_better_is_exhausted_with_the_best_draft() -> None:
    bad = {**GOOD, "Water": "## Water\n\nHot.\n"}
    room = Newsroom(
        bad,
        writer=lambda given, request: {"text": f"{given['heading']}\n\nHot.\n"},
        humanizer=lambda given, request: {"text": given["text"]},
    )

    log = room.run(budget_usd=9.0)

    assert (log.outcome, log.halt_reason) == ("exhausted", "rounds")
    assert len(log.iterations) == 4
    levels = [one.level for one in log.iterations]
    assert levels == sorted(levels)
    best = max(log.assessments, key=lambda one: one.overall_score)
    assert log.best_draft == best.draft

    room.world.store.append(people.decide(room.world.state(), "d", "accept", by="me"))
    room.world.work()

    state = room.world.state()
    assert state.output is not None
    assert room.value(state.output)["completion_status"] == "DONE_WITH_CONCERNS"


def test_level_5_begins_again_under_another_title() -> None:
    thin = {**GOOD, "Water": "## Water\n\nHot.\n"}
    room = Newsroom(thin)

    def writer(given: dict[str, Any], request: ModelRequest) -> Any:
        name = given["heading"].removeprefix("## ")
        at_last = len(room.log().iterations) == 4
        return {"text": GOOD[name] if at_last else thin[name]}

    room.replies = {"writer": writer, "humanizer": lambda given, request: {"text": given["text"]}}

    log = room.run(budget_usd=9.0, max_rounds=6)

    assert [one.level for one in log.iterations] == [2, 2, 3, 4, 5]
    assert log.outcome == "passed"
    assert room.drafts()[-1].startswith("# Tea, leaf by leaf\n")
