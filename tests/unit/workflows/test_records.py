"""
The records workload (RPR-14): the same loop as for articles, on structured data, from a field up to
a new plan; and of what a level does not name nothing changes.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.projections.repair_log import fold
from mulligan.projections.state import RunState
from mulligan.quality.report import Quality
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.workflows.records import batch, levels, rules, spelling

LETTER = """\
Invoice No. A-17, 3 March 2024, payable by 17 March 2024
2 x Tea, green, at EUR 4.50: 9.00
1 x Teapot at EUR 1,250.00: 1,250.00
Net 1,259.00, VAT 19 %: 239.21, total EUR 1,498.21
"""
RECORD = {
    "number": "A-17",
    "date": "2024-03-03",
    "due": "2024-03-17",
    "currency": "EUR",
    "lines": [
        {"description": "Tea, green", "quantity": 2, "unit_price": 4.5, "amount": 9.0},
        {"description": "Teapot", "quantity": 1, "unit_price": 1250, "amount": 1250},
    ],
    "net": 1259.0,
    "tax_rate": 19,
    "tax": 239.21,
    "total": 1498.21,
}
INPUT = {"documents": [{"id": "letter", "text": LETTER}]}


def drafted(*changes: tuple[str, Any]) -> batch.Batch:
    draft = batch.collect(INPUT, [{"records": [deepcopy(RECORD)]}])
    for path, value in changes:
        draft = batch.with_value(draft, f"/documents/0/records/0/{path}", value)
    return draft


def judged(*changes: tuple[str, Any]) -> Quality:
    return rules.judge(drafted(*changes), INPUT)


def test_what_the_document_says_passes_every_rule() -> None:
    assert judged().overall_passed
    assert judged().overall_score == 100


@pytest.mark.parametrize(
    ("path", "value", "gate", "after"),
    [
        ("total", 1500.0, "sums", "1498.21"),
        ("lines/0/amount", 8.0, "sums", "9.0"),
        ("tax", 200.0, "sums", "239.21"),
        ("total", "1,498.21", "form", "1498.21"),
        ("currency", "euro", "form", None),
        ("due", "2024-02-17", "dates", None),
        ("date", "2024-02-31", "dates", None),
        ("lines/1/description", "Kettle", "evidence", None),
        ("number", "A-18", "evidence", None),
    ],
)
def test_a_wrong_field_is_found_where_it_is(path: str, value: Any, gate: str, after: Any) -> None:
    quality = judged((path, value))

    assert not quality.gates[gate].passed
    found = [one for one in quality.repairs if one.path == f"/documents/0/records/0/{path}"]
    assert {one.gate for one in found} >= {gate}
    assert [one.after for one in found if one.gate == gate] == [after]
    assert {one.section for one in found} == {"letter#1"}


def test_the_score_falls_with_every_fault() -> None:
    scores = [
        judged(*faults).overall_score
        for faults in (
            (),
            (("total", 1.0),),
            (("total", 1.0), ("due", "2024-02-01")),
            (("total", 1.0), ("due", "2024-02-01"), ("number", "B-1")),
        )
    ]
    assert scores == sorted(set(scores), reverse=True)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("1.250,00 EUR", 1250, True),
        ("1 250.5", 1250.5, True),
        ("7", 7.0, True),
        ("17", 7, False),
        ("dated 03.03.2024", "2024-03-03", True),
        ("on March 3, 2024", "2024-03-03", True),
        ("on March 4, 2024", "2024-03-03", False),
        ("GREEN\n  tea", "green tea", True),
        ("anything", True, False),
        ("No. A-17", "A-1", False),
    ],
)
def test_a_document_says_a_value_however_it_spells_it(text: str, value: Any, said: bool) -> None:
    assert spelling.says(text, value) is said


@pytest.mark.parametrize(
    ("text", "number"), [("1,498.21", 1498.21), ("7", 7.0), ("1,234", None), ("1/6", None)]
)
def test_a_text_is_a_number_only_if_it_can_be_read_as_no_other(
    text: str, number: float | None
) -> None:
    assert spelling.number_of(text) == number


# --- Levels --------------------------------------------------------------------------------------


class World:
    """The shipped workflow in memory, its model giving `answers`."""

    def __init__(self, *answers: Any, documents: Any = INPUT) -> None:
        self.provider = ScriptedProvider(list(answers))
        code = {
            "mulligan.workflows.records.batch:collect": batch.collect,
            "mulligan.workflows.records.rules:judge": rules.judge,
            "mulligan.workflows.records.levels:rework": levels.rework,
        }
        self.world = InMemory(provider=self.provider, code=code)
        plan = compile_plan(load_workflow("records"), default_model="scripted/any")
        self.state: RunState = self.world.run(plan, documents)

    def levels(self) -> list[int]:
        started = (event.data for event in self.world.events())
        return [one.level for one in started if isinstance(one, facts.RepairRoundStarted)]

    def output(self) -> dict[str, Any]:
        assert self.state.output is not None, self.state
        value: dict[str, Any] = self.world.store.payload  # type: ignore[assignment]
        value = self.value(self.state.output)
        return value

    def value(self, payload: Any) -> Any:
        import msgspec

        if payload.inline:
            return payload.value
        return msgspec.json.decode(self.world.store.payload("run", payload.digest))

    def log(self) -> Any:
        return fold("run", self.world.events(), self.value).loops[0]


def read(*changes: tuple[str, Any]) -> dict[str, Any]:
    """What an agent that extracts says."""
    records: list[Any] = drafted(*changes)["documents"][0]["records"]
    return {"records": records}


def test_level_1_repairs_a_sure_field_without_a_model() -> None:
    world = World(read(("total", 1500.0)))

    assert world.levels() == [1]
    assert len(world.provider.requests) == 1
    assert world.output()["draft"] == drafted()
    (action,) = world.log().iterations[0].actions
    assert (action.before, action.after) == ("1500.0", "1498.21")


def test_level_1_asks_for_a_field_that_nothing_else_tells() -> None:
    path = "/documents/0/records/0/number"
    world = World(read(("number", "A-18")), {"fields": [{"path": path, "value": "A-17"}]})

    assert world.levels() == [1]
    assert world.output()["draft"] == drafted()
    asked = world.provider.requests[1]
    assert "A-18" in str(asked.messages[1].content)


def test_level_2_reads_the_record_again_and_nothing_else() -> None:
    other = {"id": "other", "text": LETTER.replace("A-17", "A-16")}
    documents = {"documents": [*INPUT["documents"], other]}
    kept = {"records": [{**deepcopy(RECORD), "number": "A-16"}]}
    path = "/documents/0/records/0/number"

    world = World(
        read(("number", "A-18")),
        kept,
        {"fields": [{"path": path, "value": "A-19"}]},
        {"record": RECORD},
        documents=documents,
    )

    assert world.levels() == [1, 2]
    documents_now = world.output()["draft"]["documents"]
    assert documents_now[1]["records"] == kept["records"]
    assert documents_now[0]["records"] == [RECORD]


def test_level_3_reads_the_document_again() -> None:
    world = World({"records": []}, read())

    assert world.levels() == [3]
    over = [(one.level, one.because) for one in world.log().passed_over]
    assert [level for level, _ in over] == [1, 2]
    assert world.output()["draft"] == drafted()


def test_levels_4_and_5_read_the_batch_again_at_last_by_other_instructions() -> None:
    none: dict[str, Any] = {"records": []}

    world = World(none, none, none, {"instructions": "look at the end"}, read())

    assert world.levels() == [3, 4, 5]
    draft = world.output()["draft"]
    assert draft["instructions"] == "look at the end"
    assert draft["documents"] == drafted()["documents"]
    assert "look at the end" in str(world.provider.requests[-1].messages[1].content)


def test_an_edit_of_a_value_that_is_another_by_now_is_skipped() -> None:
    fix = {
        "kind": "field",
        "path": "/documents/0/records/0/total",
        "before": "1500.0",
        "after": "1498.21",
        "section": "letter#1",
        "instruction": "",
    }

    answer = levels.rework(1, drafted(("total", 7.0)), [fix], [], INPUT)

    assert isinstance(answer, levels.Redone)
    assert answer.draft == drafted(("total", 7.0))
    assert answer.actions[0].skipped == "the value is another by now"
