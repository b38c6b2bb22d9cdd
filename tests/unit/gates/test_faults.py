"""ART-2: constructed faults, each flagged where it stands, with a suggestion that passes."""

from __future__ import annotations

import pytest

from mulligan.quality.report import Fix
from mulligan.workflows.article.edits import apply_edits
from mulligan.workflows.article.gates.finding import Hit
from mulligan.workflows.article.gates.judge import GATES, report_on
from mulligan.workflows.article.gates.rules import Config, rules_of

RULES = rules_of(Config(only=("slop", "banned", "em_dash", "headings", "citations", "references")))

ARTICLE = """\
---
title: Rivers — a note
---

# Rivers

A river carries water to the sea. In 2020 it was measured (Lee & Okafor, 2020).

## Floods

Floods leave mud on the fields, as Marsh (2018) has shown (River Board, n.d.).
{0}

```
delve into — code is no prose
```

## References

{1}
Lee, A., & Okafor, B. (2020). *Water in motion*. River Press.

Marsh, C. (2018). Mud. *Journal of Rivers*, 4(1), 1–9. https://doi.org/10.1000/1

River Board. (n.d.). *Levels*.
{2}
"""
AT = 12
"""The line at which a fault is put."""

FAULTS = [
    # what is put there, the rule that it breaks, and the column in characters
    ("We delve into it.", "banned.delve-into", 4),
    ("A *rich tapestry of* mud.", "banned.a-rich-tapestry-of", 1),
    ("It is **a testament to** rain.", "banned.a-testament-to", 9),
    ("Tab\tand a plethora of fish.", "banned.a-plethora-of", 9),
    ("Größe, naïve 𝒳: an ever-evolving bed.", "banned.ever-evolving", 20),
    ("- An item, and we delve\n  into it.", "banned.delve-into", 19),
    (
        "The bed [unlocks the power of](http://a.b/delve-into) mud.",
        "banned.unlock-the-power-of",
        10,
    ),
    ("Rain — and mud.", "em_dash.found", 6),
    ("Rain&mdash;and mud.", "em_dash.found", 5),
    ("- **Mud** — brown.", "em_dash.found", 11),
    ("It is important to note that mud dries.", "slop.it-is-important-to-note-that", 1),
    ("Mud dries. In conclusion, it cracks.", "slop.in-conclusion", 12),
    ("In today's fast-paced market, mud dries.", "slop.in-todays-fast-paced", 1),
    ("\n#### Deep mud", "headings.skipped", 1),
    ("Mud dries【4†source】 here.", "citations.source-mark", 10),
    ("- Mud\n\n  dries\n【4†source】 here.", "citations.source-mark", 1),
    ("Mud dries [citation needed].", "citations.needed", 11),
    ("Mud dries :contentReference[oaicite:2]{index=2}.", "citations.oaicite", 11),
    ("Mud dries (Marsh 2018).", "citations.form", 12),
    ("Water moves (Lee and Okafor, 2020).", "citations.form", 14),
    ("Water moves, say Lee & Okafor (2020).", "citations.form", 18),
    ("Mud dries (Nobody, 1999).", "citations.unresolved", 12),
    ("Mud dries (Marsh, 1999).", "citations.unresolved", 12),
    ("Mud dries [7].", "citations.unresolved", 11),
    ("A footnote[^9] is lost.", "citations.footnote", 11),
]


def hits(text: str) -> list[Hit]:
    return list(report_on(text, RULES).hits)


def edited(text: str, hit: Hit) -> str:
    fix = Fix(
        gate=hit.gate, kind=hit.rule, instruction="", line=hit.line, before=hit.before,
        after=hit.after,
    )  # fmt: skip
    draft, actions = apply_edits(text, [fix], RULES)
    assert [one.skipped for one in actions] == [None]
    return draft


def test_the_article_has_no_fault() -> None:
    assert hits(ARTICLE.format("", "", "")) == []


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(("fault", "rule", "column"), FAULTS)
def test_a_fault_is_flagged_where_it_stands(fault: str, rule: str, column: int, ends: str) -> None:
    text = "\ufeff" + ARTICLE.format(fault, "", "").replace("\n", ends)
    line = AT + (3 if fault.startswith("- Mud") else fault.startswith("\n"))

    found = hits(text)

    assert [(hit.rule, hit.line, hit.column) for hit in found] == [(rule, line, column)]
    assert found[0].section == "Floods" or fault.startswith("\n")
    assert found[0].suggestion


@pytest.mark.parametrize(("fault", "rule", "column"), FAULTS)
def test_a_suggestion_itself_passes(fault: str, rule: str, column: int) -> None:
    text = ARTICLE.format(fault, "", "")
    (hit,) = hits(text)

    assert report_on(hit.suggestion, RULES._replace(names=("slop", "banned", "em_dash"))).hits == ()
    if hit.after is not None:
        assert hits(edited(text, hit)) == []


ENTRIES = [
    ("Abel, A. 2001. Sand. River Press.", 10, "(2001)."),
    ("Abel, A. (2001) Sand. River Press.", 10, "(2001)."),
    ("Abel, A. and Cole, B. (2001). Sand. River Press.", 9, ", & "),
    ("Abel, A. (2001). Sand. doi:10.1000/2", 24, "https://doi.org/"),
]


@pytest.mark.parametrize(("entry", "column", "right"), ENTRIES)
def test_a_reference_is_held_to_its_form(entry: str, column: int, right: str) -> None:
    text = ARTICLE.format("Sand (Abel, 2001) moves.", entry + "\n", "")
    if " and " in entry:
        text = text.replace("(Abel, 2001)", "(Abel & Cole, 2001)")

    (hit,) = hits(text)

    assert (hit.rule, hit.line, hit.column) == ("references.form", 20, column)
    assert right in (hit.after or "")
    assert hits(edited(text, hit)) == []


@pytest.mark.parametrize(
    ("first", "last", "rules"),
    [
        ("Zoll, A. (2001). Sand. River Press.\n", "", {"references.order"}),
        ("", "\nZoll, A. (2001). Sand. River Press.", {"references.uncited"}),
    ],
)
def test_the_list_is_in_order_and_each_entry_is_cited(
    first: str, last: str, rules: set[str]
) -> None:
    fault = "Sand (Zoll, 2001) moves." if first else ""

    assert {hit.rule for hit in hits(ARTICLE.format(fault, first, last))} == rules


def test_two_references_are_too_few_and_eleven_too_many() -> None:
    rules = rules_of(Config(only=("references",)))
    few = ARTICLE.format("", "", "").replace("Marsh, C. (2018)", "").split("Mud. *J")[0]
    more = "\n".join(f"\nN{n:02}, A. (2001). Sand. River Press." for n in range(9))
    cited = "; ".join(f"N{n:02}, 2001" for n in range(9))
    many = ARTICLE.format(f"Sand ({cited}).", "", more)

    for text in (few, many):
        report = report_on(text, rules)
        assert "references.count" in {hit.rule for hit in report.hits}
        assert not report.overall_passed


def test_all_gates_have_a_constructed_fault() -> None:
    names = {rule.split(".")[0] for _, rule, _ in FAULTS} | {"references"}
    elsewhere = {"word_count", "capsules", "keyword", "reading", "format"}  # test_article_gates.py

    assert names | elsewhere == set(GATES)
