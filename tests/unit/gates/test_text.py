"""Any text is Markdown: places are exact, nothing crashes, scores follow faults."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.inline import PLACEHOLDER
from mulligan.workflows.article.gates.judge import report_on
from mulligan.workflows.article.gates.rules import Brief, Config, rules_of

WORDING = rules_of(Config(only=("slop", "banned", "em_dash", "citations")))
ALL = rules_of(
    Config(profile="article", brief=Brief(target_words=200, keyword="mud", format="faq"))
)

PARTS = st.sampled_from(
    [
        "# ", "## ", "#### ", "> ", "- ", "1. ", "    ", "\t", "```\n", "~~~", "---\n", "***", "*",
        "**", "_", "`", "``", "[", "](", ")", "![", "<", ">", "</p>", "<!--", "-->", "&mdash;", "&",
        "\\", "|", "|-|-|\n", "\n", "\r\n", "\r", "\n\n", "  \n", "\ufeff", "\x00", "\u2028", "—",
        "é", "𝒳", "\u200d", "עבר", "delve into", "in conclusion,", "word", " ", ".", "[^1]",
        "[^1]: x", "(Lee, 2020)", "## References\n\n", "【1】", "https://a.b/c", "===", "~~",
    ]
)  # fmt: skip
TEXT = st.lists(PARTS | st.text(max_size=5), max_size=40).map("".join)


@settings(max_examples=100)
@given(TEXT)
def test_no_text_crashes_a_gate_and_every_hit_has_its_place(text: str) -> None:
    lines = Document(text, {}).lines.lines

    for hit in report_on(text, ALL).hits:
        assert 1 <= hit.line <= len(lines)
        assert 1 <= hit.column <= len(lines[hit.line - 1]) + 1
        if hit.before is not None:
            assert hit.before in "\n".join(lines[hit.line - 1 :])


@settings(max_examples=100)
@given(TEXT)
def test_each_character_of_prose_is_found_in_the_source(text: str) -> None:
    document = Document(text, {})

    for block in document.blocks:
        for at, one in enumerate(block.text):
            start, end = block.prose.source(at)
            if end - start == 1 and one not in (" ", PLACEHOLDER):
                assert document.lines.text[start] == one


WORDS = [
    "mud",
    "river",
    "delve into",
    "flows",
    "a plethora of",
    "slowly,",
    "then. Next",
    "in conclusion,",
]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(
    lambda words: "The " + " ".join(words) + "."
)


@settings(max_examples=60)
@given(SENTENCES, st.integers(10, 120), st.sampled_from(["", "- ", "> ", "1. "]))
def test_scores_stay_when_lines_are_wrapped_anew(text: str, width: int, marker: str) -> None:
    """Hyphens are no place to break a line: a wrapped word would be another word."""
    wrapped = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    indent = "> " if marker == "> " else " " * len(marker)
    again = marker + f"\n{indent}".join(wrapped)

    one, other = report_on(marker + text, WORDING), report_on(again, WORDING)

    assert one.overall_score == other.overall_score
    assert one.gates == other.gates
    assert [hit.rule for hit in one.hits] == [hit.rule for hit in other.hits]


FAULTS = {
    "slop": "It is important to note that mud dries.",
    "banned": "We delve into it.",
    "em_dash": "Mud — brown.",
    "citations": "Mud dries [citation needed].",
    "headings": "# A\n\n### B",
}


@pytest.mark.parametrize("gate", FAULTS)
@given(count=st.integers(0, 60))
@settings(max_examples=8)
def test_a_score_falls_with_each_fault(gate: str, count: int) -> None:
    plain = "The river carries mud to the sea, and leaves it there."

    def score(faults: int) -> float:
        text = "\n\n".join([FAULTS[gate]] * faults + [plain] * (70 - faults))
        return report_on(text).gates[gate].score

    assert score(count + 1) < score(count)
