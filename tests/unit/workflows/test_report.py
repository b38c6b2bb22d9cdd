"""The shipped report in memory, with a scripted model: what each stage makes sure of."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.decisions import people
from mulligan.events import facts
from mulligan.projections.open_requests import open_requests
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, Failure, ModelRequest, ToolCall
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.testing.week_report import FOUND, GOOD, INPUT, PARSED, TOLD, WEEK, entry

STAGES = [
    *("request", "parsed", "scope", "collected", "evidence"),
    *("reconciled", "composed", "verified", "delivered"),
]


class Desk:
    """The shipped workflow in memory; what its model says may be changed by node."""

    def __init__(self, folder: Path, **says: Any) -> None:
        self.folder = folder
        self.says = {"parsed": PARSED, "composed": {"statements": GOOD}, **says}
        self.provider = ScriptedProvider([self.reply] * 60)
        self.plan = compile_plan(load_workflow("report"), default_model="scripted/any")
        self.world = InMemory(provider=self.provider)

    def run(self, given: dict[str, Any] = TOLD) -> RunState:
        self.given = given
        return self.world.run(self.plan, given)

    def reply(self, request: ModelRequest) -> Any:
        node = str(request.node)
        if "You write one statement" in str(request.messages[0].content):
            said = self.says["writer"]
            return said(json.loads(str(request.messages[1].content)))
        if node.startswith("collected"):
            place = int(node[node.index("[") + 1 : -1])
            name = self.given["materials"][place]["id"]
            return self.says.get(name, {"entries": FOUND[name]})
        said = self.says[node]
        return said(request) if callable(said) else said

    def value(self, node: str) -> Any:
        payload = self.world.state().nodes[node].output
        assert payload is not None, self.world.state().failure
        if payload.inline:
            return payload.value
        return msgspec.json.decode(self.world.store.payload("run", payload.digest))

    def answer(self, given: Any) -> RunState:
        request = open_requests(self.world.state())[0].id
        state = self.world.state()
        append = people.answer(state, f"op{state.version}", request, given, by="me")
        assert append is not None
        self.world.store.append(append)
        self.world.work()
        return self.world.state()

    def asked(self) -> dict[str, str]:
        """The questions that are open, by id."""
        return {
            one.id: one.question
            for request in open_requests(self.world.state())
            for one in request.questions
        }

    def revisions(self) -> list[str]:
        base = self.folder / "reports" / "weekly" / WEEK / "run"
        return sorted(path.name for path in base.iterdir())

    def file(self, name: str, revision: str = "r01") -> str:
        path = self.folder / "reports" / "weekly" / WEEK / "run" / revision / name
        return path.read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MULLIGAN_DATA_DIR", str(tmp_path))
    return tmp_path


def changed(given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**deepcopy(given), **more}


# --- Stages and files ----------------------------------------------------------------------------


def test_rept1_every_stage_has_a_result_of_its_own(folder: Path) -> None:
    desk = Desk(folder)

    state = desk.run()

    assert "completed" == state.status, state.failure
    assert STAGES == [node.id for node in desk.plan.nodes]
    assert WEEK == desk.value("scope")["week"]
    assert ["Anna", "Bert"] == desk.value("scope")["members"]
    assert ["m1", "m2", "m4"] == [one["id"] for one in desk.value("request")["materials"]]
    assert ["e1", "e2", "e3"] == [one["id"] for one in desk.value("evidence")["entries"]]
    assert ["Anna", "Bert"] == [one["author"] for one in desk.value("reconciled")["entries"]]
    assert desk.value("verified")["quality"]["overall_passed"]
    assert "locally" == desk.value("delivered")["delivered"]


def test_rept2_a_revision_holds_summary_coverage_and_sources(folder: Path) -> None:
    desk = Desk(folder)
    desk.run()

    assert ["r01"] == desk.revisions()
    assert f"# Weekly report, {WEEK}" in desk.file("summary.md")
    assert "## Anna\n\n- The new importer took 1250 invoices. [m1]" in desk.file("summary.md")
    coverage = json.loads(desk.file("coverage.json"))
    assert {"m1": "used", "m2": "used", "m4": "out_of_week"} == {
        one["id"]: one["used"] for one in coverage["materials"]
    }
    assert ["e1", "e2"] == [one["id"] for one in json.loads(desk.file("sources.json"))["evidence"]]
    manifest = json.loads(desk.file("package.json"))
    assert (1, "verified", "run") == (
        manifest["revision"],
        manifest["status"],
        manifest["run"],
    )


def test_rept2_what_verifying_changed_is_a_revision_and_nothing_is_overwritten(
    folder: Path,
) -> None:
    wrong = [GOOD[0], {"text": "The archive moved in 50 minutes.", "evidence": ["e2"]}]
    desk = Desk(
        folder,
        composed={"statements": wrong},
        writer=lambda given: {"text": "The archive moved in 40 minutes."},
    )
    taken = folder / "reports" / "weekly" / WEEK / "run" / "r01"
    taken.mkdir(parents=True)
    (taken / "summary.md").write_text("mine")

    assert "completed" == desk.run().status

    assert ["r01", "r02", "r03"] == desk.revisions()
    assert "mine" == desk.file("summary.md")
    assert "50 minutes" in desk.file("summary.md", "r02")
    assert "40 minutes" in desk.file("summary.md", "r03")
    statuses = [json.loads(desk.file("package.json", one))["status"] for one in ("r02", "r03")]
    assert ["draft", "verified"] == statuses
    assert 3 == desk.value("delivered")["revision"]


# --- What is not known is asked ------------------------------------------------------------------


def test_rept3_a_missing_author_is_asked_for_and_the_run_waits(folder: Path) -> None:
    statements = [*GOOD, {"text": "The label printer was replaced.", "evidence": ["e3"]}]
    desk = Desk(folder, composed={"statements": statements})

    state = desk.run(INPUT)

    assert ("paused", "awaiting_input") == (state.status, state.reason)
    assert ["m3"] == list(desk.asked())
    assert "'Printer'" in desk.asked()["m3"]
    assert "composed" not in {request.node for request in desk.provider.requests}

    state = desk.answer({"m3": "Zoe"})
    assert ("paused", "'Zoe' is no member" in desk.asked()["m3"]) == (state.status, True)
    state = desk.answer({"m3": {"option": "Bert"}})

    assert "completed" == state.status, state.failure
    assert ["Anna", "Bert", "Bert"] == [
        one["author"] for one in desk.value("reconciled")["entries"]
    ]
    assert "replaced. [m3]" in desk.file("summary.md").partition("## Bert")[2]


def test_rept3_what_nobody_wrote_may_be_left_out(folder: Path) -> None:
    desk = Desk(folder)
    desk.run(INPUT)

    assert "completed" == desk.answer({"m3": {"option": "leave it out"}}).status
    uses = {one["id"]: one["used"] for one in desk.value("reconciled")["coverage"]["materials"]}
    assert "left_out" == uses["m3"]


@pytest.mark.parametrize(
    ("author", "quote"),
    [
        ("Zoe", "the new importer took 1,250 invoices"),  # no member, and not in the material
        (
            "Bert",
            "the new importer took 1,250 invoices",
        ),  # a member whom the material does not name
    ],
)
def test_rept3_an_author_that_a_model_makes_up_is_asked_for(
    folder: Path, author: str, quote: str
) -> None:
    desk = Desk(folder, m1={"entries": [entry(quote, author)]})

    assert "awaiting_input" == desk.run().reason
    assert ["m1"] == list(desk.asked())


@pytest.mark.parametrize(
    ("parsed", "asked"),
    [
        ({**PARSED, "week_said": None, "week": WEEK}, "week"),
        ({**PARSED, "week_said": "week 48"}, "week"),  # the request says nothing of the kind
        ({**PARSED, "week_said": "report", "week": "2026-W50"}, "week"),  # it has not begun
        ({**PARSED, "members": ["Zoe"]}, "members"),
    ],
)
def test_rept3_what_a_request_leaves_open_is_asked(
    folder: Path, parsed: dict[str, Any], asked: str
) -> None:
    desk = Desk(folder, parsed=parsed)

    assert "awaiting_input" == desk.run().reason
    assert [asked] == list(desk.asked())
    answer = {"week": "last week", "members": "anna, Bertie"}[asked]
    assert "completed" == desk.answer({asked: answer}).status
    assert (WEEK, ["Anna", "Bert"]) == (
        desk.value("scope")["week"],
        desk.value("scope")["members"],
    )


def test_a_week_in_other_words_is_read_with_the_calendar(folder: Path) -> None:
    """The words stand in the request; what week they mean a tool can tell."""
    words = "the week of 23 November"
    desk = Desk(folder, parsed={"week_said": words, "week": WEEK, "members": ["bertie"]})

    state = desk.run(changed(TOLD, request=f"A report for {words}, please."))

    assert ("failed", "no_evidence") != (state.status, state.failure)
    assert (WEEK, ["Bert"]) == (desk.value("scope")["week"], desk.value("scope")["members"])


# --- What is not so is not said ------------------------------------------------------------------


def test_words_that_stand_nowhere_are_no_evidence(folder: Path) -> None:
    made_up = entry("Anna won a prize", "Anna")
    desk = Desk(folder, m1={"entries": [*FOUND["m1"], made_up]})
    desk.run()

    assert ["m1"] == [one["material"] for one in desk.value("evidence")["refused"]]
    assert "prize" not in desk.file("summary.md")


@pytest.mark.parametrize(
    ("statement", "gate"),
    [
        ({"text": "The importer took 1,300 invoices.", "evidence": ["e1"]}, "numbers"),
        ({"text": "Bert built the importer.", "evidence": ["e1"]}, "names"),
        ({"text": "All is well.", "evidence": ["e9"]}, "sources"),
        ({"text": "BLOCKED: the materials could not be opened.", "evidence": ["-"]}, "sources"),
    ],
)
def test_rept3_a_statement_that_its_evidence_does_not_bear_is_not_delivered(
    folder: Path, statement: dict[str, Any], gate: str
) -> None:
    """A writer that does no better gives way to the evidence's own words."""
    desk = Desk(
        folder,
        composed={"statements": [GOOD[0], statement, GOOD[1]]},
        writer=lambda given: {"text": "Still 7,000 of them, says Bert and Anna."},
    )

    state = desk.run()

    assert "completed" == state.status, state.failure
    verified = desk.value("verified")
    assert verified["quality"]["overall_passed"]
    assert statement["text"] not in json.dumps(verified["draft"])
    assert "7,000" not in json.dumps(verified["draft"])
    assert [GOOD[0], GOOD[1]] == [one for one in verified["draft"]["statements"] if one in GOOD]
    first = next(e.data for e in desk.world.events() if isinstance(e.data, facts.QualityFailed))
    assert gate == first.gate


def test_evidence_of_which_nothing_is_said_is_said(folder: Path) -> None:
    desk = Desk(
        folder,
        composed={"statements": GOOD[:1]},
        writer=lambda given: {"text": f"So: {given['evidence'][0]['quote']}"},
    )

    assert "completed" == desk.run().status
    assert "So: I moved the archive" in desk.file("summary.md", "r02")


# --- Errors are errors ---------------------------------------------------------------------------


BROKEN = Failure(cause=facts.Cause(kind="http_error", message="status 400"), transient=False)


@pytest.mark.parametrize("node", ["parsed", "m2", "composed"])
def test_rept4_a_failure_of_the_surroundings_is_an_error_and_no_question(
    folder: Path, node: str
) -> None:
    desk = Desk(folder, **{node: BROKEN})

    state = desk.run()

    assert "failed" == state.status
    assert state.failure is not None
    assert () == open_requests(state)
    assert not (folder / "reports").exists()


def test_rept4_a_report_of_nothing_is_an_error(folder: Path) -> None:
    nothing: dict[str, Any] = {"entries": []}
    desk = Desk(folder, m1=nothing, m2=nothing)

    state = desk.run()

    assert state.failure is not None
    assert "no_evidence" == state.failure.kind
    assert not (folder / "reports").exists()


def test_rept4_a_folder_that_can_not_be_written_is_an_error(folder: Path) -> None:
    (folder / "reports").write_text("a file")

    state = Desk(folder).run()

    assert "failed" == state.status


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"timezone": "Berlin"}, "timezone"),
        ({"recorded_at": "yesterday"}, "recorded_at"),
        ({"recorded_at": "2026-11-30T09:00:00"}, "time zone"),
        ({"members": [{"name": "Anna"}, {"name": "anna"}]}, "members[1]"),
        ({"materials": [{"id": "m", "text": "x"}, {"id": "m", "text": "y"}]}, "twice"),
        ({"materials": [{"id": "m", "text": "x", "date": "24.11."}]}, "materials[0].date"),
    ],
)
def test_a_request_of_no_use_is_refused_before_a_model_is_asked(
    folder: Path, change: dict[str, Any], told: str
) -> None:
    desk = Desk(folder)

    state = desk.run(changed(TOLD, **change))

    assert state.failure is not None
    assert "invalid_request" == state.failure.kind
    assert told in state.failure.message
    assert [] == desk.provider.requests


# --- Prompt mode ---------------------------------------------------------------------------------


def test_rept6_the_request_is_parsed_from_text_with_tools_that_only_read(folder: Path) -> None:
    def parsed(request: ModelRequest) -> Any:
        if len(request.messages) == 2:
            call = ToolCall("c1", "iso_week", '{"day": "2026-11-23"}')
            return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))
        return f"```json\n{json.dumps(PARSED)}\n```"

    desk = Desk(folder, parsed=parsed)

    assert "completed" == desk.run().status
    asked = [one for one in desk.provider.requests if one.node == "parsed"]
    assert {"prompt"} == {one.mode for one in asked}
    assert {"iso_week"} == {tool.name for one in asked for tool in one.tools}
    assert "JSON Schema" in str(asked[0].messages[0].content)
    assert WEEK in str(asked[1].messages[-1].content), "what the tool told"
    effects = {
        e.data.effect for e in desk.world.events() if isinstance(e.data, facts.ToolRequested)
    }
    assert {"read"} == effects
    assert {"read"} == {spec.effect for spec in desk.plan.tools.values()}


def test_rept6_a_call_in_words_is_not_run(folder: Path) -> None:
    texts = iter(['{"name": "iso_week", "arguments": {"day": "2026-11-23"}}', json.dumps(PARSED)])
    desk = Desk(folder, parsed=lambda request: next(texts))

    desk.run()

    assert not [e for e in desk.world.events() if isinstance(e.data, facts.ToolRequested)]
