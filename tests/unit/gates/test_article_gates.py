"""ART-2: the gates that need a brief, or a whole article."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.errors import InvalidInput
from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.finding import Finding, Unasked
from mulligan.workflows.article.gates.judge import GATES, Report, report_on
from mulligan.workflows.article.gates.rules import Brief, Config, Rules, rules_of


def judged(text: str, gate: str, **brief: Any) -> Report:
    return report_on(text, rules_of(Config(only=(gate, "headings"), brief=Brief(**brief))))


def words(count: int) -> str:
    return " ".join(["mud"] * count) + "."


@pytest.mark.parametrize(("count", "passes"), [(94, False), (95, True), (110, True), (111, False)])
def test_a_text_has_the_words_asked_for(count: int, passes: bool) -> None:
    text = f"# Title not counted\n\n{words(count)}\n\n## FAQ\n\n{words(50)}"

    report = judged(text, "word_count", target_words=100)

    assert report.words == count
    assert report.gates["word_count"].passed is passes


@pytest.mark.parametrize(("count", "passes"), [(89, False), (90, True), (110, True), (111, False)])
def test_a_section_keeps_to_its_budget(count: int, passes: bool) -> None:
    text = f"# T\n\n## A\n\n{words(count)}\n\n## B\n\n{words(200 - count)}"

    report = judged(text, "word_count", target_words=200, section_words={"A": 100})

    assert report.gates["word_count"].passed is passes
    assert [(hit.line, hit.section) for hit in report.hits] == ([] if passes else [(3, "A")])


CAPSULE = "Mud dries in 3 days. "


@pytest.mark.parametrize(
    ("paragraph", "has"),
    [
        (CAPSULE + words(30), True),
        (CAPSULE + words(29), False),
        (CAPSULE + words(65), True),
        (CAPSULE + words(66), False),
        ("Mud dries in a few days. " + words(40), False),
        ("It dries in 3 days. " + words(40), False),
        ("They’re dry in 3 days. " + words(40), False),
        ("- " + CAPSULE + words(40), False),
    ],
)
def test_a_capsule(paragraph: str, has: bool) -> None:
    report = judged(f"# T\n\n## A\n\n{paragraph}\n\n## References\n\nx", "capsules")

    assert report.gates["capsules"].metric == (100 if has else 0)
    assert [hit.section for hit in report.hits] == ([] if has else ["A"])


def test_four_capsules_in_five_sections_will_do() -> None:
    with_one = [f"## S{n}\n\n{CAPSULE}{words(40)}" for n in range(4)]
    text = "# T\n\n" + "\n\n".join([*with_one, "## S9\n\nNone."])

    report = judged(text, "capsules")

    assert report.gates["capsules"].passed
    assert report.gates["capsules"].score == 80
    assert [hit.section for hit in report.hits] == ["S9"]
    assert report.repairs == ()


@pytest.mark.parametrize(
    ("hits", "rule"), [(0, "keyword.low"), (1, None), (5, None), (6, "keyword.high")]
)
def test_keyword_density(hits: int, rule: str | None) -> None:
    text = "# T\n\n" + " ".join(["red mud"] * hits + ["word"] * (400 - 2 * hits))

    report = judged(text, "keyword", keyword="Red mud")

    assert [hit.rule for hit in report.hits] == ([rule] if rule else [])


def test_reading_level_names_the_longest_sentences() -> None:
    long = "Considerable " + " ".join(["sedimentation"] * 60) + "."
    text = f"# T\n\nMud dries. {long} " + "The river runs to the sea. " * 10

    report = judged(text, "reading")

    assert not report.gates["reading"].passed
    assert (3, 12) in [(hit.line, hit.column) for hit in report.hits]


@pytest.mark.parametrize(
    ("form", "text", "rules"),
    [
        ("how-to", "# T\n\n## A\n\n1. a\n2. b\n3. c\n\n## B\n\nx", set()),
        ("how-to", "# T\n\n## A\n\n- a\n- b\n- c\n\n## B\n\nx", {"format.steps"}),
        ("comparison", "# T\n\n## A\n\n|a|\n|-|\n|b|\n\n## B\n\nx", set()),
        ("comparison", "# T\n\n## A\n\nx\n\n## B\n\nx", {"format.table"}),
        ("faq", "# T\n\n## Why?\n\n## How?\n\n## Who\n\nx", {"format.questions"}),
        ("article", "# T\n\n## A\n\n- a b c\n\n## B\n\nx", {"format.sections", "format.lists"}),
        ("list", "# T\n\n## A\n\n- a\n\n## B\n\nx\n\n## C\n\nx", {"format.items"}),
    ],
)
def test_a_text_fits_the_form_asked_for(form: str, text: str, rules: set[str]) -> None:
    assert {hit.rule for hit in judged(text, "format", format=form).hits} == rules


def test_a_gate_with_nothing_to_go_by_says_what_it_needs() -> None:
    report = report_on("# T\n\nMud.", rules_of(Config(profile="article")))

    assert set(report.unasked) == {"word_count", "capsules", "keyword", "reading", "format"}
    assert "target_words" in report.unasked["word_count"]
    assert "word_count" not in report.gates


def test_gates_without_anything_to_go_by_are_no_verdict() -> None:
    with pytest.raises(InvalidInput, match="keyword: the brief names no keyword"):
        report_on("Mud.", rules_of(Config(only=("keyword",))))


def test_an_article_has_one_title() -> None:
    text = "# One\n\n## A\n\nx\n\n# Two\n"
    rules = rules_of(Config(profile="article"))

    (hit,) = [hit for hit in report_on(text, rules).hits if hit.gate == "headings"]

    assert (hit.line, hit.rule, hit.after) == (7, "headings.title", "## Two")
    assert report_on(text).hits == ()


def test_short_sentences_and_few_words_read_as_machine_made() -> None:
    staccato = "# T\n\n" + "Mud dries. It cracks. So what? Then rain. " * 16
    lively = "# T\n\n" + " ".join(
        f"Day {n} of the flood brought the river up to bank {n * 7} of its plain. So it went."
        for n in range(10)
    )

    hits = {hit.rule for hit in report_on(staccato).hits}

    assert {"slop.staccato", "slop.vocabulary"} <= hits
    assert "slop.staccato" not in {hit.rule for hit in report_on(lively).hits}


def test_another_gate_can_be_handed_in() -> None:
    """RPR-14: gates are plug-ins."""

    def short(document: Document, rules: Rules) -> Finding | Unasked:
        return Finding(
            passed=document.word_count < 3, score=50, metric=1, direction="lower", threshold=3,
            verdict="short",
        )  # fmt: skip

    rules = rules_of(Config())._replace(names=("banned", "short"))

    report = report_on("Mud dries in the sun.", rules, {**GATES, "short": short})

    assert report.gates["short"].verdict == "short"
    assert not report.overall_passed
    assert report.overall_score == pytest.approx((2 * 100 + 50) / 3, abs=0.01)


def test_hits_are_given_to_the_section_that_they_stand_in() -> None:
    """RPR-5: problem sections, each once, in order."""
    text = (
        "We delve into it.\n\n# T\n\n## A\n\n### Deep\n\nA plethora of mud.\n\n## A\n\nMud — sun.\n"
    )

    assert report_on(text).quality.problem_sections == ("(opening)", "A", "A (2)")
