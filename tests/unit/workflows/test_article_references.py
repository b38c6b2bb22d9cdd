"""The list of references follows what the text cites; nothing else is touched (ART-2, ART-3)."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.testing.tea_article import GOOD, SOURCES, article
from mulligan.workflows.article.citations import cited_in
from mulligan.workflows.article.levels import rework
from mulligan.workflows.article.references import listed
from mulligan.workflows.article.steps import assemble

ASH, BIRCH, _ = SOURCES
LISTED = "Ash, B. (2021). *On tea*. https://a.test/t"


@pytest.mark.parametrize(
    ("text", "cites"),
    [
        ("It is so (Birch & Cole, 2019).", True),
        ("It is so (Ash, 2021; Birch & Cole, 2019, p. 4).", True),
        ("Birch and Cole (2019) say so.", True),
        ("Birch & Cole (2019) say so.", True),
        ("It is so (Birch & Cole, 2018).", False),
        ("Birch says so.", False),
    ],
)
def test_a_source_is_cited_in_brackets_or_in_the_sentence(text: str, cites: bool) -> None:
    assert cited_in(BIRCH, text) is cites


def test_a_list_that_is_right_is_left_as_it_is() -> None:
    assert listed(article(), SOURCES, drop=True) == (article(), ())


def test_a_missing_source_enters_in_its_place_and_the_rest_stays_byte_for_byte() -> None:
    draft = article().replace(f"{LISTED}\n\n", "")

    again, (action,) = listed(draft, SOURCES)

    assert again == article()
    assert (action.type, action.section) == ("references", "References")
    assert LISTED in action.after
    assert LISTED not in action.before


def test_a_draft_without_a_list_gets_one() -> None:
    draft = article().partition("## References")[0]

    again, _ = listed(draft, SOURCES)

    assert again == article()


def test_entries_that_are_not_of_the_brief_stay_where_they_stood() -> None:
    theirs = "Zeller, Z. (2001). *Cups*."
    draft = article().rstrip() + f"\n\n{theirs}\n"

    assert listed(draft, SOURCES, drop=True) == (draft, ())


def test_what_is_no_longer_cited_leaves_the_list_at_the_stage_of_references_only() -> None:
    draft = article().replace(" (Ash, 2021)", "")

    assert listed(draft, SOURCES) == (draft, ())
    assert LISTED not in listed(draft, SOURCES, drop=True)[0]


def test_level_3_keeps_what_stands_before_and_after_the_sections() -> None:
    """A lead and a list of questions are nobody's sections, and no reason to lose them."""
    lead, faq = "A lead of two lines.\n\n", "## FAQ\n\n### Is it hot?\n\nYes.\n\n"
    draft = article().replace("## Leaves", f"{lead}## Leaves")
    draft = draft.replace("## References", f"{faq}## References")
    unsupported = "Pickers start before dawn."
    given: dict[str, Any] = {
        "quality": {"gates": {"references": {"passed": False}}},
        "repairs": [],
        "brief": {"sources": SOURCES},
        "research": {"findings": []},
    }
    checked = [[{"output": {"unsupported": [unsupported]}, "section": None, "error": None}]]

    done: Any = rework(3, draft, stages=checked, **given)

    assert done.draft == draft.replace(f"{unsupported} ", "")
    assert [action.type for action in done.actions] == ["unsupported"]


def test_a_section_that_is_written_again_keeps_the_headings_in_its_code() -> None:
    text = "## Water\n\nSay:\n\n```\n## not a heading\n```\n\n## Heat\n\nHot.\n"
    result = {"output": {"text": text}, "section": "Water", "error": None}
    given: dict[str, Any] = {"brief": {"sources": []}, "repairs": [{"section": "Water"}]}

    done: Any = rework(2, article(GOOD), stages=[[result]], quality={"gates": {}}, **given)

    assert "```\n## not a heading\n```" in done.draft
    assert "\n### Heat\n" in done.draft


def test_the_second_of_two_sections_with_one_heading_keeps_its_heading() -> None:
    again = "## Water\n\nAgain.\n"
    draft = article({**GOOD, "Again": again})
    result = {"output": {"text": "## Something\n\nMore.\n"}, "section": "Water (2)", "error": None}
    given: dict[str, Any] = {"brief": {"sources": []}, "repairs": [{"section": "Water (2)"}]}

    done: Any = rework(2, draft, stages=[[result]], quality={"gates": {}}, **given)

    assert done.draft == draft.replace(again, "## Water\n\nMore.\n")


def test_sections_get_the_headings_of_their_outline_whatever_was_written() -> None:
    outline = {"sections": [{"heading": "Leaves"}, {"heading": " ## Water\n"}]}
    written = [{"text": "Green."}, {"text": "# Tea\n\nHot."}]

    made = assemble({"sources": []}, {"title": "Tea"}, outline, written)

    assert made == "# Tea\n\n## Leaves\n\nGreen.\n\n## Water\n\nHot.\n"
