"""
The article workload over real HTTP, on a real server, with a scripted model: what each level of
repair changes, and what stays byte for byte (RPR-5 to RPR-12).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.events import facts
from mulligan.projections.repair_log import RepairLog, fold
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.tea_article import (
    APPROVED,
    BRIEF,
    GOOD,
    LEAVES,
    OTHER_TITLE,
    OUTLINE,
    PLAIN,
    STOCK,
    WATER,
    article,
    edits,
    faulty,
    says,
    script,
    stock_report,
)
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

THIN = "## Water\n\nHot.\n"
THIN_WATER = {**GOOD, "Water": THIN}
"""No line of it can be mended: only writing it again helps."""


class Press:
    """A worker in this process, and a model that each test gives its script."""

    def __init__(self, client: Client, model: ScriptedModel) -> None:
        self.client = client
        self.model = model
        self._numbers = count(1)
        self.run = ""

    def prints(self, workflow: str, given: Any, turns: list[dict[str, Any]]) -> RunState:
        """The state of a new run once it has ended, or is paused."""
        self.model.play({"turns": turns})
        self.run = self.client.enqueue(
            workflow, given, model="scripted/any", run_id=f"press-{next(self._numbers)}"
        )
        return self.ended()

    def ended(self) -> RunState:
        state = self.client.wait(self.run, timeout_s=60)
        assert problems_of(self.client.store, self.run, self.events()) == []
        return state

    def decide(self, decision: Any, **given: Any) -> RunState:
        self.client.decide(self.run, decision, by="me", **given)
        until(lambda: self.client.status(self.run).status != "paused", 30.0)
        return self.ended()

    def events(self) -> list[Any]:
        return list(self.client.events(self.run))

    def said(self, kind: type[facts.Fact]) -> list[Any]:
        return [event.data for event in self.events() if isinstance(event.data, kind)]

    @property
    def log(self) -> RepairLog:
        (log,) = fold(self.run, self.events(), partial(self.client.value, self.run)).loops
        return log

    @property
    def levels(self) -> list[int]:
        return [one.level for one in self.log.iterations]

    def drafts(self) -> list[str]:
        found = (one.content for one in self.said(facts.QualityAssessed))
        return [self.client.value(self.run, content) for content in found]

    def output(self, state: RunState) -> Any:
        assert state.output is not None
        return self.client.value(self.run, state.output)


@pytest.fixture(scope="module")
def press(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Press]:
    with server.client() as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("press")
    with ScriptedModel({"turns": []}) as model, data_in(folder):
        settings = Settings(redis_url=server.url, data_dir=folder, api_base=model.url)
        runtime = assemble(settings)
        with Client(settings) as client_, working(runtime, threads=4, drain_s=2):
            yield Press(client_, model)
        runtime.close()


@contextmanager
def data_in(folder: Path) -> Iterator[None]:
    """Where the published file goes, which a worker's environment says."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MULLIGAN_DATA_DIR", str(folder))
        yield


def elsewhere(**changes: Any) -> dict[str, Any]:
    """What a folder holds that was made elsewhere: a draft with a stock phrase, and its report."""
    draft = article().replace(PLAIN, STOCK)
    given = {"draft": draft, "quality": stock_report(draft), "brief": BRIEF, "outline": OUTLINE}
    return given | changes


# --- Level 1 -------------------------------------------------------------------------------------


def test_level_1_with_after_edits_its_words_alone_and_asks_no_model(press: Press) -> None:
    dashed = faulty("Water", "A filter helps, and", "A filter helps — and")

    state = press.prints("article", BRIEF, script(dashed))

    before, after = press.drafts()
    (edit,) = press.log.iterations[0].actions
    assert press.levels == [1]
    assert after == before.replace(str(edit.before), str(edit.after), 1)
    assert press.log.iterations[0].cost_usd == 0.0
    asked = [one.agent for one in press.said(facts.SubagentCalled)]
    assert asked == ["reviewer"]
    published = press.output(state)
    assert Path(published["path"]).is_absolute()
    assert Path(published["path"]).read_text() == after
    assert published["outcome"] == "passed"


def test_level_1_without_after_asks_an_editor_and_its_cost_is_known(press: Press) -> None:
    told = edits("repair.1.1", {"line": 0, "before": "is a game-changer for", "after": "dulls"})
    given = elsewhere()
    told[0]["tool_calls"][0]["arguments"]["line"] = given["quality"]["repairs"][0]["line"]
    for turn, cost in zip(told, (0.01, 0.02), strict=True):
        turn["usage"] = {"prompt_tokens": 9, "completion_tokens": 1, "cost": cost}

    press.prints("repair", given, script({}, *told))

    before, after = press.drafts()
    assert after == before.replace(STOCK, PLAIN)
    assert press.levels == [1]
    assert press.log.iterations[0].cost_usd == pytest.approx(0.03)
    offered = [
        [tool["function"]["name"] for tool in request.body["tools"]]
        for request in press.model.requests
        if request.headers["x-mulligan-invocation"] == "repair.1.1"
    ]
    assert offered[-1] == ["edit", "submit_output"]


def test_rpr_12_a_replacement_that_is_banned_itself_never_gets_in(press: Press) -> None:
    given = elsewhere()
    line = given["quality"]["repairs"][0]["line"]
    before = "is a game-changer for"
    told = edits(
        "repair.1.1",
        {"line": line, "before": before, "after": "is a testament to"},
        {"line": line, "before": before, "after": "dulls"},
    )

    press.prints("repair", given, script({}, *told))

    assert [one.code for one in press.said(facts.ToolFailed)] == ["replacement_refused"]
    assert press.drafts()[-1] == article()


def test_rpr_12_an_edit_whose_before_is_gone_is_recorded_and_not_applied(press: Press) -> None:
    given = elsewhere()
    line = given["quality"]["repairs"][0]["line"]
    told = edits("repair.1.1", {"line": line, "before": "was never there", "after": "dulls"})

    press.prints("repair", given, script({}, *told))

    (skipped,) = press.log.iterations[0].actions
    assert skipped.skipped is not None
    assert "not on its line" in skipped.skipped
    assert press.drafts()[1] == press.drafts()[0]


# --- Levels 2 to 5 -------------------------------------------------------------------------------


def thin(turn: int, **more: Any) -> dict[str, Any]:
    """A writer that has learned nothing."""
    return says(f"repair.{turn}.1", {"text": THIN}, **more)


def sections(turn: int, texts: dict[str, str] = GOOD) -> list[dict[str, Any]]:
    """Each section written again, side by side."""
    return [
        says(f"repair.{turn}.{number}", {"text": text}, cost_usd=0.01)
        for number, text in enumerate(texts.values(), start=1)
    ]


def test_level_2_writes_the_failing_section_and_keeps_the_others(press: Press) -> None:
    state = press.prints(
        "article", BRIEF, script(THIN_WATER, says("repair.1.1", {"text": WATER}, cost_usd=0.5))
    )

    before, after = press.drafts()
    assert state.status == "completed"
    assert press.levels == [2]
    assert [one.level for one in press.log.passed_over] == [1]
    kept, _, _ = before.partition(THIN)
    assert after.startswith(kept + WATER), "what stands before the section is kept byte for byte"
    assert after == article(), "what it newly cites is in the list of references"
    assert [one.type for one in press.log.iterations[0].actions] == ["section", "references"]
    assert press.log.iterations[0].cost_usd == 0.5


def test_level_3_does_one_stage_again_and_keeps_what_was_planned(press: Press) -> None:
    state = press.prints("article", BRIEF, script(THIN_WATER, thin(1), thin(2), *sections(3)))

    assert state.status == "completed"
    assert press.levels == [2, 2, 3]
    assert [one.verdict for one in press.log.iterations] == [
        "not_improved",
        "not_improved",
        "passed",
    ]
    agents = [one.agent for one in press.said(facts.SubagentCalled)]
    assert agents == ["writer", "writer", "humanizer", "humanizer", "reviewer"]
    assert press.drafts()[-1] == article()
    done = [event.node for event in press.events() if isinstance(event.data, facts.NodeCompleted)]
    assert sorted(done) == sorted(set(done)), "no node before the loop ran again"


def test_rpr_11_a_pass_in_round_4_at_level_4_is_a_pass(press: Press) -> None:
    untouched = sections(3, THIN_WATER)

    state = press.prints(
        "article", BRIEF, script(THIN_WATER, thin(1), thin(2), *untouched, *sections(4))
    )

    assert state.status == "completed"
    assert press.levels == [2, 2, 3, 4]
    assert (press.log.outcome, press.log.total_iterations) == ("passed", 4)
    assert press.drafts()[-1] == article()
    given = next(
        json.loads(request.body["messages"][1]["content"])
        for request in press.model.requests
        if request.headers["x-mulligan-invocation"] == "repair.4.2"
        and "rewrite one section" in request.body["messages"][0]["content"]
    )
    assert given["text"] is None, "what is written anew is not written from the old text"
    assert given["findings"], "research is kept"


def test_level_5_begins_again_under_another_title_where_the_plan_does_not_carry(
    press: Press,
) -> None:
    """Nothing points at a line or a section: levels 1 and 2 are passed over, and cost no round."""
    short = {"Leaves": LEAVES}
    same = [says(f"repair.{turn}.1", {"text": LEAVES}, cost_usd=0.01) for turn in (1, 2)]
    outline = says("repair.3.1", OUTLINE, cost_usd=0.01)

    state = press.prints("article", BRIEF, script(short, *same, outline, *sections(4)))

    assert state.status == "completed"
    assert [one.level for one in press.log.passed_over] == [1, 2]
    assert press.levels == [3, 4, 5]
    assert press.drafts()[-1] == article(title=OTHER_TITLE)


# --- Review --------------------------------------------------------------------------------------

REJECTED = APPROVED | {"verdict": "rejected", "would_change": ["the second paragraph is thin"]}


def test_rpr_11_a_rejected_review_leads_to_another_round_within_the_cap(press: Press) -> None:
    press.prints("article", BRIEF, script(GOOD, says("repair.1.1", REJECTED), *sections(2)))

    assert [one.verdict for one in press.log.reviews] == ["rejected", "approved"]
    (round_1,) = press.log.iterations
    assert (round_1.trigger, round_1.metric) == ("rejected", "review")
    assert press.log.outcome == "passed"


def test_rpr_2_a_review_of_another_draft_is_stale_and_asked_for_again(press: Press) -> None:
    stale = says("repair.1.1", REJECTED | {"digest": "0" * 64})

    state = press.prints("article", BRIEF, script(GOOD, stale))

    assert state.status == "completed"
    assert [(one.verdict, one.counted) for one in press.log.reviews] == [
        ("rejected", False),
        ("approved", True),
    ]
    assert press.log.iterations == ()


# --- What does not converge, and money -----------------------------------------------------------


def worse(**more: Any) -> list[dict[str, Any]]:
    """Whoever repairs makes it worse."""
    hopeless = {"Leaves": "## Leaves\n\nGreen.\n", "Water": THIN}
    return [
        thin(1, **more),
        thin(2, **more),
        *sections(3, hopeless),
        *sections(4, hopeless),
    ]


@pytest.mark.parametrize("decision", ["accept", "abort", "take_over"])
def test_rpr_10_exhausted_it_asks_and_the_best_draft_is_the_first(
    press: Press, decision: str
) -> None:
    state = press.prints("article", BRIEF, script(THIN_WATER, *worse()))

    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    assert (press.log.outcome, press.log.halt_reason) == ("exhausted", "rounds")
    scores = [one.overall_score for one in press.log.assessments]
    assert scores[0] == max(scores) > scores[-1]
    assert press.log.best_draft == press.log.assessments[0].draft

    state = press.decide(decision, **({"draft": article()} if decision == "take_over" else {}))

    assert press.log.decided_by == "me"
    if decision == "abort":
        assert state.status == "failed"
        assert state.failure is not None
        assert state.failure.kind == "repair_aborted"
        return
    published = press.output(state)
    draft = Path(published["path"]).read_text()
    wanted = {"accept": ("accepted", press.drafts()[0]), "take_over": ("taken_over", article())}
    assert (published["outcome"], draft) == wanted[decision]


def test_a_draft_that_is_taken_over_is_gated_like_any_other(press: Press) -> None:
    press.prints("article", BRIEF, script(THIN_WATER, *worse()))

    state = press.decide("take_over", draft=article(faulty("Water", PLAIN, STOCK)))

    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    assert press.log.assessments[-1].taken_over
    assert press.log.total_iterations == 4, "what was handed in costs no round"


def test_rpr_9_a_round_that_could_exceed_the_budget_is_not_started(press: Press) -> None:
    state = press.prints("article", BRIEF, script(THIN_WATER, *worse(cost_usd=1.2)))

    assert (state.status, state.reason) == ("paused", "awaiting_decision")
    assert (press.log.outcome, press.log.halt_reason) == ("halted", "budget")
    assert [one.cost_usd for one in press.log.iterations] == [1.2, 1.2]
    (asked,) = press.said(facts.DecisionRequested)
    assert "could cost more than the budget" in asked.detail


def test_rpr_9_an_unknown_cost_stays_unknown_and_counts_with_its_estimate(press: Press) -> None:
    state = press.prints("article", BRIEF, script(THIN_WATER, says("repair.1.1", {"text": WATER})))

    (only,) = press.log.iterations
    assert only.cost_usd is None
    assert state.repairs["repair"].spent_usd == only.estimate_usd == pytest.approx(0.15)
