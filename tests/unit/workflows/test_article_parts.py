"""The article workload's parts: brief, citations, assembly (ART-1, ART-3)."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.errors import InvalidInput
from mulligan.workflows.article import steps
from mulligan.workflows.article.citations import in_text, reference
from mulligan.workflows.article.front_matter import split

ONE = {"id": "a", "authors": ["Ash, B."], "year": 2021, "title": "On tea", "url": "https://a.test"}
TWO = {"id": "b", "authors": ["Ash, B.", "Birch, C."], "year": 2020, "title": "Leaves"}
MANY = {"id": "c", "authors": ["Ash, B.", "Birch, C.", "Cole, D."], "title": "Roots"}
NONE = {"id": "d", "title": "A page", "year": 1999, "publisher": "Press"}


@pytest.mark.parametrize(
    ("source", "cited"),
    [
        (ONE, "(Ash, 2021)"),
        (TWO, "(Ash & Birch, 2020)"),
        (MANY, "(Ash et al., n.d.)"),
        (NONE, "(“A page”, 1999)"),
    ],
)
def test_art_2_a_source_is_cited_as_apa_7_has_it(source: dict[str, Any], cited: str) -> None:
    assert in_text(source) == cited


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        (ONE, "Ash, B. (2021). *On tea*. https://a.test"),
        (TWO, "Ash, B., & Birch, C. (2020). *Leaves*."),
        (MANY, "Ash, B., Birch, C., & Cole, D. (n.d.). *Roots*."),
        (NONE, "*A page* (1999). Press."),
    ],
)
def test_art_2_a_source_is_listed_as_apa_7_has_it(source: dict[str, Any], listed: str) -> None:
    assert reference(source) == listed


def test_a_brief_is_a_topic_with_front_matter() -> None:
    made = steps.brief("---\naudience: cooks\nsources: [{id: a, year: 2021}]\n---\nTea.\n")

    assert made["topic"] == "Tea."
    assert made["audience"] == "cooks"
    assert made["citations"] == {"a": "(“a”, 2021)"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "no topic"),
        ("", "no topic"),
        ({"topic": " "}, "no topic"),
        ({"topic": "tea", "sources": ["x"]}, r"sources\[0\] of the brief has no id"),
        ("---\n- a\n---\ntea", "not a mapping"),
        ("---\na: [\n---\ntea", "not YAML"),
    ],
)
def test_a_brief_that_is_none_says_what_is_missing(given: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        steps.brief(given)


@pytest.mark.parametrize("text", ["", "no front matter", "---\nopen", "----\na: b\n----\nc"])
def test_a_text_without_front_matter_stays_as_it_is(text: str) -> None:
    assert split(text) == ({}, text)


def test_only_sources_that_are_cited_become_references() -> None:
    text = steps.put_together("Tea", ["## One\n\nGreen (Ash, 2021).\n"], [ONE, TWO])

    assert text == (
        "# Tea\n\n## One\n\nGreen (Ash, 2021).\n\n## References\n\n"
        "Ash, B. (2021). *On tea*. https://a.test\n"
    )


def test_art_3_a_sentence_that_nothing_supports_goes_and_nothing_else() -> None:
    text = "# Tea\n\n## One\n\nIt is old. It cures all. It is green.\n"

    kept = steps.without_unsupported(
        text, {"unsupported": ["It cures all.", "## One", "Not here."]}
    )

    assert kept == "# Tea\n\n## One\n\nIt is old. It is green.\n"
