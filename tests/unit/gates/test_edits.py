"""RPR-12: edits change what they name and nothing else; sections are replaced as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.quality.report import Fix
from mulligan.workflows.article.edits import apply_edits, replace_sections, sections_of
from mulligan.workflows.article.gates.judge import report_on
from mulligan.workflows.article.gates.rules import rules_from

RULES = rules_from()
DRAFT = "\ufeff# Mud\r\n\r\nMud dries in the sun.\r\nIt cracks, and it cracks.\n\n## Sun\r\rHot.\n"


def edit(line: int, before: str, after: str) -> Fix:
    return Fix(gate="g", kind="k", instruction="", line=line, before=before, after=after)


def test_an_edit_changes_its_words_alone() -> None:
    draft, (action,) = apply_edits(DRAFT, [edit(3, "the sun", "the wind")], RULES)

    assert draft == DRAFT.replace("the sun", "the wind")
    assert (action.type, action.line, action.before, action.after, action.skipped) == (
        "edit", 3, "the sun", "the wind", None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fix", "because"),
    [
        (edit(3, "the moon", "x"), "not on its line any more"),
        (edit(4, "the sun", "x"), "not on its line any more"),
        (edit(4, "it cracks", "x"), None),
        (edit(4, "cracks", "x"), "more than once"),
        (edit(99, "Mud", "x"), "no such line"),
        (edit(0, "Mud", "x"), "no such line"),
        (edit(3, "", "x"), "not on its line"),
        (edit(3, "dries in", "delves into"), "flagged by banned.delve-into"),
        (edit(3, "dries in", "dries — in"), "flagged by em_dash.found"),
        (edit(3, "Mud", "In a world where mud"), "flagged by slop.in-a-world-where"),
        (edit(3, "sun.\nIt cracks,", "wind, and it cracks"), None),
    ],
)
def test_an_edit_that_can_not_be_sure_is_skipped_and_says_why(
    fix: Fix, because: str | None
) -> None:
    draft, (action,) = apply_edits(DRAFT, [fix], RULES)

    if because is None:
        assert action.skipped is None
        assert draft != DRAFT
    else:
        assert because in (action.skipped or "")
        assert draft == DRAFT


def test_two_edits_of_the_same_words_are_one_too_many() -> None:
    fixes = [edit(3, "the sun", "the wind"), edit(3, "in the sun", "in the shade")]

    draft, actions = apply_edits(DRAFT, fixes, RULES)

    assert draft == DRAFT.replace("the sun", "the wind")
    assert [one.skipped for one in actions] == [None, "another edit changes the same words"]


def test_words_around_an_edit_may_be_those_of_another() -> None:
    draft, actions = apply_edits(
        DRAFT,
        [edit(3, "Mud dries in", "Clay dries in"), edit(3, "in the sun", "in the shade")],
        RULES,
    )

    assert "Clay dries in the shade." in draft
    assert all(one.skipped is None for one in actions)


def test_what_the_gates_offer_can_all_be_put_in_and_passes() -> None:
    text = (
        "# Mud\r\n\r\nWe delve into a plethora of mud — and sun — here.\r\n"
        "First — then — last.\r\n\r\n"
        "#### Deep\r\n\r\n- **Mud** — an ever-evolving bed, an ever-evolving sea.\r\n"
    )
    report = report_on(text)
    draft, actions = apply_edits(text, report.repairs, RULES)

    assert len(actions) == len(report.hits) == 10
    assert [one.skipped for one in actions] == [None] * 10
    assert report_on(draft).hits == ()
    assert draft.count("\r\n") == draft.count("\n") == text.count("\n")


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["# A", "## B", "## B", "### C", "x", "", "\r", "```", "> # Q"])),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_sections_joined_are_the_draft(lines: list[str], ends: str, marked: bool) -> None:
    draft = "\ufeff" * marked + ends.join(lines)

    parts = sections_of(draft, RULES)

    assert "".join(parts.values()) == draft
    assert replace_sections(draft, parts, RULES) == draft


def test_a_section_is_replaced_and_the_rest_stays_byte_for_byte() -> None:
    text = "Start\r\n\r\n## One\n\nOld.\n\n### Deep\n\nOld.\r\n\r\n## Two\n\nStays.  \n\n\n"

    new = replace_sections(text, {"One": "## One\n\nNew."}, RULES)

    assert new == "Start\r\n\r\n## One\n\nNew.\r\n\r\n## Two\n\nStays.  \n\n\n"
    with pytest.raises(KeyError):
        replace_sections(text, {"Three": ""}, RULES)
